package eddy

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
)

// TestEventsAreCleared: entries of the array do not outlive their handling, also when a handler panics over one.
func TestEventsAreCleared(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { panic("contained") })
	var events []sys.Event
	for range 5 {
		a := st.connect(l)
		a.send("x;")
		events = append(events, sys.Event{Token: a.conn.token(), Ready: sys.Readable})
	}
	l.Events(events)
	for i, ev := range events {
		if ev != (sys.Event{}) {
			t.Errorf("entry %d is still %+v", i, ev)
		}
	}
	if l.Counters[meter.Panics] != 5 {
		t.Errorf("%d of 5 events were handled", l.Counters[meter.Panics])
	}
}

// growEvents makes the array of events large enough for all the connections, each of which has a part of a message then.
func (st *stage) growEvents(l *loop, all []*actor) {
	st.t.Helper()
	for range 4 {
		for _, a := range all {
			a.send("x")
		}
		l.Iterate()
	}
	for slices.ContainsFunc(all, (*actor).readable) {
		l.Iterate()
	}
}

// TestRepollAfterManyCloses: when the events of one wait have ended more than 256 connections, these are closed and the
// poller is asked again in the same iteration, without waiting; what it reports is handled, and nothing twice.
func TestRepollAfterManyCloses(t *testing.T) {
	for _, c := range []struct{ conns, polls int }{{reactor.RepollAfter, 1}, {reactor.RepollAfter + 1, 2}} {
		handled := 0
		st, l, _ := loggedStage(t, &Group{MaxEvents: 1024}, func(*Context, string) error { handled++; return nil })
		p := st.nextPoller
		var actors []*actor
		for range c.conns {
			actors = append(actors, st.connect(l))
		}
		st.growEvents(l, actors)
		late := st.connect(l) // readable only once the others are closed
		for _, a := range actors {
			a.eof = true
		}
		p.timeouts = nil
		p.onWait = func() {
			if len(p.timeouts) == 2 {
				late.send("x;")
			}
		}
		l.Iterate()
		if len(p.timeouts) != c.polls || handled != c.polls-1 || l.Counters[meter.Repolls] != uint64(c.polls-1) {
			t.Errorf("%d closes: %d polls, %d handled, %d repolls counted", c.conns, len(p.timeouts), handled, l.Counters[meter.Repolls])
		}
		if c.polls == 2 && p.timeouts[1] != 0 {
			t.Errorf("the second poll waited %v", p.timeouts[1])
		}
		for _, a := range actors {
			if a.closed != 1 {
				t.Fatalf("closed %d times", a.closed)
			}
		}
		if l.table.Active() != 1 || l.Counters[meter.StaleEvents] != 0 {
			t.Errorf("%d connections left, %d stale events", l.table.Active(), l.Counters[meter.StaleEvents])
		}
	}
}

// TestInvalidRegistration: a connection whose registration the poller does not know any more is closed, once; an event
// that names it later, when its slot and its descriptor belong to another one, leaves that one alone.
func TestInvalidRegistration(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(ctx *Context, msg string) error { return ctx.Write(msg) })
	a := st.connect(l)
	stale := a.conn.token()
	a.room = 0
	st.modifyErr = fmt.Errorf("no such descriptor")
	a.send("needs write interest;")
	for range 3 {
		l.Iterate()
	}
	if e := a.conn.CloseError(); e == nil || e.Reason != CloseInternalError || a.closed != 1 {
		t.Fatalf("the connection ended with %v, closed %d times", e, a.closed)
	}
	st.modifyErr = nil
	b := st.connect(l)
	if b.conn.slot != a.conn.slot {
		t.Fatal("the slot was not reused")
	}
	l.Events([]sys.Event{{Token: stale, Ready: sys.Readable | sys.Writable | sys.Hangup | sys.Failed}})
	l.FinishCloses()
	if b.closed != 0 || b.reads != 0 || l.Counters[meter.StaleEvents] != 1 {
		t.Errorf("the other connection was read %d and closed %d times", b.reads, b.closed)
	}
	a.conn.setInterest(sys.Read) // nobody's any more
	if len(l.lists.closing) != 0 {
		t.Error("a connection that has ended was closed again")
	}
}

// TestEventOrder: of one connection's conditions, connecting comes first and ends the interest in it, then what is
// pending is written, then bytes are read. A report of nothing is read.
func TestEventOrder(t *testing.T) {
	var st *stage
	st, l, _ := loggedStage(t, &Group{}, func(_ *Context, msg string) error { st.note("handle %s", msg); return nil })
	a := st.connect(l)
	a.room = 0
	if err := a.conn.writeFromTail("pending"); err != nil {
		t.Fatal(err)
	}
	l.Iterate()
	st.trace = nil
	a.room = 100
	a.send("x;")
	l.Iterate()
	want := []string{fmt.Sprint("write ", a.fd), "handle x"}
	if got := st.noted("write", "handle"); !slices.Equal(got, want) {
		t.Errorf("readable and writable at once: %q, want %q", got, want)
	}
	a.send("y;")
	l.Events([]sys.Event{{Token: a.conn.token()}})
	if got := st.noted("handle"); !slices.Equal(got, []string{"handle y"}) {
		t.Errorf("a readiness of 0 led to %q", got)
	}
}

// TestConnectComesFirst: what a peer sends with its acceptance waits until the connection stands: the attempt's interest
// ends, then the connection is registered and opened, then its bytes are read.
func TestConnectComesFirst(t *testing.T) {
	d, h, l := hangingDialer(t)
	d.eng.set.init = func(p *Pipeline) error {
		p.Add("cut", &cut{})
		return p.Add("app", Handle(func(_ *Context, m *buf.Bytes) error { h.note("handle %s", m.Bytes()); return nil }))
	}
	if _, err := d.DialAddr(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}, DialOptions{}, func(*Conn, error) { h.note("told") }); err != nil {
		t.Fatal(err)
	}
	l.Iterate()
	fd := h.lastFD
	h.socks[fd].send("early;")
	h.outcome = nil
	h.trace = nil
	for range 2 {
		l.Iterate()
	}
	want := []string{fmt.Sprintf("remove %d", fd), fmt.Sprintf("add %d 1", fd), "told", "handle early"}
	if got := h.noted("add", "remove", "modify", "told", "handle"); !slices.Equal(got, want) {
		t.Errorf("the loop did %q, want %q", got, want)
	}
}
