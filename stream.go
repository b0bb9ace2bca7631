package eddy

import (
	"math"
	"sync/atomic"

	"github.com/go-eddy/eddy/internal/meter"
)

// This file serves handlers that carry the connection's bytes inside a protocol of their own, as TLS does. Such a stream
// depends on all bytes before, has an end of its own, and must be taken in order.

// FlushHandler is a WriteHandler that gathers what it is given and makes one piece of it. After Context.FlushLater the
// loop calls HandleFlush once, after the batch's handlers and before the kernel is given bytes. An error closes the
// connection with the reason it classifies to.
//
// A message cannot be taken back once such a handler has encoded it. So messages of a class that pass through one can be
// dropped only on arrival. OverflowDropOldest and OverflowKeepLatest act as OverflowDropNewest, and
// MessageClass.MaxMessages and MaxBytes do not apply.
type FlushHandler interface {
	WriteHandler
	HandleFlush(ctx *Context) error
}

// FinishHandler is told that the connection is about to end in order; what it writes is sent last. HandleFinish is called
// at most once, on the loop, before the bytes of later handlers have left the queue. An end that loses what is queued is
// not announced. Handlers nearer to the tail are told first.
type FinishHandler interface {
	HandleFinish(ctx *Context, reason CloseReason)
}

// EndDecoder is a Decoder that is told the end of the connection's bytes. inside says that they ended inside a message of
// this or another decoder. An error closes the connection, after what is queued, with the reason that the error
// classifies to instead of the end's own reason.
type EndDecoder interface {
	Decoder
	DecodeEnd(ctx *Context, inside bool) error
}

// Bits of connExt.later: what a connection does when its batch is over.
const (
	laterFlush uint8 = 1 << iota // call the FlushHandlers
	laterEnd                     // EndInput was called
)

// HoldReads stops delivery of inbound messages after the current one, as Conn.PauseRead does. Use it in a handler that
// must wait for something; the application's own pause is separate. Each call needs a ReleaseReads. Loop only.
func (ctx *Context) HoldReads() {
	ctx.conn.extend().stream.holds++
	ctx.conn.paused |= pauseHold
}

// ReleaseReads undoes one HoldReads. Bytes already received are delivered without waiting for new ones. Loop only.
func (ctx *Context) ReleaseReads() {
	c := ctx.conn
	x := c.extend()
	if x.stream.holds == 0 {
		panic("eddy: Context.ReleaseReads without HoldReads")
	}
	if x.stream.holds--; x.stream.holds > 0 {
		return
	}
	c.paused &^= pauseHold
	if c.phase < PhaseClosing && !c.readPaused() {
		c.markReady()
	}
}

// EndInput reports that the peer has ended its stream by the handler's own protocol. After the current batch the engine
// acts as if the connection's own stream had ended. From then on a decoder consumes what it is given. Loop only.
func (ctx *Context) EndInput() {
	if ctx.conn.phase < PhaseClosing && !ctx.conn.has(inputEnded) {
		ctx.conn.doLater(laterEnd)
	}
}

// FlushLater requests a call of this handler's HandleFlush, see FlushHandler. Loop only.
func (ctx *Context) FlushLater() {
	if ctx.conn.phase < PhaseClosing {
		ctx.conn.doLater(laterFlush)
	}
}

func (c *Conn) doLater(what uint8) {
	x := c.extend()
	if x.stream.later |= what; c.loop.batch != c && !c.has(listedDirty) {
		c.raise(listedDirty)
		c.loop.lists.dirty = append(c.loop.lists.dirty, c)
	}
}

// later returns the later bits.
func (c *Conn) later() uint8 {
	if x := c.ext.Load(); x != nil {
		return x.stream.later
	}
	return 0
}

