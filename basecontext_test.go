package eddy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

type (
	storeKey struct{} // of a value of the server
	userKey  struct{} // of a value of the connection
)

// atWork is what a handler holds while its test looks.
type atWork struct {
	ctx  context.Context
	conn *eddy.Conn
}

// working returns a server whose handler tells of its context and keeps its request until end is closed. on says where it
// runs: "loop", "pool", "unordered" or "request".
func working(t *testing.T, on string, end <-chan struct{}) (*eddy.Server, <-chan atWork) {
	t.Helper()
	told := make(chan atWork, 8)
	var where []eddy.AddOption
	switch on {
	case "pool":
		where = append(where, eddy.On(newPool(t, 4, 8)))
	case "unordered":
		where = append(where, eddy.OnUnordered(newPool(t, 4, 8)))
	}
	return &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if string(m.Bytes()) == "traced" {
				ctx.SetTrace(context.WithValue(withTrace("t"), userKey{}, "of the trace"))
			}
			c := ctx.Conn()
			switch on {
			case "loop":
				c.Begin()
				told <- atWork{ctx.Context(), c}
			case "request":
				r := new(eddy.Request)
				c.BeginRequest(r)
				told <- atWork{r.Context(), c}
			default:
				told <- atWork{ctx.Context(), c}
				<-end
			}
			return nil
		}), where...)
	}}, told
}

var workplaces = []string{"loop", "pool", "unordered", "request"}

// TestBaseContext: wherever a handler runs, its context has the values of BaseContext, behind those of a trace, and its
// deadline; it ends when BaseContext ends, with its error, and so do later ones. The connection stays open.
func TestBaseContext(t *testing.T) {
	for _, on := range workplaces {
		t.Run(on, func(t *testing.T) {
			end := make(chan struct{})
			srv, told := working(t, on, end)
			due := time.Now().Add(time.Hour)
			base, cancel := context.WithDeadline(context.WithValue(context.Background(), storeKey{}, "store"), due)
			defer cancel()
			srv.BaseContext, srv.HandlerTimeout = base, 2*time.Hour
			addr := start(t, srv)
			defer close(end)
			var all []atWork
			for i := range 3 {
				io.WriteString(dial(t, addr), []string{"plain\n", "traced\n"}[i%2])
				all = append(all, testkit.Receive(t, "a context", told))
			}
			for i, w := range all {
				user := any(nil)
				if i == 1 && on != "request" {
					user = "of the trace"
				}
				if v, u := w.ctx.Value(storeKey{}), w.ctx.Value(userKey{}); v != "store" || u != user || w.ctx.Err() != nil {
					t.Errorf("values %v and %v, want store and %v; %v", v, u, user, w.ctx.Err())
				}
				if d, ok := w.ctx.Deadline(); !ok || !d.Equal(due) {
					t.Errorf("deadline %v, %v, want that of BaseContext", d, ok)
				}
				if w.conn.BaseContext() != base {
					t.Error("the connection has another base context")
				}
			}
			derived, stop := context.WithCancel(all[0].ctx)
			defer stop()
			cancel()
			for _, w := range all {
				testkit.Receive(t, "the end of a context", w.ctx.Done())
				if err := w.ctx.Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("ended with %v", err)
				}
			}
			testkit.Receive(t, "the end of a derived context", derived.Done())
			io.WriteString(dial(t, addr), "plain\n")
			if late := testkit.Receive(t, "a late context", told); late.ctx.Err() == nil || late.ctx.Value(storeKey{}) != "store" {
				t.Errorf("a context made later: %v, value %v", late.ctx.Err(), late.ctx.Value(storeKey{}))
			}
			if st := enginetest.Stats(t, srv); st.Active != 4 {
				t.Errorf("%d connections are open, want 4: %v", st.Active, st.Closed)
			}
		})
	}
}

