package eddy

import (
	"fmt"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
)

// This file tells handlers that they were added and removed.

// presence is the Context.state of a handler with HandleAdd that is not there for events. Only the handler's executor
// changes it.
type presence uint8

const (
	_        presence = iota
	notAdded          // HandleAdd has not begun
	departed          // HandleAdd failed, and HandleRemove was told
)

// addFailure says why a handler on a pool did not take its place. err is nil after a panic, which ends the connection.
type addFailure struct{ err error }

// addedFirst is the ReadHandler of handlers with HandleAdd. While the connection opens, another handler's HandleAdd may fire
// a message that arrives before the handler's own; HandleAdd is called then. A handler whose HandleAdd failed is passed by.
type addedFirst struct{ ReadHandler }

func (a addedFirst) HandleRead(ctx *Context, msg any) error {
	if !ctx.present() {
		ctx.FireRead(msg)
		return nil
	}
	return a.ReadHandler.HandleRead(ctx, msg)
}

// present reports whether the handler is there for events, and first calls HandleAdd if that is still due. On its executor.
func (ctx *Context) present() bool {
	switch ctx.place().state {
	case notAdded:
		if ctx.node.pool != nil {
			return ctx.addOnPool()
		}
		return ctx.addOnLoop()
	case departed:
		return false
	}
	return true
}

// absent reports whether the handler was never told HandleAdd, or has been told HandleRemove after it failed.
func (ctx *Context) absent() bool { _, ok := ctx.state.(presence); return ok }

// addAll tells the handlers of a new connection that they were added. A pool that refuses such a call ends the connection.
func (c *Conn) addAll(ctxs []Context) {
	for i := range ctxs {
		ctx := &ctxs[i]
		switch {
		case c.phase >= PhaseClosing:
			return
		case ctx.node.ops&opAdd == 0 || !ctx.linked():
		case ctx.node.pool == nil:
			ctx.present()
		default:
			if err := ctx.summon(false); err != nil {
				c.closeFlushed(CloseBackpressureLimit, err)
			}
		}
	}
}

// addOnLoop calls HandleAdd. A handler that returns an error or panics is taken out and told HandleRemove.
func (ctx *Context) addOnLoop() bool {
	c := ctx.conn
	ctx.state = nil
	var err error
	if c.guarded(ctx, func() { err = ctx.node.handler.(AddHandler).HandleAdd(ctx) }) && err == nil {
		return ctx.linked()
	}
	if ctx.linked() {
		c.vacate(ctx)
		ctx.dismiss()
	}
	ctx.state = departed
	if err != nil {
		ctx.fireError(addError(ctx, err))
	}
	return false
}

// guarded runs a handler's method on the loop. A panic closes the connection and is reported as false.
func (c *Conn) guarded(ctx *Context, f func()) (done bool) {
	l := c.loop
	prev := l.inHand.ctx
	defer func() { l.inHand.ctx = prev }()
	defer l.contain(c)
	l.inHand.ctx = ctx
	f()
	return true
}

// addOnPool calls HandleAdd. A handler that returns an error or panics is told HandleRemove, then passed by, and taken out
// by the loop.
func (ctx *Context) addOnPool() bool {
	ctx.state = nil
	err, panicked := ctx.addGuarded()
	if err == nil && !panicked {
		return true
	}
	ctx.removeGuarded()
	ctx.state = departed
	failed := new(addFailure)
	if err != nil {
		failed.err = addError(ctx, err)
	}
	ctx.postAdded(failed)
	return false
}

func (ctx *Context) addGuarded() (err error, panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			panicked = true
			ctx.conn.hopPanicked(ctx, v)
		}
	}()
	return ctx.node.handler.(AddHandler).HandleAdd(ctx), false
}

// removeGuarded calls HandleRemove on a pool, as the last call of the handler, also when HandleRemove panics.
func (ctx *Context) removeGuarded() {
	defer func() {
		if v := recover(); v != nil {
			perr := ctx.Panicked(v)
			ctx.conn.requestClose(closeRequest{reason: CloseInternalError, err: perr, flush: true})
		}
	}()
	ctx.handleRemove()
}

func addError(ctx *Context, err error) error {
	return fmt.Errorf("eddy: HandleAdd of handler %q: %w", ctx.node.name, err)
}

