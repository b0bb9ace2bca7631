package eddy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/internal/transport"
)

// smallBuffer is what the kernel is asked to hold of a connection in each direction, so that little of what the peer does not
// read is gone; maxSceneQueue is what may be queued.
const (
	smallBuffer   = 64 << 10
	maxSceneQueue = 1 << 20
)

// futureScene is a connection over real sockets whose peer reads only when the test says so.
type futureScene struct {
	t      *testing.T
	srv    *Server
	conn   *Conn
	peer   net.Conn
	pool   *executor.Pool // with one worker and a queue of one
	told   atomic.Int32
	future *Future
}

// watch counts how often the listener of f is called.
func (s *futureScene) watch(f *Future) *Future {
	s.future = f
	f.OnDone(func(*Future) { s.told.Add(1) })
	return f
}

// message is counted memory in one of the forms it travels in.
func (s *futureScene) message(n int) any { return s.conn.Buffers().Copy(make([]byte, n)) }

// write begins the operation under test: more than the kernel's buffers take, and less than may be queued.
func (s *futureScene) write() *Future { return s.watch(s.conn.WriteFuture(s.message(768 << 10))) }

// jam fills the kernel's buffers and the queue with n bytes, which nobody takes, in more pieces than one call is offered.
func (s *futureScene) jam(n int) {
	pieces := make([][]byte, 2*transport.MaxGather)
	for i := range pieces {
		pieces[i] = make([]byte, n/len(pieces))
	}
	write(s.t, s.conn, pieces)
	until(s.t, "the stuck queue", func() bool { return s.conn.QueuedBytes() > 0 && s.stuck() })
}

// stuck reports whether the loop waits for the peer.
func (s *futureScene) stuck() (stuck bool) {
	onLoopOf(s.t, s.conn.loop, func() { stuck = s.conn.interest>>1&1 == 1 })
	return stuck
}

func (s *futureScene) read() { go io.Copy(io.Discard, s.peer) }

// on adds a WriteHandler of that function to the pipeline.
func (s *futureScene) on(pool *executor.Pool, f writeFunc) {
	onLoopOf(s.t, s.conn.loop, func() {
		p := &Pipeline{conn: s.conn}
		var opts []AddOption
		if pool != nil {
			opts = append(opts, On(pool))
		}
		if err := p.Add("encoder", f, opts...); err != nil {
			s.t.Error(err)
		}
	})
}

type writeFunc func(ctx *Context, msg any) error

func (f writeFunc) HandleWrite(ctx *Context, msg any) error { return f(ctx, msg) }

var errEncoder = errors.New("encoder: no")

// busyPool occupies the scene's pool until free is called or the test ends, and fills its queue.
func (s *futureScene) busyPool(fill bool) (free func()) {
	gate, entered := make(chan struct{}), make(chan struct{})
	free = sync.OnceFunc(func() { close(gate) })
	s.t.Cleanup(free)
	if err := s.pool.SubmitFunc(func() { close(entered); <-gate }); err != nil {
		s.t.Fatal(err)
	}
	<-entered
	if fill {
		if err := s.pool.SubmitFunc(func() {}); err != nil {
			s.t.Fatal(err)
		}
	}
	return free
}

// closedFor checks that err says that the connection ended for that reason.
func closedFor(reason CloseReason) func(error) bool {
	return func(err error) bool {
		ce, ok := errors.AsType[*CloseError](err)
		return ok && ce.Reason == reason && errors.Is(err, ErrClosed)
	}
}

func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

func droppedBy(name string) func(error) bool {
	return func(err error) bool {
		de, ok := errors.AsType[*ClassError](err)
		return ok && de.Dropped && de.Class.Name == name && errors.Is(err, ErrBackpressure) && strings.Contains(err.Error(), name) && strings.Contains(err.Error(), "dropped: ")
	}
}

