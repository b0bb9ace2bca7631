package eddy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestVisitKeepsTheRest: a panic that is no handler's leaves the connections of a list that were not served yet to the next
// iteration.
func TestVisitKeepsTheRest(t *testing.T) {
	handled := 0
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { handled++; return nil })
	a, b, c := st.connect(l), st.connect(l), st.connect(l)
	for _, x := range []*actor{a, b, c} {
		l.lists.ready = append(l.lists.ready, x.conn)
		x.conn.raise(listedReady)
	}
	visited := 0
	bad := func(l *loop, c *Conn) {
		if visited++; visited == 2 {
			panic("the engine is at fault")
		}
		l.resumeConn(c)
	}
	func() {
		defer func() { _ = recover() }()
		l.visit(&l.lists.ready, bad)
	}()
	if len(l.lists.ready) != 1 || l.lists.ready[0] != c.conn {
		t.Errorf("%d connections are left on the list, want the last one", len(l.lists.ready))
	}
	a.send("x;")
	if !l.Iterate() || handled != 1 {
		t.Fatalf("the loop did not go on: %d handled", handled)
	}
}

// TestLogThatPanics: a log handler that panics does not get to the loop.
func TestLogThatPanics(t *testing.T) {
	handled := 0
	srv := cutServer(func(*Context, string) error { handled++; panic("logged") })
	srv.Loops, srv.Group = 0, &Group{Logger: slog.New(panickingHandler{slog.DiscardHandler})}
	st, l := newStage(t, srv)
	for range 3 {
		a := st.connect(l)
		a.send("x;")
		l.Iterate()
		if a.conn.CloseError() == nil {
			t.Fatal("the connection whose handler panicked stays")
		}
	}
	if handled != 3 || l.Counters[meter.Faults] != 0 || l.Counters[meter.Panics] != 3 {
		t.Errorf("%d handled, %d faults, %d panics", handled, l.Counters[meter.Faults], l.Counters[meter.Panics])
	}
}

type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (panickingHandler) Handle(context.Context, slog.Record) error { panic("in the log") }

// TestStoppingIsCheckedAfterAPanic: the iteration that a panic has cut short ends with the check whether to stop, and
// what is open then is closed.
func TestStoppingIsCheckedAfterAPanic(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	a, b := st.connect(l), st.connect(l)
	if _, err := l.Watch(&reactor.Descriptor{FD: stageListener, In: sys.Read, Ready: func(sys.Ready) {
		l.Stopping = true
		panic("in the same iteration")
	}}); err != nil {
		t.Fatal(err)
	}
	st.pending = 1
	if l.Iterate() || a.closed != 1 || b.closed != 1 {
		t.Errorf("the loop did not end; closed %d and %d times", a.closed, b.closed)
	}
	if e := a.conn.CloseError(); e == nil || e.Reason != CloseServerShutdown {
		t.Errorf("closed with %v", e)
	}
}

// TestGoexit: a handler, a task or a custom descriptor that ends its goroutine takes its connection or registration with
// it, and is reported. The loop goes on, on another goroutine, and so do the others on it.
func TestGoexit(t *testing.T) {
	for _, mode := range []WaitMode{WaitParked, WaitPinned} {
		var log lockedBuffer
		g := &Group{Loops: 1, WaitMode: mode, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		srv := &Server{Group: g, Topology: SingleReactor, Init: func(p *Pipeline) error {
			return p.Add("app", Handle(func(ctx *Context, m *buf.Bytes) error {
				if string(m.Bytes()) == "exit" {
					runtime.Goexit()
				}
				return ctx.WriteBytes(m.Bytes())
			}))
		}}
		if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		defer srv.Close()
		dial := func() net.Conn {
			c, err := net.Dial("tcp", srv.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(testkit.Patience))
			return c
		}
		echo := func(c net.Conn, s string) error {
			io.WriteString(c, s)
			got := make([]byte, len(s))
			_, err := io.ReadFull(c, got)
			if err == nil && string(got) != s {
				t.Errorf("echo of %q is %q", s, got)
			}
			return err
		}
		other := dial()
		if err := echo(other, "hello"); err != nil {
			t.Fatal(err)
		}
		bad := dial()
		if err := echo(bad, "exit"); err == nil {
			t.Error("the connection whose handler ended the goroutine lives on")
		}
		if err := echo(other, "still here"); err != nil {
			t.Errorf("the other connection: %v", err)
		}
		if err := g.Loop(0).Post(runtime.Goexit); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Loop(0).After(0, runtime.Goexit); err != nil {
			t.Fatal(err)
		}
		if err := g.Loop(0).Tail(runtime.Goexit); err != nil {
			t.Fatal(err)
		}
		until(t, "four goroutines to end", func() bool { return g.Stats()[0].Panics == 4 })
		if err := echo(other, "and here"); err != nil {
			t.Errorf("the other connection: %v", err)
		}
		if n := strings.Count(log.String(), "ended the goroutine of its loop"); n != 4 {
			t.Errorf("reported %d times: %q", n, log.String())
		}
		st := srv.Stats()
		if st.Closed[CloseInternalError] != 1 || st.Active != 1 {
			t.Errorf("closed %v, %d active", st.Closed, st.Active)
		}
	}
}

// TestGoexitInADescriptor: its registration ends and is told why.
func TestGoexitInADescriptor(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	d := &descriptorLog{on: func(Readiness) { runtime.Goexit() }}
	st.register(l, 900, ReadyRead, d)
	st.socks[900].send("x")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 3 {
			l.Iterate()
		}
	}()
	<-ended
	l.Orphaned() // what the next goroutine begins with
	for range 3 {
		l.Iterate()
	}
	if len(d.ready) != 1 || len(d.ended) != 1 || !errors.Is(d.ended[0], errGoexit) {
		t.Errorf("%d calls, told %v", len(d.ready), d.ended)
	}
}

// TestNamesOfGoroutines: the goroutines of loops and of pools carry their role and index as a pprof label.
func TestNamesOfGoroutines(t *testing.T) {
	srv := &Server{Loops: 2, Init: func(p *Pipeline) error { return nil }}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"eddy_loop":"boss"`, `"eddy_loop":"worker-0"`, `"eddy_loop":"worker-1"`} {
		if !strings.Contains(profile.String(), want) {
			t.Errorf("no goroutine is labelled %s", want)
		}
	}
	var names []string
	for _, s := range append(srv.Stats().Loops, srv.Stats().Boss) {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"worker-0", "worker-1", "boss"}) {
		t.Errorf("the loops are called %q", names)
	}
}
