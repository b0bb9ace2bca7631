package eddy

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
)

// takesAll is a handler of every event, which ends what it is given.
type takesAll struct {
	opened, read, written, events, turned, failed, told int
}

func (h *takesAll) HandleOpen(*Context) error               { h.opened++; return nil }
func (h *takesAll) HandleRead(_ *Context, msg any) error    { h.read++; release(msg); return nil }
func (h *takesAll) HandleWrite(ctx *Context, msg any) error { h.written++; return ctx.Write(msg) }
func (h *takesAll) HandleEvent(*Context, any) error         { h.events++; return nil }
func (h *takesAll) HandleWritability(*Context, bool) error  { h.turned++; return nil }
func (h *takesAll) HandleError(_ *Context, err error) error { h.failed++; return nil }
func (h *takesAll) HandleClose(*Context, CloseReason, error) {
	h.told++
}

// occupied makes a pool of one worker with a queue of one. fill takes both and returns what frees them again.
func occupied(t *testing.T) (pool *executor.Pool, fill func() (free func())) {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Name: "small", Workers: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	return pool, func() func() {
		gate := make(chan struct{})
		for range 2 {
			if err := pool.SubmitFunc(func() { <-gate }); err != nil {
				t.Fatal(err)
			}
		}
		return func() { close(gate) }
	}
}

// TestRejectedHopLeaksNothing: whatever event is refused, by a full pool or a closed one, ordered or unordered and under
// every policy: the message is released, nothing stays counted as in flight, the connection ends or goes on as it should,
// and its handler is told of the close once.
func TestRejectedHopLeaksNothing(t *testing.T) {
	events := map[string]func(c *Conn, msg Releaser){
		"read":        func(c *Conn, msg Releaser) { c.fireReadFromHead(msg) },
		"event":       func(c *Conn, msg Releaser) { msg.Release(); c.fireEventFromHead("event") },
		"write":       func(c *Conn, msg Releaser) { _ = c.writeFromTail(msg) },
		"posted":      func(c *Conn, msg Releaser) { _ = c.Write(msg) },
		"writability": func(c *Conn, msg Releaser) { msg.Release(); c.fireWritability(false) },
		"error":       func(c *Conn, msg Releaser) { msg.Release(); c.head.fireErrorFrom(c.head, errors.New("some"), true) },
		"open": func(c *Conn, msg Releaser) {
			msg.Release()
			c.head.deliverOpen()
		},
		"close": func(c *Conn, msg Releaser) { msg.Release(); c.beginClose(CloseNormal, nil) },
	}
	policies := map[string]AddOption{
		"close": RejectClose(), "pause": RejectPause(), "reply": RejectReply(func(any) any { return []byte("busy") }),
		"function":      RejectFunc(func(_ *Context, msg any, err *HopError) error { release(msg); return nil }),
		"function, not": RejectFunc(func(_ *Context, msg any, err *HopError) error { release(msg); return err }),
		"passed on":     RejectFunc(func(ctx *Context, msg any, _ *HopError) error { ctx.FireRead(msg); return nil }),
	}
	for event, fire := range events {
		for policy, reject := range policies {
			for _, closed := range []bool{false, true} {
				for name, on := range map[string]func(*executor.Pool) AddOption{"ordered": On, "unordered": OnUnordered} {
					t.Run(fmt.Sprintf("%s, %s, closed %v, %s", event, policy, closed, name), func(t *testing.T) {
						refuseOne(t, fire, reject, closed, on, event == "close")
					})
				}
			}
		}
	}
}

// TestRejectPauseIsShared: pipelines whose Init calls RejectPause have equal nodes, which connections share.
func TestRejectPauseIsShared(t *testing.T) {
	var a, b node
	RejectPause()(&a)
	RejectPause()(&b)
	if a.reject == nil || a.reject != b.reject {
		t.Errorf("two calls made %p and %p", a.reject, b.reject)
	}
}