// runLater carries out the later bits.
func (c *Conn) runLater() {
	x := c.ext.Load()
	what := x.stream.later
	x.stream.later = 0
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

// Admit applies the connection's bound for outbound bytes to n more, for a FlushHandler that will write them later. Its
// error, and the consequences, are those of a Write. Loop only.
func (ctx *Context) Admit(n int) error { return ctx.conn.admitOnLoop(n) }

// WriteAdmitted is WriteBytes for bytes that Admit has let through; the bound is not applied again. Loop only. Errors:
// ErrClosed.
func (ctx *Context) WriteAdmitted(p []byte) error {
	l := ctx.conn.loop
	was := l.inHand.granted
	l.inHand.granted = math.MaxInt
	err := ctx.WriteBytes(p)
	l.inHand.granted = was
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

// writeStreamed passes on a message of a class through a FlushHandler, after which it cannot be dropped.
func (c *Conn) writeStreamed(m *classed, pass func(msg any) error) error {
	err := m.class.check()
	if err == nil {
		err = c.admitClassed(m.class, (*streamQueue)(c), sizeOf(m.msg))
	}
	if err != nil {
		m.Release()
		c.refused(err)
		return unlessDropped(err)
	}
	return pass(m.msg)
}

// streamQueue is the queue of a connection whose handlers make a stream of bytes, from which no message can be taken.
type streamQueue Conn

// Room implements ClassQueue.
func (q *streamQueue) Room(_ *MessageClass, n int) error { return (*Conn)(q).admit(n) }

// DropOldest implements ClassQueue.
func (q *streamQueue) DropOldest(*MessageClass, error) bool { return false }

// sayFarewell tells the FinishHandlers, once per connection, and reports whether it told any.
func (c *Conn) sayFarewell(reason CloseReason) bool {
	told := false
	for ctx := c.tail; ctx != nil && c.phase < PhaseClosing; ctx = ctx.prev.Load() {
		if ctx.node.ops&opFinish == 0 || ctx.node.pool != nil {
			continue
		}
		if x := c.extend(); !told && x.stream.farewell {
			return false
		} else {
			x.stream.farewell, told = true, true
		}
		c.loop.finishHandler(ctx, reason)
	}
	return told
}

// finishHandler calls one FinishHandler; one that panics is not called again.
func (l *loop) finishHandler(ctx *Context, reason CloseReason) {
	prev := l.inHand.ctx
	defer func() {
		l.inHand.ctx = prev
		if v := recover(); v != nil {
			l.Counters[meter.Panics]++
			l.Log.Error("eddy: panic in HandleFinish", "loop", l.Name, "handler", ctx.node.name, "panic", v)
		}
	}()
	l.inHand.ctx = ctx
	ctx.node.handler.(FinishHandler).HandleFinish(ctx, reason)
}

// endDecoders tells the decoders that the connection's bytes have ended, and reports whether the connection is still open
// after that.
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

// Demand is a handler that lets through as many messages as were asked for: the pull of a stream's consumer. It holds back
// the rest by pausing reads, so that the peer slows down in the end. The zero Demand asks for nothing; call Request. Add one
// Demand per connection, behind the decoder. Leave Conn.PauseRead and ResumeRead to the Demand, which uses that switch.
type Demand struct {
	left atomic.Int64
	conn atomic.Pointer[Conn]
}

// Request asks for n more messages; n below 1 asks for nothing. Any goroutine, at any time.
func (d *Demand) Request(n int) {
	for n > 0 {
		old := d.left.Load()
		sum := old + int64(n)
		if sum < old {
			sum = math.MaxInt64
		}
		if d.left.CompareAndSwap(old, sum) {
			break
		}
	}
	if c := d.conn.Load(); c != nil && d.left.Load() > 0 {
		c.ResumeRead()
	}
}

// HandleOpen implements OpenHandler.
func (d *Demand) HandleOpen(ctx *Context) error {
	d.conn.Store(ctx.Conn())
	d.settle(ctx.Conn())
	return nil
}

// HandleRead implements ReadHandler.
func (d *Demand) HandleRead(ctx *Context, msg any) error {
	d.left.Add(-1)
	d.settle(ctx.Conn())
	ctx.FireRead(msg)
	return nil
}

// settle pauses when nothing more is asked for.
func (d *Demand) settle(c *Conn) {
	if d.left.Load() <= 0 {
		d.pause(c)
	}
}

// pause pauses reads. A Request made meanwhile finds the pause, or is found here.
func (d *Demand) pause(c *Conn) {
	c.PauseRead()
	if d.left.Load() > 0 {
		c.ResumeRead()
	}
}
