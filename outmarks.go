package eddy

import "github.com/go-eddy/eddy/internal/transport"

type (
	outMarks = transport.Marks[*MessageClass, *writeFuture]
	unit     = transport.Unit[*MessageClass, *writeFuture]
)

// outMarks returns the marks of the connection's queue, and counts from now on. The loop counts while the connection has
// the bit marked, from the first mark until the queue is empty.
func (c *Conn) outMarks() *outMarks {
	x := c.extend()
	if x.marks == nil {
		x.marks = new(outMarks)
	}
	if !c.has(marked) {
		x.marks.Start(&c.out)
		c.raise(marked)
	}
	return x.marks
}

// endMarks ends the count, because the queue is empty or lost. It closes the files that are left, and completes futures
// that waited only for what has left the queue.
func (c *Conn) endMarks() {
	c.passed(0)
	m := c.outMarks()
	for _, u := range m.Units() {
		c.dropFile(u)
	}
	m.Reset()
	c.clear(marked)
}

// grown follows what was appended to the queue.
func (c *Conn) grown(n int) {
	if t := &c.loop.out.tracking; t.conn == c {
		t.length += n
	}
	if c.has(marked) {
		c.ext.Load().marks.Grow(n)
	}
}

// pushUnit appends the segments of q, which have the length n, as the unit u.
func (c *Conn) pushUnit(q transport.Queue, n int, u unit) {
	m := c.outMarks()
	c.out.Join(q)
	c.grown(n)
	m.Add(u, n)
}

// passed follows n more of the stream that were sent, and completes futures whose last byte is among them.
func (c *Conn) passed(n int) {
	c.outMarks().Pass(n, func(w *writeFuture) { w.partEnded(nil, c.loop) })
}

// takeOut takes a stretch out of the queue of which nothing was sent: a unit, or bytes of no unit. The futures of a message
// of a class fail with why.
func (c *Conn) takeOut(out transport.Span, why error) {
	m := c.outMarks()
	u, bytes, segments := m.Cut(&c.out, out)
	for _, w := range u.Waits {
		m.Unwait(w)
		w.settle(futureFailed, why, c.loop)
	}
	c.dropFile(u)
	c.queued.Add(-int64(bytes))
	c.giveBackAll(segments)
}

// placeMark notes for w that the bytes queued for it end here. A future has one mark, at the last of its bytes, because the
// others go out before it. k, unless it is nil, says what was queued: if that lies in one piece, it can still be taken out.
func (c *Conn) placeMark(w *writeFuture, k *tracking) {
	if c.out.Head == nil { // everything has gone out meanwhile
		return
	}
	m := c.outMarks()
	from := m.End()
	if w.span.To != 0 {
		m.Unwait(w)
	} else {
		w.addPart()
		if k != nil && m.InOnePiece(k.from, k.length) {
			from = k.from
			w.unfix()
		}
	}
	if m.Wait(w, from); m.Waiting() > maxFutures { // marks beyond it are of futures that failed before their bytes went out
		m.Sweep(func(w *writeFuture) bool { return w.standing() == futureFailed })
	}
}

// offer comes before a write. Futures whose bytes the write may take cannot be cancelled any more. The bytes of those that
// were cancelled before leave the queue.
func (c *Conn) offer() {
	c.outMarks().Offer(&c.out, func(w *writeFuture) bool { return !w.fix() && c.withdraw(w) })
}

// withdraw takes a cancelled write out of the queue, and reports whether it was there.
func (c *Conn) withdraw(w *writeFuture) bool {
	out := w.span
	if out.From == out.To || w.standing() != futureCanceled {
		return false
	}
	c.outMarks().Unwait(w)
	c.takeOut(out, ErrCanceled)
	return true
}

// removeCanceled takes a cancelled write that is in the queue out of it.
func (c *Conn) removeCanceled(w *writeFuture) {
	if c.has(listedClose) || !c.withdraw(w) {
		return
	}
	if c.out.Head == nil {
		c.flush()
	}
	c.writeSettled()
}
