package eddy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// serveOne starts srv and connects to it. What the test does with the connection has testkit.Patience, and the limits that
// a default would set to the end of connections are far away.
func serveOne(t *testing.T, srv *Server) net.Conn {
	t.Helper()
	srv.FlushTimeout = cmp.Or(srv.FlushTimeout, time.Hour)
	srv.LingerTimeout = cmp.Or(srv.LingerTimeout, time.Hour)
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// until returns when cond holds.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, what, cond)
}

// onLoopOf runs f on the loop and waits for it.
func onLoopOf(t *testing.T, l *loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	if err := l.Tasks.Push(task{kind: taskFunc, msg: func() { defer close(done); f() }}); err != nil {
		t.Fatal(err)
	}
	<-done
}

// oneByte is a decoder whose messages are single bytes.
type oneByte struct{}

func (oneByte) Decode(ctx *Context, view []byte) (int, error) {
	ctx.FireRead(view[0])
	return 1, nil
}

func (w waiting) Decode(ctx *Context, _ []byte) (int, error) {
	select {
	case w.conns <- ctx:
	default:
	}
	return 0, nil
}

// TestEndOfStreamBehindFramesInHand: readiness that comes between ResumeRead and its task must not let the peer's end
// overtake frames that were received before it.
func TestEndOfStreamBehindFramesInHand(t *testing.T) {
	for _, half := range []bool{false, true} {
		var got atomic.Int32
		conns := make(chan *Conn, 1)
		srv := &Server{Loops: 1, CloseOnEOF: !half, Init: func(p *Pipeline) error {
			p.Add("bytes", oneByte{})
			return p.Add("app", Handle(func(ctx *Context, b byte) error {
				if got.Add(1) == 1 {
					ctx.Conn().PauseRead()
					conns <- ctx.Conn()
				}
				return nil
			}))
		}}
		client := serveOne(t, srv)
		io.WriteString(client, "abc")
		c := <-conns
		client.(*net.TCPConn).CloseWrite()
		until(t, "the peer's end and the dropped read interest", func() (ok bool) {
			onLoopOf(t, c.loop, func() { ok = c.interest == sys.None })
			return ok
		})
		onLoopOf(t, c.loop, func() {
			c.unmark(appPaused) // ResumeRead up to here
			c.loop.processConn(c, sys.Readable)
			c.postReadState()
		})
		<-c.CloseFuture().Done()
		if got.Load() != 3 || c.CloseError().Reason != ClosePeerClosed {
			t.Errorf("half-close %v: %d of 3 messages, closed with %v", half, got.Load(), c.CloseError())
		}
		srv.Close()
	}
}

// TestRemovedDecoderLeavesItsBytes: bytes that a removed decoder did not consume go to what is first now.
func TestRemovedDecoderLeavesItsBytes(t *testing.T) {
	conns := make(chan *Context, 1)
	got := make(chan string, 1)
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		p.Add("never", waiting{conns})
		return p.Add("raw", Handle(func(_ *Context, m *buf.Bytes) error { got <- string(m.Bytes()); return nil }))
	}}
	client := serveOne(t, srv)
	io.WriteString(client, "left over")
	ctx := <-conns
	onLoopOf(t, ctx.conn.loop, func() {
		if err := ctx.Pipeline().Remove("never"); err != nil {
			t.Error(err)
		}
	})
	if s := testkit.Receive(t, "the bytes that were left over", got); s != "left over" {
		t.Errorf("got %q", s)
	}
}

// waiting is a decoder that always asks for more.
type waiting struct{ conns chan *Context }

