package websocket

import (
	"encoding/binary"
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
	// HandleOpen was called. code and reason are those of the client's close
	// frame, NoStatus when it had none; those of the server's when the server
	// ended the connection because of an error; else Abnormal.
	HandleClose(c *Conn, code int, reason string)
}

// DrainHandler is implemented by handlers that want a last word when the server
// shuts down. HandleDrain runs on the loop; afterwards the connection is closed
// with 1001.
type DrainHandler interface {
	HandleDrain(c *Conn)
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

// Conn is one WebSocket connection.
type Conn struct {
	conn        *eddy.Conn
	handler     Handler
	opts        Options
	subprotocol string

	// The loop's.
	ctx        *eddy.Context
	parser     parser
	scratch    []byte
	heard      bool        // a frame came since the last look
	pinged     bool        // a ping is out
	over       bool        // no more input counts
	opened     bool        // the handler was told of the connection
	held       bool        // a drain waits for the close handshake
	stuck      int64       // bytes queued for a client that did not read, at the last look
	keepTimer  *eddy.Timer // next ping, or the end of the wait for its answer
	frameTimer *eddy.Timer // end of an incomplete message's time
	closeTimer *eddy.Timer // end of the wait for the client's close frame
	code       int         // for HandleClose, 0 for Abnormal
	reason     string

	// mu makes sure that no frame follows the close frame.
	mu      sync.Mutex
	closing atomic.Bool // the close frame was submitted; written with mu held
}

// Eddy returns the engine's connection, for its addresses, its queue and its
// switches. Writing to it would break the framing. Any goroutine.
func (c *Conn) Eddy() *eddy.Conn { return c.conn }

// Subprotocol returns the one chosen in the handshake, "" for none. Any
// goroutine.
func (c *Conn) Subprotocol() string { return c.subprotocol }

// smallMessage is the size up to which header and payload are sent as one slice
// instead of two.
const smallMessage = 4 << 10

// Write sends a message, op Text or Binary. Text must be valid UTF-8. data must
// not be changed afterwards. It never blocks; any goroutine may call it. Errors:
// ErrClosed, eddy.ErrBackpressure, eddy.ErrSaturated.
func (c *Conn) Write(op Opcode, data []byte) error {
	if err := checkWrite(op, data); err != nil {
		return err
	}
	var msg any
	if len(data) <= smallMessage {
		b := appendHeader(make([]byte, 0, maxHeader+len(data)), op, len(data))
		msg = append(b, data...)
	} else {
		msg = [][]byte{appendHeader(make([]byte, 0, maxHeader), op, len(data)), data}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		return ErrClosed
	}
	return c.conn.Write(msg)
}

// maxScratch is the capacity up to which a connection keeps the buffer that
// WriteBytes builds frames in.
const maxScratch = 512

// WriteBytes is Write for a Handler's own methods, on the loop: it sends a copy
// of data, which may be the message that is being handled, and costs neither an
// allocation nor a task. It overtakes what Write submitted and the loop has not
// reached yet. Errors: ErrClosed, eddy.ErrBackpressure.
func (c *Conn) WriteBytes(op Opcode, data []byte) error {
	if err := checkWrite(op, data); err != nil {
		return err
	}
	return c.writeFrame(op, data)
}

func checkWrite(op Opcode, data []byte) error {
	if op != Text && op != Binary {
		return fmt.Errorf("websocket: cannot write a message with opcode %v", op)
	}
	if len(data) > largestMessage {
		return fmt.Errorf("websocket: message of %d bytes, limit %d", len(data), largestMessage)
	}
	return nil
}

// writeFrame sends a frame from the loop.
func (c *Conn) writeFrame(op Opcode, data []byte) error {
	b := append(appendHeader(c.scratch[:0], op, len(data)), data...)
	if cap(b) <= maxScratch {
		c.scratch = b
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		return ErrClosed
	}
	return c.ctx.WriteBytes(b)
}

// maxReason is the longest reason that fits a close frame.
const maxReason = maxControl - 2

// Close starts the close handshake with the given code and reason (RFC 6455
// section 7): the client answers, or the connection ends after CloseTimeout.
// Later writes fail with ErrClosed, messages that still come are dropped. Any
// goroutine. It fails with ErrClosed when the close frame was sent before, and
// for codes and reasons that a close frame cannot carry.
func (c *Conn) Close(code int, reason string) error {
	if !sendable(code) {
		return fmt.Errorf("websocket: close code %d cannot be sent", code)
	}
	if len(reason) > maxReason || !utf8.ValidString(reason) {
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
	var payload []byte
	if code != CloseNoStatus {
		payload = append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
	}
	// When the queue is full the frame is lost; the connection ends anyway.
	_ = c.conn.Write(append(appendHeader(nil, opClose, len(payload)), payload...))
	return true
}

// awaitClose gives the client its time to answer the close frame. Loop only.
func (c *Conn) awaitClose() {
	if c.over || c.ctx == nil || c.conn.CloseError() != nil {
		return
	}
	t, err := c.ctx.After(c.opts.CloseTimeout, func() {
		c.closeTimer = nil
		c.over = true
		c.conn.CloseWith(eddy.CloseReadTimeout, errCloseTimeout)
	})
	if err == nil {
		c.closeTimer = t
	}
}

var (
	errCloseTimeout = errors.New("websocket: the client did not answer the close frame")
	errPongTimeout  = errors.New("websocket: the client did not answer the ping")
	errStuck        = errors.New("websocket: the client has stopped reading")
)