// TestNoBaseContext: without the two options a connection's base context is the empty one, and its contexts have no values.
func TestNoBaseContext(t *testing.T) {
	srv, told := working(t, "loop", nil)
	io.WriteString(dial(t, start(t, srv)), "plain\n")
	w := testkit.Receive(t, "the context", told)
	if w.conn.BaseContext() != context.Background() || w.ctx.Value(storeKey{}) != nil {
		t.Errorf("base context %v, value %v", w.conn.BaseContext(), w.ctx.Value(storeKey{}))
	}
	if d, ok := w.ctx.Deadline(); ok {
		t.Errorf("deadline %v", d)
	}
}

// waited is a context with an end of its own that counts who waits for it.
type waited struct {
	context.Context
	done    chan struct{}
	waiting atomic.Int32
}

func (w *waited) Done() <-chan struct{} { return w.done }

func (w *waited) AfterFunc(func()) func() bool {
	w.waiting.Add(1)
	return func() bool { w.waiting.Add(-1); return true }
}

// TestConnContext: ConnContext is called once for each connection, on its loop before Init. Its values are the connection's
// own, its end ends the contexts of its connection alone, and nobody waits for it when the connection has ended.
func TestConnContext(t *testing.T) {
	base, stop := context.WithCancel(context.WithValue(context.Background(), storeKey{}, "store"))
	defer stop()
	var calls atomic.Int32
	cancels := make(chan context.CancelFunc, 8)
	foreign := &waited{Context: base, done: make(chan struct{})}
	srv, told := working(t, "loop", nil)
	srv.BaseContext = base
	srv.ConnContext = func(ctx context.Context, c *eddy.Conn) context.Context {
		if c.BaseContext() != base || ctx != base || c.Post(func() {}) != nil {
			t.Error("ConnContext was given another context, or no connection")
		}
		switch n := calls.Add(1); n {
		case 3:
			return context.WithoutCancel(ctx)
		case 4:
			return foreign
		default:
			own, cancel := context.WithCancel(context.WithValue(ctx, userKey{}, c.RemoteAddr().String()))
			cancels <- cancel
			return own
		}
	}
	init := srv.Init
	srv.Init = func(p *eddy.Pipeline) error {
		if n := calls.Load(); p.Conn().BaseContext() == base || n == 0 {
			t.Errorf("Init runs before ConnContext, after %d calls", n)
		}
		return init(p)
	}
	addr := start(t, srv)
	var all []atWork
	for range 4 {
		c := dial(t, addr)
		io.WriteString(c, "plain\n")
		w := testkit.Receive(t, "a context", told)
		if u := w.ctx.Value(userKey{}); len(all) < 2 && u != c.LocalAddr().String() || w.ctx.Value(storeKey{}) != "store" {
			t.Errorf("values %v and %v", u, w.ctx.Value(storeKey{}))
		}
		all = append(all, w)
	}
	(<-cancels)()
	testkit.Receive(t, "the end of the first connection's context", all[0].ctx.Done())
	if all[1].ctx.Err() != nil {
		t.Error("the end of one connection's context has ended another's")
	}
	stop()
	testkit.Receive(t, "the end of the second connection's context", all[1].ctx.Done())
	enginetest.Barrier(t, srv)
	if err := all[2].ctx.Err(); err != nil {
		t.Errorf("a context without the end of BaseContext: %v", err)
	}
	if n := foreign.waiting.Load(); n != 1 {
		t.Errorf("%d wait for the end of a connection's context, want 1", n)
	}
	for _, w := range all[2:] {
		w.conn.Close(eddy.CloseNormal)
		testkit.Receive(t, "the end of a connection", w.conn.CloseFuture().Done())
		testkit.Receive(t, "the end of its context", w.ctx.Done())
	}
	if n := foreign.waiting.Load(); n != 0 {
		t.Errorf("%d wait for the end of a connection's context after the connection's, want 0", n)
	}
	if v := all[0].conn.BaseContext().Value(userKey{}); v == nil || calls.Load() != 4 {
		t.Errorf("%d calls for 4 connections; value %v", calls.Load(), v)
	}
}