// TestErrorsAfterTheClose: a handler on a pool that fails late does not reach handlers that were told the close.
func TestErrorsAfterTheClose(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "late", Workers: 1, Queue: 4})
	if err != nil {
		t.Fatal(err)
	}
	gate, running := make(chan struct{}), make(chan *Conn, 1)
	tail := &lifeWatch{}
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		p.Add("late", Handle(func(ctx *Context, _ *buf.Bytes) error {
			running <- ctx.Conn()
			<-gate
			return errors.New("late")
		}), On(pool))
		return p.Add("tail", tail)
	}}
	client := serveOne(t, srv)
	io.WriteString(client, "x")
	c := <-running
	c.Close(CloseNormal)
	<-c.CloseFuture().Done()
	close(gate)
	if _, err := pool.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	onLoopOf(t, c.loop, func() {
		if tail.closed != 1 || tail.errs != 0 {
			t.Errorf("told %d closes and then %d errors", tail.closed, tail.errs)
		}
	})
}

type lifeWatch struct{ closed, errs int }

func (w *lifeWatch) HandleClose(*Context, CloseReason, error) { w.closed++ }

func (w *lifeWatch) HandleError(_ *Context, err error) error { w.errs++; return err }

// TestPipelineOfAClosedConnection: a handler that could not be told the close is not told the opening.
func TestPipelineOfAClosedConnection(t *testing.T) {
	conns := make(chan *Context, 1)
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		return p.Add("first", openFunc(func(ctx *Context) error { conns <- ctx; return nil }))
	}}
	serveOne(t, srv)
	ctx := <-conns
	ctx.conn.Close(CloseNormal)
	<-ctx.conn.CloseFuture().Done()
	opened := 0
	late := openFunc(func(*Context) error { opened++; return nil })
	onLoopOf(t, ctx.conn.loop, func() {
		p := ctx.Pipeline()
		for what, err := range map[string]error{
			"Add": p.Add("late", late), "Replace": p.Replace("first", "late", late), "Remove": p.Remove("first"),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s on a closed connection = %v, want ErrClosed", what, err)
			}
		}
	})
	if opened != 0 {
		t.Errorf("%d handlers were opened on a closed connection", opened)
	}
}

// TestPipelineKeptAfterInit: the Pipeline that Init got stays usable.
func TestPipelineKeptAfterInit(t *testing.T) {
	conns := make(chan *Context, 1)
	var kept *Pipeline
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		kept = p
		return p.Add("first", openFunc(func(ctx *Context) error { conns <- ctx; return nil }))
	}}
	serveOne(t, srv)
	ctx := <-conns
	opened := false
	onLoopOf(t, ctx.conn.loop, func() {
		if err := kept.Add("late", openFunc(func(*Context) error { opened = true; return nil })); err != nil || !opened {
			t.Errorf("Add = %v, opened %v", err, opened)
		}
	})
}

// TestTimersDoNotKeepClosedConnections: a far timer of a closed connection holds neither it nor a place in the wheel.
func TestTimersDoNotKeepClosedConnections(t *testing.T) {
	conns := make(chan *Conn, 1)
	freed := make(chan struct{})
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		return p.Add("timers", openFunc(func(ctx *Context) error {
			big := new([1 << 20]byte)
			runtime.AddCleanup(big, func(c chan struct{}) { close(c) }, freed)
			for i := range 3 {
				if _, err := ctx.After(time.Hour, func() { big[i]++ }); err != nil {
					return err
				}
			}
			conns <- ctx.conn
			return nil
		}))
	}}
	serveOne(t, srv)
	c := <-conns
	c.Close(CloseNormal)
	<-c.CloseFuture().Done()
	onLoopOf(t, c.loop, func() {
		if n := c.loop.deadlines.wheel.Len(); n != 0 {
			t.Errorf("%d entries in the wheel, want none", n)
		}
	})
	until(t, "the timers' memory", func() bool {
		runtime.GC()
		select {
		case <-freed:
			return true
		default:
			return false
		}
	})
}

// closeFunc is a CloseHandler made of a function.
type closeFunc func(ctx *Context, reason CloseReason, err error)

func (f closeFunc) HandleClose(ctx *Context, reason CloseReason, err error) { f(ctx, reason, err) }

