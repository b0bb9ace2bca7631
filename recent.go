package eddy

import (
	"net/netip"
	"sync"
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

// closeLog holds the last closes of a server.
type closeLog struct {
	mu   sync.Mutex
	ring []ClosedConn
	at   []int64 // times of the closes, on the kernel's clock
	next int
}

func newCloseLog(n int) *closeLog {
	if n == 0 {
		return nil
	}
	return &closeLog{ring: make([]ClosedConn, 0, n), at: make([]int64, 0, n)}
}

// add notes a close that happened at the given time. A nil log notes nothing.
func (k *closeLog) add(now int64, c *Conn) {
	if k == nil {
		return
	}
	end := c.ended.Load()
	entry := ClosedConn{ID: c.ID(), Remote: c.RemoteAddr(), Tenant: c.tenant(), Reason: end.Reason, Cause: causeText(end.Err)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.ring) < cap(k.ring) {
		k.ring, k.at = append(k.ring, entry), append(k.at, now)
		return
	}
	k.ring[k.next], k.at[k.next] = entry, now
	k.next = (k.next + 1) % len(k.ring)
}

// list returns the closes held, the latest first.
func (k *closeLog) list(now int64) []ClosedConn {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]ClosedConn, 0, len(k.ring))
	for i := len(k.ring) - 1; i >= 0; i-- {
		n := (k.next + i) % len(k.ring)
		c := k.ring[n]
		c.Ago = time.Duration(max(now-k.at[n], 0))
		all = append(all, c)
	}
	return all
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
	return s.endpoint.recent.list(e.kernel.clock.Now())
}
