package eddy

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
)

// Bounds of what one connection may have waiting on a strand. At hopHigh its reads are paused, at hopLow they resume.
// strandBound is the limit for what does not come from reading.
const (
	strandBound = 1024
	hopHigh     = 64
	hopLow      = 16
)

// hop is one event on its way to a handler on a pool.
type hop struct {
	ctx *Context
	op  ops
	at  int64 // when its message was dispatched
	msg any
}

// strand is a connection's queue on one pool; all its handlers there share it.
type strand struct {
	*executor.Strand[hop]
	pool    *executor.Pool
	next    *strand // connExt.strands
	crowd   atomic.Pointer[crowd]
	hopped  uint64          // events it was given; the loop only
	since   atomic.Int64    // when the message that runs was dispatched, 0 when none does
	request *requestContext // of that message; its goroutine only
	trace   context.Context // of what runs, nil for none; its goroutine only
	class   *MessageClass   // of the outbound message that is being handled; its goroutine only
	future  *writeFuture    // of that message; its goroutine only
}

// inbound are the events that keep their order among each other, and carry a trace.
const inbound = opRead | opEvent | opError

// hop hands an event over to ctx's pool and never blocks the loop. The pool's workers are woken for a batch of events: at
// the end of the iteration, or when hopBatch strands have something new. An event that the pool refuses is answered here
// (reject.go). The returned error is for the writer of an outbound message, and for the search for an ErrorHandler.
func (ctx *Context) hop(op ops, msg any) error {
	c := ctx.conn
	if d, ok := msg.(Detacher); ok {
		msg = d.Detach()
	}
	if c.loop.inHand.tracing.ctx != nil && op&inbound != 0 {
		msg = c.withTrace(c.loop.traceOf(c), ctx.node.pool.Name(), msg)
	}
	s := ctx.strandOnLoop()
	c.pending(op).Add(1)
	c.loop.Counters[meter.Hops]++
	h := hop{ctx: ctx, op: op, at: c.loop.Now - c.loop.inHand.ago, msg: msg}
	if c.paused&pausePark != 0 && op != opWrite {
		if waits, err := c.parkBehind(h); waits {
			return nil
		} else if err != nil {
			return ctx.refused(h, err)
		}
	}
	if err := ctx.submit(s, &h); err != nil {
		return ctx.refused(h, err)
	}
	return nil
}

// submit gives an event to its executor, and pauses reads when the executor holds enough of the connection.
func (ctx *Context) submit(s *strand, h *hop) error {
	if ctx.node.unordered {
		switch h.op {
		case opRead:
			err := ctx.submitLoose(s, h)
			s.hopped++
			if err == nil && s.running() >= looseHigh {
				ctx.conn.pauseForHop(s)
			}
			return err
		case opOpen, opAdd:
			s.crowdMade().opening.Add(1)
		}
	}
	wake, err := s.Enqueue(*h)
	switch {
	case wake:
		ctx.conn.loop.wakeLater(ctx.node.pool)
	case err != nil && h.op&(opOpen|opAdd) != 0 && ctx.node.unordered:
		s.crowd.Load().opening.Add(-1)
	}
	if err == nil {
		s.hopped++
	}
	if err == nil && h.op == opRead && s.Len() >= hopHigh {
		ctx.conn.pauseForHop(s)
	}
	return err
}

// hopBatch bounds how many strands wait for one wakeup of their pools.
const hopBatch = 32

// wakeLater notes that a pool has work that its workers may not know of.
func (l *loop) wakeLater(p *executor.Pool) {
	if !slices.Contains(l.hops.wakes, p) {
		l.hops.wakes = append(l.hops.wakes, p)
	}
	if l.hops.unwoken++; l.hops.unwoken == hopBatch {
		l.wakePools()
	}
}

