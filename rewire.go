package eddy

import (
	"errors"
	"fmt"
	"slices"
)

// This file changes the pipeline of an open connection, on its loop. Three things keep events in order meanwhile:
//
//   - Neighbours on one pool call each other directly; everything else goes through the loop. A change may open a direct
//     way, and an event on it must not overtake one on the way through the loop. So after a change all events go through
//     the loop (the bit detour), until nothing of the connection is on a pool or in the loop's queue.
//   - Events may wait in the strand of a handler that is removed, and later ones must stay behind them. So the handler
//     leaves a barrier in its place: a context on the same pool that only passes on. A barrier on the loop merely keeps
//     the place, so that events find their way from there. Barriers are removed when detour ends.
//   - Handlers on a pool are told of a change through the strand, behind what was there before. So HandleRemove is a
//     handler's last event, and HandleAdd precedes everything that comes after the change.
//
// A removed context keeps its links for the events inside it; onward and back find the way from there. In a replaced
// context, also one replaced by a barrier, both links point to its replacement.

// maxLeaving bounds a connection's barriers together with its handlers that wait for HandleRemove.
const maxLeaving = 64

// rewiring is the part of connRare for pipelines that were changed. Loop only.
type rewiring struct {
	barriers []*Context
	leaving  []leaving // replaced; told HandleRemove after their replacement's HandleAdd
	seq      uint64    // number of hops when the fence was queued
	fenced   bool      // a taskSettle is queued
}

// leaving is a replaced handler that waits for HandleRemove.
type leaving struct {
	ctx   *Context // context for that call, see farewell
	after *Context
}

// barrier is the handler of contexts that keep the place of a handler on a pool.
type barrier struct{}

func (barrier) HandleWrite(ctx *Context, msg any) error { return ctx.Write(msg) }

// introduce links ctx between two contexts and tells it HandleAdd. On an error nothing has changed.
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

// announce queues HandleAdd for a new handler on a pool; on the loop it only notes that HandleAdd is due. told requests a
// taskAdded in any case.
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

// welcome tells a linked handler that the connection is open; one on the loop is told HandleAdd first.
func (c *Conn) welcome(ctx *Context) {
	if ctx.node.pool == nil && !ctx.present() {
		return
	}
	if ctx.linked() {
		ctx.deliverOpen()
	}
}

// roomForLeaving returns an error if ctx may not be removed now.
func (c *Conn) roomForLeaving(ctx *Context) error {
	r := c.rare()
	if r == nil {
		return nil
	}
	if n := len(r.rewiring.barriers) + len(r.rewiring.leaving); n >= maxLeaving {
		return fmt.Errorf("eddy: handler %q: %d places of handlers that were taken out are kept for events under way, limit %d: %w",
			ctx.node.name, n, maxLeaving, ErrSaturated)
	}
	return nil
}

// expel unlinks ctx and, if it was told HandleAdd, tells it HandleRemove.
func (c *Conn) expel(ctx *Context) {
	c.vacate(ctx)
	if ctx.node.ops&opRemove != 0 {
		ctx.dismiss()
	}
	c.fence()
}

// vacate unlinks ctx. A barrier takes its place, unless no event can be under way to it.
func (c *Conn) vacate(ctx *Context) {
	c.rewire()
	prev, next := ctx.prev.Load(), ctx.next.Load()
	waits := ctx.waits() || ctx.node.pool != nil && ctx.node.ops&opRemove != 0
	if !waits && !c.shows(detour) {
		c.join(prev, next)
		return
	}
	b := c.newBarrier(ctx, ctx.node.ops&opWrite)
	if !waits { // on the loop no event is held up
		b.node.pool, b.node.ops = nil, opBarrier
	}
	c.join(prev, b)
	c.join(b, next)
	ctx.replacedBy(b)
}

// exchange puts ctx in the place of old. On an error nothing has changed.
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
		w := &c.rarely().rewiring
		w.leaving = append(w.leaving, leaving{last, ctx})
	case last != nil:
		last.dismiss()
	}
	c.fence()
	return nil
}

// exchangeLinks links ctx in the place of old. Events that wait for old on a pool stay ahead, because ctx waits on the
// same pool or has barriers around it. The barrier before it is for inbound events, the one behind it for outbound ones.
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

// newBarrier returns a context on the pool of old. Inbound events pass through it unless it has opOutbound, outbound ones
// if it has opWrite; events from old never do.
func (c *Conn) newBarrier(old *Context, kind ops) *Context {
	b := &Context{conn: c, node: &node{name: old.node.name, handler: barrier{}, pool: old.node.pool, ops: opBarrier | kind}}
	w := &c.rarely().rewiring
	w.barriers = append(w.barriers, b)
	c.shared.Or(detour | watchIdle) // its strand may be new
	return b
}

// replacedBy points both links of a removed context to its replacement.
func (ctx *Context) replacedBy(by *Context) {
	ctx.next.Store(by)
	ctx.prev.Store(by)
}

