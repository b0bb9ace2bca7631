package sim_test

import (
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// readers: peers that read at every speed, or not at all, ask for answers that may be larger than every watermark. A
// peer that reads gets all of them. A peer that does not is ended by the deadline.
func readers(t *trial) {
	s := t.bulkServer(1 << 10)
	s.patience()
	addr := t.listen(s.srv)
	for range 1 + t.n(10) {
		asks := 1 + t.n(max(2, min(60, (48<<10)/s.size)))
		base := &client{ending: pick(t, stay, stay, stay, finAfterAll, closeEarly, resetEarly, vanish), nap: time.Duration(t.n(1<<t.n(8))) * time.Millisecond}
		switch {
		case base.ending == vanish:
			base.closedFor = []eddy.CloseReason{eddy.CloseBackpressureLimit}
		case base.ending == stay && t.once(3):
			base.deaf = func() bool { return true }
			t.endure = true // a queue below High may stay
			base.closedFor = []eddy.CloseReason{eddy.CloseBackpressureLimit}
		}
		c := s.client(addr, asks, base)
		t.atRest = append(t.atRest, c.rest)
	}
	t.disturb(&crowd{srv: s.srv, mild: true})
	if t.load(8000) {
		t.finish()
	}
	s.verdict()
}

// patience gives the server a deadline that only peers exceed that do not read.
func (s *bulkServer) patience() {
	s.srv.BackpressureTimeout = time.Duration(5+s.t.n(60)) * time.Second
	s.srv.MinWriteRate = -1
	s.t.w.Never(sim.TimeJump, sim.Stall)
}

// verdict: the deadline ended no connection before it was due.
func (s *bulkServer) verdict() {
	t := s.t
	for _, l := range t.lives {
		c := t.peers[l.conn.RemoteAddr()]
		if l.reason == eddy.CloseBackpressureLimit && c != nil && time.Duration(l.ended-l.moved) < s.srv.BackpressureTimeout {
			t.w.Failf("%s was ended %v after its last byte, the limit is %v", c.name, time.Duration(l.ended-l.moved), s.srv.BackpressureTimeout)
		}
	}
}

// bothAsk: both ends of a connection ask, and both answer with large messages. The peer always reads, or stops while it
// has too much to send itself. Then the two may wait for each other until the deadline ends that.
func bothAsk(t *trial) {
	s := t.bulkServer(pick(t, 1, 4, 64))
	s.patience()
	s.srv.Overflow = eddy.OverflowReject
	addr := t.listen(s.srv)
	for range 1 + t.n(8) {
		asks := 1 + t.n(max(2, min(60, (48<<10)/s.size)))
		base := &client{ending: pick(t, stay, stay, stay, stay, closeEarly, resetEarly, vanish)}
		if base.ending == vanish {
			base.closedFor = []eddy.CloseReason{eddy.CloseBackpressureLimit}
		}
		c := s.client(addr, asks, base)
		if t.once(3) {
			base.closedFor = []eddy.CloseReason{eddy.CloseBackpressureLimit}
			base.deaf = func() bool { return len(c.out)-c.sent >= c.bound }
			t.endure = true
		}
		t.atRest = append(t.atRest, c.rest)
	}
	t.disturb(&crowd{srv: s.srv, mild: true, push: s.ask})
	t.w.Always(sim.OffLoopWrite)
	if t.load(8000) {
		t.finish()
	}
	s.verdict()
}