// wakePools is the phase that wakes the pools which the iteration has given work.
func (l *loop) wakePools() {
	if l.hops.unwoken == 0 {
		return
	}
	for _, p := range l.hops.wakes {
		p.Wake()
	}
	clear(l.hops.wakes)
	l.hops.wakes, l.hops.unwoken = l.hops.wakes[:0], 0
}

// strandOnLoop returns the connection's strand on ctx's pool and makes it if there is none.
func (ctx *Context) strandOnLoop() *strand {
	if s := ctx.findStrand(); s != nil {
		return s
	}
	x, pool := ctx.conn.extend(), ctx.node.pool
	s := &strand{Strand: executor.NewStrand(pool, strandBound, runHop).DropWith(dropHop), pool: pool, next: x.hops.strands.Load()}
	x.hops.strands.Store(s)
	return s
}

// findStrand returns the connection's strand on ctx's pool, nil if there is none yet. Any goroutine.
func (ctx *Context) findStrand() *strand {
	s := ctx.conn.firstStrand()
	for s != nil && s.pool != ctx.node.pool {
		s = s.next
	}
	return s
}

// firstStrand returns the newest of the connection's strands, which leads to the others. A connection has few.
func (c *Conn) firstStrand() *strand {
	if x := c.ext.Load(); x != nil {
		return x.hops.strands.Load()
	}
	return nil
}

// full reports whether the strand holds so much that reads pause, drained whether so little that they resume.
func (s *strand) full() bool    { return s.Len() >= hopHigh || s.running() >= looseHigh }
func (s *strand) drained() bool { return s.Len() <= hopLow && s.running() <= looseLow }

// pauseForHop stops reading a connection of which a strand holds enough. Reads wait for one strand at a time.
func (c *Conn) pauseForHop(s *strand) {
	if c.paused&pauseHop != 0 {
		return
	}
	c.paused |= pauseHop
	c.extend().hops.waiting.Store(s)
	c.checkStrand(s) // it may have drained before it could see that it is waited for
}

// pauseForNextHop pauses again when a strand other than the one that has drained holds enough.
func (c *Conn) pauseForNextHop() {
	for s := c.firstStrand(); s != nil; s = s.next {
		if s.full() {
			c.pauseForHop(s)
			return
		}
	}
}

// checkStrand lets the loop resume reads when they wait for s and it has drained. Any goroutine.
func (c *Conn) checkStrand(s *strand) {
	x := c.ext.Load()
	if x != nil && x.hops.waiting.Load() == s && s.drained() && x.hops.waiting.CompareAndSwap(s, nil) {
		c.postReadState()
	}
}

// awaitedStrand returns the strand that reads wait for, nil for none.
func (c *Conn) awaitedStrand() *strand {
	if x := c.ext.Load(); x != nil {
		return x.hops.waiting.Load()
	}
	return nil
}

// runHop runs one event on the handler's pool.
func runHop(h hop) {
	ctx, c, s := h.ctx, h.ctx.conn, h.ctx.findStrand()
	defer func() {
		if v := recover(); v != nil {
			c.hopPanicked(ctx, v)
		}
		if h.op&(opOpen|opAdd) != 0 {
			ctx.opened(s)
		}
		s.done(c)
		c.finished(c.pending(h.op))
		c.checkStrand(s)
	}()
	switch {
	case h.op == opRead:
		s.since.Store(h.at)
		s.trace, h.msg = takeTrace(h.msg, ctx.node.name)
	case h.op&inbound != 0:
		s.trace, h.msg = takeTrace(h.msg, ctx.node.name)
	}
	ctx.runHop(h)
}

