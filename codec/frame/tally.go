package frame

import "sync/atomic"

// tally counts responses by status. Its last count is that of PROTOCOL_ERROR.
type tally [StatusUnauthenticated + 2]atomic.Uint64

// of returns the count of a status. GOAWAY answers no request, so it has no count.
func (t *tally) of(s Status) *atomic.Uint64 { return &t[min(int(s), len(t)-1)] }

func (t *tally) counts() map[Status]uint64 {
	m := make(map[Status]uint64, len(t))
	for s := range StatusUnauthenticated + 1 {
		m[s] = t.of(s).Load()
	}
	m[StatusProtocolError] = t.of(StatusProtocolError).Load()
	return m
}