// postAdded tells the loop what became of HandleAdd on a pool.
func (ctx *Context) postAdded(failed *addFailure) {
	t := task{kind: taskAdded, conn: ctx.conn, ctx: ctx}
	if failed != nil {
		t.msg = failed
	}
	_ = ctx.conn.loop.Tasks.PushControl(t) // a stopped loop has closed everything; at most one per handler
}

// summon queues HandleAdd on the handler's pool, which may refuse it.
func (ctx *Context) summon(told bool) error {
	c := ctx.conn
	c.counts.transit.Add(1)
	c.loop.Counters[meter.Hops]++
	if err := ctx.submit(ctx.strandOnLoop(), &hop{ctx: ctx, op: opAdd, msg: told}); err != nil {
		c.counts.transit.Add(-1)
		c.loop.Counters[meter.HopRejects]++
		return addError(ctx, ctx.hopError(err))
	}
	return nil
}

// runAdd runs the hop that summon queued.
func (ctx *Context) runAdd(told bool) {
	if ctx.present() && told {
		ctx.postAdded(nil)
	}
}

// dismiss tells HandleRemove to a handler that was taken out, on its executor and behind what the handler was given before,
// whatever the bounds. A pool that has ended runs nothing any more. Then the loop makes the call, so that what the handler
// holds is released.
func (ctx *Context) dismiss() {
	c := ctx.conn
	switch {
	case ctx.node.ops&opRemove == 0:
	case ctx.node.pool == nil:
		c.guarded(ctx, ctx.handleRemove)
	default:
		c.counts.transit.Add(1)
		c.loop.Counters[meter.Hops]++
		if h := (hop{ctx: ctx, op: opRemove}); !c.parkRemoval(h) {
			ctx.dismissNow(h)
		}
	}
}

// dismissNow is dismiss for a handler on a pool when nothing it was given waits for room there.
func (ctx *Context) dismissNow(h hop) {
	c, s := ctx.conn, ctx.strandOnLoop()
	s.hopped++
	if ctx.node.unordered && s.removeAfter(h) {
		return
	}
	if s.Append(h) != nil {
		c.counts.transit.Add(-1)
		c.guarded(ctx, ctx.handleRemove)
	}
}

// inherit gives the context of a farewell the state of the context that stood in the pipeline.
func (ctx *Context) inherit(old *Context) {
	ctx.state = old.state
	if ctx.node.unordered {
		ctx.setSharedState(old.sharedState())
		old.setSharedState(nil)
	}
}

// handleRemove calls HandleRemove, unless HandleAdd was not called.
func (ctx *Context) handleRemove() {
	h, ok := ctx.node.handler.(RemoveHandler)
	if !ok {
		return
	}
	if ctx.node.ops&opFarewell != 0 {
		ctx.inherit(ctx.state.(*Context))
	}
	if !ctx.absent() {
		h.HandleRemove(ctx)
	}
	if ctx.node.unordered {
		ctx.setSharedState(nil)
	}
}

// What follows tells the handlers the end of their connection: HandleClose head to tail, then HandleRemove tail to head, each
// on its executor. That order holds on each executor; the pools work on their own. Nothing changes the pipeline any more.
// A handler that panics, or ends its goroutine, does not keep the end from the others.

// guard calls f for ctx on its executor and contains a panic.
type guard func(c *Conn, ctx *Context, f func(*Context))

// tellEnd tells the handlers on the loop and has the pools tell theirs.
func (l *loop) tellEnd(c *Conn) {
	defer c.removeFrom(c.tail, nil, (*Conn).guardOnLoop)
	defer c.removeLeaving(nil, (*Conn).guardOnLoop)
	defer l.endLeaving(c)
	if c.head != nil {
		l.tellClose(c.head)
	}
}

// tellClose notifies ctx and the handlers behind it, also when one of them ends the goroutine.
func (l *loop) tellClose(ctx *Context) {
	defer func() {
		if next := ctx.next.Load(); next != nil {
			l.tellClose(next)
		}
	}()
	switch {
	case ctx.node.ops&(opClose|opRemove) == 0:
	case ctx.node.pool != nil:
		if ctx == ctx.conn.firstEnding(ctx.node.pool) {
			ctx.hopEnd()
		}
	case ctx.node.ops&opClose != 0:
		ctx.conn.guardOnLoop(ctx, (*Context).handleClose)
	}
}

