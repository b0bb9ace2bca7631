package websocket

import "sync/atomic"

// Stats counts the connections of one or several endpoints. The zero value is
// ready; it must not be copied. Its methods may be called by any goroutine.
type Stats struct {
	opened, refused    atomic.Uint64
	messagesIn         atomic.Uint64
	dropped            atomic.Uint64
	closed             [16]atomic.Uint64 // codes 1000 to 1015
	library, app, rest atomic.Uint64
}

// Opened returns how many handshakes succeeded.
func (s *Stats) Opened() uint64 { return s.opened.Load() }

// Refused returns how many handshakes were refused.
func (s *Stats) Refused() uint64 { return s.refused.Load() }

// Messages returns how many messages were handed to handlers.
func (s *Stats) Messages() uint64 { return s.messagesIn.Load() }

// DroppedPongs returns how many pings went unanswered because the client did not
// read.
func (s *Stats) DroppedPongs() uint64 { return s.dropped.Load() }

// Closed returns how many connections ended with the code that HandleClose was
// given. The codes 3000 to 3999 are counted together, as are 4000 to 4999.
func (s *Stats) Closed(code int) uint64 { return s.closedBy(code).Load() }

func (s *Stats) closedBy(code int) *atomic.Uint64 {
	switch {
	case code >= 1000 && code <= 1015:
		return &s.closed[code-1000]
	case code >= 3000 && code <= 3999:
		return &s.library
	case code >= 4000 && code <= 4999:
		return &s.app
	}
	return &s.rest
}
