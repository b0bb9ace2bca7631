//go:build unix

package eddy_test

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
)

// TestLoopHandle: what any goroutine gives to a loop runs there, also a timer of a loop that sleeps, and after the end it
// is refused.
func TestLoopHandle(t *testing.T) {
	g := &eddy.Group{Loops: 2, Name: "desk"}
	clock := enginetest.NewClock(t, g)
	if g.Loop(0) != nil {
		t.Error("a loop before the start")
	}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if g.Loop(2) != nil || g.Loop(-1) != nil || g.Loop(1).Name() != "desk-1" {
		t.Error("the loops are not those of the group")
	}
	var wg sync.WaitGroup
	var due atomic.Bool
	for i := range 2 {
		h := g.Loop(i)
		onIt := func() {
			if !h.In() || g.Loop(1-i).In() {
				t.Errorf("not on %s", h.Name())
			}
			wg.Done()
		}
		wg.Add(4)
		if err := h.Post(onIt); err != nil {
			t.Error(err)
		}
		if err := h.Tail(onIt); err != nil {
			t.Error(err)
		}
		if _, err := h.After(0, onIt); err != nil {
			t.Error(err)
		}
		if _, err := h.After(20*time.Millisecond, func() {
			if !due.Load() {
				t.Error("a timer of 20 ms ran within 19")
			}
			onIt()
		}); err != nil {
			t.Error(err)
		}
	}
	clock.Advance(19 * time.Millisecond)
	due.Store(true)
	clock.Advance(time.Millisecond)
	wg.Wait()
	if g.Loop(0).In() {
		t.Error("the test runs on a loop")
	}
	h := g.Loop(0)
	var runs atomic.Int64
	every, err := h.Every(time.Millisecond, func() { runs.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	delayed, err := h.EveryAfter(time.Millisecond, func() { runs.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	clock.Pass(10*time.Millisecond, time.Millisecond)
	if n := runs.Load(); n != 20 {
		t.Errorf("%d runs in 10 ms, want 20", n)
	}
	if !every.Stop() || !delayed.Stop() {
		t.Error("a periodic timer could not be stopped")
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Post(func() {}); !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("Post after the end = %v", err)
	}
}

func TestConnLoop(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	g := &eddy.Group{Loops: 2}
	defer g.Close()
	srv := &eddy.Server{Group: g, Init: initWith(captureConn(conns))}
	c := dial(t, start(t, srv))
	c.Write([]byte("x"))
	conn := <-conns
	in := make(chan bool)
	if err := conn.Loop().Post(func() { in <- conn.Loop().In() }); err != nil {
		t.Fatal(err)
	}
	if !<-in || conn.Loop() != g.Loop(0) && conn.Loop() != g.Loop(1) {
		t.Error("the connection's loop is another one")
	}
}

// TestRegisterFromAnywhere: a descriptor is registered by its loop, whoever asks: a goroutine waits for it, a handler on
// the loop gets it at once, and one on another loop, which must not wait, is refused.
func TestRegisterFromAnywhere(t *testing.T) {
	for _, poller := range customPollers() {
		t.Run(poller, func(t *testing.T) {
			g := &eddy.Group{Loops: 2, Poller: poller, Logger: slog.New(slog.DiscardHandler)}
			if err := g.Start(); err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			home := g.Loop(0)
			read, write := pipe(t)
			d := &pipeReader{loop: home, fd: read, got: make(chan string, 10), ended: make(chan error, 2)}
			r, err := home.Register(read, eddy.ReadyRead, d)
			if err != nil {
				t.Fatal(err)
			}
			send(t, write, "hello")
			if s := <-d.got; s != "hello" {
				t.Errorf("read %q", s)
			}
			if err := r.Modify(0); err != nil {
				t.Fatal(err)
			}
			settled := make(chan struct{})
			if err := home.Tail(func() { close(settled) }); err != nil {
				t.Fatal(err)
			}
			<-settled
			send(t, write, "paused")
			if err := r.Modify(eddy.ReadyRead); err != nil {
				t.Fatal(err)
			}
			if s := <-d.got; s != "paused" {
				t.Errorf("read %q", s)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-d.ended; err != nil {
				t.Errorf("the end was told as %v", err)
			}
			again, elsewhere := make(chan error, 1), make(chan error, 1)
			home.Post(func() { _, err := home.Register(read, eddy.ReadyRead, d); again <- err })
			if err := <-again; err != nil {
				t.Errorf("Register on the loop = %v", err)
			}
			g.Loop(1).Post(func() { _, err := home.Register(write, eddy.ReadyWrite, d); elsewhere <- err })
			if err := <-elsewhere; !errors.Is(err, eddy.ErrOnLoop) {
				t.Errorf("Register on another loop = %v", err)
			}
			if _, err := home.Register(read, eddy.ReadyRead, d); err == nil {
				t.Error("a descriptor was registered twice")
			} else if _, ok := errors.AsType[*eddy.LoopError](err); !ok {
				t.Errorf("registering twice: %v", err)
			}
			if err := g.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-d.ended; !errors.Is(err, eddy.ErrClosed) || len(d.ended) > 0 {
				t.Errorf("the end of the loop was told as %v", err)
			}
			if _, err := home.Register(read, eddy.ReadyRead, d); !errors.Is(err, eddy.ErrClosed) {
				t.Errorf("Register after the end = %v", err)
			}
		})
	}
}

// pipeReader sends what it reads from its descriptor.
type pipeReader struct {
	loop  *eddy.Loop
	fd    int
	got   chan string
	ended chan error
}

func (d *pipeReader) HandleReady(ready eddy.Readiness) {
	if !d.loop.In() || ready&eddy.ReadyRead == 0 {
		d.got <- "called elsewhere, or for something else"
		return
	}
	b := make([]byte, 64)
	if n := readFD(d.fd, b); n > 0 {
		d.got <- string(b[:n])
	}
}

func (d *pipeReader) HandleUnregistered(err error) { d.ended <- err }

// TestDescriptorBesideConnections: a descriptor does not disturb the connections of its loop.
func TestDescriptorBesideConnections(t *testing.T) {
	g := &eddy.Group{Loops: 1, Poller: customPollers()[0]}
	defer g.Close()
	srv := &eddy.Server{Group: g, Init: initWith(eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))}
	c := dial(t, start(t, srv))
	read, write := pipe(t)
	d := &pipeReader{loop: g.Loop(0), fd: read, got: make(chan string, 100), ended: make(chan error, 2)}
	if _, err := g.Loop(0).Register(read, eddy.ReadyRead, d); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		send(t, write, "x")
		talk(t, c)
		<-d.got
	}
}

func talk(t *testing.T, c net.Conn) {
	t.Helper()
	b := []byte("hello")
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(b); err != nil {
		t.Fatal(err)
	}
}
