package eddy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/testkit"
)

// opened starts srv with handlers that do nothing but what add adds, connects, and returns the connection and its peer.
func opened(t *testing.T, srv *Server, add func(p *Pipeline) error) (*Context, io.ReadWriteCloser) {
	t.Helper()
	conns := make(chan *Context, 1)
	if srv.Logger == nil {
		srv.Logger = slog.New(slog.DiscardHandler)
	}
	srv.Init = func(p *Pipeline) error {
		if add != nil {
			if err := add(p); err != nil {
				return err
			}
		}
		return p.Add("open", openFunc(func(ctx *Context) error { conns <- ctx; return nil }))
	}
	peer := serveOne(t, srv)
	return <-conns, peer
}

// done returns a future of c that has succeeded.
func done(c *Conn) *Future {
	f := &Future{loop: c.loop, conn: c, parts: 1}
	f.partEnded(nil, nil)
	return f
}

// TestFutureStates: the first transition stays.
func TestFutureStates(t *testing.T) {
	cause := errors.New("cause")
	moves := map[futureState]error{futureSucceeded: nil, futureFailed: cause, futureCanceled: ErrCanceled}
	for first, err := range moves {
		f := new(Future)
		if f.standing() != futurePending || f.Err() != nil {
			t.Fatalf("a new future is %v, %v", f.standing(), f.Err())
		}
		early := f.Done()
		if !f.settle(first, err, nil) {
			t.Errorf("%v was refused", first)
		}
		for second, err := range moves {
			if f.settle(second, err, nil) {
				t.Errorf("%v after %v was taken", second, first)
			}
		}
		<-early
		<-f.Done()
		if f.standing() != first || f.Err() != err || f.Wait(context.Background()) != err {
			t.Errorf("it is %v with %v, want %v with %v", f.standing(), f.Err(), first, err)
		}
		if s := first.String(); s == "unknown" || s == "" {
			t.Errorf("state %d has no name", first)
		}
	}
	if s := futureStates.String(); s != "unknown" {
		t.Errorf("a state that does not exist is called %q", s)
	}
	f := &Future{fixed: true}
	if f.Cancel() || f.standing() != futurePending {
		t.Errorf("what cannot be cancelled was: %v", f.standing())
	}
}

// TestListenersInOrder: those added before the completion, by whom ever, run on the loop in order, those added afterwards by
// the loop at once, those of other goroutines there too.
func TestListenersInOrder(t *testing.T) {
	ctx, _ := opened(t, &Server{Loops: 1}, nil)
	c := ctx.conn
	gate, entered := make(chan struct{}), make(chan struct{})
	if err := c.Post(func() { close(entered); <-gate }); err != nil {
		t.Fatal(err)
	}
	<-entered
	f := c.WriteFuture("x")
	var ran []int
	nested, all := make(chan struct{}), make(chan struct{})
	note := func(i int) func(*Future) {
		return func(*Future) {
			if c.loop.Vitals.Goroutine.Load() != goroutineID() {
				t.Error("a listener runs on another goroutine than the loop's")
			}
			ran = append(ran, i)
		}
	}
	for i := range 5 {
		f.OnDone(note(i))
	}
	f.OnDone(func(f *Future) { // a nested one comes after those before it
		note(5)(f)
		f.OnDone(func(f *Future) { note(7)(f); close(nested) })
		ran = append(ran, -1)
	})
	f.OnDone(note(6))
	close(gate)
	<-nested
	f.OnDone(func(f *Future) { note(8)(f); close(all) }) // from elsewhere
	<-all
	onLoopOf(t, c.loop, func() {
		f.OnDone(note(9))
		ran = append(ran, -2) // it was called at once
	})
	onLoopOf(t, c.loop, func() {
		if want := []int{0, 1, 2, 3, 4, 5, -1, 6, 7, 8, 9, -2}; !slices.Equal(ran, want) {
			t.Errorf("ran %v, want %v", ran, want)
		}
	})
}