func (ctx *Context) runHop(h hop) {
	c := ctx.conn
	if ctx.node.ops&opAdd != 0 && h.op&(opOpen|opWritability|opError) != 0 && !ctx.present() {
		if h.op == opError {
			ctx.FireError(h.msg.(error))
		}
		return
	}
	switch h.op {
	case opRead:
		ctx.result(ctx.read(h.msg))
	case opWrite:
		if err := ctx.writeOnPool(h.msg); err != nil && c.closedError() == nil {
			ctx.result(err)
		}
	case opEvent:
		ctx.result(ctx.event(h.msg))
	case opOpen:
		ctx.result(ctx.node.handler.(OpenHandler).HandleOpen(ctx))
	case opWritability:
		ctx.result(ctx.node.handler.(WritabilityHandler).HandleWritability(ctx, h.msg.(bool)))
	case opError:
		if err := ctx.node.handler.(ErrorHandler).HandleError(ctx, h.msg.(error)); err != nil {
			ctx.FireError(err)
		}
	case opAdd:
		ctx.runAdd(h.msg.(bool))
	case opRemove:
		ctx.removeGuarded()
	case opClose:
		c.endOn(ctx.node.pool, (*Conn).guardOnPool)
	}
}

// dropHop ends an event whose pool was stopped before the event could run, on the goroutine that stopped the pool. Nothing
// else of the strand runs then or later. A message is released, and its connection ends, because it cannot go on without the
// message. The close and removals are told here, so that what the handlers hold is released.
func dropHop(h hop) {
	if h.op&(opClose|opRemove) != 0 {
		runHop(h)
		return
	}
	c := h.ctx.conn
	switch h.op {
	case opRead, opWrite:
		refuse(h.msg, closedPool(h.ctx.node.name))
	case opEvent, opError:
		if m, ok := h.msg.(*traced); ok {
			m.left()
		}
	case opOpen, opAdd:
		h.ctx.opened(h.ctx.findStrand())
	}
	c.finished(c.pending(h.op))
	c.droppedByPool(h.ctx.node.name)
}

// droppedByPool ends a connection of which a stopped pool has dropped something.
func (c *Conn) droppedByPool(handler string) {
	c.requestClose(closeRequest{reason: CloseBackpressureLimit, err: closedPool(handler), flush: true})
}

func closedPool(handler string) error {
	return fmt.Errorf("eddy: handler %q: %w", handler, executor.ErrClosed)
}

// Context returns the trace that the event carries, for the pool's hook.
func (h hop) Context() context.Context {
	if m, ok := h.msg.(*traced); ok {
		return m.trace
	}
	return h.ctx.conn.trace()
}

// writeOnPool gives an outbound message to its handler on the pool. If the message has a class, so has all that it becomes.
func (ctx *Context) writeOnPool(msg any) error {
	if t, ok := msg.(*tracked); ok {
		ctx.trackOnPool(t, ctx.writeOnPool)
		return nil
	}
	m, ok := msg.(*classed)
	if !ok {
		return ctx.write(msg)
	}
	s := ctx.findStrand()
	was := s.class
	s.class = m.class
	defer func() { s.class = was }()
	return ctx.write(m.msg)
}

// hopPanicked tells the ErrorHandlers and closes the connection whose handler panicked; the pool's worker lives on.
func (c *Conn) hopPanicked(ctx *Context, v any) {
	perr := ctx.Panicked(v)
	func() {
		defer func() { _ = recover() }() // an error handler that panics has had its word
		ctx.result(perr)
	}()
	c.requestClose(closeRequest{reason: CloseInternalError, err: perr, flush: true})
}

// pending returns the count that an event on its way through a pool belongs to. A message is a request in flight; the other
// events are not.
func (c *Conn) pending(op ops) *atomic.Int32 {
	switch op {
	case opRead:
		return &c.counts.inflight
	case opWrite:
		return &c.counts.encoding
	}
	return &c.counts.transit
}

// finished undoes one count of what is in flight. A draining or half-closed connection may wait for the last.
func (c *Conn) finished(count *atomic.Int32) {
	n := count.Add(-1)
	if n < 0 {
		panic("eddy: Conn.End without Begin")
	}
	if n == 0 && c.shows(watchIdle) && c.mark(idleTask) {
		_ = c.loop.Tasks.PushControl(task{kind: taskCheckDrain, conn: c}) // a stopped loop has nothing to drain
	}
}