// TestCloseCallbacksOfABusyPool: handlers on a pool are told the close after what they were given before, exactly once
// and on the pool, though the pool is full and the server closes at once.
func TestCloseCallbacksOfABusyPool(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "busy", Workers: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	var inside, closed, overlap atomic.Int32
	init := func(p *Pipeline) error {
		for i := range 2 {
			p.Add(fmt.Sprint("close ", i), closeFunc(func(*Context, CloseReason, error) {
				closed.Add(1)
				overlap.Add(inside.Load())
			}), On(pool))
		}
		return p.Add("stuck", Handle(func(*Context, *buf.Bytes) error {
			inside.Add(1)
			<-gate
			inside.Add(-1)
			return nil
		}), On(pool))
	}
	srv := &Server{Loops: 1, Init: init}
	first := serveOne(t, srv)
	io.WriteString(first, "x")
	until(t, "a busy worker", func() bool { return inside.Load() == 1 })
	for range 5 {
		c, err := net.Dial("tcp", srv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	until(t, "all connections", func() bool { return srv.Stats().Loops[0].Active == 6 })
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	close(gate)
	if _, err := pool.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if closed.Load() != 12 || overlap.Load() != 0 {
		t.Errorf("%d close callbacks, want 12; %d while the pool's handler ran", closed.Load(), overlap.Load())
	}
}

// TestCloseCallbacksOfAClosedPool: a pool that has ended runs nothing; its handlers are told on the loop.
func TestCloseCallbacksOfAClosedPool(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "ended", Workers: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	var closed atomic.Int32
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		return p.Add("close", closeFunc(func(*Context, CloseReason, error) { closed.Add(1) }), On(pool))
	}}
	serveOne(t, srv)
	until(t, "the connection", func() bool { return srv.Stats().Loops[0].Active == 1 })
	pool.Close()
	srv.Close()
	if closed.Load() != 1 {
		t.Errorf("%d close callbacks, want 1", closed.Load())
	}
}

// TestWritableHandlerDoesNotHoldTheLoop: a handler that fills the queue each time it becomes writable gets a few turns per
// iteration, however fast the kernel takes the bytes.
func TestWritableHandlerDoesNotHoldTheLoop(t *testing.T) {
	turns := map[uint64]int{}
	h := &refill{turns: turns, left: 200}
	srv := &Server{Loops: 1, Watermarks: Watermarks{Low: 64, High: 128, Max: 1 << 20}, Init: func(p *Pipeline) error {
		return p.Add("refill", h)
	}}
	client := serveOne(t, srv)
	go io.WriteString(client, "x")
	if _, err := io.ReadFull(client, make([]byte, 201*256)); err != nil {
		t.Fatal(err)
	}
	onLoopOf(t, srv.running().workers[0], func() {
		for it, n := range turns {
			if n > 4 { // as a writable connection, after its read, as a resumed one, and as a dirty one
				t.Errorf("%d turns in iteration %d", n, it)
			}
		}
	})
}

type refill struct {
	turns map[uint64]int
	left  int
}

func (h *refill) HandleRead(ctx *Context, _ any) error { return ctx.WriteBytes(make([]byte, 256)) }

func (h *refill) HandleWritability(ctx *Context, writable bool) error {
	if !writable || h.left == 0 {
		return nil
	}
	h.left--
	h.turns[ctx.conn.loop.Counters[meter.Iterations]]++
	return ctx.WriteBytes(make([]byte, 256))
}

