package eddy

import (
	"fmt"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/transport"
)

// innerInput holds the undecoded bytes of a decoder that is not the first handler, because TLS or a handler for a
// preamble precedes it. An entry is in connExt from the first bytes on. Bytes that wait there for a budget or a pause,
// not for more bytes, are frames in hand. While there are any, pauseInner holds back what comes before them.
type innerInput struct {
	ctx   *Context // place of the decoder
	in    transport.Leftover
	short bool // in begins with a frame whose decoder asked for more
	busy  bool
	kept  int // bytes that the handler of ctx keeps itself
	next  *innerInput
}

// innerBound bounds the bytes that one decoder may have in hand. If a handler in front passes on more, the connection
// ends.
const innerBound = 1 << 20

// feeder is the ReadHandler of every decoder: it decodes bytes that come from an earlier handler. Other messages go to
// the decoder's own HandleRead, if there is one, or on.
type feeder struct{}

func (feeder) HandleRead(ctx *Context, msg any) error {
	var view []byte
	switch m := msg.(type) {
	case *buf.Bytes:
		view = m.Bytes()
	case []byte:
		view = m
	case *buf.Shared:
		view = m.Bytes()
	default:
		if h, ok := ctx.node.handler.(ReadHandler); ok {
			return h.HandleRead(ctx, msg)
		}
		ctx.fireRead(msg)
		return nil
	}
	ctx.feed(view)
	release(msg)
	return nil
}

// feed gives the decoder of ctx bytes that are valid during the call.
func (ctx *Context) feed(view []byte) {
	c := ctx.conn
	if c.phase >= PhaseClosing || len(view) == 0 {
		return
	}
	e := c.innerOf(ctx)
	if e.busy {
		c.beginClose(CloseInternalError, fmt.Errorf("eddy: decoder %q was given bytes while it decodes", ctx.node.name))
		return
	}
	if c.phase == PhaseDispatching { // the phase of the handler before; for this decoder the bytes are fresh input
		c.setPhase(PhaseReadingHeader)
		if c.has(readingBody) {
			c.setPhase(PhaseReadingBody)
		}
	}
	if !e.in.Held() {
		if rest := c.decodeInner(e, view); len(rest) > 0 && c.phase < PhaseClosing {
			e.in.Keep(c.loop.mem.segments, rest)
		}
		c.noteInner()
		return
	}
	if !e.short && e.in.Len()+len(view) > innerBound {
		c.beginClose(CloseBackpressureLimit, fmt.Errorf("eddy: decoder %q has %d bytes in hand and is given %d more, limit %d",
			ctx.node.name, e.in.Len(), len(view), innerBound))
		return
	}
	e.in.Add(c.loop.mem.segments, view)
	if e.short {
		c.decodeHeld(e)
	}
}

// innerOf returns the entry of ctx. A missing one is made, if possible from that of a removed decoder.
func (c *Conn) innerOf(ctx *Context) *innerInput {
	x := c.extend()
	var old *innerInput
	for e := x.stream.inner; e != nil; e = e.next {
		if e.ctx == ctx {
			return e
		}
		if !e.in.Held() && !e.busy && e.ctx.removed() {
			old = e
		}
	}
	if old != nil {
		old.ctx, old.short = ctx, false
		return old
	}
	e := &innerInput{ctx: ctx, next: x.stream.inner}
	x.stream.inner = e
	return e
}

// decodeHeld decodes a leftover and keeps no more memory than what is left needs.
func (c *Conn) decodeHeld(e *innerInput) {
	view := e.in.Bytes()
	rest := c.decodeInner(e, view)
	if c.phase >= PhaseClosing {
		return // the close drops the leftover
	}
	buf.Poison(view[:len(view)-len(rest)])
	e.in.Consume(c.loop.mem.segments, len(view)-len(rest))
	if e.in.Held() {
		e.in.Trim(c.loop.mem.segments)
	}
	c.noteInner()
}

// decodeInner is decode for a decoder further down.
func (c *Conn) decodeInner(e *innerInput, view []byte) []byte {
	e.short, e.busy = false, true
	defer func() { e.busy = false }()
	for len(view) > 0 {
		c.countAnswers()
		switch {
		case c.phase >= PhaseClosing:
			return nil
		case c.readPaused():
			c.raise(heldBack)
			return view
		case c.frames <= 0:
			c.markReady()
			return view
		case e.ctx.removed():
			c.pass(e.ctx, view)
			return nil
		}
		c.frames--
		trace := c.loop.inHand.tracing
		n, again := c.decodeOne(e.ctx, view)
		c.loop.inHand.tracing = trace
		if n == 0 && !again {
			e.short = c.awaitsRest()
			return view
		}
		c.lookAtTurn(n)
		if c.clock != 0 {
			c.frameComplete()
		}
		view = view[n:]
	}
	return nil
}

