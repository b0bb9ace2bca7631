package eddy

import (
	"context"
	"testing"

	"github.com/go-eddy/eddy/executor"
)

type testTrace struct{}

// tracer begins a trace for what it reads, runs then, and notes which trace an outbound message has.
type tracer struct {
	then    func()
	written chan any
}

func (h *tracer) HandleRead(ctx *Context, _ any) error {
	ctx.SetTrace(context.WithValue(context.Background(), testTrace{}, "of the message"))
	if h.then != nil {
		h.then()
	}
	return nil
}

func (h *tracer) HandleWrite(ctx *Context, msg any) error {
	h.written <- ctx.Trace().Value(testTrace{})
	return ctx.Write(msg)
}

// TestTraceIsNotOfOtherConnections: what a handler causes at another connection of its loop does not have the trace of the
// message it is handling.
func TestTraceIsNotOfOtherConnections(t *testing.T) {
	h := &tracer{written: make(chan any, 1)}
	st, l := newStage(t, countedServer(func(p *Pipeline) error { return p.Add("tracer", h) }))
	a, b := st.connect(l), st.connect(l)
	h.then = func() {
		if err := b.conn.writeFromTail([]byte("x")); err != nil {
			t.Error(err)
		}
	}
	a.conn.fireReadFromHead("m")
	if got := <-h.written; got != nil {
		t.Errorf("a write to another connection has the trace %v", got)
	}
	a.conn.beginClose(CloseNormal, nil)
	b.conn.beginClose(CloseNormal, nil)
	l.Iterate()
}

// TestTraceEndsOnThePool: the trace of a message that was handled on a pool is not that of the outbound message behind it,
// and nothing keeps it.
func TestTraceEndsOnThePool(t *testing.T) {
	for name, on := range map[string]func(*executor.Pool) AddOption{"ordered": On, "unordered": OnUnordered} {
		pool, err := executor.NewFixed(executor.Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		h := &tracer{written: make(chan any, 1)}
		st, l := newStage(t, countedServer(func(p *Pipeline) error { return p.Add("tracer", h, on(pool)) }))
		c := st.connect(l).conn
		c.fireReadFromHead("m")
		if err := c.writeFromTail([]byte("x")); err != nil {
			t.Fatal(err)
		}
		l.wakePools()
		if got := <-h.written; got != nil {
			t.Errorf("%s: an outbound message has the trace %v", name, got)
		}
		stepUntil(t, "the end of both", func() bool { l.Iterate(); return c.counts.inflight.Load()+c.counts.encoding.Load() == 0 })
		c.beginClose(CloseNormal, nil)
		l.Iterate()
		if _, err := pool.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		s := c.firstStrand()
		if s.trace != nil {
			t.Errorf("%s: the strand keeps the trace", name)
		}
		if k := s.crowd.Load(); k != nil && (k.spare == nil || k.spare.trace != nil) {
			t.Errorf("%s: the message's context keeps the trace", name)
		}
	}
}
