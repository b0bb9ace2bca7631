package eddy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
)

// tick is what a loop may be late for a deadline by a clock of the test.
const tick = 20 * time.Millisecond

// TestRequestContextOnAPool: a handler on a pool is given its request's deadline and is told in time: when it has
// passed, when the connection ends, and when the handler returns.
func TestRequestContextOnAPool(t *testing.T) {
	const short, long = time.Second, time.Hour
	type seen struct {
		ctx      context.Context
		deadline time.Time
		err      error
	}
	seenBy := make(chan seen, 4)
	began := make(chan struct{}, 4)
	pool := newPool(t, 4, 16)
	var ends closes
	init := func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("ends", &ends)
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			c := ctx.Context()
			if c != ctx.Context() {
				t.Error("two contexts for one message")
			}
			d, ok := c.Deadline()
			if !ok {
				t.Error("no deadline")
			}
			began <- struct{}{}
			if string(m.Bytes()) == "quick" {
				seenBy <- seen{c, d, c.Err()}
				return reply(ctx, m)
			}
			derived, cancel := context.WithCancel(c)
			defer cancel()
			<-derived.Done()
			seenBy <- seen{c, d, derived.Err()}
			return nil
		}), eddy.On(pool))
	}
	servers := map[time.Duration]*eddy.Server{} // one with each limit
	for _, limit := range []time.Duration{short, long} {
		servers[limit] = &eddy.Server{Loops: 1, HandlerTimeout: limit, CloseOnEOF: true, Logger: quiet(), Init: init}
	}
	clock := enginetest.NewClock(t, servers[short], servers[long])
	addrs := map[time.Duration]string{short: start(t, servers[short]), long: start(t, servers[long])}
	wait := func(word string, limit time.Duration, before func(net io.Closer)) seen {
		t.Helper()
		c := dial(t, addrs[limit])
		due := clock.Wall().Add(limit)
		io.WriteString(c, word+"\n")
		<-began
		before(c)
		s := <-seenBy
		if !s.deadline.Equal(due) {
			t.Errorf("%s: the deadline is %v, want %v", word, s.deadline, due)
		}
		if word == "quick" {
			expectLines(t, bufio.NewReader(c), "quick")
		}
		return s
	}
	quick := wait("quick", long, func(io.Closer) {})
	if quick.err != nil {
		t.Errorf("inside the handler: %v", quick.err)
	}
	waitFor(t, "the end of the request's context", func() bool { return errors.Is(quick.ctx.Err(), context.Canceled) })
	if late := wait("late", short, func(io.Closer) { clock.Advance(short + tick) }); !errors.Is(late.err, context.DeadlineExceeded) {
		t.Errorf("after the deadline: %v", late.err)
	}
	ends.wait(t, eddy.CloseHandlerTimeout)
	if gone := wait("gone", long, func(c io.Closer) { c.Close() }); !errors.Is(gone.err, context.Canceled) {
		t.Errorf("after the peer has gone: %v", gone.err)
	}
	ends.wait(t, eddy.CloseHandlerTimeout, eddy.ClosePeerClosed)
}

// TestRequestContextOnTheLoop: a handler on the loop that keeps its request with Begin has a context until End; without
// a handler deadline it has no deadline, and AfterFunc and its stop work.
func TestRequestContextOnTheLoop(t *testing.T) {
	kept := make(chan context.Context, 2)
	conns := make(chan *eddy.Conn, 2)
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			kept <- ctx.Context()
			if string(m.Bytes()) == "keep" {
				ctx.Conn().Begin()
			}
			conns <- ctx.Conn()
			return nil
		}))
	}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "now\n")
	ctx := <-kept
	conn := <-conns
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("after the handler: %v", ctx.Err())
	}
	if _, ok := ctx.Deadline(); ok || ctx.Value("x") != nil {
		t.Error("a deadline without HandlerTimeout")
	}
	io.WriteString(c, "keep\n")
	ctx = <-kept
	<-conns
	ran, never := make(chan struct{}), false
	context.AfterFunc(ctx, func() { close(ran) })
	if !context.AfterFunc(ctx, func() { never = true })() {
		t.Error("stop says that the function had run")
	}
	if ctx.Err() != nil {
		t.Errorf("with the request in flight: %v", ctx.Err())
	}
	conn.End()
	<-ran
	<-ctx.Done()
	if never {
		t.Error("a stopped function ran")
	}
}

