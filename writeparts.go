package eddy

// WriteParts passes a copy of two slices towards the head as one message, such as a header and the payload behind it; both
// may be reused at once. On the loop it allocates nothing, unless a handler in front takes part in writing. Errors as Write.
func (ctx *Context) WriteParts(head, body []byte) error {
	if ctx.node.pool != nil || writerFrom(ctx.back()) != nil {
		return ctx.Write(append(append(make([]byte, 0, len(head)+len(body)), head...), body...))
	}
	return ctx.conn.enqueueCopies(head, body)
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