// classes writes messages of a class of which one may wait on a stuck connection and returns the future of the nth.
func classes(policy OverflowPolicy, nth int) func(*futureScene) {
	return func(s *futureScene) {
		s.jam(896 << 10)
		k := &MessageClass{Name: "ticks", Policy: policy, MaxMessages: 1}
		for i := range 2 {
			f := s.conn.WriteFuture(k.Wrap(s.message(2000)))
			if i == nth {
				s.watch(f)
			}
		}
		if nth == 0 {
			return
		}
		<-s.future.Done()
		s.conn.Close(CloseNormal) // the other one is still waiting
	}
}

// futureEnds are the ways the Future of a write can end.
var futureEnds = []struct {
	name   string
	server func(*Server)
	run    func(s *futureScene)
	state  futureState
	err    func(error) bool
}{
	{name: "sent", run: func(s *futureScene) { s.write(); s.read() }, state: futureSucceeded},
	{name: "sent from the loop", run: func(s *futureScene) {
		onLoopOf(s.t, s.conn.loop, func() { s.watch(s.conn.tail.WriteFuture(s.message(100))) })
	}, state: futureSucceeded},
	{name: "nothing to send", run: func(s *futureScene) { s.watch(s.conn.WriteFuture([]byte{})) }, state: futureSucceeded},
	{name: "composite", run: func(s *futureScene) {
		c := new(buf.Composite)
		c.Append([]byte("head"))
		c.AppendShared(s.message(640 << 10).(*buf.Shared))
		c.Append([]byte("tail"))
		s.watch(s.conn.WriteFuture(c))
		s.read()
	}, state: futureSucceeded},
	{name: "file", run: func(s *futureScene) {
		f, _ := tempFile(s.t, 1<<20)
		s.watch(s.conn.WriteFuture(&File{File: f, Length: 1 << 20}))
		s.read()
	}, state: futureSucceeded},
	{name: "file cut short", run: func(s *futureScene) {
		f, _ := tempFile(s.t, 1<<18)
		s.watch(s.conn.WriteFuture(&File{File: f, Length: 1 << 19}))
		s.read()
	}, state: futureFailed, err: func(err error) bool { return closedFor(CloseInternalError)(err) && errors.Is(err, io.ErrUnexpectedEOF) }},
	{name: "closed file", run: func(s *futureScene) {
		f, _ := tempFile(s.t, 10)
		f.Close()
		s.watch(s.conn.WriteFuture(&File{File: f, Length: 10}))
	}, state: futureFailed, err: func(err error) bool { return closedFor(CloseInternalError)(err) || errors.Is(err, os.ErrClosed) }},
	{name: "close after flush", run: func(s *futureScene) {
		s.write()
		s.conn.CloseAfterFlush(CloseNormal)
		s.read()
	}, state: futureSucceeded},
	{name: "flush timeout", server: func(srv *Server) { srv.FlushTimeout = 50 * time.Millisecond }, run: func(s *futureScene) {
		s.write()
		s.conn.CloseAfterFlush(CloseNormal)
	}, state: futureFailed, err: closedFor(CloseWriteTimeout)},
	{name: "forced close", run: func(s *futureScene) {
		s.write()
		s.conn.CloseWith(CloseProtocolError, errEncoder)
	}, state: futureFailed, err: func(err error) bool { return closedFor(CloseProtocolError)(err) && errors.Is(err, errEncoder) }},
	{name: "reset by the peer", run: func(s *futureScene) {
		s.write()
		until(s.t, "bytes for the peer", s.stuck)
		s.peer.(*net.TCPConn).SetLinger(0)
		s.peer.Close()
	}, state: futureFailed, err: closedFor(CloseIOError)},
	{name: "write timeout", server: func(srv *Server) { srv.WriteTimeout = 50 * time.Millisecond }, run: func(s *futureScene) { s.write() },
		state: futureFailed, err: closedFor(CloseWriteTimeout)},
	{name: "server closed", run: func(s *futureScene) { s.write(); s.srv.Close() }, state: futureFailed, err: closedFor(CloseServerShutdown)},
	{name: "server shut down by force", run: func(s *futureScene) {
		s.write()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.srv.Shutdown(ctx)
	}, state: futureFailed, err: closedFor(CloseServerShutdown)},
	{name: "server shut down in order", run: func(s *futureScene) {
		s.write()
		s.read()
		s.srv.Shutdown(context.Background())
	}, state: futureSucceeded},
	{name: "loops stopped", run: func(s *futureScene) { s.write(); s.srv.Group.Close() }, state: futureFailed, err: closedFor(CloseServerShutdown)},
	{name: "written after the close", run: func(s *futureScene) {
		s.conn.Close(CloseNormal)
		s.write()
	}, state: futureFailed, err: closedFor(CloseNormal)},
	{name: "written after the end of the loops", run: func(s *futureScene) {
		s.srv.Group.Close()
		s.write()
	}, state: futureFailed, err: closedFor(CloseServerShutdown)},
	{name: "queue full, refused", server: func(srv *Server) { srv.Overflow = OverflowReject }, run: func(s *futureScene) {
		s.jam(896 << 10)
		s.write()
	}, state: futureFailed, err: is(ErrBackpressure)},
	{name: "queue full on the loop, refused", server: func(srv *Server) { srv.Overflow = OverflowReject }, run: func(s *futureScene) {
		s.jam(896 << 10)
		onLoopOf(s.t, s.conn.loop, func() { s.watch(s.conn.tail.WriteFuture(s.message(maxSceneQueue))) })
	}, state: futureFailed, err: is(ErrBackpressure)},
	{name: "queue full, closed", run: func(s *futureScene) {
		s.jam(896 << 10)
		s.write()
	}, state: futureFailed, err: is(ErrBackpressure)},
	{name: "task queue full", server: func(srv *Server) { srv.Group.TaskQueue = 1 }, run: func(s *futureScene) {
		gate, entered := make(chan struct{}), make(chan struct{})
		if err := s.conn.Post(func() { close(entered); <-gate }); err != nil {
			s.t.Fatal(err)
		}
		<-entered
		write(s.t, s.conn, "x") // takes the one place
		s.write()
		close(gate)
	}, state: futureFailed, err: is(ErrSaturated)},
	{name: "handler's error", run: func(s *futureScene) {
		s.on(nil, func(_ *Context, msg any) error { release(msg); return errEncoder })
		s.write()
	}, state: futureFailed, err: is(errEncoder)},
	{name: "handler's error after a piece", run: func(s *futureScene) {
		s.on(nil, func(ctx *Context, msg any) error { ctx.Write(msg); return errEncoder })
		s.write()
		<-s.future.Done()
		s.read()
	}, state: futureFailed, err: is(errEncoder)},
	{name: "handler's panic", run: func(s *futureScene) {
		s.on(nil, func(_ *Context, msg any) error { release(msg); panic("encoder") })
		s.write()
	}, state: futureFailed, err: func(err error) bool {
		_, ok := errors.AsType[*PanicError](err)
		return ok && closedFor(CloseInternalError)(err)
	}},
	{name: "handler takes no notice of a refusal", server: func(srv *Server) { srv.Overflow = OverflowReject }, run: func(s *futureScene) {
		s.jam(896 << 10)
		s.on(nil, func(ctx *Context, msg any) error { _ = ctx.Write(msg); return nil })
		onLoopOf(s.t, s.conn.loop, func() { s.watch(s.conn.writeAtTail(s.message(maxSceneQueue))) })
	}, state: futureFailed, err: is(ErrBackpressure)},
	{name: "message that no head takes", run: func(s *futureScene) {
		s.watch(s.conn.WriteFuture(handOver{s.message(10).(Releaser)}))
	}, state: futureFailed, err: func(err error) bool { return strings.Contains(err.Error(), "eddy.handOver") }},
	{name: "no writes", run: func(s *futureScene) {
		s.on(nil, func(_ *Context, msg any) error { release(msg); return nil })
		s.write()
	}, state: futureSucceeded},
	{name: "several writes", run: func(s *futureScene) {
		s.on(nil, severalWrites)
		s.write()
		s.read()
	}, state: futureSucceeded},
	{name: "several writes from a pool", run: func(s *futureScene) {
		s.on(s.pool, severalWrites)
		s.write()
		s.read()
	}, state: futureSucceeded},
	{name: "no writes from a pool", run: func(s *futureScene) {
		s.on(s.pool, func(_ *Context, msg any) error { release(msg); return nil })
		s.write()
	}, state: futureSucceeded},
	{name: "error on a pool", run: func(s *futureScene) {
		s.on(s.pool, func(_ *Context, msg any) error { release(msg); return errEncoder })
		s.write()
	}, state: futureFailed, err: is(errEncoder)},
	{name: "panic on a pool", run: func(s *futureScene) {
		s.on(s.pool, func(_ *Context, msg any) error { release(msg); panic("encoder") })
		s.write()
	}, state: futureFailed, err: func(err error) bool {
		_, ok := errors.AsType[*PanicError](err)
		return ok && closedFor(CloseInternalError)(err)
	}},
	{name: "pool refuses", run: func(s *futureScene) {
		s.busyPool(true)
		s.on(s.pool, passOn{}.HandleWrite)
		s.write()
	}, state: futureFailed, err: is(executor.ErrRejected)},
	{name: "pool stopped", run: func(s *futureScene) {
		s.busyPool(false)
		s.on(s.pool, passOn{}.HandleWrite)
		s.write()
		until(s.t, "the message on its strand", func() bool {
			var n int
			onLoopOf(s.t, s.conn.loop, func() { n = s.conn.tail.strandOnLoop().Len() })
			return n == 1
		})
		s.pool.Close()
	}, state: futureFailed, err: is(executor.ErrClosed)},
	{name: "pool that has stopped", run: func(s *futureScene) {
		s.on(s.pool, passOn{}.HandleWrite)
		s.pool.Close()
		s.write()
	}, state: futureFailed, err: is(executor.ErrClosed)},
	{name: "closed while on a pool", run: func(s *futureScene) {
		gate, entered := make(chan struct{}), make(chan struct{})
		s.on(s.pool, func(_ *Context, msg any) error { close(entered); <-gate; release(msg); return nil })
		s.write()
		<-entered
		s.conn.Close(CloseProtocolError)
		<-s.future.Done() // it does not wait for the handler
		close(gate)
	}, state: futureFailed, err: closedFor(CloseProtocolError)},
	{name: "dropped as the newest", run: classes(OverflowDropNewest, 1), state: futureFailed, err: droppedBy("ticks")},
	{name: "dropped as the oldest", run: classes(OverflowDropOldest, 0), state: futureFailed, err: droppedBy("ticks")},
	{name: "superseded", run: classes(OverflowKeepLatest, 0), state: futureFailed, err: droppedBy("ticks")},
	{name: "refused by its class", run: classes(OverflowReject, 1), state: futureFailed, err: func(err error) bool {
		ce, ok := errors.AsType[*ClassError](err)
		return ok && !ce.Dropped && errors.Is(err, ErrBackpressure)
	}},
	{name: "closed by its class", run: classes(OverflowClose, 1), state: futureFailed, err: is(ErrBackpressure)},
	{name: "cancelled on its way to the loop", run: func(s *futureScene) {
		gate, entered := make(chan struct{}), make(chan struct{})
		if err := s.conn.Post(func() { close(entered); <-gate }); err != nil {
			s.t.Fatal(err)
		}
		<-entered
		s.write()
		if !s.future.Cancel() {
			s.t.Error("a write that is on its way to the loop cannot be cancelled")
		}
		close(gate)
		until(s.t, "the bytes off the count", func() bool { return s.conn.QueuedBytes() == 0 })
	}, state: futureCanceled, err: is(ErrCanceled)},
	{name: "cancelled in the queue", run: func(s *futureScene) {
		s.jam(896 << 10)
		before := s.conn.QueuedBytes()
		s.watch(s.conn.WriteFuture(s.message(64 << 10)))
		until(s.t, "the message in the queue", func() bool {
			var depth int
			onLoopOf(s.t, s.conn.loop, func() { depth = s.conn.loop.Tasks.Depth() })
			return depth == 0
		})
		if !s.future.Cancel() {
			s.t.Error("a write that was not offered to the kernel cannot be cancelled")
		}
		// The kernel may take a little more of what lies before it, whenever its buffers grow.
		until(s.t, "the bytes off the count", func() bool { return s.conn.QueuedBytes() <= before })
	}, state: futureCanceled, err: is(ErrCanceled)},
	{name: "cancelled on a pool", run: func(s *futureScene) {
		free := s.busyPool(false)
		s.on(s.pool, func(_ *Context, msg any) error { s.t.Error("handled"); release(msg); return nil })
		s.write()
		if !s.future.Cancel() {
			s.t.Error("a write that waits for a pool cannot be cancelled")
		}
		free()
	}, state: futureCanceled, err: is(ErrCanceled)},
}

