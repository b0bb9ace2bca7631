package eddy

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/reactor"
)

// TestDialFuture: it completes with the connection, or with what kept it from standing, and listeners run on the loop.
func TestDialFuture(t *testing.T) {
	var last atomic.Pointer[Conn]
	srv := &Server{Loops: 1, Init: echoing(&last)}
	listenOn(t, srv)
	got := make(chan string, 1)
	d := closing(t, &Dialer{Init: answers(got), MaxConns: 1})
	f, err := d.DialFuture(srv.Addr(), DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	f.OnDone(func(f *Future) {
		if f.Conn().loop.Vitals.Goroutine.Load() != goroutineID() {
			t.Error("the listener runs on another goroutine than the loop's")
		}
		told <- f.Conn().Write("hello")
	})
	if err := f.Wait(t.Context()); err != nil || f.Conn() == nil || f.standing() != futureSucceeded || f.Cancel() {
		t.Errorf("Wait = %v; it is %v", err, f.standing())
	}
	if err, answer := <-told, <-got; err != nil || answer != "hello" {
		t.Errorf("Write = %v, answer %q", err, answer)
	}
	if f, err := d.DialFuture(srv.Addr(), DialOptions{}); f != nil || err == nil {
		t.Errorf("beyond MaxConns: %v, %v", f, err)
	}
	f.Conn().Close(CloseNormal)
	<-f.Conn().CloseFuture().Done()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	until(t, "room for another attempt", func() bool { return d.Stats().Active == 0 })
	refused, err := d.DialFuture(free.Addr(), DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var oe *net.OpError
	if err := refused.Wait(t.Context()); !errors.As(err, &oe) || refused.Conn() != nil || refused.standing() != futureFailed {
		t.Errorf("to a free port: %v", err)
	}
	d.Close()
	if f, err := d.DialFuture(srv.Addr(), DialOptions{}); f != nil || err != ErrDialerClosed {
		t.Errorf("after Close: %v, %v", f, err)
	}
}

// TestDialFutureEndsOnce: whatever becomes of an attempt, its future is told once; one that was cancelled leaves no connection,
// also when it stood at the same time.
func TestDialFutureEndsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(d *Dialer, h *hanging, l *loop, f *Future)
		state futureState
		err   error
	}{
		"stands":    {func(_ *Dialer, h *hanging, _ *loop, _ *Future) { h.outcome = nil }, futureSucceeded, nil},
		"fails":     {func(_ *Dialer, h *hanging, _ *loop, _ *Future) { h.outcome = syscall.ECONNREFUSED }, futureFailed, syscall.ECONNREFUSED},
		"times out": {func(_ *Dialer, h *hanging, _ *loop, _ *Future) { h.now.Add(int64(2 * time.Second)) }, futureFailed, os.ErrDeadlineExceeded},
		"cancelled": {func(_ *Dialer, _ *hanging, _ *loop, f *Future) { f.Cancel() }, futureCanceled, ErrCanceled},
		"cancelled as it stands": {func(_ *Dialer, h *hanging, l *loop, f *Future) {
			h.outcome = nil
			for a := range l.attempts.All() {
				f.settle(futureCanceled, ErrCanceled, nil)
				a.ready(0)
			}
		}, futureCanceled, ErrCanceled},
		"closed": {func(d *Dialer, _ *hanging, l *loop, _ *Future) {
			l.startWalk(walk{owner: &d.endpoint, over: make(chan struct{})})
		}, futureFailed, ErrDialerClosed},
	} {
		d, h, l := hangingDialer(t)
		f, err := d.DialFuture(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}, DialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		f.OnDone(func(*Future) { told++ })
		for range 3 {
			l.Iterate()
		}
		if f.standing() != futurePending || f.Conn() != nil {
			t.Errorf("%s: at first it is %v", name, f.standing())
		}
		c.end(d, h, l, f)
		for range 5 {
			l.Iterate()
		}
		open := int64(0)
		if c.state == futureSucceeded {
			open = 1
		}
		if f.standing() != c.state || !errors.Is(f.Err(), c.err) || told != 1 || d.endpoint.tally.Active.Load() != open || l.attempts.First() != nil {
			t.Errorf("%s: it is %v, %v, told %d times; %d connections", name, f.standing(), f.Err(), told, d.endpoint.tally.Active.Load())
		}
	}
}

// BenchmarkWriteFuture compares a write with a future to one without, on the loop and through its queue: queued, flushed to
// a socket that costs nothing, and told. One op is one message of 64 bytes.
func BenchmarkWriteFuture(b *testing.B) {
	msg := make([]byte, 64)
	const batch = 32
	for name, write := range map[string]func(c *Conn, told func(*Future)) error{
		"loop/Write":              func(c *Conn, _ func(*Future)) error { return c.head.Write(msg) },
		"loop/WriteFuture":        func(c *Conn, _ func(*Future)) error { c.head.WriteFuture(msg); return nil },
		"loop/WriteFuture+OnDone": func(c *Conn, told func(*Future)) error { c.head.WriteFuture(msg).OnDone(told); return nil },
		"conn/Write":              func(c *Conn, _ func(*Future)) error { return c.Write(msg) },
		"conn/WriteFuture":        func(c *Conn, _ func(*Future)) error { c.WriteFuture(msg); return nil },
		"conn/WriteFuture+OnDone": func(c *Conn, told func(*Future)) error { c.WriteFuture(msg).OnDone(told); return nil },
	} {
		b.Run(name, func(b *testing.B) {
			l, conns := sinkLoop(b, 1)
			c, n := conns[0], 0
			told := func(*Future) { n++ }
			for i := 0; i < b.N; i++ {
				if err := write(c, told); err != nil {
					b.Fatal(err)
				}
				if i%batch == 0 || i == b.N-1 {
					l.RunTasks(0)
					l.flushDirty()
					l.notifyFutures()
				}
			}
			if c.QueuedBytes() != 0 || c.ext.Load() != nil && c.ext.Load().futures.n != 0 {
				b.Errorf("%d bytes are left", c.QueuedBytes())
			}
		})
	}
}

// BenchmarkOnLoop is what calls that block pay to find out where they are.
func BenchmarkOnLoop(b *testing.B) {
	for _, depth := range []int{5, 50} {
		b.Run(map[int]string{5: "shallow", 50: "deep"}[depth], func(b *testing.B) {
			_ = deeper(depth, func() error {
				for b.Loop() {
					if reactor.OnLoop() {
						b.Fatal("on a loop")
					}
				}
				return nil
			})
		})
	}
}
