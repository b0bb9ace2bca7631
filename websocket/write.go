package websocket

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/go-eddy/eddy"
)

// smallMessage is the size up to which header and payload are sent as one slice
// instead of two.
const smallMessage = 4 << 10

// MaskKeys is a source of masking keys. The author of a payload must not be
// able to predict them (RFC 6455 section 10.3). A *rand.ChaCha8 of math/rand/v2
// with a secret seed is such a source.
type MaskKeys interface{ Uint64() uint64 }

// maskKeys deals out the keys of a client connection.
type maskKeys struct {
	source MaskKeys
}

// next returns a key that is not zero, which would leave the payload as it is.
func (k *maskKeys) next() uint32 {
	for {
		if key := uint32(k.source.Uint64()); key != 0 {
			return key
		}
	}
}

var _ MaskKeys = (*rand.ChaCha8)(nil)

// Write sends a message, op Text or Binary. Text must be valid UTF-8. data must
// not be changed afterwards. Write never blocks; any goroutine may call it.
// Where compression was negotiated, it compresses on the calling goroutine.
// Errors: ErrClosed, eddy.ErrBackpressure, eddy.ErrSaturated.
func (c *Conn) Write(op Opcode, data []byte) error { return c.WriteClass(nil, op, data) }

// WriteClass is Write for a message of a class; nil is none. The message may be
// dropped for a peer that reads too slowly, as the class says, but only as a
// whole.
func (c *Conn) WriteClass(class *eddy.MessageClass, op Opcode, data []byte) error {
	if err := checkWrite(op, data); err != nil {
		return err
	}
	if c.closing.Load() {
		return ErrClosed
	}
	if d := c.deflate; d != nil && len(data) >= d.o.Threshold {
		if done, err := c.writeDeflated(class, op, data); done {
			return err
		}
	}
	return c.sendMessage(class, c.message(op, data), false)
}

// message returns the frame of a whole message that is not compressed.
func (c *Conn) message(op Opcode, data []byte) any {
	switch {
	case c.keys != nil:
		c.mu.Lock()
		key := c.keys.next()
		c.mu.Unlock()
		return appendMasked(make([]byte, 0, maxHeader+len(data)), first(op), data, key)
	case len(data) <= smallMessage:
		return append(appendHeader(make([]byte, 0, maxServerHeader+len(data)), first(op), len(data)), data...)
	}
	return [][]byte{appendHeader(make([]byte, 0, maxServerHeader), first(op), len(data)), data}
}

// plainFrame builds a frame that is not compressed. mu is held.
func (c *Conn) plainFrame(first byte, data []byte) []byte {
	b := make([]byte, 0, maxHeader+len(data))
	if c.keys != nil {
		return appendMasked(b, first, data, c.keys.next())
	}
	return append(appendHeader(b, first, len(data)), data...)
}

func release(msg any) {
	if r, ok := msg.(eddy.Releaser); ok {
		r.Release()
	}
}

// WriteContext waits until the queue is below its high watermark, for as long
// as ctx allows, and then does what Write does. It blocks the calling
// goroutine. On a loop of the server it returns eddy.ErrOnLoop.
func (c *Conn) WriteContext(ctx context.Context, op Opcode, data []byte) error {
	if err := checkWrite(op, data); err != nil {
		return err
	}
	for {
		// An empty write returns when the queue has room again.
		if err := c.conn.WriteContext(ctx, []byte(nil)); err != nil {
			return err
		}
		if c.conn.Writable() {
			return c.Write(op, data)
		}
	}
}

// WriteBytes is Write for a Handler's own methods, on the loop. It sends a copy
// of data, which may be the message that is being handled, and costs neither an
// allocation nor a task. It overtakes what Write submitted and the loop has not
// reached yet. It compresses messages of up to 128 KiB; larger ones are sent
// uncompressed, because they would hold up the loop. On a connection with
// context takeover it submits messages as Write does, so that they keep their
// order. Errors: ErrClosed, eddy.ErrBackpressure, and with takeover
// eddy.ErrSaturated.
func (c *Conn) WriteBytes(op Opcode, data []byte) error {
	if err := checkWrite(op, data); err != nil {
		return err
	}
	if d := c.deflate; d != nil && len(data) >= d.o.Threshold && len(data) <= maxLoopCompress {
		if done, err := c.writeDeflatedOnLoop(op, data); done {
			return err
		}
	}
	if d := c.deflate; d != nil && d.outTakeover { // compressed messages before it were submitted, and come first
		return c.sendMessage(nil, c.message(op, clone(data)), false)
	}
	return c.writeFrame(first(op), data)
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

// Ping sends a ping with up to 125 bytes of data. The pong goes to a
// PongHandler. Ping never blocks; any goroutine may call it. Errors as Write.
func (c *Conn) Ping(data []byte) error {
	if len(data) > maxControl {
		return fmt.Errorf("websocket: ping of %d bytes, limit %d", len(data), maxControl)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		return ErrClosed
	}
	return c.conn.Write(c.plainFrame(first(opPing), data))
}

// writeFrame sends a frame from the loop.
func (c *Conn) writeFrame(first byte, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		return ErrClosed
	}
	return c.framed(first, data)
}

