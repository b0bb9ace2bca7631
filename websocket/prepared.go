package websocket

import (
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// Prepared is a message that is framed, and compressed, once for many
// connections. It holds counted memory: call Release after the last write.
// Connections that still send the message hold their own references. Any
// goroutine that holds a reference may call the methods.
type Prepared struct {
	op     Opcode
	pool   *buf.SharedPool
	plain  *buf.Shared
	header int // bytes of plain in front of the payload
	refs   atomic.Int32

	mu     sync.Mutex
	packed [maxWindowBits + 1]*buf.Shared // by window bits
	tried  uint16                         // bits for which compression was tried; packed is nil where the result was no shorter
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

// compress returns the compressed form for connections with the window, with a
// reference, and makes it if there is none yet. It returns nil when the message
// should be sent uncompressed. With build false, for loops, it never compresses
// nor waits.
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

// lock takes the lock. With wait false, for loops, it does not wait for a
// goroutine that compresses.
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

// WritePrepared sends a prepared message; class is as in WriteClass. The caller
// keeps its reference to p. The message is compressed on the calling goroutine,
// once for each size of window. Any goroutine; errors as Write.
func (c *Conn) WritePrepared(class *eddy.MessageClass, p *Prepared) error {
	return c.writePrepared(class, p, false)
}

// writePrepared sends the form of p that suits the connection. onLoop says that
// the caller is on the connection's loop.
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
	onLoop = onLoop && !d.outTakeover // with takeover other messages are submitted, and this one must not overtake them
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

// sendMessage sends a framed message.
func (c *Conn) sendMessage(class *eddy.MessageClass, msg any, onLoop bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Load() {
		release(msg)
		return ErrClosed
	}
	if t := c.tunnel(); t != nil {
		return t.WriteClass(class, msg)
	}
	if class != nil {
		msg = class.Wrap(msg)
	}
	if onLoop {
		return c.ctx.Write(msg)
	}
	return c.conn.Write(msg)
}

// sendIntoWindow submits a compressed message, to which later ones may refer,
// behind the earlier ones.
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
