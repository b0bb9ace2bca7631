package eddy

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
)

// TestHandlerDeadlineOutsideHandlers: a request that begins outside the pipeline, as a client's do, has its deadline too,
// also when the ones before it have let the wheel run empty.
func TestHandlerDeadlineOutsideHandlers(t *testing.T) {
	const tick = 10 * time.Millisecond
	begins := map[string]func(*Conn) (end func()){
		"Begin": func(c *Conn) func() { c.Begin(); return c.End },
		"BeginRequest": func(c *Conn) func() {
			r := new(Request)
			c.BeginRequest(r)
			return r.End
		},
	}
	for name, begin := range begins {
		srv := cutServer(func(*Context, string) error { return nil })
		srv.HandlerTimeout = time.Second
		st, l := newStage(t, srv)
		a := st.connect(l)
		tasks := l.Counters[meter.Tasks]
		for range 50 { // one task arms the wheel for all that begin while it is armed
			begin(a.conn)()
		}
		st.pass(l, 900*time.Millisecond, tick)
		if n := l.Counters[meter.Tasks] - tasks; n > 1 {
			t.Errorf("%s: %d tasks for requests within one deadline", name, n)
		}
		begin(a.conn)
		st.pass(l, 900*time.Millisecond, tick)
		a.wantEnd(t, name+": 900 ms into the request", CloseUnset)
		st.pass(l, 200*time.Millisecond, tick)
		a.wantEnd(t, name+": after its deadline", CloseHandlerTimeout)
		if l.deadlines.wheel.Len() != 0 {
			t.Errorf("%s: entries of a closed connection in the wheel", name)
		}
	}
}

// TestContextOfEachMessage: a context that a handler on the loop asks for is that of the present message: neither the one
// of the open, nor that of an earlier request that is still in flight.
func TestContextOfEachMessage(t *testing.T) {
	var contexts []context.Context
	srv := &Server{HandlerTimeout: time.Second, Logger: slog.New(slog.DiscardHandler), Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		return p.Add("app", &asks{&contexts})
	}}
	st, l := newStage(t, srv)
	a := st.connect(l)
	deadline := func(i int) time.Duration {
		d, ok := contexts[i].Deadline()
		if !ok {
			t.Fatalf("context %d has no deadline", i)
		}
		return time.Duration(d.UnixNano() - st.now.Load())
	}
	if contexts[0].Err() == nil {
		t.Error("the context of the open outlives it")
	}
	st.pass(l, 5*time.Second, 100*time.Millisecond)
	a.send("begin;")
	l.Iterate()
	if d := deadline(1); d != time.Second {
		t.Errorf("the first request has %v left", d)
	}
	st.pass(l, 600*time.Millisecond, 100*time.Millisecond)
	a.send("begin;")
	l.Iterate()
	if d := deadline(2); d != time.Second || contexts[1] == contexts[2] {
		t.Errorf("the second request has %v left", d)
	}
	a.conn.End()
	l.Iterate()
	if contexts[2].Err() != nil {
		t.Errorf("with a request in flight: %v", contexts[2].Err())
	}
	a.conn.End()
	l.Iterate()
	for i, c := range contexts {
		if c.Err() == nil {
			t.Errorf("context %d goes on with nothing in flight", i)
		}
	}
	// A connection that always has a request in flight keeps those of one deadline's time only.
	a.send("begin;")
	for range 100 {
		a.send("begin;")
		st.pass(l, 100*time.Millisecond, 100*time.Millisecond)
		a.conn.End()
	}
	l.Iterate()
	if n := a.conn.ext.Load().contexts.Len(); n > 12 {
		t.Errorf("%d contexts are kept", n)
	}
	a.wantEnd(t, "with young requests", CloseUnset)
}

// asks collects the contexts of the open and of each message.
type asks struct{ contexts *[]context.Context }

func (h *asks) HandleOpen(ctx *Context) error {
	*h.contexts = append(*h.contexts, ctx.Context())
	return nil
}

func (h *asks) HandleRead(ctx *Context, msg any) error {
	*h.contexts = append(*h.contexts, ctx.Context())
	if string(msg.(*buf.Bytes).Bytes()) == "begin" {
		ctx.Conn().Begin()
	}
	return nil
}

// tickClock is a clock that another goroutine moves.
type tickClock struct{ ns atomic.Int64 }

func (c *tickClock) Now() int64      { return c.ns.Load() }
func (c *tickClock) Wall() time.Time { return time.Unix(0, c.ns.Load()) }

// TestOldestRequestIsNotAnEarlierOne: whoever looks while a request begins sees none or that one, and not the time of one
// that has ended long ago.
func TestOldestRequestIsNotAnEarlierOne(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.HandlerTimeout = time.Second
	st, l := newStage(t, srv)
	c := st.connect(l).conn
	clock := new(tickClock)
	l.Clock = clock
	var begun atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := int64(1); i < 200_000; i++ {
			clock.ns.Store(i)
			begun.Store(i)
			c.Begin()
			c.End()
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		least := begun.Load()
		if since := c.oldestRequest(); since != 0 && since < least {
			t.Fatalf("request %d is taken to have begun at %d", least, since)
		}
	}
}
