package websocket

import (
	"encoding/binary"
	"errors"

	"github.com/go-eddy/eddy"
)

// endpoint is the pipeline's view of a Conn: decoder and handler in one.
type endpoint struct{ c *Conn }

// HandleOpen implements eddy.OpenHandler. It runs when the 101 response is
// queued.
func (e endpoint) HandleOpen(ctx *eddy.Context) error {
	c := e.c
	c.ctx = ctx
	c.parser.maxMessage, c.parser.maxFrame = c.opts.MaxMessage, c.opts.MaxFrame
	c.opened = true
	c.opts.Stats.opened.Add(1)
	if c.opts.PingInterval > 0 {
		c.armKeepAlive(c.opts.PingInterval)
	}
	c.handled(c.handler.HandleOpen(c))
	return nil
}

// Decode implements eddy.Decoder.
func (e endpoint) Decode(_ *eddy.Context, view []byte) (int, error) {
	c := e.c
	if c.over {
		return len(view), nil
	}
	ev, n, ok, err := c.parser.next(view)
	if err != nil {
		c.end(err.code, err.reason, reasonFor(err.code))
		return len(view), nil
	}
	if ok {
		c.heard = true
		c.event(ev)
	}
	c.watchMessage(n == 0 || c.parser.inFrame || c.parser.started)
	return n, nil
}

// event handles a complete message or control frame.
func (c *Conn) event(ev event) {
	switch ev.op {
	case opPing:
		c.pong(ev.data)
	case opPong:
	case opClose:
		c.closedByPeer(ev.data)
	default:
		if c.closing.Load() {
			return // the handler has said its farewell
		}
		c.opts.Stats.messagesIn.Add(1)
		c.handled(c.handler.HandleMessage(c, ev.op, ev.data))
	}
}

// pong answers a ping. A client that does not read gets none: the queue must not
// grow with what it sends.
func (c *Conn) pong(data []byte) {
	if !c.conn.Writable() {
		c.opts.Stats.dropped.Add(1)
		return
	}
	_ = c.writeFrame(opPong, data) // it fails when the connection is ending
}

// closedByPeer ends the close handshake that the client started or answered.
func (c *Conn) closedByPeer(data []byte) {
	c.code = CloseNoStatus
	if len(data) >= 2 {
		c.code = int(binary.BigEndian.Uint16(data))
		c.reason = string(data[2:])
	}
	c.over = true
	c.sendClose(c.code, "")
	c.conn.CloseAfterFlush(eddy.CloseNormal)
}

// end closes the connection because of what the client or the handler did: the
// close frame is flushed and all further input discarded.
func (c *Conn) end(code int, reason string, why eddy.CloseReason) {
	c.over = true
	c.code, c.reason = code, reason
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

// handled follows a call of the handler that may have failed.
func (c *Conn) handled(err error) {
	if err == nil || c.over {
		return
	}
	if ce, ok := errors.AsType[*CloseError](err); ok && sendable(ce.Code) && len(ce.Reason) <= maxReason {
		_ = c.Close(ce.Code, ce.Reason) // it fails when the close frame was sent before
		return
	}
	c.end(CloseInternalError, "", eddy.CloseInternalError)
}

// HandleError implements eddy.ErrorHandler: a panic of the handler ends in a
// close frame too.
func (e endpoint) HandleError(_ *eddy.Context, err error) error {
	c := e.c
	if !c.over {
		c.over = true
		c.code = CloseInternalError
		_ = c.writeFrame(opClose, binary.BigEndian.AppendUint16(nil, CloseInternalError)) // it fails when one was sent before
		c.mu.Lock()
		c.closing.Store(true)
		c.mu.Unlock()
	}
	return err
}

// HandleEvent implements eddy.EventHandler.
func (e endpoint) HandleEvent(ctx *eddy.Context, ev any) error {
	c := e.c
	switch ev.(type) {
	case eddy.DrainEvent:
		c.drain()
	case eddy.InputClosedEvent:
		if !c.over {
			c.over = true
			c.conn.CloseAfterFlush(eddy.ClosePeerClosed)
		}
	}
	ctx.FireEvent(ev)
	return nil
}

// drain tells the client that the server goes away and keeps the connection in
// flight until the client has answered or its time is over.
func (c *Conn) drain() {
	if !c.held && !c.over {
		c.held = true
		c.conn.Begin()
	}
	if h, ok := c.handler.(DrainHandler); ok {
		h.HandleDrain(c)
	}
	_ = c.Close(CloseGoingAway, "the server is shutting down") // it fails when the close frame was sent before
}

// HandleClose implements eddy.CloseHandler.
func (e endpoint) HandleClose(_ *eddy.Context, _ eddy.CloseReason, _ error) {
	c := e.c
	c.over = true
	for _, t := range []*eddy.Timer{c.keepTimer, c.frameTimer, c.closeTimer} {
		if t != nil {
			t.Stop()
		}
	}
	c.mu.Lock()
	c.closing.Store(true)
	c.mu.Unlock()
	if c.held {
		c.conn.End()
	}
	if c.code == 0 {
		c.code = CloseAbnormal
	}
	c.opts.Stats.closedBy(c.code).Add(1)
	if c.opened {
		c.handler.HandleClose(c, c.code, c.reason)
	}
}
