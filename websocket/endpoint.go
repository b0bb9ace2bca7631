package websocket

import (
	"encoding/binary"
	"errors"
	"sync"

	"github.com/go-eddy/eddy"
)

// endpoint is the decoder and the handler of a connection in its pipeline, unless
// that came by HTTP/2. The Conn is the state of its context. All connections of a config add the same
// endpoint value, so the engine keeps one pipeline node for all of them.
type endpoint struct{ cfg *config }

// arrivals holds each Conn from enter until the first call of its endpoint.
type arrivals struct {
	mu    sync.Mutex
	conns map[*eddy.Conn]*Conn
}

// enter calls add, which puts c's endpoint into the pipeline. Loop only.
func (c *Conn) enter(add func(endpoint) error) error {
	a, conn := &c.cfg.arrivals, c.Eddy()
	a.mu.Lock()
	if a.conns == nil {
		a.conns = map[*eddy.Conn]*Conn{}
	}
	a.conns[conn] = c
	a.mu.Unlock()
	defer a.take(conn)
	return add(endpoint{c.cfg})
}

// take removes and returns the Conn, or returns nil if it is gone already.
func (a *arrivals) take(conn *eddy.Conn) *Conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.conns[conn]
	delete(a.conns, conn)
	return c
}

// of returns the Conn of a context.
func (e endpoint) of(ctx *eddy.Context) *Conn {
	if c, ok := ctx.State().(*Conn); ok {
		return c
	}
	c := e.cfg.arrivals.take(ctx.Conn()) // never nil: the first call is HandleOpen, inside enter
	ctx.SetState(c)
	return c
}

// HandleOpen implements eddy.OpenHandler. It runs when a server has queued the
// 101 response, or a client has read that.
func (e endpoint) HandleOpen(ctx *eddy.Context) error {
	e.of(ctx).open(ctx)
	return nil
}

// open makes the connection ready and tells the handler.
func (c *Conn) open(ctx *eddy.Context) {
	c.ctx = ctx
	c.parser.lim, c.parser.deflate = &c.cfg.limits, c.deflate != nil
	c.opened = true
	c.cfg.Stats.opened.Add(1)
	if c.cfg.PingInterval > 0 {
		c.armKeepAlive(c.cfg.PingInterval)
	}
	c.handled(c.handler.HandleOpen(c))
}

// Decode implements eddy.Decoder.
func (e endpoint) Decode(ctx *eddy.Context, view []byte) (int, error) {
	return e.of(ctx).decode(view), nil
}

// decode takes one step and returns how many bytes that took.
func (c *Conn) decode(view []byte) int {
	if c.over {
		return len(view)
	}
	ev, n, ok, err := c.parser.next(view)
	if err != nil {
		c.violated(err)
		return len(view)
	}
	if ok {
		c.heard = true
		c.event(ev)
	}
	if unfinished := n == 0 || c.parser.unfinished(); unfinished != (c.frameTimer != nil) {
		c.watchMessage(unfinished)
	}
	return n
}

// event handles a complete message or control frame.
func (c *Conn) event(ev event) {
	switch {
	case ev.op == opPing:
		c.pong(ev.data)
	case ev.op == opPong:
		if h, ok := c.handler.(PongHandler); ok && !c.closing.Load() {
			h.HandlePong(c, ev.data)
		}
	case ev.op == opClose:
		c.closedByPeer(ev.data)
	case ev.deflated:
		c.inflate(ev)
	default:
		c.deliver(ev.op, ev.data)
	}
}

// deliver hands a message to the handler.
func (c *Conn) deliver(op Opcode, data []byte) {
	if c.closing.Load() {
		return // the close frame was sent
	}
	c.cfg.Stats.messagesIn.Add(1)
	c.handled(c.handler.HandleMessage(c, op, data))
}

// pong answers a ping. A peer that does not read gets no pong, so that its
// pings cannot make the queue grow.
func (c *Conn) pong(data []byte) {
	if !c.conn.Writable() {
		c.cfg.Stats.dropped.Add(1)
		return
	}
	_ = c.writeFrame(first(opPong), data) // an error means that the connection is ending
}

// closedByPeer handles the peer's close frame, which completes the close
// handshake. A server then ends the connection; a client waits until the server
// does (RFC 6455 section 7.1.1).
func (c *Conn) closedByPeer(data []byte) {
	code := CloseNoStatus
	if len(data) >= 2 {
		code = int(binary.BigEndian.Uint16(data))
		c.reason = string(data[2:])
	}
	c.code = int16(code)
	c.over = true
	c.sendClose(code, "")
	if !c.cfg.client {
		c.conn.CloseAfterFlush(eddy.CloseNormal)
		return
	}
	c.armClose(func() { c.conn.CloseAfterFlush(eddy.CloseNormal) })
}

