package websocket

import (
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// Prepared is a message that is framed, and compressed, once for many
// connections. It holds counted memory: Release it when it was written for the
// last time; connections that still send it hold their own references. Its
// methods may be called by any goroutine that holds a reference.
type Prepared struct {
	op     Opcode
	pool   *buf.SharedPool
	plain  *buf.Shared
	header int // bytes of plain in front of the payload
	refs   atomic.Int32

	mu     sync.Mutex
	packed [maxWindowBits + 1]*buf.Shared // by window bits
	tried  uint16                         // bits for which it was compressed; packed is nil if that made it no shorter
}

// Prepare frames a message, op Text or Binary. Text must be valid UTF-8. data is
// copied. The memory comes from pool, such as that of eddy.Conn.Buffers.
func Prepare(pool *buf.SharedPool, op Opcode, data []byte) (*Prepared, error) {
	if err := checkWrite(op, data); err != nil {
		return nil, err
	}
	var h [maxServerHeader]byte
	head := appendHeader(h[:0], first(op), len(data))
	p := &Prepared{op: op, pool: pool, plain: pool.Get(len(head) + len(data)), header: len(head)}
	b := p.plain.Bytes()
	copy(b[copy(b, head):], data)
	p.refs.Store(1)
	return p, nil
}

// Len returns the number of bytes of the message.
func (p *Prepared) Len() int { return p.plain.Len() - p.header }

func (p *Prepared) payload() []byte { return p.plain.Bytes()[p.header:] }

// Retain adds a reference and returns p.
func (p *Prepared) Retain() *Prepared {
	p.refs.Add(1)
	return p
}

// Release gives one reference back; the last one lets go of the memory.
func (p *Prepared) Release() {
	switch n := p.refs.Add(-1); {
	case n < 0:
		panic("websocket: Release of a prepared message after its final release")
	case n > 0:
		return
	}
	p.plain.Release()
	for _, s := range p.packed {
		if s != nil {
			s.Release()
		}
	}
}

// compress makes the compressed form for connections with the window, if there is
// none yet, and returns it with a reference; nil when the message is better sent
// as it is. With build false, for loops, it never compresses nor waits.
func (p *Prepared) compress(z *Compression, bits int, build bool) *buf.Shared {
	if p.Len() < z.o.Threshold {
		return nil
	}
	if !p.lock(build) {
		return nil
	}
	defer p.mu.Unlock()
	if p.tried&(1<<bits) == 0 && build {
		p.build(z, bits)
	}
	if s := p.packed[bits]; s != nil {
		return s.Retain()
	}
	return nil
}

// lock takes the lock; a loop does not wait for whoever compresses.
func (p *Prepared) lock(wait bool) bool {
	if wait {
		p.mu.Lock()
		return true
	}
	return p.mu.TryLock()
}

func (p *Prepared) build(z *Compression, bits int) {
	d := z.getDeflater(bits)
	if d == nil {
		return
	}
	defer z.putDeflater(d, bits)
	p.tried |= 1 << bits
	if frame, n := d.compress(p.op, p.payload(), nil); frame != nil {
		p.packed[bits] = p.pool.Copy(frame)
		z.out.add(p.Len(), n)
	}
}

// WritePrepared sends a prepared message; class is that of WriteClass or nil. It
// compresses on the calling goroutine, once for each size of window. p stays the
// caller's. Any goroutine; errors as Write.
func (c *Conn) WritePrepared(class *eddy.MessageClass, p *Prepared) error {
	return c.writePrepared(class, p, false)
}

// writePrepared sends the form of p that suits the connection, from anywhere or
// from its loop.
func (c *Conn) writePrepared(class *eddy.MessageClass, p *Prepared, onLoop bool) error {
	build := !onLoop
	if c.keys != nil { // each frame of a client is masked for itself
		c.mu.Lock()
		key := c.keys.next()
		c.mu.Unlock()
		return c.sendMessage(class, appendMasked(make([]byte, 0, maxHeader+p.Len()), first(p.op), p.payload(), key), onLoop)
	}
	d := c.deflate
	if d == nil {
		return c.sendMessage(class, p.plain.Retain(), onLoop)
	}
	onLoop = onLoop && !d.outTakeover // with takeover the others are submitted, and this one must not overtake them
	var s *buf.Shared
	if !d.outTakeover || class == nil { // what may be dropped cannot be in the window
		s = p.compress(d.Compression, d.outBits, build)
	}
	switch {
	case s == nil:
		return c.sendMessage(class, p.plain.Retain(), onLoop)
	case d.outTakeover:
		return c.sendIntoWindow(s, p.payload())
	}
	return c.sendMessage(class, s, onLoop)
}

// sendMessage sends a message that is framed.
func (c *Conn) sendMessage(class *eddy.MessageClass, msg any, onLoop bool) error {
	if class != nil {
		msg = class.Wrap(msg)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		release(msg)
		return ErrClosed
	}
	if onLoop {
		return c.ctx.Write(msg)
	}
	return c.conn.Write(msg)
}

// sendIntoWindow submits a compressed message that later ones may refer to, in
// the order of the others.
func (c *Conn) sendIntoWindow(s *buf.Shared, plain []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		s.Release()
		return ErrClosed
	}
	if err := c.conn.Write(s); err != nil {
		return err
	}
	c.deflate.sent.slide(plain)
	return nil
}
