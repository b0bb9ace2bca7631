package eddy

import "github.com/go-eddy/eddy/buf"

// WriteParts passes a copy of two slices towards the head as one message, such as a header and its payload. Both slices
// may be reused at once. A WriteHandler on the way gets one *buf.Bytes. On the loop WriteParts allocates nothing; with a
// WriteHandler on the way, up to 64 KiB. Errors as for Write.
func (ctx *Context) WriteParts(head, body []byte) error {
	switch {
	case ctx.node.pool != nil:
		return ctx.Write(append(append(make([]byte, 0, len(head)+len(body)), head...), body...))
	case writerFrom(ctx.back()) == nil:
		return ctx.conn.enqueueCopies(head, body)
	}
	l := ctx.conn.loop
	both := append(append(l.out.joint[:0], head...), body...)
	l.out.joint = nil
	err := ctx.WriteBytes(both)
	if cap(both) <= scratchSize {
		l.out.joint = both
	}
	return err
}

// lendCarrier returns a message for WriteBytes. A handler that writes while it handles one gets another.
func (l *loop) lendCarrier() *buf.Bytes {
	n := len(l.out.carriers)
	if n == 0 {
		return new(buf.Bytes)
	}
	b := l.out.carriers[n-1]
	l.out.carriers = l.out.carriers[:n-1]
	return b
}

func (l *loop) carrierBack(b *buf.Bytes) {
	b.Reset(nil)
	l.out.carriers = append(l.out.carriers, b)
}

// enqueueCopies queues copies of two slices, both or neither.
func (c *Conn) enqueueCopies(head, body []byte) error {
	n := len(head) + len(body)
	if err := c.admitOnLoop(n); err != nil {
		return err
	}
	c.appendCopy(head)
	c.appendCopy(body)
	c.queuedMore(n)
	return nil
}
