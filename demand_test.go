package eddy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// TestDemand: exactly as many messages come as were asked for, whatever the peer has sent; the rest waits, at last in
// the peer's hands.
func TestDemand(t *testing.T) {
	var got []string
	d := new(Demand)
	d.Request(1)
	srv := &Server{Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		p.Add("demand", d)
		return p.Add("app", Handle(func(_ *Context, m *buf.Bytes) error { got = append(got, string(m.Bytes())); return nil }))
	}}
	st, l := newStage(t, srv)
	a := st.connect(l)
	for i := range 10 {
		a.send(fmt.Sprintf("%d;", i))
	}
	want := func(when string, n int) {
		t.Helper()
		for range 5 {
			l.Iterate()
		}
		if s := strings.Join(got, ""); s != "0123456789"[:n] {
			t.Fatalf("%s: %q came", when, s)
		}
	}
	want("at first", 1)
	d.Request(0)
	d.Request(-3)
	want("after requests for nothing", 1)
	d.Request(3)
	want("after a request for 3", 4)
	d.Request(1)
	d.Request(2)
	if d.left.Load() != 3 {
		t.Errorf("%d left, want 3", d.left.Load())
	}
	want("after 1 and 2", 7)
	if len(a.in) == 0 {
		t.Error("everything was read although reads were paused")
	}
	d.Request(100)
	want("in the end", 10)
	if d.left.Load() != 97 {
		t.Errorf("%d left, want 97", d.left.Load())
	}
}

// TestRequestBeforeThePause: a request that comes when the handler has looked and has not paused yet is not lost.
func TestRequestBeforeThePause(t *testing.T) {
	handled := 0
	d := new(Demand)
	d.Request(1)
	srv := &Server{Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		p.Add("demand", d)
		return p.Add("app", Handle(func(*Context, *buf.Bytes) error { handled++; return nil }))
	}}
	st, l := newStage(t, srv)
	a := st.connect(l)
	d.left.Store(0) // as the handler sees it
	d.Request(1)
	d.pause(a.conn)
	a.send("x;")
	for range 3 {
		l.Iterate()
	}
	if handled != 1 || d.left.Load() != 0 {
		t.Errorf("%d messages came, %d are left of the one that was asked for", handled, d.left.Load())
	}
}

// TestCallersWriteNothingOfTheLoops: what any goroutine may call of a connection leaves every field that the loop owns as it
// is, until the loop has its turn.
func TestCallersWriteNothingOfTheLoops(t *testing.T) {
	st, l := newStage(t, countedServer(nil))
	conn := st.connect(l).conn
	fields := func() (all []string) {
		for v, i := reflect.ValueOf(conn).Elem(), 0; i < v.NumField(); i++ {
			name, field := v.Type().Field(i).Name, v.Field(i)
			switch {
			case field.Type().PkgPath() == "sync/atomic" || field.Type() == reflect.TypeFor[connCounts](): // atomic
			case field.Kind() == reflect.Pointer:
				all = append(all, fmt.Sprintf("%s %x", name, field.Pointer()))
			default:
				all = append(all, fmt.Sprintf("%s %v", name, field))
			}
		}
		return all
	}
	before := fields()
	for _, c := range []struct {
		name string
		call func()
	}{
		{"PauseRead", conn.PauseRead},
		{"ResumeRead", conn.ResumeRead},
		{"Begin", conn.Begin},
		{"End", conn.End},
		{"Write", func() { write(t, conn, "x") }},
		{"WriteFuture", func() { conn.WriteFuture("x") }},
		{"CloseFuture", func() { conn.CloseFuture() }},
		{"CloseAfterFlush", func() { conn.CloseAfterFlush(CloseNormal) }},
		{"Close", func() { conn.Close(CloseNormal) }},
	} {
		done := make(chan struct{})
		go func() { defer close(done); c.call() }()
		<-done
		if after := fields(); !slices.Equal(after, before) {
			t.Fatalf("%s: the loop's fields were\n%v, are\n%v", c.name, before, after)
		}
	}
}

// TestDemandFromManyGoroutines: requests and messages race; none is lost and none comes unasked.
func TestDemandFromManyGoroutines(t *testing.T) {
	const askers, each = 4, 250
	var d Demand
	var n, over int
	done := make(chan struct{})
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		p.Add("demand", &d)
		return p.Add("app", Handle(func(_ *Context, m *buf.Bytes) error {
			if d.left.Load() < 0 {
				over++
			}
			if n++; n == askers*each {
				close(done)
			}
			return nil
		}))
	}}
	c := serveOne(t, srv)
	var wg sync.WaitGroup
	for range askers {
		wg.Go(func() {
			for range each {
				d.Request(1)
			}
		})
	}
	if _, err := c.Write([]byte(strings.Repeat("x;", askers*each))); err != nil {
		t.Fatal(err)
	}
	<-done
	wg.Wait()
	if over > 0 || d.left.Load() != 0 {
		t.Errorf("%d messages came unasked, %d are still asked for", over, d.left.Load())
	}
}

// TestPausesAreIndependent: the application's pause, the outbound queue's and a pool's each hold reads back, in every
// combination and whichever ends first; messages come again when the last has ended, and not before.
func TestPausesAreIndependent(t *testing.T) {
	type pause struct {
		name       string
		begin, end func(l *loop, a *actor)
	}
	pauses := []pause{
		{"application",
			func(_ *loop, a *actor) { a.conn.PauseRead() },
			func(_ *loop, a *actor) { a.conn.ResumeRead() }},
		{"outbound",
			func(l *loop, a *actor) { a.room = 0; submit(t, l, a, make([]byte, 3000)) },
			func(_ *loop, a *actor) { a.room = 1 << 40 }},
		{"pool",
			func(_ *loop, a *actor) { a.conn.paused |= pauseHop; a.conn.extend().hops.waiting.Store(new(strand)) },
			func(_ *loop, a *actor) { a.conn.extend().hops.waiting.Store(nil); a.conn.postReadState() }},
	}
	for set := 1; set < 1<<len(pauses); set++ {
		for first := range pauses {
			handled := 0
			srv := cutServer(func(*Context, string) error { handled++; return nil })
			srv.Watermarks = Watermarks{Low: 1000, High: 2000, Max: 10000}
			st, l := newStage(t, srv)
			a := st.connect(l)
			var on []pause
			for i, p := range pauses {
				if set>>i&1 == 1 {
					p.begin(l, a)
					on = append(on, p)
				}
			}
			a.send("held;back;")
			for i := range on {
				for range 4 {
					l.Iterate()
				}
				p := on[(first+i)%len(on)]
				if handled != 0 {
					t.Fatalf("set %b: %d messages came before the pause by %s ended", set, handled, p.name)
				}
				p.end(l, a)
			}
			for range 4 {
				l.Iterate()
			}
			if handled != 2 {
				t.Fatalf("set %b: %d messages came after all pauses, want 2", set, handled)
			}
		}
	}
}
