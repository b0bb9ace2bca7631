package eddy

import (
	"net/netip"
	"time"
)

// maxKeepCloses bounds Server.KeepCloses.
const maxKeepCloses = 1 << 16

// causeBytes bounds the kept text of a cause.
const causeBytes = 200

// closedConn is what is kept of a connection that has ended.
type closedConn struct {
	id     ConnID
	remote netip.AddrPort
	tenant string
	reason CloseReason
	cause  string // at most causeBytes
}

// noteClose keeps the close of c for RecentCloses.
func (e *endpoint) noteClose(now int64, c *Conn) {
	if e.recent == nil {
		return
	}
	end := c.ended.Load()
	e.recent.Add(now, closedConn{c.ID(), c.RemoteAddr(), c.tenant(), end.Reason, causeText(end.Err)})
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
func (s *Server) RecentCloses() []ConnInfo {
	e := s.running()
	if e == nil {
		return nil
	}
	var all []ConnInfo
	s.endpoint.recent.Each(e.kernel.clock.Now(), func(c closedConn, ago time.Duration) {
		all = append(all, ConnInfo{ID: c.id, Remote: c.remote, Tenant: c.tenant, Phase: PhaseClosed, Reason: c.reason, Cause: c.cause, Ago: ago})
	})
	return all
}