// framed queues a frame on the loop. mu is held.
func (c *Conn) framed(first byte, data []byte) error {
	if c.keys != nil {
		return c.ctx.Write(appendMasked(make([]byte, 0, maxHeader+len(data)), first, data, c.keys.next()))
	}
	if t := c.tunnel(); t != nil {
		return t.Write(c.plainFrame(first, data))
	}
	var h [maxServerHeader]byte
	return c.ctx.WriteParts(appendHeader(h[:0], first, len(data)), data)
}

// writeDeflated compresses and sends a message from any goroutine. done is
// false when the message should be sent uncompressed.
func (c *Conn) writeDeflated(class *eddy.MessageClass, op Opcode, data []byte) (done bool, err error) {
	d := c.deflate
	// Only a message that cannot be dropped and is not large refers to earlier
	// ones. The window must hold what the peer has seen, in its order, and the
	// lock must not be held for long.
	if d.outTakeover && class == nil && len(data) <= maxLoopCompress {
		return c.deflateInOrder(op, data, c.submitCopy)
	}
	if d.outTakeover && class != nil {
		return false, nil
	}
	z := d.getDeflater(d.outBits)
	if z == nil {
		return false, nil
	}
	frame, n := z.compress(op, data, nil)
	frame = clone(frame)
	d.putDeflater(z, d.outBits)
	if frame == nil {
		return false, nil
	}
	if c.keys != nil {
		c.mu.Lock()
		key := c.keys.next()
		c.mu.Unlock()
		frame = appendMasked(make([]byte, 0, maxHeader+n), first(op)|rsv1Bit, frame[len(frame)-n:], key)
	}
	d.out.add(len(data), n)
	if !d.outTakeover {
		return true, c.sendMessage(class, frame, false)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		return true, ErrClosed
	}
	if err := c.conn.Write(frame); err != nil {
		return true, err
	}
	d.sent.slide(data)
	return true, nil
}

// clone copies b, which the deflater will overwrite.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// deflateInOrder compresses a message and sends the frame with send, which
// copies it. With context takeover the message may refer to earlier ones.
func (c *Conn) deflateInOrder(op Opcode, data []byte, send func(frame []byte) error) (done bool, err error) {
	d := c.deflate
	z := d.getDeflater(d.outBits)
	if z == nil {
		return false, nil
	}
	defer d.putDeflater(z, d.outBits)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		return true, ErrClosed
	}
	frame, n := z.compress(op, data, d.sent.b)
	if frame == nil {
		return false, nil
	}
	if c.keys != nil {
		frame = appendMasked(make([]byte, 0, maxHeader+n), first(op)|rsv1Bit, frame[len(frame)-n:], c.keys.next())
	}
	if err := send(frame); err != nil {
		return true, err
	}
	d.out.add(len(data), n)
	if d.outTakeover {
		d.sent.slide(data)
	}
	return true, nil
}

// writeDeflatedOnLoop is writeDeflated on the loop. With context takeover the
// message may refer to those that other goroutines have submitted. It is
// therefore submitted behind them.
func (c *Conn) writeDeflatedOnLoop(op Opcode, data []byte) (done bool, err error) {
	if c.deflate.outTakeover {
		return c.deflateInOrder(op, data, c.submitCopy)
	}
	if c.tunnel() != nil { // its queue is that of all writers
		return c.deflateInOrder(op, data, c.submitCopy)
	}
	return c.deflateInOrder(op, data, c.ctx.WriteBytes)
}

func (c *Conn) submitCopy(frame []byte) error { return c.conn.Write(clone(frame)) }
