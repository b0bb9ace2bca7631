package eddy_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/ring"
)

// TestFullQueueNeverHoldsUpALoop: the answers to a full queue that block, of pools and of rings, wait on a goroutine of the
// user and refuse at once on a loop, which goes on answering.
func TestFullQueueNeverHoldsUpALoop(t *testing.T) {
	group := &eddy.Group{Name: "io", Loops: 1}
	offLoop := func() bool { return !group.In() }
	pool, err := executor.NewFixed(executor.Options{Name: "db", Workers: 1, Queue: 1, Policy: executor.Block(time.Minute, offLoop)})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := ring.NewMPSC[int](1)
	if err != nil {
		t.Fatal(err)
	}
	var blockers [2]*ring.Blocker // of the loop and of another goroutine
	for i := range blockers {
		if blockers[i], err = ring.NewBlocker(offLoop, ring.Yield(0), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	gate := make(chan struct{})
	for range 2 {
		if err := pool.SubmitFunc(func() { <-gate }); err != nil {
			t.Fatal(err)
		}
	}
	queue.Send(1)
	srv := &eddy.Server{Group: group, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(64))
		return p.Add("submit", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			var err error
			switch string(l.Text()) {
			case "pool":
				err = pool.SubmitFunc(func() {})
			case "ring":
				err = ring.SendBlocking(blockers[0], queue, 2)
			}
			return ctx.WriteBytes(fmt.Appendf(nil, "%v %v\n", errors.Is(err, executor.ErrRejected), errors.Is(err, ring.ErrMayNotWait)))
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.Close()
		group.Close()
	})
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(testkit.Patience)) // a loop that waits answers nobody
	r := bufio.NewReader(c)
	for _, q := range [][2]string{{"pool", "true false\n"}, {"ring", "false true\n"}, {"hello", "false false\n"}} {
		fmt.Fprintln(c, q[0])
		if answer, err := r.ReadString('\n'); err != nil || answer != q[1] {
			t.Errorf("%s: %q, %v, want %q", q[0], answer, err, q[1])
		}
	}
	waited := make(chan error, 1)
	go func() {
		waited <- errors.Join(pool.SubmitFunc(func() {}), ring.SendBlocking(blockers[1], queue, 2))
	}()
	waitFor(t, "one that waits", func() bool { return pool.Stats().Waited > 0 })
	close(gate)
	for {
		if _, ok := queue.Recv(); ok {
			break
		}
	}
	if err := <-waited; err != nil {
		t.Errorf("a goroutine that may wait: %v", err)
	}
	if _, err := pool.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