// TestStopFromALoopIsRefused: a loop cannot wait for its own end.
func TestStopFromALoopIsRefused(t *testing.T) {
	result := make(chan error, 2)
	var srv *Server
	srv = &Server{Loops: 2, Init: func(p *Pipeline) error {
		return p.Add("stop", openFunc(func(ctx *Context) error {
			result <- srv.Close()
			_, err := srv.Shutdown(context.Background())
			result <- err
			return nil
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		if err := testkit.Receive(t, "a loop that is told not to wait for itself", result); !errors.Is(err, ErrOnLoop) {
			t.Errorf("%v, want ErrOnLoop", err)
		}
	}
	srv.Close()
}

// TestCloseOvertakesShutdown: connections that a concurrent Close cuts are not reported as drained.
func TestCloseOvertakesShutdown(t *testing.T) {
	open := make(chan struct{}, 1)
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		return p.Add("busy", openFunc(func(ctx *Context) error { ctx.Conn().Begin(); open <- struct{}{}; return nil }))
	}}
	serveOne(t, srv)
	<-open
	type result struct {
		DrainReport
		err error
	}
	done := make(chan result)
	go func() {
		r, err := srv.Shutdown(t.Context())
		done <- result{r, err}
	}()
	until(t, "the drain", func() bool { return srv.endpoint.phase.Load() == int32(serverDraining) })
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if r := <-done; r.Drained != 0 || r.Forced != 1 || r.Dropped != 1 {
		t.Errorf("Shutdown = %+v, want one forced and its request dropped", r)
	}
	if p := serverPhase(srv.endpoint.phase.Load()); p != serverStopped {
		t.Errorf("phase %d, want stopped", p)
	}
}

// TestWaitingOnAnotherLoopIsRefused: WriteContext would hold up the connections of the loop it is called on.
func TestWaitingOnAnotherLoopIsRefused(t *testing.T) {
	conns := make(chan *Conn, 2)
	result := make(chan error, 1)
	srv := &Server{Loops: 2, Watermarks: Watermarks{Low: 1, High: 2, Max: 64 << 20}, Init: func(p *Pipeline) error {
		return p.Add("app", openFunc(func(ctx *Context) error { conns <- ctx.conn; return nil }))
	}}
	serveOne(t, srv)
	a := <-conns
	other, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	b := <-conns
	if a.loop == b.loop {
		t.Fatal("one loop has both")
	}
	if err := a.Write(make([]byte, 32<<20)); err != nil {
		t.Fatal(err)
	}
	until(t, "a full queue", func() bool { return a.shows(unwritable) })
	ctx := testkit.Context(t)
	b.Post(func() { result <- a.WriteContext(ctx, []byte("x")) })
	if err := testkit.Receive(t, "a write that does not wait on a loop", result); !errors.Is(err, ErrOnLoop) {
		t.Errorf("WriteContext on another loop = %v", err)
	}
}

// TestPausedConnectionWhosePeerIsGone: nobody may be left to resume it.
func TestPausedConnectionWhosePeerIsGone(t *testing.T) {
	conns := make(chan *Conn, 1)
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		return p.Add("app", Handle(func(ctx *Context, m *buf.Bytes) error {
			ctx.Conn().PauseRead()
			conns <- ctx.Conn()
			return nil
		}))
	}}
	client := serveOne(t, srv)
	io.WriteString(client, "x")
	c := <-conns
	io.WriteString(client, "y") // makes the loop drop read interest
	until(t, "the dropped read interest", func() (ok bool) {
		onLoopOf(t, c.loop, func() { ok = c.interest == sys.None })
		return ok
	})
	client.(*net.TCPConn).SetLinger(0)
	client.Close()
	testkit.Receive(t, "the end of a connection without a peer", c.CloseFuture().Done())
	if r := c.CloseError().Reason; r != CloseIOError {
		t.Errorf("closed with %v", r)
	}
}

// TestStuckPoolDoesNotHoldDrain: an event that no handler takes makes no detour over a pool, so a stuck pool delays the
// drain of idle connections by nothing.
func TestStuckPoolDoesNotHoldDrain(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "stuck", Workers: 1, Queue: 4})
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	defer func() { close(gate); pool.Shutdown(t.Context()) }()
	if err := pool.SubmitFunc(func() { <-gate }); err != nil {
		t.Fatal(err)
	}
	opened := make(chan *Conn, 1)
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		opened <- p.Conn()
		return p.Add("pooled", Handle(func(*Context, *buf.Bytes) error { return nil }), On(pool))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() { // the peer's side of an orderly end
		io.Copy(io.Discard, c)
		c.Close()
	}()
	<-opened
	if report, err := srv.Shutdown(testkit.Context(t)); err != nil || report.Drained != 1 {
		t.Errorf("Shutdown = %+v, %v, want the idle connection drained", report, err)
	}
}
