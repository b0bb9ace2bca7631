package eddy

import (
	"fmt"
	"slices"
)

// This file changes the pipeline of an open connection, on its loop. What keeps the order of events meanwhile:
//
//   - Handlers that stand side by side on one pool call each other directly, and everything else goes through the loop.
//     An event on the long way must not be overtaken by one on the short way that a change has opened. So from a change on
//     all go the long way (the bit detour), until nothing of the connection is on a pool or in the loop's queue.
//   - Events wait in the strand of a handler that is taken out, and later ones must stay behind them. So it leaves a barrier
//     in its place: a context on the same pool that only passes on. A barrier on the loop keeps the place alone, so that
//     events find the way from there. Barriers go when detour does.
//   - Who is told something on a pool is told through the strand, behind what was there before: HandleRemove comes last,
//     and what comes after the change finds HandleAdd ahead of it.
//
// A context that was taken out keeps its links for the events inside it; onward and back find the way from there. One
// that was replaced, be it by a barrier, has both links on the one that took its place.

// maxLeaving bounds how many barriers a connection has, and handlers that wait to be told HandleRemove.
const maxLeaving = 64

// rewiring is the part of connExt for pipelines that were changed. Loop only.
type rewiring struct {
	barriers []*Context
	leaving  []leaving // replaced, to be told HandleRemove when the other was told HandleAdd
	seq      uint64    // hops when the fence was queued
	fenced   bool      // a taskSettle is queued
}

// leaving is a replaced handler that waits for HandleRemove.
type leaving struct {
	ctx   *Context // for that call, see farewell
	after *Context
}

// barrier is the handler of the contexts that keep the place of one on a pool.
type barrier struct{}

func (barrier) HandleWrite(ctx *Context, msg any) error { return ctx.Write(msg) }

// introduce links ctx between two contexts and tells it that it was added. An error means that nothing was done.
func (c *Conn) introduce(ctx, prev, next *Context) error {
	if err := ctx.announce(false); err != nil {
		return err
	}
	c.rewire()
	c.join(prev, ctx)
	c.join(ctx, next)
	c.welcome(ctx)
	c.fence()
	return nil
}

// announce queues HandleAdd for a new handler on a pool, or notes that it was not told. told asks for a taskAdded in any case.
func (ctx *Context) announce(told bool) error {
	if ctx.node.ops&opAdd == 0 {
		return nil
	}
	ctx.state = notAdded
	if ctx.node.pool == nil {
		return nil
	}
	return ctx.summon(told)
}

// welcome tells a linked handler on the loop that it was added, and any that the connection is open.
func (c *Conn) welcome(ctx *Context) {
	if ctx.node.pool == nil && !ctx.present() {
		return
	}
	if ctx.linked() {
		ctx.deliverOpen()
	}
}

// roomForLeaving reports whether ctx may be taken out.
func (c *Conn) roomForLeaving(ctx *Context) error {
	x := c.ext.Load()
	if x == nil {
		return nil
	}
	if n := len(x.rewiring.barriers) + len(x.rewiring.leaving); n >= maxLeaving {
		return fmt.Errorf("eddy: handler %q: %d places of handlers that were taken out are kept for events under way, limit %d: %w",
			ctx.node.name, n, maxLeaving, ErrSaturated)
	}
	return nil
}

// expel unlinks ctx and tells it, if it was told that it was added.
func (c *Conn) expel(ctx *Context) {
	c.vacate(ctx)
	if ctx.node.ops&opRemove != 0 {
		ctx.dismiss()
	}
	c.fence()
}

// vacate takes ctx out of the list. A barrier takes its place, unless no event can be on its way.
func (c *Conn) vacate(ctx *Context) {
	c.rewire()
	prev, next := ctx.prev.Load(), ctx.next.Load()
	waits := ctx.waits() || ctx.node.pool != nil && ctx.node.ops&opRemove != 0
	if !waits && !c.shows(detour) {
		c.join(prev, next)
		return
	}
	b := c.newBarrier(ctx, ctx.node.ops&opWrite)
	if !waits { // on the loop nobody is held up
		b.node.pool, b.node.ops = nil, opBarrier
	}
	c.join(prev, b)
	c.join(b, next)
	ctx.replacedBy(b)
}