// firstEnding returns the first context on a pool that is told the end, nil for none.
func (c *Conn) firstEnding(pool *executor.Pool) *Context {
	for o := c.head; o != nil; o = o.next.Load() {
		if o.node.ops&(opClose|opRemove) != 0 && o.node.pool == pool {
			return o
		}
	}
	return nil
}

// endLeaving tells the end on the pools where only handlers are left that were taken out before.
func (l *loop) endLeaving(c *Conn) {
	r := c.rare()
	if r == nil {
		return
	}
	for i, o := range r.rewiring.leaving {
		pool := o.ctx.node.pool
		if pool == nil || c.firstEnding(pool) != nil {
			continue
		}
		if first := r.rewiring.firstOn(pool); first == i {
			o.ctx.hopEnd()
		}
	}
}

func (w *rewiring) firstOn(pool *executor.Pool) int {
	for i, o := range w.leaving {
		if o.ctx.node.pool == pool {
			return i
		}
	}
	return -1
}

// hopEnd queues the end behind what the pool's handlers were given before, whatever the bounds. A pool that has ended runs
// nothing any more; then the loop makes the calls, so that what the handlers hold is released.
func (ctx *Context) hopEnd() {
	c := ctx.conn
	c.counts.transit.Add(1)
	c.loop.Counters[meter.Hops]++
	s, h := ctx.strandOnLoop(), hop{ctx: ctx, op: opClose}
	if s.closeAfter(h) {
		return
	}
	if s.Finish(h) != nil {
		c.counts.transit.Add(-1)
		c.endOn(ctx.node.pool, (*Conn).guardOnLoop)
	}
}

// endOn makes the calls for the handlers on one pool. From now on everything that they fire goes to the loop, which drops it;
// handlers there that have been told the end hear nothing more.
func (c *Conn) endOn(pool *executor.Pool, g guard) {
	c.mark(detour)
	defer c.removeFrom(c.tail, pool, g)
	defer c.removeLeaving(pool, g)
	c.closeFrom(c.head, pool, g)
}

func (c *Conn) closeFrom(o *Context, pool *executor.Pool, g guard) {
	for o != nil && (o.node.ops&opClose == 0 || o.node.pool != pool) {
		o = o.next.Load()
	}
	if o != nil {
		defer c.closeFrom(o.next.Load(), pool, g)
		g(c, o, (*Context).handleClose)
	}
}

func (c *Conn) removeFrom(o *Context, pool *executor.Pool, g guard) {
	for o != nil && (o.node.ops&opRemove == 0 || o.node.pool != pool) {
		o = o.prev.Load()
	}
	if o != nil {
		defer c.removeFrom(o.prev.Load(), pool, g)
		g(c, o, (*Context).handleRemove)
	}
}

// removeLeaving calls HandleRemove of the handlers on a pool that were replaced and waited for the HandleAdd of another.
func (c *Conn) removeLeaving(pool *executor.Pool, g guard) {
	if r := c.rare(); r != nil {
		c.removeThese(r.rewiring.leaving, pool, g)
	}
}

func (c *Conn) removeThese(left []leaving, pool *executor.Pool, g guard) {
	for len(left) > 0 && left[0].ctx.node.pool != pool {
		left = left[1:]
	}
	if len(left) > 0 {
		defer c.removeThese(left[1:], pool, g)
		g(c, left[0].ctx, (*Context).handleRemove)
	}
}

func (c *Conn) guardOnLoop(ctx *Context, f func(*Context)) {
	defer c.loop.contain(nil)
	f(ctx)
}

func (c *Conn) guardOnPool(ctx *Context, f func(*Context)) {
	defer func() {
		if v := recover(); v != nil {
			ctx.Panicked(v)
		}
	}()
	f(ctx)
}

// handleClose calls HandleClose, unless the handler was never there.
func (ctx *Context) handleClose() {
	if !ctx.absent() {
		end := ctx.conn.ended.Load()
		ctx.node.handler.(CloseHandler).HandleClose(ctx, end.Reason, end.Err)
	}
}