// violated closes the connection because of what the peer has sent.
func (c *Conn) violated(v *violation) { c.end(v.code, v.reason, reasonFor(v.code)) }

// end closes the connection because of what the peer or the handler did. It
// flushes the close frame and discards all further input.
func (c *Conn) end(code int, reason string, why eddy.CloseReason) {
	c.over = true
	c.code, c.reason = int16(code), reason
	c.sendClose(code, reason)
	c.conn.CloseAfterFlush(why)
}

// reasonFor maps the close code of a violation to the engine's reason.
func reasonFor(code int) eddy.CloseReason {
	if code == CloseMessageTooBig {
		return eddy.CloseFrameTooLarge
	}
	return eddy.CloseProtocolError
}

// handled closes the connection when a call of the handler has failed.
func (c *Conn) handled(err error) {
	if err == nil || c.over {
		return
	}
	if ce, ok := errors.AsType[*CloseError](err); ok {
		if cannot := c.Close(ce.Code, ce.Reason); cannot == nil || errors.Is(cannot, ErrClosed) {
			return
		}
	}
	c.end(CloseInternalError, "", eddy.CloseInternalError)
}

// HandleError implements eddy.ErrorHandler. It sends a close frame after a
// panic of the handler.
func (e endpoint) HandleError(ctx *eddy.Context, err error) error {
	e.of(ctx).failed()
	return err
}

// failed says farewell after a panic of the handler.
func (c *Conn) failed() {
	if !c.over {
		c.over = true
		c.code = CloseInternalError
		c.farewell()
	}
}

// farewell writes a close frame directly on the loop, unless one was sent. A
// task would come too late, because the engine ends the connection right after
// this.
func (c *Conn) farewell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing.Load() {
		_ = c.framed(first(opClose), closePayload(CloseInternalError, "")) // an error means that the connection has ended
		c.closing.Store(true)
	}
}

// HandleWritability implements eddy.WritabilityHandler.
func (e endpoint) HandleWritability(ctx *eddy.Context, writable bool) error {
	e.of(ctx).writability(writable)
	return nil
}

func (c *Conn) writability(writable bool) {
	if h, ok := c.handler.(WritabilityHandler); ok && c.opened {
		h.HandleWritability(c, writable)
	}
}

// HandleEvent implements eddy.EventHandler.
func (e endpoint) HandleEvent(ctx *eddy.Context, ev any) error {
	c := e.of(ctx)
	switch ev.(type) {
	case eddy.DrainEvent:
		c.drain()
	case eddy.InputClosedEvent:
		c.inputEnded()
	}
	ctx.FireEvent(ev)
	return nil
}

// inputEnded handles the peer's end of stream. After the close handshake a
// client expects it. Before the close handshake it is an abnormal end.
func (c *Conn) inputEnded() {
	switch {
	case !c.over:
		c.over = true
		c.conn.CloseAfterFlush(eddy.ClosePeerClosed)
	case c.cfg.client:
		c.hold() // else the engine ends the connection before the close frame is sent
		c.conn.CloseAfterFlush(eddy.CloseNormal)
	}
}

// hold keeps the connection in flight until its end, so that a drain waits for
// it.
func (c *Conn) hold() {
	if !c.held {
		c.held = true
		c.conn.Begin()
	}
}

// drain sends a close frame with 1001 and keeps the connection in flight until
// the peer has answered or CloseTimeout is over.
func (c *Conn) drain() {
	if !c.over {
		c.hold()
	}
	if h, ok := c.handler.(DrainHandler); ok {
		h.HandleDrain(c)
	}
	_ = c.Close(CloseGoingAway, "shutting down") // an error means that a close frame was sent before
}

// HandleClose implements eddy.CloseHandler.
func (e endpoint) HandleClose(ctx *eddy.Context, _ eddy.CloseReason, _ error) { e.of(ctx).finish() }

// finish ends what belongs to the connection and tells the handler. It runs
// once.
func (c *Conn) finish() {
	c.over = true
	stop(&c.keepTimer)
	stop(&c.frameTimer)
	stop(&c.closeTimer)
	c.mu.Lock()
	c.closing.Store(true)
	c.mu.Unlock()
	if c.held {
		c.conn.End()
	}
	if c.code == 0 {
		c.code = CloseAbnormal
	}
	c.leaveHubs()
	c.releaseDeflate()
	c.cfg.Stats.closedBy(int(c.code)).Add(1)
	if c.opened {
		c.handler.HandleClose(c, int(c.code), c.reason)
	}
}
