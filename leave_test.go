package eddy

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
)

// closeTold counts HandleClose.
type closeTold struct {
	conn chan *Conn
	n    *atomic.Int32
}

func (h closeTold) HandleOpen(ctx *Context) error {
	h.conn <- ctx.Conn()
	return nil
}

func (h closeTold) HandleClose(*Context, CloseReason, error) { h.n.Add(1) }

// TestCloseLeavesNothingOnASharedLoop: when Close of a server returns, its connections have ended, however busy the loop is
// that it shares with others.
func TestCloseLeavesNothingOnASharedLoop(t *testing.T) {
	g := &Group{Loops: 1}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	l := g.crew.Load().loops[0]
	var stop atomic.Bool
	var busy func()
	busy = func() { // waits for others to submit something, so that what they do one after the other runs in one iteration
		for turns := 0; l.Tasks.Depth() == 0 && turns < 500; turns++ {
			runtime.Gosched()
		}
		if !stop.Load() {
			_ = l.Tasks.PushControl(task{kind: taskFunc, msg: busy})
		}
	}
	busy()
	defer stop.Store(true)
	for range 20 {
		told := closeTold{make(chan *Conn, 1), new(atomic.Int32)}
		srv := &Server{Group: g, Topology: SingleReactor, Init: func(p *Pipeline) error { return p.Add("told", told) }}
		if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		peer, err := net.Dial("tcp", srv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		c := <-told.conn
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
		if n := told.n.Load(); n != 1 || srv.Stats().Active != 0 || c.CloseError() == nil {
			t.Fatalf("after Close: %d connections open, %d told their end", srv.Stats().Active, n)
		}
	}
}