// farewell returns the context with which a replaced handler is told HandleRemove: both its neighbours are the new one.
func (ctx *Context) farewell(by *Context) *Context {
	n := *ctx.node
	n.ops |= opFarewell
	last := &Context{conn: ctx.conn, node: &n, state: ctx}
	last.replacedBy(by)
	return last
}

// rewire must precede every change of the links.
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

// seat returns the context whose neighbours get events from ctx: ctx itself, or its replacement.
func (ctx *Context) seat() *Context {
	at := ctx
	for at.replaced() && at.node.ops&opFarewell == 0 {
		at = at.next.Load()
	}
	return at
}

// settled reports whether ctx, on its pool, may call its neighbours there directly. The condition is that ctx is in the
// pipeline and no earlier event is under way through the loop. The caller must have read the links before.
func (ctx *Context) settled() bool {
	c := ctx.conn
	b := c.shared.Load()
	return b&(rewired|detour) == 0 || b&detour == 0 && ctx.node.ops&opFarewell == 0 && !ctx.replaced() && !c.shows(detour)
}

// heir returns the replacement of a handler in HandleRemove if both run in order on one pool, nil otherwise. HandleRemove
// fires and writes through the replacement, because later events already wait there and must not be overtaken.
func (ctx *Context) heir() *Context {
	if ctx.node.ops&opFarewell != 0 {
		if by := ctx.next.Load(); by.node.pool == ctx.node.pool && !by.node.unordered && !ctx.node.unordered {
			return by
		}
	}
	return nil
}

// replaced reports whether another context took ctx's place, as always happens when a handler on a pool is removed. Any
// goroutine.
func (ctx *Context) replaced() bool {
	by := ctx.next.Load()
	return by != nil && by == ctx.prev.Load()
}

// fence ends the detour, with a taskSettle, as soon as nothing is on a pool or ahead of that task in the loop's queue.
func (c *Conn) fence() {
	if !c.shows(detour) || c.phase == PhaseClosed || !c.strandsIdle() {
		return // when the last event has left its pool the loop is told, see watchIdle
	}
	w := &c.rarely().rewiring
	if w.fenced {
		return
	}
	w.fenced, w.seq = true, c.hopped()
	_ = c.loop.Tasks.PushControl(task{kind: taskSettle, conn: c}) // a stopped loop has no events any more
}

// settlePipeline carries out the taskSettle of fence.
func (c *Conn) settlePipeline() {
	w := &c.rarely().rewiring
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
	return c.counts.inflight.Load() == 0 && c.counts.encoding.Load() == 0 && c.counts.transit.Load() == 0
}

// hopped returns the number of events given to the connection's strands.
func (c *Conn) hopped() (n uint64) {
	for s := c.firstStrand(); s != nil; s = s.next {
		n += s.hopped
	}
	return n
}

// dismissAfter tells HandleRemove to the handlers that waited for the HandleAdd of ctx.
func (w *rewiring) dismissAfter(ctx *Context) {
	for i := 0; i < len(w.leaving); {
		if o := w.leaving[i]; o.after == ctx {
			w.leaving = slices.Delete(w.leaving, i, i+1)
			o.ctx.dismiss()
		} else {
			i++
		}
	}
}

// added carries out a taskAdded: HandleAdd of ctx has run on its pool, and may have failed.
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
	if r := c.rare(); r != nil {
		r.rewiring.dismissAfter(ctx)
	}
	c.fence()
}

// join makes b follow a; nil stands for either end. A context that is taken out keeps its own links.
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

var errChangePanic = errors.New("eddy: Conn.Change: the function panicked")

// change is one submitted change of a pipeline.
type change struct {
	f    func(p *Pipeline) error
	done func(error)
}

// Change runs f with the connection's pipeline on its loop, where f may use every method of the pipeline. Nothing else happens
// to the connection meanwhile, so several changes are seen as one. Change does not block; any goroutine may call it. On the
// loop f runs at once. Elsewhere f is queued, and until it runs the pipeline is as before.
//
// done, if it is not nil, tells that f has run. If Change returns nil, done is called exactly once, on the loop, with what f
// returned. If the connection ended before f could run, the error is ErrClosed to errors.Is. If f panics, done is given
// an error and the connection closes as after a panic of a handler.
// Errors, after which neither f nor done is called: ErrClosed, ErrSaturated (the loop's task queue), f is nil.
func (c *Conn) Change(f func(p *Pipeline) error, done func(error)) error {
	if f == nil {
		return errNilFunc("Conn.Change")
	}
	if err := c.closedError(); err != nil {
		return err
	}
	ch := &change{f: f, done: done}
	if c.loop.handle.In() {
		ch.run(c)
		return nil
	}
	return c.loop.Tasks.Push(task{kind: taskChange, conn: c, msg: ch})
}

// run carries the change out.
func (ch *change) run(c *Conn) {
	err := errChangePanic
	if ch.done != nil {
		defer func() { ch.done(err) }()
	}
	if c.phase == PhaseClosed {
		err = c.closedError()
		return
	}
	err = ch.f(&Pipeline{conn: c, from: callerOnLoop})
}