// TestNestedListeners: a chain of listeners that complete futures with listeners runs to its end without using up the stack,
// whether they complete at once or in turn.
func TestNestedListeners(t *testing.T) {
	ctx, _ := opened(t, &Server{Loops: 1}, nil)
	c := ctx.conn
	for name, next := range map[string]func() *Future{
		"completed":  func() *Future { return done(c) },
		"completing": func() *Future { return ctx.WriteFuture([]byte{}) },
	} {
		const links = 2000
		depth, deepest, n := 0, 0, 0
		over := make(chan struct{})
		var link func(*Future)
		link = func(*Future) {
			depth++
			deepest = max(deepest, depth)
			if n++; n == links {
				close(over)
			} else {
				next().OnDone(link)
			}
			depth--
		}
		onLoopOf(t, c.loop, func() { next().OnDone(link) })
		<-over
		onLoopOf(t, c.loop, func() {
			if deepest > maxNested || n != links {
				t.Errorf("%s: %d listeners ran, up to %d in each other, limit %d", name, n, deepest, maxNested)
			}
		})
	}
}

// TestListenersThatFail: a listener that panics or ends its goroutine closes its connection, is logged, keeps no other
// listener from running, and ends no loop.
func TestListenersThatFail(t *testing.T) {
	for name, fail := range map[string]func(){
		"panic":  func() { panic("listener") },
		"goexit": runtime.Goexit,
	} {
		for _, late := range []bool{false, true} {
			log := new(lockedBuffer)
			srv := &Server{Loops: 1, LingerTimeout: 20 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil))}
			ctx, _ := opened(t, srv, nil)
			c := ctx.conn
			var ran []string
			over := make(chan struct{})
			onLoopOf(t, c.loop, func() {
				f := new(Future)
				f.loop, f.conn, f.parts = c.loop, c, 1
				if late {
					f.partEnded(nil, c.loop)
					c.loop.Tasks.PushControl(task{kind: taskFunc, conn: c, msg: func() {
						f.OnDone(func(*Future) { ran = append(ran, "first"); fail() })
					}})
					c.loop.Tasks.PushControl(task{kind: taskFunc, msg: func() {
						f.OnDone(func(*Future) { ran = append(ran, "second"); close(over) })
					}})
					return
				}
				f.OnDone(func(*Future) { ran = append(ran, "first"); fail() })
				f.OnDone(func(*Future) { ran = append(ran, "second"); close(over) })
				f.partEnded(nil, c.loop)
			})
			<-over
			<-c.CloseFuture().Done()
			if r := c.CloseError().Reason; r != CloseInternalError {
				t.Errorf("%s: closed with %v", name, r)
			}
			onLoopOf(t, c.loop, func() {
				if !slices.Equal(ran, []string{"first", "second"}) {
					t.Errorf("%s: ran %v", name, ran)
				}
				if c.loop.Counters[meter.Panics] != 1 || c.loop.Counters[meter.Faults] != 0 {
					t.Errorf("%s: %d panics counted, %d faults", name, c.loop.Counters[meter.Panics], c.loop.Counters[meter.Faults])
				}
			})
			if s := log.String(); name == "panic" && !strings.Contains(s, "a listener of a future") {
				t.Errorf("%s: logged %q", name, s)
			}
			srv.Close()
		}
	}
}

