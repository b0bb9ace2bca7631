package rpc

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// call is one request of a client, from its encoding to its one end. The goroutine that wins claim decides that end. refs
// counts the users of a call: its caller, the table or list that holds it, the send queue, timers. Without users a call
// is used again for another request.
type call struct {
	client  *Client
	refs    atomic.Int32
	claimed atomic.Bool
	ready   chan struct{}

	outgoing
	outcome
	refusals
	aimed
	waiting
	future  *future    // nil for calls whose caller waits
	written chan error // tells Send the outcome under WaitWritten; else nil

	// Where the call is. The wire writes id and sent under its lock.
	wire    atomic.Pointer[wire]
	id      atomic.Uint64
	sent    atomic.Bool // given to the connection, so it may have been executed
	skipped bool        // still in the table, but taken out of the queue unsent: too late, or given up; wire.mu
}

// outgoing is what a call sends.
type outgoing struct {
	op      frame.Op
	codec   payload.Codec
	service *remoteService
	method  string
	wait    waitMode
	strict  bool
	due     int64  // on the client's clock, 0 = no limit
	sentAt  int64  // likewise
	buf     []byte // the whole request: header, prefix, body
	given   bool   // buf was given to a connection by reference and is not used again
	into    any    // what the body of the response is decoded into, nil for one-way
}

// outcome is the end of a call. The winner of claim writes it; it is read after ready or on the pool.
type outcome struct {
	status frame.Status
	body   []byte
	err    error
	failed bool // err is the end, nil for success; else status and body are
	onLoop bool // the end came on the loop
}

// aimed says where a call may go.
type aimed struct {
	hash  uint64      // of its key, for balance.Hash
	tried *triedNodes // by earlier attempts at the same call; nil without
	only  *peer       // nil = anywhere
}

// refusals are the connections that certainly did not execute a call, and what the last of them said. They belong to the
// goroutine that has taken the call out of a table.
type refusals struct {
	refused []*wire
	refusal error
}

// waiting is the place of a call in a list of Client.waits. Client.mu guards it.
type waiting struct {
	place list.Place[call]
	list  *callList // nil when the call does not wait
	timer *time.Timer
}

// claim reports whether its caller is the one to decide the end of the call.
func (c *call) claim() bool { return c.claimed.CompareAndSwap(false, true) }

// keptBody is the largest buffer that a call keeps for the next one.
const keptBody = 16 << 10

// newCall returns a call with one reference.
func (cl *Client) newCall(op frame.Op) *call {
	c := cl.calls.Get().(*call)
	c.op = op
	c.refs.Store(1)
	return c
}

// release ends one reference; the last one returns the call for reuse.
func (c *call) release() {
	if c.refs.Add(-1) > 0 {
		return
	}
	cl := c.client
	if c.given || cap(c.buf) > keptBody {
		c.buf = nil
	}
	if cap(c.body) > keptBody {
		c.body = nil
	}
	c.claimed.Store(false)
	c.outgoing, c.outcome, c.refusals, c.waiting = outgoing{buf: c.buf[:0]}, outcome{body: c.body[:0]}, refusals{}, waiting{}
	c.aimed = aimed{}
	c.future, c.written = nil, nil
	c.wire.Store(nil)
	c.id.Store(0)
	c.sent.Store(false)
	c.skipped = false
	cl.calls.Put(c)
}

// encode writes header, prefix and body to buf. stamp fills in the id and the time that is left.
func (c *call) encode(meta Metadata, req any, limit int) error {
	b := append(c.buf[:0], blankHeader[:]...)
	b, err := payload.AppendPrefix(b, 0, c.codec, c.service.name, c.method, meta)
	if err == nil {
		b, err = c.codec.Append(b, req)
	}
	c.buf = b
	if err != nil {
		return c.error(encodeError{err}, ExecutedNo)
	}
	if n := len(b) - frame.HeaderSize; n > limit {
		return c.error(&limitError{kind: ErrTooLarge, what: "bytes of request", n: n, limit: limit, option: "ClientOptions.MaxPayload"}, ExecutedNo)
	}
	frame.AppendHeader(b[:0], 0, uint8(c.op), len(b)-frame.HeaderSize)
	return nil
}

var blankHeader [frame.HeaderSize]byte

// atFrameID is where the id lies in a frame header (docs/frame.md).
const atFrameID = 3

// stamp fills in id and time when the request is sent. wire.mu is held.
func (c *call) stamp(now int64) {
	c.sentAt = now
	if c.given { // another attempt: the last one may still be on its way to a kernel
		c.buf = append([]byte(nil), c.buf...)
		c.given = false
	}
	binary.BigEndian.PutUint64(c.buf[atFrameID:], c.id.Load())
	if c.due != 0 {
		binary.BigEndian.PutUint32(c.buf[frame.HeaderSize:], payload.Timeout(time.Duration(max(c.due-now, 1))))
	}
}

// respond ends the call with a response, whose payload is copied. On the loop, after claim.
func (c *call) respond(f *frame.Frame) {
	c.status, c.onLoop = f.Status(), true
	c.body = append(c.body[:0], f.Payload...)
	c.deliver()
}

// fail ends the call with an error. After claim.
func (c *call) fail(err error) {
	c.err, c.failed = err, true
	c.deliver()
}

// deliver hands the end of the call to its waiter.
func (c *call) deliver() {
	switch {
	case c.op == frame.OneWay:
		c.client.oneWayEnded(c)
	case c.future != nil:
		c.client.consume(c)
	case c.service.pool != nil && !c.failed:
		if c.service.pool.Pool.Submit(c) != nil { // full or closed: the caller decodes
			c.client.stats.poolFull.Add(1)
			c.ready <- struct{}{}
		}
	default:
		c.ready <- struct{}{}
	}
}

// result decodes the response or returns the error that ended the call, on the caller's goroutine or on a pool.
func (c *call) result() error {
	if c.failed {
		return c.err
	}
	if c.status != frame.StatusOK {
		err := (&frame.Frame{Code: uint8(c.status), Payload: c.body}).Err()
		if e, ok := errors.AsType[*frame.StatusError](err); ok {
			return statusError(e, c.service.name, c.method)
		}
		return c.error(err, ExecutedMaybe)
	}
	body := c.body
	if c.codec == payload.Raw { // the value borrows from the body
		if len(body) <= keptBody {
			body = append(make([]byte, 0, len(body)), body...)
		} else {
			c.body = nil
		}
	}
	if err := c.codec.DecodeResponse(body, c.into, c.strict); err != nil {
		return c.error(&causeError{kinds: kindsResponse, text: err.Error(), cause: err}, ExecutedMaybe)
	}
	return nil
}

// error returns err as the *Error of this call.
func (c *call) error(err error, x Executed) *Error {
	return &Error{Service: c.service.name, Method: c.method, Executed: x, Err: err}
}

// executed returns what is known of a call that ends without a response.
func (c *call) executed() Executed {
	if c.sent.Load() {
		return ExecutedMaybe
	}
	return ExecutedNo
}