// exchange puts ctx in the place of old. An error means that nothing was done.
func (c *Conn) exchange(old, ctx *Context) error {
	told := old.node.ops&opRemove != 0 && ctx.node.ops&opAdd != 0 && ctx.node.pool != nil && ctx.node.pool != old.node.pool
	if err := ctx.announce(told); err != nil {
		return err
	}
	c.rewire()
	c.exchangeLinks(old, ctx)
	old.replacedBy(ctx)
	var last *Context
	if old.node.ops&opRemove != 0 {
		last = old.farewell(ctx)
	}
	c.welcome(ctx)
	switch {
	case told:
		x := c.extend()
		x.rewiring.leaving = append(x.rewiring.leaving, leaving{last, ctx})
	case last != nil:
		last.dismiss()
	}
	c.fence()
	return nil
}

// exchangeLinks puts ctx in the place of old. What waits for old on a pool stays ahead: ctx waits on the same pool, or there
// are barriers, one before it for inbound events and one behind it for outbound ones.
func (c *Conn) exchangeLinks(old, ctx *Context) {
	prev, next := old.prev.Load(), old.next.Load()
	waits := old.waits()
	same := old.node.pool == ctx.node.pool
	if waits && !same {
		b := c.newBarrier(old, 0)
		c.join(prev, b)
		prev = b
	}
	c.join(prev, ctx)
	if waits && old.node.ops&opWrite != 0 && !(same && ctx.node.ops&opWrite != 0) {
		w := c.newBarrier(old, opWrite|opOutbound)
		c.join(ctx, w)
		ctx = w
	}
	c.join(ctx, next)
}

// waits reports whether events may wait for ctx on a pool.
func (ctx *Context) waits() bool { return ctx.node.pool != nil && ctx.findStrand() != nil }

// newBarrier returns a context on the pool of old. Inbound events pass it unless it has opOutbound, outbound ones if it has
// opWrite; never those that come from old.
func (c *Conn) newBarrier(old *Context, kind ops) *Context {
	b := &Context{conn: c, node: &node{name: old.node.name, handler: barrier{}, pool: old.node.pool, ops: opBarrier | kind}}
	x := c.extend()
	x.rewiring.barriers = append(x.rewiring.barriers, b)
	c.shared.Or(detour | watchIdle) // its strand may be new
	return b
}

// replacedBy points both links of a context that was taken out to the one in its place.
func (ctx *Context) replacedBy(by *Context) {
	ctx.next.Store(by)
	ctx.prev.Store(by)
}

// farewell returns the context that a replaced handler is told HandleRemove with: both its neighbours are the new one.
func (ctx *Context) farewell(by *Context) *Context {
	n := *ctx.node
	n.ops |= opFarewell
	last := &Context{conn: ctx.conn, node: &n, state: ctx}
	last.replacedBy(by)
	return last
}

// rewire comes before every change of the links.
func (c *Conn) rewire() {
	bits := rewired
	if c.firstStrand() != nil {
		bits |= detour | watchIdle
	}
	c.shared.Or(bits)
}

// linked reports whether ctx stands in its pipeline. Loop only.
func (ctx *Context) linked() bool { return !ctx.removed() }

// removed reports whether ctx was taken out of its pipeline. Loop only.
func (ctx *Context) removed() bool {
	if p := ctx.prev.Load(); p != nil {
		return p.next.Load() != ctx
	}
	return ctx.conn.head != ctx
}

// onward returns where an inbound event goes from ctx.
func (ctx *Context) onward() *Context {
	if !ctx.conn.shows(rewired) {
		return ctx.next.Load()
	}
	at := ctx.seat()
	n := at.next.Load()
	for n != nil && !n.linked() {
		n = n.next.Load()
	}
	return n
}

