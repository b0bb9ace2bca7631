package eddy

import (
	"net/netip"
	"time"
)

// maxKeepCloses bounds Server.KeepCloses.
const maxKeepCloses = 1 << 16

// causeBytes bounds the kept text of a cause.
const causeBytes = 200

// ClosedConn describes a connection that has ended, for RecentCloses.
type ClosedConn struct {
	ID     ConnID
	Remote netip.AddrPort
	Tenant string
	Reason CloseReason
	Cause  string        // of the reason, at most 200 bytes, "" = none
	Ago    time.Duration // since the end
}

// noteClose keeps the close of c for RecentCloses.
func (e *endpoint) noteClose(now int64, c *Conn) {
	if e.recent == nil {
		return
	}
	end := c.ended.Load()
	e.recent.Add(now, ClosedConn{ID: c.ID(), Remote: c.RemoteAddr(), Tenant: c.tenant(), Reason: end.Reason, Cause: causeText(end.Err)})
}

// causeText returns the start of the error's text, even if its Error method panics.
func causeText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			text = "an error whose Error method panicked"
		}
	}()
	return firstBytes(err.Error(), causeBytes)
}

// RecentCloses returns the last connections that ended, the latest first, at most Server.KeepCloses. Refused connections
// are not included. Any goroutine.
func (s *Server) RecentCloses() []ClosedConn {
	e := s.running()
	if e == nil {
		return nil
	}
	var all []ClosedConn
	s.endpoint.recent.Each(e.kernel.clock.Now(), func(c ClosedConn, ago time.Duration) {
		c.Ago = ago
		all = append(all, c)
	})
	return all
}