// TestConnContextFails: a ConnContext that panics or returns nil ends its connection, before Init, and says so in the log.
func TestConnContextFails(t *testing.T) {
	for text, f := range map[string]func() context.Context{
		"ConnContext returned nil":  func() context.Context { return nil },
		"ConnContext is in trouble": func() context.Context { panic("ConnContext is in trouble") },
	} {
		log := newLog()
		srv := &eddy.Server{Loops: 1, Logger: log.logger(), Init: func(*eddy.Pipeline) error {
			t.Error("Init was called")
			return nil
		}, ConnContext: func(context.Context, *eddy.Conn) context.Context { return f() }}
		addr := start(t, srv)
		c := dial(t, addr)
		_, _ = io.Copy(io.Discard, c)
		c.Close()
		waitFor(t, "the close", func() bool { return srv.Stats().Closed[eddy.CloseInternalError] == 1 })
		if n := strings.Count(log.String(), text); n == 0 {
			t.Errorf("the log does not say %q: %s", text, log.String())
		}
	}
}

// TestDialerContexts: the two options do for a dialer's connections what they do for a server's.
func TestDialerContexts(t *testing.T) {
	base, cancel := context.WithCancel(context.WithValue(context.Background(), storeKey{}, "store"))
	defer cancel()
	told := make(chan context.Context, 1)
	d := &eddy.Dialer{
		Init: initWith(eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
			ctx.Conn().Begin()
			told <- ctx.Context()
			return nil
		})),
		BaseContext: base,
		ConnContext: func(ctx context.Context, c *eddy.Conn) context.Context {
			return context.WithValue(ctx, userKey{}, c.RemoteAddr().String())
		},
	}
	defer d.Close()
	addr := start(t, &eddy.Server{Loops: 1, Init: initWith(echo)})
	c, err := d.Dial(testkit.Context(t), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Receive(t, "the context", told)
	if v, u := ctx.Value(storeKey{}), ctx.Value(userKey{}); v != "store" || u != addr {
		t.Errorf("values %v and %v", v, u)
	}
	cancel()
	testkit.Receive(t, "the end of the context", ctx.Done())
}

// TestEndedServerLeavesBaseContext: a server that has ended no longer waits for the end of its BaseContext.
func TestEndedServerLeavesBaseContext(t *testing.T) {
	base := &waited{Context: context.Background(), done: make(chan struct{})}
	srv := &eddy.Server{Loops: 1, Init: initWith(echo), BaseContext: base}
	start(t, srv)
	d := &eddy.Dialer{Init: initWith(echo), BaseContext: base}
	if _, err := d.Dial(testkit.Context(t), "tcp", srv.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if n := base.waiting.Load(); n != 2 {
		t.Errorf("%d wait, want the server and the dialer", n)
	}
	if err := errors.Join(d.Close(), srv.Close()); err != nil {
		t.Fatal(err)
	}
	if n := base.waiting.Load(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

// TestBaseContextEndsUnderTraffic: contexts that are made while BaseContext ends, end as well.
func TestBaseContextEndsUnderTraffic(t *testing.T) {
	base, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	var made atomic.Int32
	pool, err := executor.NewFixed(executor.Options{Name: t.Name(), Workers: 4, Queue: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	srv := &eddy.Server{Loops: 2, BaseContext: base, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			x := ctx.Context()
			made.Add(1)
			<-x.Done()
			return reply(ctx, m)
		}), eddy.OnUnordered(pool))
	}}
	addr := start(t, srv)
	for i := range 8 {
		c := dial(t, addr)
		all.Go(func() {
			for j := range 50 {
				line := fmt.Sprintf("%d/%d\n", i, j)
				if _, err := io.WriteString(c, line); err != nil {
					t.Error(err)
					return
				}
				got := make([]byte, len(line))
				if _, err := io.ReadFull(c, got); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	waitFor(t, "a handler that waits", func() bool { return made.Load() > 0 })
	cancel()
	all.Wait()
}
