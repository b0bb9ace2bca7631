package websocket

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/httpserve"
	"github.com/go-eddy/eddy/trace"
)

// Handler receives what happens on a connection. Its methods run on the
// connection's loop, one at a time, and must not block.
//
// An error of HandleOpen or HandleMessage closes the connection: with the code
// of a *CloseError, else with 1011. A panic closes it with 1011 too.
type Handler interface {
	// HandleOpen runs when the handshake is done. c may be written to.
	HandleOpen(c *Conn) error
	// HandleMessage receives a complete message, op Text (valid UTF-8) or Binary.
	// data is valid during the call only.
	HandleMessage(c *Conn, op Opcode, data []byte) error
	// HandleClose runs exactly once, when the connection has ended, if
	// HandleOpen was called. code and reason are those of the peer's close
	// frame; code is CloseNoStatus if that has none. When this side ended the
	// connection because of an error, they are its own. Otherwise code is
	// CloseAbnormal.
	HandleClose(c *Conn, code int, reason string)
}

// DrainHandler is implemented by handlers that want a last word when the server
// shuts down. HandleDrain runs on the loop; afterwards the connection is closed
// with 1001.
type DrainHandler interface {
	HandleDrain(c *Conn)
}

// WritabilityHandler is implemented by handlers that want to know when the
// outbound queue crosses its watermarks. HandleWritability runs on the loop.
// While the queue is above the high watermark, nothing is read from the peer.
type WritabilityHandler interface {
	HandleWritability(c *Conn, writable bool)
}

// PongHandler is implemented by handlers that want to see pongs. HandlePong
// runs on the loop with the data that the ping carried, which is valid during
// the call only.
type PongHandler interface {
	HandlePong(c *Conn, data []byte)
}

// CloseError is an error that a Handler returns to close its connection with
// this code and reason.
type CloseError struct {
	Code   int
	Reason string
}

// Error implements error.
func (e *CloseError) Error() string {
	return fmt.Sprintf("websocket: closing with %d %s", e.Code, e.Reason)
}

// ErrClosed is returned by writes after the close frame was sent or the
// connection has ended. errors.Is also finds eddy.ErrClosed in it.
var ErrClosed = fmt.Errorf("websocket: close frame sent: %w", eddy.ErrClosed)

// Conn is one WebSocket connection. It is kept small, because every idle
// connection pays for it.
type Conn struct {
	conn        httpserve.Link
	cfg         *config
	handler     Handler
	deflate     *deflateState // nil without compression
	keys        *maskKeys     // nil on servers
	subprotocol string

	// Loop only.
	ctx        *eddy.Context
	parser     parser
	stuck      int64       // bytes queued for a peer that did not read, at the last keep-alive check
	keepTimer  *eddy.Timer // next ping, or the end of the wait for its answer
	frameTimer *eddy.Timer // end of an incomplete message's time
	closeTimer *eddy.Timer // end of the wait for the peer's close frame, or for the end of its stream
	reason     string
	code       int16 // for HandleClose; 0 means CloseAbnormal
	heard      bool  // a frame came since the last keep-alive check
	pinged     bool  // a ping waits for its answer
	over       bool  // all further input is discarded
	opened     bool  // HandleOpen was called
	held       bool  // counted as in flight, so that a drain waits

	pauses  pauses
	closing atomic.Bool // the close frame was submitted; written with mu held

	// mu makes sure that no frame follows the close frame. It is also held
	// while at most maxLoopCompress bytes are compressed.
	mu      sync.Mutex
	members *membership    // in hubs
	request *trace.Request // of the handshake, nil without a Recorder
	ended   bool           // it can join no more hubs
}

// Eddy returns the engine's connection, for its addresses and its loop. Do not
// write to it, because that breaks the framing. By HTTP/2 it carries other
// streams as well, so use the methods of Conn for everything else. Any
// goroutine.
func (c *Conn) Eddy() *eddy.Conn {
	if own, ok := c.conn.(*eddy.Conn); ok {
		return own
	}
	return c.conn.(httpserve.Tunnel).Conn()
}

// tunnel returns the tunnel of a connection that came by HTTP/2, nil for
// another one.
func (c *Conn) tunnel() httpserve.Tunnel {
	if _, own := c.conn.(*eddy.Conn); own {
		return nil
	}
	return c.conn.(httpserve.Tunnel)
}