func refuseOne(t *testing.T, fire func(*Conn, Releaser), reject AddOption, closed bool, on func(*executor.Pool) AddOption, isClose bool) {
	pool, fill := occupied(t)
	var asked node
	reject(&asked)
	h := &takesAll{}
	st, l := newStage(t, countedServer(func(p *Pipeline) error { return p.Add("h", h, on(pool), reject) }))
	a := st.connect(l)
	c := a.conn
	stepUntil(t, "the open", func() bool { l.Iterate(); return c.counts.transit.Load() == 0 && pool.Stats().Running == 0 })
	free := fill()
	if closed {
		pool.Close()
	}
	msg := c.Buffers().Copy(make([]byte, 5000))
	fire(c, msg.Retain())
	l.Iterate()
	if n := l.Counters[meter.HopRejects]; n == 0 && !isClose { // and then the error, for its own ErrorHandler
		t.Error("no hop was refused")
	}
	waits := asked.reject != nil && asked.reject.keep && !closed && c.paused&pausePark != 0
	if n := c.counts.inflight.Load() + c.counts.encoding.Load() + c.counts.transit.Load(); n != 0 && !waits && !isClose {
		t.Errorf("%d in flight after the refusal", n)
	}
	if n := msg.Refs(); n != 1 && !waits {
		t.Errorf("%d references, want the test's own", n)
	}
	if waits && c.counts.inflight.Load() != 1 {
		t.Errorf("%d in flight while the message waits", c.counts.inflight.Load())
	}
	c.beginClose(CloseNormal, nil) // also of what waits
	l.Iterate()
	if n := msg.Refs(); n != 1 {
		t.Errorf("%d references after the end, want the test's own", n)
	}
	msg.Release()
	free()
	stepUntil(t, "the close", func() bool {
		l.Iterate()
		return c.counts.inflight.Load()+c.counts.encoding.Load()+c.counts.transit.Load() == 0
	})
	if h.told != 1 {
		t.Errorf("the close was told %d times", h.told)
	}
	if _, err := pool.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if s := c.firstStrand(); s != nil && (s.Len() != 0 || s.running() != 0) {
		t.Errorf("the strand holds %d events and %d messages", s.Len(), s.running())
	}
	if l.inHand.tracing != (loopTrace{}) {
		t.Error("the loop keeps a trace")
	}
}

// TestUnorderedMessageOfAStoppedPool: a pool is stopped while unordered messages run and wait. Those that wait are
// released, the connection ends, and its handler is told when the last one that runs has returned.
func TestUnorderedMessageOfAStoppedPool(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	gate, entered := make(chan struct{}), make(chan struct{}, 1)
	h := &closeTeller{}
	first := true
	st, l := newStage(t, countedServer(func(p *Pipeline) error {
		if err := p.Add("h", Handle(func(_ *Context, msg Releaser) error {
			if first {
				first = false
				entered <- struct{}{}
				<-gate
			}
			msg.Release()
			return nil
		}), OnUnordered(pool)); err != nil {
			return err
		}
		return p.Add("told", h, On(pool))
	}))
	a := st.connect(l)
	c := a.conn
	s := c.Buffers().Copy(make([]byte, 5000))
	for range 3 {
		c.fireReadFromHead(s.Retain())
	}
	l.Iterate()
	<-entered
	if n := s.Refs(); n != 4 {
		t.Errorf("%d references while one runs and two wait", n)
	}
	if left := pool.Close(); len(left) != 0 {
		t.Errorf("%d runners left", len(left))
	}
	if n := s.Refs(); n != 2 {
		t.Errorf("%d references, want the test's own and that of the message that runs", n)
	}
	a.eof = true
	for range 5 {
		l.Iterate()
	}
	if c.closedError() == nil || h.told != 0 {
		t.Errorf("end %v, told %d while a message runs", c.closedError(), h.told)
	}
	close(gate)
	stepUntil(t, "the close", func() bool { l.Iterate(); return c.counts.inflight.Load()+c.counts.transit.Load() == 0 })
	if _, err := pool.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if h.told != 1 || s.Refs() != 1 {
		t.Errorf("told %d times, %d references", h.told, s.Refs())
	}
	s.Release()
}
