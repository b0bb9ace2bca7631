package eddy

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestPostRunsOnTheLoop: Post wakes a sleeping loop and runs there, not on the caller's goroutine.
func TestPostRunsOnTheLoop(t *testing.T) {
	opened := make(chan *Conn, 1)
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		return p.Add("open", openFunc(func(ctx *Context) error { opened <- ctx.conn; return nil }))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn := <-opened
	ran := make(chan uint64)
	for range 100 {
		if err := conn.Post(func() { ran <- goroutineID() }); err != nil {
			t.Fatal(err)
		}
		if id := testkit.Receive(t, "the loop to be woken", ran); id != conn.loop.Vitals.Goroutine.Load() {
			t.Fatalf("ran on goroutine %d, the loop is %d", id, conn.loop.Vitals.Goroutine.Load())
		}
	}
}

// TestServerPhases: a server runs, drains, closes and has stopped; each is entered when it should be.
func TestServerPhases(t *testing.T) {
	draining := make(chan struct{})
	opened := make(chan *Conn, 2)
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		p.Add("drain", drainFunc(func() { draining <- struct{}{} }))
		return p.Add("app", Handle(func(ctx *Context, _ *buf.Bytes) error {
			ctx.conn.Begin()
			opened <- ctx.conn
			return nil
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	phase := func() serverPhase { return serverPhase(srv.endpoint.phase.Load()) }
	if p := phase(); p != serverRunning {
		t.Errorf("serving: phase %d", p)
	}
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "a request")
	conn := <-opened
	ended := make(chan DrainReport)
	go func() {
		report, err := srv.Shutdown(context.Background())
		if err != nil {
			t.Error(err)
		}
		ended <- report
	}()
	<-draining
	if p := phase(); p != serverDraining {
		t.Errorf("a request is in flight: phase %d", p)
	}
	if c, err := net.DialTimeout("tcp", srv.Addr().String(), 5*time.Second); err == nil {
		c.Close()
		t.Error("a draining server accepted")
	}
	if err := conn.Post(func() {
		_ = conn.writeFromTail("the response")
		conn.End()
	}); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if string(got) != "the response" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	c.Close()
	if r := <-ended; r != (DrainReport{Drained: 1}) {
		t.Errorf("report %+v", r)
	}
	if p := phase(); p != serverStopped {
		t.Errorf("after Shutdown: phase %d", p)
	}
}

// drainFunc is called for a DrainEvent, on a goroutine of its own so that it may wait for the test.
type drainFunc func()

func (f drainFunc) HandleEvent(ctx *Context, ev any) error {
	if _, ok := ev.(DrainEvent); ok {
		go f()
	}
	ctx.FireEvent(ev)
	return nil
}
