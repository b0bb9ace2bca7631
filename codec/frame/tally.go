package frame

import "sync/atomic"

// tally counts responses by status: in their order, and PROTOCOL_ERROR behind them.
type tally [StatusUnauthenticated + 2]atomic.Uint64

// of returns the count of a status. GOAWAY is none of a response.
func (t *tally) of(s Status) *atomic.Uint64 { return &t[min(int(s), len(t)-1)] }

func (t *tally) counts() map[Status]uint64 {
	m := make(map[Status]uint64, len(t))
	for s := range StatusUnauthenticated + 1 {
		m[s] = t.of(s).Load()
	}
	m[StatusProtocolError] = t.of(StatusProtocolError).Load()
	return m
}
