package eddy

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/go-eddy/eddy/executor"
)

// Bounds of what one connection may have waiting on a strand. From hopHigh on its reads are paused, at hopLow they
// resume; strandBound is the end for what does not come from reading.
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
	next    *strand         // connExt.strands
	since   atomic.Int64    // when the message that runs was dispatched, 0 when none does
	request *requestContext // of that message; its goroutine only
	class   *MessageClass   // of the outbound message that is being handled; its goroutine only
}

// hop hands an event over to ctx's pool. It never blocks the loop. The pool's workers are woken for a batch of events: at
// the end of the iteration, or when hopBatch strands have something new.
func (ctx *Context) hop(op ops, msg any) {
	c := ctx.conn
	if d, ok := msg.(Detacher); ok {
		msg = d.Detach()
	}
	s := ctx.strandOnLoop()
	pending := c.pending(op)
	pending.Add(1)
	c.loop.counters[countHops]++
	wake, err := s.Enqueue(hop{ctx: ctx, op: op, at: c.loop.now - c.loop.ago, msg: msg})
	if wake {
		c.loop.wakeLater(ctx.node.pool)
	}
	if err != nil {
		pending.Add(-1)
		ctx.rejected(op, msg, err)
		return
	}
	if op == opRead && s.Len() >= hopHigh {
		c.pauseForHop(s)
	}
}

// hopBatch bounds how many strands wait for one wakeup of their pools.
const hopBatch = 32

// wakeLater notes that a pool has work nobody may know of.
func (l *loop) wakeLater(p *executor.Pool) {
	if !slices.Contains(l.wakes, p) {
		l.wakes = append(l.wakes, p)
	}
	if l.unwoken++; l.unwoken == hopBatch {
		l.wakePools()
	}
}

// wakePools is the phase that wakes the pools which the iteration has given work.
func (l *loop) wakePools() {
	if l.unwoken == 0 {
		return
	}
	for _, p := range l.wakes {
		p.Wake()
	}
	clear(l.wakes)
	l.wakes, l.unwoken = l.wakes[:0], 0
}

// strandOnLoop returns the connection's strand on ctx's pool and makes it if there is none.
func (ctx *Context) strandOnLoop() *strand {
	if s := ctx.findStrand(); s != nil {
		return s
	}
	x, pool := ctx.conn.extend(), ctx.node.pool
	s := &strand{Strand: executor.NewStrand(pool, strandBound, runHop).DropWith(dropHop), pool: pool, next: x.strands.Load()}
	x.strands.Store(s)
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
		return x.strands.Load()
	}
	return nil
}

// rejected applies the handler's reject policy on the loop.
func (ctx *Context) rejected(op ops, msg any, err error) {
	c := ctx.conn
	c.loop.counters[countHopRejects]++
	if ctx.node.reject != nil && op == opRead && !errors.Is(err, executor.ErrClosed) {
		_ = ctx.call(func() error { ctx.node.reject(ctx, msg, err); return nil })
		return
	}
	if op == opRead || op == opWrite {
		release(msg)
	}
	c.closeFlushed(CloseBackpressureLimit, fmt.Errorf("eddy: handler %q: %w", ctx.node.name, err))
}

// pauseForHop stops reading a connection of which a strand holds enough. It waits for one strand at a time.
func (c *Conn) pauseForHop(s *strand) {
	if c.paused&pauseHop != 0 {
		return
	}
	c.paused |= pauseHop
	c.extend().hopWaiting.Store(s)
	c.checkStrand(s) // it may have drained before it could see that it is waited for
}

// pauseForNextHop pauses again when another strand holds enough than the one that has drained.
func (c *Conn) pauseForNextHop() {
	for s := c.firstStrand(); s != nil; s = s.next {
		if s.Len() >= hopHigh {
			c.pauseForHop(s)
			return
		}
	}
}

// checkStrand lets the loop resume reads when they wait for s and it has drained. Any goroutine.
func (c *Conn) checkStrand(s *strand) {
	x := c.ext.Load()
	if x != nil && x.hopWaiting.Load() == s && s.Len() <= hopLow && x.hopWaiting.CompareAndSwap(s, nil) {
		c.postReadState()
	}
}

// awaitedStrand returns the strand that reads wait for, nil for none.
func (c *Conn) awaitedStrand() *strand {
	if x := c.ext.Load(); x != nil {
		return x.hopWaiting.Load()
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
		s.done()
		c.finished(c.pending(h.op))
		c.checkStrand(s)
	}()
	if h.op == opRead {
		s.since.Store(h.at)
	}
	ctx.runHop(h)
}

func (ctx *Context) runHop(h hop) {
	switch h.op {
	case opRead:
		ctx.result(ctx.read(h.msg))
	case opWrite:
		if err := ctx.writeOnPool(h.msg); err != nil && ctx.conn.closedError() == nil {
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
	case opClose:
		ctx.eachCloser((*Context).closeOnPool)
	}
}

// dropHop ends an event whose pool was stopped before it could run, on the goroutine that stopped it. Nothing else of the
// strand runs then or later. A message is released, and its connection cannot go on without it; the close is told here, so
// that what the handlers hold is released.
func dropHop(h hop) {
	if h.op == opClose {
		runHop(h)
		return
	}
	c := h.ctx.conn
	if h.op == opRead || h.op == opWrite {
		release(h.msg)
	}
	c.finished(c.pending(h.op))
	err := fmt.Errorf("eddy: handler %q: %w", h.ctx.node.name, executor.ErrClosed)
	c.requestClose(closeRequest{reason: CloseBackpressureLimit, err: err, flush: true})
}

// writeOnPool gives an outbound message to its handler there. What that makes of a message of a class is of the class.
func (ctx *Context) writeOnPool(msg any) error {
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

// hopPanicked closes the connection whose handler panicked; the pool's worker lives on.
func (c *Conn) hopPanicked(ctx *Context, v any) {
	stack := debug.Stack()
	perr := &PanicError{Value: v, Stack: stack}
	c.set.owner.hopPanics.Add(1)
	c.loop.logPanic(ctx.node.name, v, stack)
	if h, ok := ctx.node.handler.(ErrorHandler); ok {
		func() {
			defer func() { _ = recover() }() // an error handler that panics has had its word
			_ = h.HandleError(ctx, perr)
		}()
	}
	c.requestClose(closeRequest{reason: CloseInternalError, err: perr, flush: true})
}

// pending returns the count that an event on its way through a pool belongs to: a message is a request in flight,
// the other events are not.
func (c *Conn) pending(op ops) *atomic.Int32 {
	switch op {
	case opRead:
		return &c.inflight
	case opWrite:
		return &c.encoding
	}
	return &c.transit
}

// finished undoes one count of what is in flight. A draining or half-closed connection may have waited for it.
func (c *Conn) finished(count *atomic.Int32) {
	n := count.Add(-1)
	if n < 0 {
		panic("eddy: Conn.End without Begin")
	}
	if n == 0 && c.shows(watchIdle) && c.mark(idleTask) {
		_ = c.loop.tasks.push(task{kind: taskCheckDrain, conn: c}, true) // a stopped loop has nothing to drain
	}
}
