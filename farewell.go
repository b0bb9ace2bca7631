package eddy

import (
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
)

// This file tells the handlers the end of their connection: HandleClose head to tail, then HandleRemove tail to head, each
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
	x := c.ext.Load()
	if x == nil {
		return
	}
	for i, o := range x.rewiring.leaving {
		pool := o.ctx.node.pool
		if pool == nil || c.firstEnding(pool) != nil {
			continue
		}
		if first := x.rewiring.firstOn(pool); first == i {
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
	if x := c.ext.Load(); x != nil {
		c.removeThese(x.rewiring.leaving, pool, g)
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