// TestListenersAreNotLost: with a full task queue the listener's task goes above the bound; when the loop has ended the
// listener runs where it is added.
func TestListenersAreNotLost(t *testing.T) {
	srv := &Server{Group: &Group{Loops: 1, TaskQueue: 1}}
	ctx, _ := opened(t, srv, nil)
	c := ctx.conn
	gate, entered := make(chan struct{}), make(chan struct{})
	if err := c.Post(func() { close(entered); <-gate }); err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := c.Post(func() {}); err != nil {
		t.Fatal(err)
	}
	if err := c.Post(func() {}); err != ErrSaturated {
		t.Fatalf("Post to a full queue = %v", err)
	}
	f := done(c)
	ran := make(chan bool, 1000)
	for range 1000 {
		f.OnDone(func(*Future) { ran <- c.loop.Vitals.Goroutine.Load() == goroutineID() })
	}
	if n := c.loop.Tasks.Depth(); n != 2 {
		t.Errorf("%d tasks for the listeners of one future, want 1 beside the other", n-1)
	}
	close(gate)
	for range 1000 {
		if !<-ran {
			t.Fatal("a listener ran on another goroutine than the loop's")
		}
	}
	end := c.CloseFuture()
	srv.Close()
	srv.Group.Close()
	here := false
	end.OnDone(func(f *Future) { here = f == end })
	if !here {
		t.Error("a listener that comes after the end of its loop was not called")
	}
	if f := c.WriteFuture("x"); !closedFor(CloseServerShutdown)(f.Err()) {
		t.Errorf("a write after the end of the loop: %v", f.Err())
	}
}

// TestListenersDuringTeardown: listeners added while a loop ends run exactly once, each on the loop or after its end.
func TestListenersDuringTeardown(t *testing.T) {
	const early = 20 // of each writer, before the end begins
	for range 20 {
		srv := &Server{Group: &Group{Loops: 1, Logger: slog.New(slog.DiscardHandler)}}
		ctx, _ := opened(t, srv, nil)
		c := ctx.conn
		const n = 4
		var wg, ran, begun sync.WaitGroup
		begun.Add(n)
		stop := make(chan struct{})
		for range n {
			wg.Go(func() {
				told := make(chan struct{}, early)
				for i, over := 0, false; !over; i++ {
					select {
					case <-stop:
						over = true
					default:
					}
					if i == early {
						begun.Done()
					}
					if i >= early { // so many are under way
						<-told
					}
					ran.Add(1)
					c.WriteFuture([]byte("x")).OnDone(func(*Future) { ran.Done(); told <- struct{}{} })
				}
			})
		}
		begun.Wait()
		srv.Close()
		srv.Group.Close()
		close(stop)
		all := make(chan struct{})
		go func() { wg.Wait(); ran.Wait(); close(all) }()
		testkit.Receive(t, "all listeners", all)
	}
}

// deeper calls f n frames further down.
func deeper(n int, f func() error) error {
	if n == 0 {
		return f()
	}
	err := deeper(n-1, f)
	runtime.KeepAlive(n)
	return err
}