// pass gives what a removed decoder left to the handler that stands in its place now.
func (c *Conn) pass(from *Context, view []byte) {
	next := from.seat()
	if next.removed() {
		p := next.prev.Load()
		for p != nil && p.removed() {
			p = p.prev.Load()
		}
		if next = c.head; p != nil {
			next = p.next.Load()
		}
	}
	m := new(buf.Bytes)
	m.Reset(view)
	switch {
	case next == nil:
		c.unhandled(m)
	case next.node.decoder != nil:
		next.deliverRead(m, opRead)
	default:
		c.beginDispatch()
		next.deliverRead(m, opRead)
		c.settle()
	}
}

// inHand reports whether bytes wait in e for a budget or a pause.
func (e *innerInput) inHand() bool { return e.in.Held() && !e.short }

// inHandBehind reports whether a decoder behind that of e has frames in hand.
func (c *Conn) inHandBehind(e *innerInput) bool {
	for n := e.ctx.next.Load(); n != nil; n = n.next.Load() {
		for o := c.ext.Load().stream.inner; o != nil; o = o.next {
			if o.ctx == n && o.inHand() {
				return true
			}
		}
	}
	return false
}

// noteInner sets pauseInner if any decoder further down has frames in hand, and clears it otherwise.
func (c *Conn) noteInner() {
	c.paused &^= pauseInner
	for e := c.ext.Load().stream.inner; e != nil; e = e.next {
		if e.inHand() {
			c.paused |= pauseInner
		}
	}
}

// resumeInner continues with frames in hand, those furthest down first, and reports whether there are none left.
func (c *Conn) resumeInner() bool {
	for e := c.lastInHand(); e != nil; e = c.lastInHand() {
		c.decodeHeld(e)
		if c.phase >= PhaseClosing || e.inHand() {
			return false
		}
	}
	c.paused &^= pauseInner
	return true
}

func (c *Conn) lastInHand() *innerInput {
	for e := c.firstInner(); e != nil; e = e.next {
		if e.inHand() && !c.inHandBehind(e) {
			return e
		}
	}
	return nil
}

// firstInner returns the connection's entries, nil for none.
func (c *Conn) firstInner() *innerInput {
	if x := c.ext.Load(); x != nil {
		return x.stream.inner
	}
	return nil
}

// holdsInner reports whether the decoder of ctx has bytes left from an earlier handler.
func (c *Conn) holdsInner(ctx *Context) bool {
	for e := c.firstInner(); e != nil; e = e.next {
		if e.ctx == ctx {
			return e.in.Held()
		}
	}
	return false
}

// innerShort reports whether a decoder further down waits for the rest of a frame.
func (c *Conn) innerShort() bool {
	for e := c.firstInner(); e != nil; e = e.next {
		if e.short {
			return true
		}
	}
	return false
}

// innerBytes returns how many bytes the decoders further down have left and handlers keep.
func (c *Conn) innerBytes() (n int) {
	for e := c.firstInner(); e != nil; e = e.next {
		n += e.kept + e.in.Len()
	}
	return n
}

// KeepInput counts n more bytes of the connection's input as kept by the handler, such as a body that it collects. A
// negative n counts fewer. Call it in pairs; the end of the connection takes back the rest. Kept bytes count against
// Server.MemoryBudget and are part of Stats.Memory.Inbound. A connection that keeps some is not idle, so a drain waits
// for it. Loop only; after the close it has no effect.
func (ctx *Context) KeepInput(n int) {
	c := ctx.conn
	if c.phase == PhaseClosed {
		return
	}
	c.innerOf(ctx).kept += n
	if c.loop.batch != c { // otherwise the end of the batch accounts
		c.account()
	}
}

// innerAgain offers what removed decoders left to the handlers that stand in their places now.
func (c *Conn) innerAgain() {
	for e := c.firstInner(); e != nil; e = e.next {
		if e.in.Held() && !e.busy && e.ctx.removed() {
			e.short = false
			c.paused |= pauseInner
			c.markReady()
		}
	}
}

// offerShort turns the leftovers of decoders further down into frames in hand when reads go on. A decoder may pause reads
// and take nothing, and another goroutine may resume them before it returns. Such a pause looks like a request for more
// bytes.
func (c *Conn) offerShort() {
	for e := c.firstInner(); e != nil; e = e.next {
		if e.in.Held() && e.short {
			e.short = false
			c.paused |= pauseInner
		}
	}
}

func (c *Conn) dropInner() {
	for e := c.firstInner(); e != nil; e = e.next {
		e.in.Drop(c.loop.mem.segments)
		e.short = false
	}
	c.paused &^= pauseInner
}
