package eddy

import "math"

// This file is what a handler needs that carries the connection's bytes inside a protocol of its own, as TLS does: a
// stream whose bytes depend on all before them, that has an end of its own, and that must be taken in order.

// FlushHandler is a WriteHandler that gathers what it is given and makes one piece of it. After Context.FlushLater the
// loop calls HandleFlush once, when what was handled together is over and before the kernel is given bytes. An error
// closes the connection with the reason it classifies to.
//
// What such a handler makes of a message cannot be taken back, so that messages of a class that pass one are dropped, if
// their class says so, only when they come: OverflowDropOldest and OverflowKeepLatest act as OverflowDropNewest, and
// MessageClass.MaxMessages and MaxBytes do not hold.
type FlushHandler interface {
	WriteHandler
	HandleFlush(ctx *Context) error
}

// FinishHandler is told that the connection is about to end in order: what it writes is the last that is sent. It is told
// at most once, on the loop, before later handlers' bytes are out of the queue, and not before ends that lose what is
// queued. Those nearer to the tail are told first.
type FinishHandler interface {
	HandleFinish(ctx *Context, reason CloseReason)
}

// EndDecoder is a Decoder that is told when the connection's bytes have come to their end; inside says that they did so
// inside a message of this or another decoder. An error closes the connection with the reason it classifies to, after
// what is queued, instead of the one that the end itself would have.
type EndDecoder interface {
	Decoder
	DecodeEnd(ctx *Context, inside bool) error
}

// What a connection has to do when its batch is over; in connExt.later.
const (
	laterFlush uint8 = 1 << iota // call the FlushHandlers
	laterEnd                     // EndInput was called
)

// HoldReads stops delivery of what is read after the current message, as Conn.PauseRead does, for a handler that waits
// for something itself; the application's pause stays its own. Each call needs a ReleaseReads. Loop only.
func (ctx *Context) HoldReads() {
	ctx.conn.extend().holds++
	ctx.conn.paused |= pauseHold
}

// ReleaseReads undoes one HoldReads. Bytes already received are delivered without waiting for new ones. Loop only.
func (ctx *Context) ReleaseReads() {
	c := ctx.conn
	x := c.extend()
	if x.holds == 0 {
		panic("eddy: Context.ReleaseReads without HoldReads")
	}
	if x.holds--; x.holds > 0 {
		return
	}
	c.paused &^= pauseHold
	if c.phase < PhaseClosing && !c.readPaused() {
		c.markReady()
	}
}

// EndInput says that the peer has ended its stream, by the handler's own protocol: what follows is as if it had ended the
// connection's, when the current batch is over. A decoder consumes what it is given from then on. Loop only.
func (ctx *Context) EndInput() {
	if ctx.conn.phase < PhaseClosing && !ctx.conn.has(inputEnded) {
		ctx.conn.doLater(laterEnd)
	}
}

// FlushLater asks for a call of this handler's HandleFlush, see FlushHandler. Loop only.
func (ctx *Context) FlushLater() {
	if ctx.conn.phase < PhaseClosing {
		ctx.conn.doLater(laterFlush)
	}
}