// Trace returns a context with the trace of the handshake's request, for what its messages cause, or an empty one. Any goroutine.
func (c *Conn) Trace() context.Context {
	if c.request == nil {
		return context.Background()
	}
	return c.request.Context()
}

// QueuedBytes returns how many bytes wait for the peer. Any goroutine.
func (c *Conn) QueuedBytes() int64 { return c.conn.QueuedBytes() }

// Abort ends the connection now, without a close frame and without what is
// queued. Any goroutine.
func (c *Conn) Abort(reason eddy.CloseReason, err error) { c.conn.CloseWith(reason, err) }

// Subprotocol returns the subprotocol that the handshake chose, "" for none.
// Any goroutine.
func (c *Conn) Subprotocol() string { return c.subprotocol }

// Compressed reports whether permessage-deflate was negotiated. Any goroutine.
func (c *Conn) Compressed() bool { return c.deflate != nil }

// maxReason is the longest reason that fits a close frame.
const maxReason = maxControl - 2

// Close starts the close handshake with the given code and reason (RFC 6455
// section 7). The connection ends when the peer has answered, or after
// CloseTimeout. Later writes fail with ErrClosed, and messages that still
// arrive are dropped. CloseNoStatus with no reason sends a close frame without
// either. Any goroutine. Errors: ErrClosed when the close frame was sent
// before; another one for a code or reason that a close frame cannot carry.
func (c *Conn) Close(code int, reason string) error {
	switch {
	case code == CloseNoStatus && reason == "":
	case !sendable(code) || code == CloseMandatoryExtension && !c.cfg.client:
		return fmt.Errorf("websocket: close code %d cannot be sent", code)
	case len(reason) > maxReason || !utf8.ValidString(reason):
		return fmt.Errorf("websocket: close reason of %d bytes: want UTF-8 of at most %d", len(reason), maxReason)
	}
	if !c.sendClose(code, reason) {
		return ErrClosed
	}
	if err := c.conn.Post(c.awaitClose); err != nil {
		c.conn.CloseAfterFlush(eddy.CloseNormal)
	}
	return nil
}

// sendClose submits the close frame behind all frames submitted before. It
// reports false when a close frame was submitted already.
func (c *Conn) sendClose(code int, reason string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		return false
	}
	c.closing.Store(true)
	// When the queue is full the frame is lost; the connection ends anyway.
	_ = c.conn.Write(c.plainFrame(first(opClose), closePayload(code, reason)))
	return true
}

// awaitClose gives the peer its time to answer the close frame. Loop only.
func (c *Conn) awaitClose() {
	if c.over || c.ctx == nil || c.conn.CloseError() != nil {
		return
	}
	c.armClose(func() {
		c.over = true
		c.conn.CloseWith(eddy.CloseReadTimeout, errCloseTimeout)
	})
}

// armClose schedules late after CloseTimeout.
func (c *Conn) armClose(late func()) {
	stop(&c.closeTimer)
	t, err := c.ctx.After(c.cfg.CloseTimeout, func() {
		c.closeTimer = nil
		late()
	})
	if err == nil { // an error means that the connection has ended
		c.closeTimer = t
	}
}

// stop ends a timer that may be nil.
func stop(t **eddy.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

var (
	errCloseTimeout = errors.New("websocket: the peer did not answer the close frame")
	errPongTimeout  = errors.New("websocket: the peer did not answer the ping")
	errStuck        = errors.New("websocket: the peer has stopped reading")
)

// pauses holds the reasons for which reads are paused: the application wants
// it, or a message is being inflated.
type pauses struct {
	mu        sync.Mutex
	app, work bool
}

// PauseRead stops reading, and the delivery of messages after the current one,
// until ResumeRead. A close frame, a ping or the end of the connection may go
// unnoticed meanwhile. Any goroutine.
func (c *Conn) PauseRead() { c.pause(&c.pauses.app, true) }

// ResumeRead undoes PauseRead. Any goroutine.
func (c *Conn) ResumeRead() { c.pause(&c.pauses.app, false) }

// pause sets or clears one reason.
func (c *Conn) pause(why *bool, on bool) {
	p := &c.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.app || p.work
	*why = on
	switch now := p.app || p.work; {
	case now && !was:
		c.conn.PauseRead()
	case was && !now:
		c.conn.ResumeRead()
	}
}

// paused reports whether reads are paused for any reason.
func (c *Conn) paused() bool {
	c.pauses.mu.Lock()
	defer c.pauses.mu.Unlock()
	return c.pauses.app || c.pauses.work
}