// TestWaitOnALoop: Wait refuses on every loop of the process, however deep in the stack, and waits elsewhere.
func TestWaitOnALoop(t *testing.T) {
	one, _ := opened(t, &Server{Loops: 1}, nil)
	other, _ := opened(t, &Server{Loops: 1, WaitMode: WaitPinned}, nil)
	c := one.conn
	never := c.CloseFuture()
	d := closing(t, &Dialer{Init: func(*Pipeline) error { return nil }})
	for _, l := range []*loop{c.loop, other.conn.loop} {
		for _, depth := range []int{0, 63, 64, 500} {
			var pending, completed error
			onLoopOf(t, l, func() {
				pending = deeper(depth, func() error { return never.Wait(context.Background()) })
				completed = deeper(depth, func() error { return done(c).Wait(context.Background()) })
			})
			if pending != ErrOnLoop || completed != nil {
				t.Errorf("on %s, %d deep: Wait = %v, of a completed future %v", l.Name, depth, pending, completed)
			}
		}
		var wait, write error
		onLoopOf(t, l, func() {
			_, wait = d.Dial(context.Background(), "tcp", "127.0.0.1:1")
			c.mark(unwritable)
			write = c.WriteContext(context.Background(), "x")
			c.unmark(unwritable)
		})
		if wait != ErrOnLoop || write != ErrOnLoop {
			t.Errorf("on %s: Dial = %v, WriteContext = %v", l.Name, wait, write)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := deeper(200, func() error { return never.Wait(ctx) }); err != context.Canceled {
		t.Errorf("Wait with a context that has ended = %v", err)
	}
	go c.Close(CloseNormal)
	if err := never.Wait(context.Background()); err != nil {
		t.Errorf("Wait for the close = %v", err)
	}
}

// TestCloseFuture: one per connection, completed after its end, before it and after it.
func TestCloseFuture(t *testing.T) {
	closed := make(chan string, 10)
	ctx, _ := opened(t, &Server{Loops: 1}, func(p *Pipeline) error {
		return p.Add("closed", closeFunc(func(*Context, CloseReason, error) { closed <- "handler" }))
	})
	c := ctx.conn
	f := c.CloseFuture()
	if f != c.CloseFuture() || f.standing() != futurePending || f.Cancel() {
		t.Errorf("the future of the close is %v", f.standing())
	}
	f.OnDone(func(f *Future) {
		if f.Conn().CloseError().Reason != CloseProtocolError {
			t.Errorf("closed with %v", f.Conn().CloseError())
		}
		closed <- "listener"
	})
	c.Close(CloseProtocolError)
	<-c.CloseFuture().Done()
	if a, b := <-closed, <-closed; a != "handler" || b != "listener" || f.standing() != futureSucceeded {
		t.Errorf("told %s and then %s; %v", a, b, f.standing())
	}
	ctx, _ = opened(t, &Server{Loops: 1}, nil)
	ctx.conn.Close(CloseNormal)
	until(t, "the end", func() bool { return ctx.conn.shows(gone) })
	if f := ctx.conn.CloseFuture(); f.Wait(context.Background()) != nil {
		t.Errorf("asked for after the end: %v", f.standing())
	}
}

// TestAllOf: it completes with the last of its parts, with the first failure.
func TestAllOf(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	part := func() *Future { return &Future{parts: 1} }
	a, b, c := part(), part(), part()
	all := AllOf(a, b, c, a)
	b.partEnded(first, nil)
	if !a.Cancel() || all.Cancel() || all.standing() != futurePending || all.Conn() != nil {
		t.Errorf("with one part to come it is %v", all.standing())
	}
	c.partEnded(second, nil)
	if all.standing() != futureFailed || all.Err() != first {
		t.Errorf("it is %v with %v", all.standing(), all.Err())
	}
	if f := AllOf(a); f.standing() != futureFailed || f.Err() != ErrCanceled {
		t.Errorf("of a cancelled one: %v, %v", f.standing(), f.Err())
	}
	none, ran := AllOf(), false
	none.OnDone(func(*Future) { ran = true })
	if none.standing() != futureSucceeded || !ran {
		t.Errorf("of none: %v, listener called: %v", none.standing(), ran)
	}
	const levels = 5000
	end := part()
	top, frames := end, 0
	for range levels {
		top = AllOf(top)
	}
	top.OnDone(func(*Future) { frames = runtime.Callers(0, make([]uintptr, levels)) })
	end.partEnded(nil, nil)
	if top.standing() != futureSucceeded || frames == 0 || frames > 100 {
		t.Errorf("%d levels above: %v, told %d calls deep", levels, top.standing(), frames)
	}
}

// TestAllOfWrites: the aggregate of writes to several loops, completed from all of them at once.
func TestAllOfWrites(t *testing.T) {
	var fs []*Future
	for range 3 {
		ctx, peer := opened(t, &Server{Loops: 2}, nil)
		go io.Copy(io.Discard, peer)
		for range 200 {
			fs = append(fs, ctx.conn.WriteFuture(make([]byte, 3000)))
		}
	}
	all := AllOf(fs...)
	where := make(chan bool)
	all.OnDone(func(*Future) { where <- fs[0].loop.Vitals.Goroutine.Load() == goroutineID() })
	if !<-where || all.Wait(context.Background()) != nil {
		t.Errorf("%v; or the listener ran on a foreign goroutine", all.Err())
	}
	for i, f := range fs {
		if f.standing() != futureSucceeded {
			t.Errorf("part %d is %v", i, f.standing())
		}
	}
}