// severalWrites makes three writes of one.
func severalWrites(ctx *Context, msg any) error {
	for _, part := range []any{"<", msg, ">"} {
		if err := ctx.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// writeAtTail is what a handler behind the last one would do. On the loop.
func (c *Conn) writeAtTail(msg any) *Future {
	w := c.newWrite(msg, nil)
	if err := c.writeFromTail(&w.message); err != nil {
		w.settle(futureFailed, err, c.loop)
	}
	return &w.Future
}

// TestFutureEnds: however a write ends, over real sockets its Future completes once, as it should, its listener is told once,
// and the memory of the message is given back.
func TestFutureEnds(t *testing.T) {
	for _, end := range futureEnds {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			pool, err := executor.NewFixed(executor.Options{Name: "encoders", Workers: 1, Queue: 1})
			if err != nil {
				t.Fatal(err)
			}
			s := &futureScene{t: t, pool: pool, srv: countedServer(nil)}
			s.srv.Overflow, s.srv.Loops = OverflowClose, 0
			s.srv.SendBuffer, s.srv.LingerTimeout = smallBuffer, 50*time.Millisecond
			s.srv.Watermarks = Watermarks{Low: 32 << 10, High: 128 << 10, Max: maxSceneQueue}
			s.srv.FlushTimeout = 5 * time.Minute // among all the other ends
			s.srv.Group = &Group{Loops: 1, Logger: s.srv.Logger}
			t.Cleanup(func() { s.srv.Close(); s.srv.Group.Close() })
			if end.server != nil {
				end.server(s.srv)
			}
			conns := make(chan *Conn, 1)
			s.srv.Init = func(p *Pipeline) error {
				return p.Add("open", openFunc(func(ctx *Context) error { conns <- ctx.conn; return nil }))
			}
			s.peer = serveOne(t, s.srv)
			_ = s.peer.(*net.TCPConn).SetReadBuffer(smallBuffer)
			s.conn = <-conns
			t.Cleanup(func() { pool.Close() })
			end.run(s)
			f := s.future
			waited := f.Wait(testkit.Context(t))
			select {
			case <-f.Done():
			default:
				t.Fatalf("Wait = %v, and it is not done", waited)
			}
			if waited != f.Err() || f.standing() != end.state || f.Conn() != s.conn {
				t.Errorf("Wait = %v; it is %v with %v, want %v", waited, f.standing(), f.Err(), end.state)
			}
			if err := f.Err(); end.err == nil && err != nil || end.err != nil && (err == nil || !end.err(err)) {
				t.Errorf("it ended with %v (%T)", err, err)
			}
			if f.Cancel() {
				t.Error("it can be cancelled after its end")
			}
			until(t, "the listener", func() bool { return s.told.Load() > 0 })
			s.conn.Close(CloseNormal)
			<-s.conn.CloseFuture().Done()
			until(t, "the release of all buffers", func() bool { return s.conn.Buffers().Live() == 0 })
			if err := s.srv.Close(); err != nil {
				t.Error(err)
			}
			s.srv.Group.Close()
			x := s.conn.ext.Load()
			if n := s.told.Load(); n != 1 || x.futures.n != 0 || x.futures.First() != nil {
				t.Errorf("told %d times; %d futures are listed", n, x.futures.n)
			}
		})
	}
}