func (c *Conn) doLater(what uint8) {
	x := c.extend()
	if x.later |= what; c.loop.batch != c && !c.has(listedDirty) {
		c.raise(listedDirty)
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

// later returns what the connection still has to do.
func (c *Conn) later() uint8 {
	if x := c.ext.Load(); x != nil {
		return x.later
	}
	return 0
}

// runLater does it.
func (c *Conn) runLater() {
	x := c.ext.Load()
	what := x.later
	x.later = 0
	if what&laterFlush != 0 {
		c.flushHandlers()
	}
	if what&laterEnd != 0 && c.phase < PhaseClosing && !c.has(inputEnded) {
		c.inputOver()
	}
}

// flushHandlers calls the FlushHandlers, those nearer to the tail first, since their bytes go through the others.
func (c *Conn) flushHandlers() {
	for ctx := c.tail; ctx != nil && c.phase < PhaseClosing; ctx = ctx.prev.Load() {
		if ctx.node.ops&opFlush == 0 || ctx.node.pool != nil {
			continue
		}
		if err := ctx.call(func() error { return ctx.node.handler.(FlushHandler).HandleFlush(ctx) }); err != nil {
			c.gatheredOut(err)
			ctx.fireErrorFrom(ctx, err, true)
		}
	}
	if c.phase < PhaseClosing {
		c.gatheredOut(nil)
	}
}

// Admit applies the connection's bound for outbound bytes to n more, for a FlushHandler that will write them later: the
// error, and what follows from it, are those of a Write. Loop only.
func (ctx *Context) Admit(n int) error { return ctx.conn.admitOnLoop(n) }

// WriteAdmitted is WriteBytes for what Admit has let through: it is not held against the bound again. Loop only. Errors:
// ErrClosed.
func (ctx *Context) WriteAdmitted(p []byte) error {
	l := ctx.conn.loop
	was := l.granted
	l.granted = math.MaxInt
	err := ctx.WriteBytes(p)
	l.granted = was
	return err
}

// streams reports whether the pipeline has a FlushHandler.
func (c *Conn) streams() bool {
	for ctx := c.head; ctx != nil; ctx = ctx.next.Load() {
		if ctx.node.ops&opFlush != 0 {
			return true
		}
	}
	return false
}

// writeStreamed passes on a message of a class that cannot be dropped once it is taken.
func (c *Conn) writeStreamed(m *classed, pass func(msg any) error) error {
	err := m.class.check()
	if err == nil {
		err = c.admitStreamed(m.class, sizeOf(m.msg))
	}
	if err != nil {
		m.Release()
		c.refused(err)
		return unlessDropped(err)
	}
	return pass(m.msg)
}

func (c *Conn) admitStreamed(k *MessageClass, n int) error {
	switch {
	case c.phase >= PhaseClosing:
		return c.ended.Load()
	case c.has(outputEnds | outputEnded):
		return c.admitLate(n)
	}
	err := c.admit(n)
	switch {
	case err == nil:
		return nil
	case k.Policy == OverflowClose:
		c.beginClose(CloseBackpressureLimit, err)
		return err
	case k.Policy == OverflowReject:
		k.rejected.Add(1)
		return &RejectedError{k, err}
	}
	k.dropped.Add(1)
	c.loop.counters[countDroppedNewest]++
	return &DroppedError{k, err}
}

// sayFarewell tells the FinishHandlers, once, and reports whether there were any.
func (c *Conn) sayFarewell(reason CloseReason) bool {
	told := false
	for ctx := c.tail; ctx != nil && c.phase < PhaseClosing; ctx = ctx.prev.Load() {
		if ctx.node.ops&opFinish == 0 || ctx.node.pool != nil {
			continue
		}
		if x := c.extend(); !told && x.farewell {
			return false
		} else {
			x.farewell, told = true, true
		}
		c.loop.finishHandler(ctx, reason)
	}
	return told
}

// finishHandler tells one of them; one that panics has had its word.
func (l *loop) finishHandler(ctx *Context, reason CloseReason) {
	prev := l.current
	defer func() {
		l.current = prev
		if v := recover(); v != nil {
			l.counters[countPanics]++
			l.log.Error("eddy: panic in HandleFinish", "loop", l.name, "handler", ctx.node.name, "panic", v)
		}
	}()
	l.current = ctx
	ctx.node.handler.(FinishHandler).HandleFinish(ctx, reason)
}

// endDecoders tells the decoders that the connection's bytes have ended and reports whether that is in order.
func (c *Conn) endDecoders() bool {
	for ctx := c.head; ctx != nil; ctx = ctx.next.Load() {
		h, ok := ctx.node.handler.(EndDecoder)
		if !ok {
			continue
		}
		if err := ctx.call(func() error { return h.DecodeEnd(ctx, c.has(cutShort)) }); err != nil {
			ctx.fireErrorFrom(ctx, err, true)
		}
		if c.phase >= PhaseClosing {
			return false
		}
	}
	return true
}