// TestRequestsContext: a Request has a context of its own, that ends with it alone or with the connection.
func TestRequestsContext(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	srv := &eddy.Server{Loops: 1, HandlerTimeout: time.Minute, Init: initWith(captureConn(conns))}
	clock := enginetest.NewClock(t, srv)
	c := dial(t, start(t, srv))
	io.WriteString(c, "x")
	conn := <-conns
	var one, two eddy.Request
	conn.BeginRequest(&one)
	conn.BeginRequest(&two)
	first, second := one.Context(), two.Context()
	if d, ok := first.Deadline(); !ok || !d.Equal(clock.Wall().Add(time.Minute)) || first == second {
		t.Errorf("deadline %v, %v", d, ok)
	}
	one.End()
	<-first.Done()
	if second.Err() != nil {
		t.Errorf("the other request's context: %v", second.Err())
	}
	for _, asked := range []bool{true, false} {
		var r eddy.Request
		conn.BeginRequest(&r)
		if asked && r.Context().Err() != nil {
			t.Error("over before it is cancelled")
		}
		r.Cancel()
		r.Cancel()
		if err := r.Context().Err(); !errors.Is(err, context.Canceled) || second.Err() != nil {
			t.Errorf("a cancelled context says %v, and another one %v", err, second.Err())
		}
		r.End()
	}
	conn.Close(eddy.CloseNormal)
	<-second.Done()
	two.End()
	var late eddy.Request
	conn.BeginRequest(&late)
	if err := late.Context().Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("of a connection that has ended: %v", err)
	}
	late.End()
}

// TestHandlerDeadlineOnAFullPool: the time of a message that waits for a worker counts.
func TestHandlerDeadlineOnAFullPool(t *testing.T) {
	pool := newPool(t, 1, 64)
	release := make(chan struct{})
	defer close(release)
	var ends closes
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("ends", &ends)
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if string(m.Bytes()) == "hold" {
				<-release
			}
			return reply(ctx, m)
		}), eddy.On(pool))
	}}
	holding := dial(t, start(t, srv)) // holds the only worker; its server has no limit
	io.WriteString(holding, "hold\n")
	waitFor(t, "a busy pool", func() bool { st := pool.Stats(); return st.Running == 1 && st.Queued == 0 })
	timed := &eddy.Server{Loops: 1, HandlerTimeout: time.Second, Logger: quiet(), Init: srv.Init}
	clock := enginetest.NewClock(t, timed)
	waiting := dial(t, start(t, timed))
	io.WriteString(waiting, "quick\n")
	waitFor(t, "the message in the queue", func() bool { return pool.Stats().Queued == 1 })
	clock.Advance(900 * time.Millisecond)
	if n := timed.Stats().Active; n != 1 {
		t.Errorf("%d connections in time, want 1", n)
	}
	clock.Advance(100*time.Millisecond + tick)
	ends.wait(t, eddy.CloseHandlerTimeout)
}

// TestDeadlineAcrossPools: a request that goes through several pools has one deadline, counted from its dispatch.
func TestDeadlineAcrossPools(t *testing.T) {
	const limit, first = time.Second, 250 * time.Millisecond
	began, goOn, deadlines := make(chan time.Time, 1), make(chan struct{}), make(chan time.Time, 1)
	one, two := newPool(t, 1, 4), newPool(t, 1, 4)
	var ends closes
	srv := &eddy.Server{Loops: 1, HandlerTimeout: limit, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("ends", &ends)
		p.Add("one", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			d, _ := ctx.Context().Deadline()
			began <- d
			<-goOn // part of the time is used up here
			ctx.FireRead(m)
			return nil
		}), eddy.On(one))
		return p.Add("two", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
			d, _ := ctx.Context().Deadline()
			deadlines <- d
			<-ctx.Context().Done()
			return nil
		}), eddy.On(two))
	}}
	clock := enginetest.NewClock(t, srv)
	due := clock.Wall().Add(limit)
	c := dial(t, start(t, srv))
	io.WriteString(c, "go\n")
	if d := <-began; !d.Equal(due) {
		t.Errorf("on the first pool the deadline is %v, want %v", d, due)
	}
	clock.Advance(first)
	close(goOn)
	if d := <-deadlines; !d.Equal(due) {
		t.Errorf("on the second pool the deadline is %v, want %v", d, due)
	}
	clock.Advance(limit - first + tick)
	ends.wait(t, eddy.CloseHandlerTimeout)
}