// back returns where an outbound message goes from ctx.
func (ctx *Context) back() *Context {
	if !ctx.conn.shows(rewired) {
		return ctx.prev.Load()
	}
	at := ctx.seat()
	p := at.prev.Load()
	for p != nil && !p.linked() {
		p = p.prev.Load()
	}
	return p
}

// seat returns the context whose neighbours an event from ctx goes to: ctx, or the one that took its place.
func (ctx *Context) seat() *Context {
	at := ctx
	for at.replaced() && at.node.ops&opFarewell == 0 {
		at = at.next.Load()
	}
	return at
}

// settled reports whether ctx, on its pool, may call its neighbours there: it stands in the pipeline, and nothing that was
// fired before can still be on the long way. The links that lead to them were read before.
func (ctx *Context) settled() bool {
	c := ctx.conn
	b := c.shared.Load()
	return b&(rewired|detour) == 0 || b&detour == 0 && ctx.node.ops&opFarewell == 0 && !ctx.replaced() && !c.shows(detour)
}

// heir returns the new handler that what ctx fires or writes in HandleRemove goes through, if that is on the same pool: there
// what comes later waits for it already, so that nothing may go round it.
func (ctx *Context) heir() *Context {
	if ctx.node.ops&opFarewell != 0 {
		if by := ctx.next.Load(); by.node.pool == ctx.node.pool && !by.node.unordered && !ctx.node.unordered {
			return by
		}
	}
	return nil
}

// replaced reports whether another context took ctx's place, as one does of every handler on a pool that is taken out. Any
// goroutine.
func (ctx *Context) replaced() bool {
	by := ctx.next.Load()
	return by != nil && by == ctx.prev.Load()
}

// fence ends the detour as soon as nothing is on a pool, nor in the loop's queue by then.
func (c *Conn) fence() {
	if !c.shows(detour) || c.phase == PhaseClosed || !c.strandsIdle() {
		return // when the last event has left its pool the loop is told, see watchIdle
	}
	w := &c.ext.Load().rewiring
	if w.fenced {
		return
	}
	w.fenced, w.seq = true, c.hopped()
	_ = c.loop.tasks.push(task{kind: taskSettle, conn: c}, true) // a stopped loop has no events any more
}

// settlePipeline follows the fence.
func (c *Conn) settlePipeline() {
	w := &c.ext.Load().rewiring
	w.fenced = false
	if c.phase == PhaseClosed {
		return
	}
	if !c.strandsIdle() || w.seq != c.hopped() {
		c.fence()
		return
	}
	for _, b := range w.barriers {
		c.join(b.prev.Load(), b.next.Load())
	}
	w.barriers = nil
	c.unmark(detour)
}

// strandsIdle reports whether no event of the connection is on a pool or waits for one.
func (c *Conn) strandsIdle() bool {
	return c.inflight.Load() == 0 && c.encoding.Load() == 0 && c.transit.Load() == 0
}

// hopped counts the events that the connection's strands were given.
func (c *Conn) hopped() (n uint64) {
	for s := c.firstStrand(); s != nil; s = s.next {
		n += s.hopped
	}
	return n
}

// added follows a taskAdded: ctx was told HandleAdd on its pool, and took its place or not.
func (c *Conn) added(ctx *Context, failed *addFailure) {
	if c.phase == PhaseClosed {
		return
	}
	if failed != nil {
		if ctx.linked() {
			c.vacate(ctx)
		}
		if failed.err != nil {
			ctx.fireError(failed.err)
		}
	}
	w := &c.extend().rewiring
	for i := 0; i < len(w.leaving); {
		if o := w.leaving[i]; o.after == ctx {
			w.leaving = slices.Delete(w.leaving, i, i+1)
			o.ctx.dismiss()
		} else {
			i++
		}
	}
	c.fence()
}

// join makes b follow a; nil stands for the ends. A context that is taken out keeps its own links.
func (c *Conn) join(a, b *Context) {
	if a == nil {
		c.head = b
	} else {
		a.next.Store(b)
	}
	if b == nil {
		c.tail = a
	} else {
		b.prev.Store(a)
	}
}
