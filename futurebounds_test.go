package eddy

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/executor"
)

// TestPendingFuturesFailTogether: 1000 unfinished futures in every place there is fail once with the same error when the
// connection is cut.
func TestPendingFuturesFailTogether(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "encoders", Workers: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	gate := make(chan struct{})
	conns := make(chan *Context, 1)
	srv := countedServer(func(p *Pipeline) error {
		return p.Add("open", openFunc(func(ctx *Context) error { conns <- ctx; return nil }))
	})
	srv.SendBuffer = smallBuffer
	_ = serveOne(t, srv).(*net.TCPConn).SetReadBuffer(smallBuffer)
	ctx := <-conns
	c := ctx.conn
	write(t, c, make([]byte, 1<<20))
	const n = 1000
	var order []int
	var futures []*Future
	wait := make(chan struct{})
	add := func(f *Future) {
		i := len(futures)
		futures = append(futures, f)
		f.OnDone(func(*Future) {
			if order = append(order, i); len(order) == n {
				close(wait)
			}
		})
	}
	for range 400 { // in the queue
		add(c.WriteFuture("in the queue"))
	}
	onLoopOf(t, c.loop, func() {
		if err := (&Pipeline{conn: c}).Add("slow", writeFunc(func(_ *Context, msg any) error { <-gate; release(msg); return nil }), On(pool)); err != nil {
			t.Error(err)
		}
	})
	for range 300 { // on a pool
		add(c.WriteFuture(c.Buffers().Copy([]byte("on a pool"))))
	}
	reached, hold := make(chan struct{}), make(chan struct{})
	if err := c.Post(func() { close(reached); <-hold }); err != nil {
		t.Fatal(err)
	}
	<-reached
	for range 300 { // on their way to the loop
		add(c.WriteFuture("to the loop"))
	}
	for i, f := range futures {
		if f.standing() != futurePending {
			t.Fatalf("future %d is %v, %v", i, f.standing(), f.Err())
		}
	}
	c.CloseWith(CloseProtocolError, errEncoder)
	close(hold)
	<-wait
	want := futures[0].Err()
	if !closedFor(CloseProtocolError)(want) || !errors.Is(want, errEncoder) {
		t.Errorf("failed with %v", want)
	}
	for i, f := range futures {
		if f.standing() != futureFailed || f.Err() != want {
			t.Fatalf("future %d is %v with %v, the first has %v", i, f.standing(), f.Err(), want)
		}
	}
	for i, k := range order {
		if i != k {
			t.Fatalf("listener %d ran as number %d", k, i)
		}
	}
	close(gate)
	until(t, "the release of all buffers", func() bool { return c.Buffers().Live() == 0 })
	onLoopOf(t, c.loop, func() {
		if len(order) != n {
			t.Errorf("%d listeners ran, want %d", len(order), n)
		}
	})
}

// TestFuturesAreBounded: one more than 4096 unfinished futures is refused, and there is room again when they are done.
func TestFuturesAreBounded(t *testing.T) {
	_, l, a := blocked(t, echoServer())
	var done int
	for i := range maxFutures {
		f := a.conn.WriteFuture("x")
		f.OnDone(func(f *Future) {
			if f.Err() == nil {
				done++
			}
		})
		if i%1000 == 0 {
			l.Iterate()
		}
		if f.standing() != futurePending {
			t.Fatalf("future %d: %v", i, f.Err())
		}
	}
	s := a.conn.Buffers().Copy([]byte("one too many"))
	f := a.conn.WriteFuture(s.Retain())
	if f.standing() != futureFailed || !errors.Is(f.Err(), ErrBackpressure) || !strings.Contains(f.Err().Error(), fmt.Sprintf("limit %d", maxFutures)) || s.Refs() != 1 {
		t.Errorf("future %d is %v, %v; %d references", maxFutures+1, f.standing(), f.Err(), s.Refs())
	}
	a.room = 1 << 40
	stepUntil(t, "the end of all", func() bool { l.Iterate(); return done == maxFutures })
	f = a.conn.WriteFuture("y")
	for range 3 {
		l.Iterate()
	}
	if out := a.drain(t, l); f.standing() != futureSucceeded || out != "first"+strings.Repeat("x", maxFutures)+"y" {
		t.Errorf("then %v, %v; %d bytes sent", f.standing(), f.Err(), len(out))
	}
}
