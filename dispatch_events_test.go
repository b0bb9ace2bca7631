package eddy

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys"
)

// TestEventArrayGrows: the array of events doubles when one wait fills it, up to the bound; at a bound of 128 or less it
// keeps its size.
func TestEventArrayGrows(t *testing.T) {
	for _, c := range []struct {
		max  int
		want []int
	}{
		{0, []int{128, 256, 512, 1024, 2048, 4096, 4096}},
		{300, []int{128, 256, 300, 300}},
		{128, []int{128, 128}},
		{7, []int{7, 7}},
	} {
		_, l, _ := loggedStage(t, &Group{MaxEvents: c.max}, func(*Context, string) error { return nil })
		var sizes []int
		for range c.want {
			sizes = append(sizes, len(l.events))
			l.growEvents(len(l.events) - 1)
			l.growEvents(len(l.events))
		}
		if !slices.Equal(sizes, c.want) {
			t.Errorf("MaxEvents %d: sizes %v, want %v", c.max, sizes, c.want)
		}
	}
}

// TestEventsAreCleared: entries of the array do not outlive their handling, also when a handler panics over one.
func TestEventsAreCleared(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { panic("contained") })
	for range 5 {
		st.connect(l).send("x;")
	}
	l.iterate()
	for i, ev := range l.events {
		if ev != (sys.Event{}) {
			t.Errorf("entry %d is still %+v", i, ev)
		}
	}
	if l.counters[countPanics] != 5 {
		t.Errorf("%d of 5 events were handled", l.counters[countPanics])
	}
}

// TestRepollAfterManyCloses: when the events of one wait have ended more than 256 connections, these are closed and the
// poller is asked again in the same iteration, without waiting; what it reports is handled, and nothing twice.
func TestRepollAfterManyCloses(t *testing.T) {
	for _, c := range []struct{ conns, polls int }{{repollAfter, 1}, {repollAfter + 1, 2}} {
		handled := 0
		st, l, _ := loggedStage(t, &Group{MaxEvents: 1024}, func(*Context, string) error { handled++; return nil })
		l.events = make([]sys.Event, 1024)
		p := st.nextPoller
		var actors []*actor
		for range c.conns {
			actors = append(actors, st.connect(l))
		}
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
		l.iterate()
		if len(p.timeouts) != c.polls || handled != c.polls-1 || l.counters[countRepolls] != uint64(c.polls-1) {
			t.Errorf("%d closes: %d polls, %d handled, %d repolls counted", c.conns, len(p.timeouts), handled, l.counters[countRepolls])
		}
		if c.polls == 2 && p.timeouts[1] != 0 {
			t.Errorf("the second poll waited %v", p.timeouts[1])
		}
		for _, a := range actors {
			if a.closed != 1 {
				t.Fatalf("closed %d times", a.closed)
			}
		}
		if l.active != 1 || l.counters[countStaleEvents] != 0 {
			t.Errorf("%d connections left, %d stale events", l.active, l.counters[countStaleEvents])
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
		l.iterate()
	}
	if e := a.conn.CloseError(); e == nil || e.Reason != CloseInternalError || a.closed != 1 {
		t.Fatalf("the connection ended with %v, closed %d times", e, a.closed)
	}
	st.modifyErr = nil
	b := st.connect(l)
	if b.conn.slot != a.conn.slot {
		t.Fatal("the slot was not reused")
	}
	l.events[0] = sys.Event{Token: stale, Ready: sys.Readable | sys.Writable | sys.Hangup | sys.Failed}
	l.processEvents(1)
	l.finishCloses()
	if b.closed != 0 || b.reads != 0 || l.counters[countStaleEvents] != 1 {
		t.Errorf("the other connection was read %d and closed %d times", b.reads, b.closed)
	}
	a.conn.setInterest(sys.Read) // nobody's any more
	if len(l.closing) != 0 {
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
	l.iterate()
	st.trace = nil
	a.room = 100
	a.send("x;")
	l.iterate()
	want := []string{fmt.Sprint("write ", a.fd), "handle x"}
	if got := st.noted("write", "handle"); !slices.Equal(got, want) {
		t.Errorf("readable and writable at once: %q, want %q", got, want)
	}
	a.send("y;")
	l.events[0] = sys.Event{Token: a.conn.token()}
	l.processEvents(1)
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
	if _, err := d.DialAddr(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}, func(*Conn, error) { h.note("told") }); err != nil {
		t.Fatal(err)
	}
	l.iterate()
	fd := h.lastFD
	h.socks[fd].send("early;")
	h.outcome = nil
	h.trace = nil
	for range 2 {
		l.iterate()
	}
	want := []string{fmt.Sprintf("remove %d", fd), fmt.Sprintf("add %d 1", fd), "told", "handle early"}
	if got := h.noted("add", "remove", "modify", "told", "handle"); !slices.Equal(got, want) {
		t.Errorf("the loop did %q, want %q", got, want)
	}
}
