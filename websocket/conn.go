package websocket

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-eddy/eddy"
)

// Handler receives what happens on a connection. Its methods run on the
// connection's loop, one at a time, and must not block.
//
// An error of HandleOpen or HandleMessage closes the connection: with the code
// of a *CloseError, else with 1011. A panic closes it with 1011 too.
type Handler interface {
	// HandleOpen is told that the handshake is done. c may be written to.
	HandleOpen(c *Conn) error
	// HandleMessage receives a complete message, op Text (valid UTF-8) or Binary.
	// data is valid during the call only.
	HandleMessage(c *Conn, op Opcode, data []byte) error
	// HandleClose is told exactly once that the connection has ended, if
	// HandleOpen was called. code and reason are those of the peer's close frame,
	// NoStatus when it had none; those of this side when it ended the connection
	// because of an error; else Abnormal.
	HandleClose(c *Conn, code int, reason string)
}

// DrainHandler is implemented by handlers that want a last word when the server
// shuts down. HandleDrain runs on the loop; afterwards the connection is closed
// with 1001.
type DrainHandler interface {
	HandleDrain(c *Conn)
}

// WritabilityHandler is implemented by handlers that want to know when the
// outbound queue crosses its watermarks. It runs on the loop. While the queue is
// above the high one nothing is read from the peer.
type WritabilityHandler interface {
	HandleWritability(c *Conn, writable bool)
}

// PongHandler is implemented by handlers that want to see pongs, with what the
// Ping carried. It runs on the loop; data is valid during the call only.
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
// connection has ended. It is also an eddy.ErrClosed.
var ErrClosed = fmt.Errorf("websocket: close frame sent: %w", eddy.ErrClosed)

// Conn is one WebSocket connection. Every byte of it is multiplied by the number
// of idle connections.
type Conn struct {
	conn        *eddy.Conn
	cfg         *config
	handler     Handler
	deflate     *deflateState // nil without compression
	keys        *maskKeys     // nil on servers
	subprotocol string

	// The loop's.
	ctx        *eddy.Context
	parser     parser
	stuck      int64       // bytes queued for a peer that did not read, at the last look
	keepTimer  *eddy.Timer // next ping, or the end of the wait for its answer
	frameTimer *eddy.Timer // end of an incomplete message's time
	closeTimer *eddy.Timer // end of the wait for the peer's close frame, or its end
	reason     string
	code       int16 // for HandleClose, 0 for Abnormal
	heard      bool  // a frame came since the last look
	pinged     bool  // a ping is out
	over       bool  // no more input counts
	opened     bool  // the handler was told of the connection
	held       bool  // a drain waits for the close handshake

	pauses  pauses
	closing atomic.Bool // the close frame was submitted; written with mu held

	// mu makes sure that no frame follows the close frame. It is held for the
	// compression of at most maxLoopCompress bytes.
	mu      sync.Mutex
	members *membership // in hubs
	ended   bool        // no more of them
}

// Eddy returns the engine's connection, for its addresses, its queue and its
// deadlines. Writing to it would break the framing, and reads are paused with
// PauseRead of this type. Any goroutine.
func (c *Conn) Eddy() *eddy.Conn { return c.conn }

// Subprotocol returns the one chosen in the handshake, "" for none. Any
// goroutine.
func (c *Conn) Subprotocol() string { return c.subprotocol }

// Compressed reports whether permessage-deflate was negotiated. Any goroutine.
func (c *Conn) Compressed() bool { return c.deflate != nil }

// maxReason is the longest reason that fits a close frame.
const maxReason = maxControl - 2

// Close starts the close handshake with the given code and reason (RFC 6455
// section 7): the peer answers, or the connection ends after CloseTimeout.
// Later writes fail with ErrClosed, messages that still come are dropped. Any
// goroutine. It fails with ErrClosed when the close frame was sent before, and
// for codes and reasons that a close frame cannot carry: CloseNoStatus sends one
// without either.
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

// sendClose submits the close frame, behind every frame that was submitted
// before. It reports false when that was done already.
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

// armClose runs late after CloseTimeout.
func (c *Conn) armClose(late func()) {
	stop(&c.closeTimer)
	t, err := c.ctx.After(c.cfg.CloseTimeout, func() {
		c.closeTimer = nil
		late()
	})
	if err == nil { // else the connection has ended
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

// pauses are the reasons for which reads are paused.
type pauses struct {
	mu        sync.Mutex
	app, work bool
}

// PauseRead stops delivery of messages after the current one, and with it the
// reading of more, until ResumeRead. A close frame, a ping or the end of the
// connection may go unnoticed meanwhile. Any goroutine.
func (c *Conn) PauseRead() { c.pause(&c.pauses.app, true) }

// ResumeRead undoes PauseRead. Any goroutine.
func (c *Conn) ResumeRead() { c.pause(&c.pauses.app, false) }

// pause switches one of the reasons.
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

// paused reports whether the application, or a message in work, holds back reads.
func (c *Conn) paused() bool {
	c.pauses.mu.Lock()
	defer c.pauses.mu.Unlock()
	return c.pauses.app || c.pauses.work
}
