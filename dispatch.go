package eddy

import "github.com/go-eddy/eddy/internal/meter"

// This file carries events through the pipeline on the loop; hop.go takes them to pools.

// fireReadFromHead passes an inbound message to the first handler.
func (c *Conn) fireReadFromHead(msg any) {
	if c.head == nil {
		c.unhandled(msg)
		return
	}
	c.head.deliverRead(msg, opRead)
}

// fireRead passes a message from ctx to the next handler.
func (ctx *Context) fireRead(msg any) {
	c := ctx.conn
	if c.phase >= PhaseClosing {
		c.loop.Counters[meter.DeadReads]++
		release(msg)
		return
	}
	n := ctx.nextOnLoop(opRead)
	if ctx.node.decoder != nil && (n == nil || n.node.decoder == nil) {
		c.beginDispatch()
	}
	if n == nil {
		c.unhandled(msg)
		return
	}
	n.deliverRead(msg, opRead)
}

func (ctx *Context) deliverRead(msg any, op ops) {
	if ctx.node.pool != nil {
		_ = ctx.hop(op, msg) // a refusal has been answered
		return
	}
	if ctx.node.read == nil {
		ctx.fireRead(msg)
		return
	}
	l := ctx.conn.loop
	prev := l.inHand.ctx
	l.inHand.ctx = ctx
	err := ctx.node.read.HandleRead(ctx, msg)
	l.inHand.ctx = prev
	if err != nil {
		ctx.fireErrorFrom(ctx, err, true)
	}
}

// fireEventFromHead passes an event to the first handler that takes it.
func (c *Conn) fireEventFromHead(ev any) {
	if h := firstFor(c.head, opEvent, nil); h != nil {
		h.deliverEvent(ev)
	}
}

func (ctx *Context) fireEvent(ev any) {
	if n := ctx.nextOnLoop(opEvent); n != nil && ctx.conn.phase != PhaseClosed {
		n.deliverEvent(ev)
	}
}

func (ctx *Context) deliverEvent(ev any) {
	if ctx.node.pool != nil {
		_ = ctx.hop(opEvent, ev)
		return
	}
	if err := ctx.call(func() error { return ctx.event(ev) }); err != nil {
		ctx.fireErrorFrom(ctx, err, true)
	}
}

// call runs a rare handler method with its context noted for panics.
func (ctx *Context) call(f func() error) error {
	l := ctx.conn.loop
	prev := l.inHand.ctx
	l.inHand.ctx = ctx
	err := f()
	l.inHand.ctx = prev
	return err
}

// fireError passes an error from ctx to the next ErrorHandler.
func (ctx *Context) fireError(err error) { ctx.fireErrorFrom(ctx.onward(), err, true) }

// fireErrorFrom offers err to start and the handlers behind it. An error that passes the tail closes the connection, if
// closes is set. A decoder's error closes it in any case, because decoding cannot go on.
func (ctx *Context) fireErrorFrom(start *Context, err error, closes bool) {
	c := ctx.conn
	if c.phase == PhaseClosed { // the handlers have been told the end
		return
	}
	fatal := start != nil && start == ctx && ctx.node.decoder != nil
	if start == ctx && c.shows(rewired) && !ctx.linked() { // it has been told HandleRemove
		start = ctx.onward()
	}
	rest, last := start.offerError(err)
	if closes && (rest != nil || fatal) {
		ctx.logTail(last)
		c.closeFlushed(reasonOf(last), last)
	}
}

// offerError asks the ErrorHandlers from start on. rest is what none of them has handled, nil if one has; last is the last
// error there was. A handler on a pool counts as handling the error, unless the pool refuses.
func (start *Context) offerError(err error) (rest, last error) {
	last = err
	for n := start; n != nil && err != nil; n = n.onward() {
		h, ok := n.node.handler.(ErrorHandler)
		if !ok || n.node.pool == nil && n.node.ops&opAdd != 0 && !n.present() {
			continue
		}
		if n.node.pool != nil {
			if n.hop(opError, err) == nil {
				return nil, last
			}
			continue // its pool does not take it
		}
		if err = n.call(func() error { return h.HandleError(n, last) }); err != nil {
			last = err
		}
	}
	return err, last
}

// writeFromTail passes a message through the whole outbound pipeline.
func (c *Conn) writeFromTail(msg any) error {
	t := writerFrom(c.tail)
	if t == nil {
		return c.enqueue(msg)
	}
	return t.deliverWrite(msg)
}

// writeOnLoop passes a message from ctx towards the head.
func (ctx *Context) writeOnLoop(msg any) error {
	c := ctx.conn
	if c.phase >= PhaseClosing {
		release(msg)
		return c.ended.Load()
	}
	p := writerFrom(ctx.back())
	if p == nil {
		return c.enqueue(msg)
	}
	return p.deliverWrite(msg)
}

func (ctx *Context) deliverWrite(msg any) error {
	c := ctx.conn
	if ctx.node.pool != nil {
		if k := &c.loop.out.collect; k.conn == c {
			msg = withClass(k.class, msg)
		}
		return ctx.hop(opWrite, c.loop.out.tracking.of(c).part(msg))
	}
	switch m := msg.(type) {
	case *classed:
		return c.writeClassed(m, ctx.deliverWrite)
	case *tracked:
		return c.writeTracked(m, ctx.deliverWrite)
	}
	return ctx.call(func() error { return ctx.write(msg) })
}

// fireOpen tells every OpenHandler that Init has added, head to tail. Handlers added meanwhile are told when they are added.
func (c *Conn) fireOpen(handlers []Context) {
	for i := range handlers {
		if c.phase >= PhaseClosing {
			return
		}
		if ctx := &handlers[i]; ctx.linked() {
			ctx.deliverOpen()
		}
	}
}

func (ctx *Context) deliverOpen() {
	h, ok := ctx.node.handler.(OpenHandler)
	switch {
	case !ok:
	case ctx.node.pool != nil:
		_ = ctx.hop(opOpen, nil)
	default:
		if err := ctx.call(func() error { return h.HandleOpen(ctx) }); err != nil {
			ctx.fireErrorFrom(ctx, err, true)
		}
	}
}

// fireWritability tells every WritabilityHandler, head to tail.
func (c *Conn) fireWritability(writable bool) {
	for ctx := c.head; ctx != nil; ctx = ctx.onward() {
		h, ok := ctx.node.handler.(WritabilityHandler)
		switch {
		case !ok, ctx.node.pool == nil && ctx.node.ops&opAdd != 0 && !ctx.present():
		case ctx.node.pool != nil:
			_ = ctx.hop(opWritability, writable)
		default:
			if err := ctx.call(func() error { return h.HandleWritability(ctx, writable) }); err != nil {
				ctx.fireErrorFrom(ctx, err, true)
			}
		}
	}
}
