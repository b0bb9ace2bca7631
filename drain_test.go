package eddy

import (
	"errors"
	"testing"
)

// TestForceIsBounded: so many connections at most end by force in one iteration, and others on the loop are served in between;
// each ends once, and is counted.
func TestForceIsBounded(t *testing.T) {
	const conns = 3*walkBatch - 10
	cause := errors.New("no more time")
	echo := func(ctx *Context, msg string) error { return ctx.Write(msg) }
	st, l := newStage(t, cutServer(echo))
	other := cutServer(echo)
	set, err := other.settings()
	if err != nil {
		t.Fatal(err)
	}
	other.endpoint.join(st.loops, 0)
	own := st.set
	st.set = set
	neighbour := st.connect(l)
	st.set = own
	all := make([]*actor, conns)
	for i := range all {
		all[i] = st.connect(l)
	}
	closed := func() (n int) {
		for _, a := range all {
			n += a.closed
		}
		return n
	}
	over := make(chan struct{})
	l.startWalk(walk{owner: &st.srv.endpoint, cause: cause, over: over})
	for i, most := range []int{walkBatch, 2 * walkBatch, conns} {
		neighbour.send("ping;")
		l.Iterate()
		if n := closed(); n > most || n < most-1 {
			t.Errorf("%d connections are closed after %d iterations, want %d", n, i+1, most)
		}
		if got := len(neighbour.out); got != 4*(i+1) {
			t.Errorf("the neighbour got %d bytes, want %d", got, 4*(i+1))
		}
	}
	select {
	case <-over:
	default:
		t.Error("the end was not told")
	}
	if n := st.srv.endpoint.forced.Load(); n != conns || l.walking() {
		t.Errorf("%d counted, want %d; the loop goes on: %v", n, conns, l.walking())
	}
	for _, a := range all {
		if e := a.conn.CloseError(); a.closed != 1 || e == nil || e.Reason != CloseServerShutdown || !errors.Is(e, cause) {
			t.Fatalf("closed %d times with %v", a.closed, e)
		}
	}
	if neighbour.closed != 0 || neighbour.conn.CloseError() != nil {
		t.Error("the neighbour was closed")
	}
}

// TestDrainIsBounded: so many connections at most are told to drain in one iteration.
func TestDrainIsBounded(t *testing.T) {
	st, l := newStage(t, cutServer(func(*Context, string) error { return nil }))
	all := make([]*actor, 2*walkBatch+10)
	for i := range all {
		all[i] = st.connect(l)
	}
	l.startDrain(&st.srv.endpoint)
	for i, want := range []int{walkBatch, 2 * walkBatch, len(all)} {
		l.Iterate()
		told := 0
		for _, a := range all {
			if a.conn.has(draining) {
				told++
			}
		}
		if told != want || l.walking() != (want < len(all)) {
			t.Errorf("%d connections are told after %d iterations, want %d; the loop goes on: %v", told, i+1, want, l.walking())
		}
	}
}

// TestTooLateForADrain: a connection that reaches a draining loop is refused, until the loop forgets the endpoint.
func TestTooLateForADrain(t *testing.T) {
	st, l := newStage(t, cutServer(func(*Context, string) error { return nil }))
	owner := &st.srv.endpoint
	l.startDrain(owner)
	if late := st.connect(l); late.closed != 1 || late.conn.has(registered) || l.table.Active() != 0 {
		t.Errorf("closed %d times, %d connections", late.closed, l.table.Active())
	}
	if l.endDrain(owner); l.drains(owner) {
		t.Error("the loop goes on draining")
	}
	if next := st.connect(l); next.closed != 0 || l.table.Active() != 1 {
		t.Errorf("after the drain: closed %d times, %d connections", next.closed, l.table.Active())
	}
}
