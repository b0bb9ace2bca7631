package eddy

import "testing"

// drain lets the listener take its last connections and returns how many turns of its loop that took.
func (g *gateStage) drain(waiting int) (turns int) {
	g.t.Helper()
	g.pending = waiting
	for over := false; !over; turns++ {
		if turns > 100 {
			g.t.Fatal("the listener comes to no end")
		}
		over = g.door.lastBatch()
	}
	g.turn()
	return turns
}

// TestLastAccepts: a listener that ends accepts what its queue holds, a bounded number at a time and in all.
func TestLastAccepts(t *testing.T) {
	for _, c := range []struct{ waiting, backlog, taken, turns int }{
		{0, 0, 0, 1}, {3, 0, 3, 1}, {4, 0, 4, 2}, {30, 0, 30, 8}, {1 << 30, 10, 12, 3}, {5, 10, 5, 2},
	} {
		srv := admitting(Admission{})
		srv.AcceptBatch, srv.Backlog = 4, c.backlog
		g := newGateStage(t, 1, srv)
		turns := g.drain(c.waiting)
		if n := len(g.conns()); n != c.taken || turns != c.turns || !g.door.closed {
			t.Errorf("%d waiting, backlog %d: %d taken in %d turns, want %d in %d", c.waiting, c.backlog, n, turns, c.taken, c.turns)
		}
		accepts := g.accepts
		if !g.door.lastBatch() || g.accepts != accepts {
			t.Error("a closed listener accepts")
		}
	}
}

// TestLastAcceptsUnderPressure: those that waited because the memory budget is passed, or because there is no descriptor left,
// are refused for that.
func TestLastAcceptsUnderPressure(t *testing.T) {
	const waiting = 30
	for cause, press := range map[RefuseCause]func(*gateStage){
		RefuseMemory: func(g *gateStage) { g.srv.endpoint.budget.pressed.Store(true) },
		RefuseDescriptors: func(g *gateStage) {
			g.scarce = true
			g.door.takeReserve()
		},
	} {
		t.Run(cause.String(), func(t *testing.T) {
			srv := admitting(Admission{OnLimit: DecisionPause, Busy: func(r Refusal) []byte { return []byte(r.Cause.String()) }})
			srv.AcceptBatch = 4
			g := newGateStage(t, 1, srv)
			press(g)
			before := g.lastFD
			if cause == RefuseMemory {
				g.expect("one more", g.arrive("::1"), "")
			}
			g.drain(waiting)
			g.expectRefused(map[RefuseCause]uint64{cause: waiting})
			if g.pending != 0 || len(g.conns()) != 0 {
				t.Errorf("%d wait, %d are connections", g.pending, len(g.conns()))
			}
			for fd := before + 1; cause == RefuseMemory && fd <= g.lastFD; fd++ {
				if a := g.socks[fd]; string(a.out) != "memory_budget" || !a.shutdown {
					t.Errorf("one was told %q, with an end in order: %v", a.out, a.shutdown)
				}
			}
		})
	}
}
