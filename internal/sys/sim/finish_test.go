package sim_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// finish ends the servers, in one of the ways there are, and checks what is left.
func (t *trial) finish() {
	w := t.w
	calm := t.once(2) && !t.drains
	if t.calmEnd = calm; calm {
		if t.settle(); w.Err() != nil {
			return
		}
	}
	ended := 0
	t.endsFrom = w.Now()
	for _, e := range t.enders {
		how, late := t.n(3), time.Duration(t.n(2)*t.n(int(100*time.Millisecond)))
		if t.drains {
			how = 2
		}
		patience := time.Duration(1+t.n(5000)) * time.Millisecond
		w.Go("shutdown", func() {
			defer func() { ended++ }()
			if late > 0 {
				w.Doze(late)
			}
			switch how {
			case 0:
				if err := e.Close(); err != nil {
					w.Failf("close: %v", err)
				}
			case 1:
				_, err := e.Shutdown(w.WithTimeout(patience))
				if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, eddy.ErrDialerClosed) {
					w.Failf("shutdown: %v", err)
				}
			default:
				_, err := e.Shutdown(w.WithTimeout(time.Hour))
				t.whole = err == nil
				if err != nil && w.Counts()[sim.PeerVanishes] == 0 && !t.endure && !errors.Is(err, eddy.ErrDialerClosed) {
					w.Failf("shutdown with an hour's time: %v", err)
				}
			}
		})
	}
	t.allow(eddy.CloseServerShutdown, eddy.CloseWriteTimeout)
	if !calm {
		w.Rest(t.n(2000))
		w.Calm()
	}
	if w.Run("shutdown", maxSteps, func() bool { return ended == len(t.enders) }) != nil {
		return
	}
	for _, g := range t.groups {
		closed := false
		w.Go("group's end", func() {
			if err := g.Close(); err != nil {
				w.Failf("close of the group: %v", err)
			}
			closed = true
		})
		if w.Run("the group's end", maxSteps, func() bool { return closed }) != nil {
			return
		}
	}
	w.Rest(maxSteps) // pools whose time ran out finish what they run
	t.gone()
}

// settle ends the trouble and lets the peers finish.
func (t *trial) settle() {
	w := t.w
	w.Calm()
	if t.queues { // a listener that waits for room looks for it for ever
		w.Rest(20_000)
		return
	}
	if !w.Rest(maxSteps) && w.Err() == nil {
		w.Failf("no rest after %d steps without trouble: %v", maxSteps, t)
	}
	for _, l := range t.lives {
		l.forgotten()
	}
	for _, c := range t.clients {
		if c.over || !c.whole() || c.p == nil || c.other != nil {
			continue
		}
		if c.ending != stay || c.most >= 0 && (c.sent < len(c.out) || c.got < c.most) {
			w.Failf("%s came to no end: sent %d of %d, got %d of %d, eof %v", c.name, c.sent, len(c.out), c.got, c.most, c.eof)
		}
	}
	for _, f := range t.atRest {
		f()
	}
}

// gone checks that nothing is left.
func (t *trial) gone() {
	for _, l := range t.lives {
		if l.closed != 1 {
			t.w.Failf("connection %v was closed %d times", l.conn.ID(), l.closed)
		}
	}
	for _, srv := range t.servers {
		st := srv.Stats()
		if st.Active != 0 {
			t.w.Failf("%d connections are active after the end", st.Active)
		}
		if st.LiveBuffers != 0 {
			t.w.Failf("%d counted buffers were not released by the end", st.LiveBuffers)
		}
		var opened, closed, panics uint64
		for _, l := range append(st.Loops, st.Boss) {
			opened += l.Opened
			panics += l.Panics
		}
		if panics != t.panics {
			t.w.Failf("%d panics, of which %d were the handlers'", panics, t.panics)
		}
		for r, n := range st.Closed {
			if r != eddy.CloseAdmissionRejected {
				closed += n
			}
		}
		if !t.dialed && opened+st.EndedPlacing != closed {
			t.w.Failf("%d connections were opened, %d ended before, %d closed: %v", opened, st.EndedPlacing, closed, st.Closed)
		}
	}
	for _, k := range t.crowds {
		k.check()
	}
	for _, r := range t.reliefs {
		r.check()
	}
	if t.waits != 0 {
		t.w.Failf("%d OnWritable calls were not told the end of their connection", t.waits)
	}
	t.promises.kept(t)
	_ = t.w.End()
}

// String tells which connections are open.
func (t *trial) String() string {
	s := ""
	for _, l := range t.lives {
		if c := t.peers[l.conn.RemoteAddr()]; l.closed == 0 && c != nil {
			s += fmt.Sprintf("%s (ending %d, over %v, sent %d of %d, got %d) has connection %v with %d bytes queued; ",
				c.name, c.ending, c.over, c.sent, len(c.out), c.got, l.id, l.conn.QueuedBytes())
		}
	}
	return s
}
