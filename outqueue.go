package eddy

import (
	"slices"

	"github.com/go-eddy/eddy/buf"
)

// outQueue is a connection's outbound bytes: a list of segments, each either coalesced small writes or one adopted slice.
// A segment without bytes holds the place of a file. Owned by the loop.
type outQueue struct {
	head, tail *buf.Segment
}

// push appends s.
func (q *outQueue) push(s *buf.Segment) { q.join(outQueue{s, s}) }

// join appends the segments of r, of which there is at least one.
func (q *outQueue) join(r outQueue) {
	if q.tail == nil {
		q.head = r.head
	} else {
		q.tail.Next = r.head
	}
	q.tail = r.tail
}

// pop takes the head off.
func (q *outQueue) pop() *buf.Segment {
	s := q.head
	q.unlink(nil, s)
	return s
}

// unlink takes s, which follows before, off the list.
func (q *outQueue) unlink(before, s *buf.Segment) {
	if before == nil {
		q.head = s.Next
	} else {
		before.Next = s.Next
	}
	if s.Next == nil {
		q.tail = before
	}
	s.Next = nil
}

// extentOf returns the length of s in the stream, see outMarks.
func extentOf(s *buf.Segment) int64 { return int64(max(s.Len(), 1)) }

// extent returns the length of the queue.
func (q *outQueue) extent() (n int64) {
	for s := q.head; s != nil; s = s.Next {
		n += extentOf(s)
	}
	return n
}

// reach returns the length of what the next write call can take: a file, or bytes up to the next one.
func (q *outQueue) reach() (n int64) {
	for s, i := q.head, 0; s != nil && i < maxGather; s, i = s.Next, i+1 {
		if s.Len() == 0 {
			return max(n, 1)
		}
		n += int64(s.Len())
	}
	return n
}

// cut takes out what lies skip behind the head and is n long. It returns the bytes that are gone and the segments that
// nothing is left of.
func (q *outQueue) cut(skip, n int64) (bytes int, out outQueue) {
	var before *buf.Segment
	for s := q.head; n > 0; {
		next, size := s.Next, extentOf(s)
		k := min(size-skip, n)
		switch {
		case k <= 0:
			before = s
			skip -= size
		case k == size:
			bytes += s.Len()
			q.unlink(before, s)
			out.push(s)
			n -= k
		default:
			bytes += int(k)
			s.Cut(int(skip), int(skip+k))
			before = s
			skip, n = 0, n-k
		}
		s = next
	}
	return bytes, out
}

// mark is a stretch of the stream between two offsets, see outMarks. It has begun to be sent when sent has passed from, and
// is sent when sent has reached to.
type mark struct{ from, to int64 }

// follow moves m when out has left the queue.
func (m *mark) follow(out mark) { m.from, m.to = out.moved(m.from), out.moved(m.to) }

// moved returns the offset that replaces at when m has left the queue. What was before m has moved up to its end.
func (m mark) moved(at int64) int64 { return max(at, min(at+m.to-m.from, m.to)) }

// outMarks says where in the outbound queue files lie, messages that may still be dropped, and the bytes that futures wait
// for. Places are offsets in the stream of all that was queued, in which a file has the length one. What leaves the queue
// unsent counts as sent: the offsets of what was before it grow, and those of what was behind it stay.
//
// The loop counts while the connection has the bit marked, from the first mark until the queue is empty.
type outMarks struct {
	queued  int64 // offset of the queue's end
	sent    int64 // offset of its head
	offered int64 // offset up to which the kernel was offered bytes

	units   []unit // in the order of the queue
	tallies []classTally
	waits   []*writeFuture // in the order of their marks
}

// unit is a file, or a message of a class of which nothing was sent.
type unit struct {
	mark
	class   *MessageClass  // of a message, else nil
	futures []*writeFuture // fail when the message is dropped
	file    *File          // else nil
	left    int64          // bytes of the file left to send
}

const (
	// maxMarks bounds the units of one connection's queue.
	maxMarks = 4096
	// maxIdleWaits is the capacity of outMarks.waits that is kept for the next count.
	maxIdleWaits = 32
)

// outMarks returns the marks of the connection's queue, and counts from now on.
func (c *Conn) outMarks() *outMarks {
	x := c.extend()
	if x.marks == nil {
		x.marks = new(outMarks)
	}
	if !c.has(marked) {
		x.marks.queued = c.out.extent()
		c.raise(marked)
	}
	return x.marks
}

// endMarks ends the count, because the queue is empty or lost. It closes the files that are left, and completes futures
// that waited only for what has left the queue.
func (c *Conn) endMarks() {
	c.passed(0)
	m := c.outMarks()
	for i := range m.units {
		if u := &m.units[i]; u.file != nil {
			c.queued.Add(-int64(window(u.left)))
			u.file.Release()
		}
	}
	clear(m.waits)
	if cap(m.waits) > maxIdleWaits {
		m.waits = nil
	}
	*m = outMarks{waits: m.waits[:0]}
	c.clear(marked)
}

// grown follows what was appended to the queue.
func (c *Conn) grown(n int) {
	if t := &c.loop.out.tracking; t.conn == c {
		t.length += n
	}
	if c.has(marked) {
		c.ext.Load().marks.queued += int64(n)
	}
}

// pushUnit appends the segments of q, which have the length n, as the unit u.
func (c *Conn) pushUnit(q outQueue, n int, u unit) {
	m := c.outMarks()
	c.out.join(q)
	u.from, u.to = m.queued, m.queued+int64(n)
	m.units = append(m.units, u)
	if u.class != nil {
		m.tally(u.class).add(1, n)
	}
	c.grown(n)
}

// forget removes the mark of a unit.
func (m *outMarks) forget(i int) {
	if u := &m.units[i]; u.class != nil {
		m.tally(u.class).add(-1, -int(u.to-u.from))
	}
	if i == 0 {
		m.units[0] = unit{}
		m.units = m.units[1:]
	} else {
		m.units = slices.Delete(m.units, i, i+1)
	}
	if len(m.units) == 0 {
		m.units, m.tallies = nil, nil
	}
}

// passed follows n more of the stream that were sent. It completes futures whose last byte is among them; messages that
// have begun to be sent can be dropped no more.
func (c *Conn) passed(n int) {
	m := c.outMarks()
	m.sent += int64(n)
	for len(m.units) > 0 && m.units[0].from < m.sent {
		m.forget(0)
	}
	done := 0
	for done < len(m.waits) && m.waits[done].mark.to <= m.sent {
		w := m.waits[done]
		w.mark = mark{}
		w.partEnded(nil, c.loop)
		done++
	}
	if done > 0 {
		m.waits = slices.Delete(m.waits, 0, done)
	}
}

// takeOut takes out, of which nothing was sent, out of the queue: a unit, or bytes of no unit. The futures of a message of a
// class fail with why.
func (c *Conn) takeOut(out mark, why error) {
	m := c.outMarks()
	bytes, segments := c.out.cut(out.from-m.sent, out.to-out.from)
	u := m.takenOut(out)
	for _, w := range u.futures {
		m.unwait(w)
		w.settle(FutureFailed, why, c.loop)
	}
	if u.file != nil {
		bytes += window(u.left)
		u.file.Release()
	}
	c.queued.Add(-int64(bytes))
	c.giveBackAll(segments)
}

// takenOut moves the marks when out has left the queue, and returns the unit that it was, if it was one.
func (m *outMarks) takenOut(out mark) (u unit) {
	m.sent = out.moved(m.sent)
	m.offered = out.moved(m.offered)
	for _, w := range m.waits {
		if w.mark.to >= out.to {
			break
		}
		w.mark.follow(out)
	}
	for i := range m.units {
		if m.units[i].mark == out {
			u = m.units[i]
			m.forget(i)
			break
		}
		m.units[i].follow(out)
	}
	return u
}

// placeMark notes for w that the bytes queued for it end here. A future has one mark, at the last of its bytes, because the
// others go out before it. k, unless it is nil, says what was queued: if that lies in one piece, it can still be taken out.
func (c *Conn) placeMark(w *writeFuture, k *tracking) {
	if c.out.head == nil { // everything has gone out meanwhile
		return
	}
	m := c.outMarks()
	at := mark{m.queued, m.queued}
	if w.mark.to != 0 {
		m.unwait(w)
	} else {
		w.addPart()
		if k != nil && m.inOnePiece(mark{k.from, m.queued}, k.length) {
			at.from = k.from
			w.unfix()
		}
	}
	w.mark = at
	if m.waits = append(m.waits, w); len(m.waits) > maxFutures {
		m.sweep()
	}
}

// inOnePiece reports whether what lies at the end of the stream is n long, was not offered, is nothing that another future
// waits for, and either is a unit or holds none.
func (m *outMarks) inOnePiece(at mark, n int) bool {
	if at.from < m.offered || at.to-at.from != int64(n) {
		return false
	}
	if i := len(m.waits) - 1; i >= 0 && m.waits[i].mark.to > at.from {
		return false
	}
	i := len(m.units) - 1
	return i < 0 || m.units[i].to <= at.from || m.units[i].mark == at
}

// unwait removes the mark of w, if it has one.
func (m *outMarks) unwait(w *writeFuture) {
	if i := slices.Index(m.waits, w); i >= 0 {
		m.waits = slices.Delete(m.waits, i, i+1)
	}
	w.mark = mark{}
}

// sweep removes the marks of futures that have failed before their bytes went out. Marks beyond maxFutures are such.
func (m *outMarks) sweep() {
	m.waits = slices.DeleteFunc(m.waits, func(w *writeFuture) bool {
		failed := w.State() == FutureFailed
		if failed {
			w.mark = mark{}
		}
		return failed
	})
}

// offer comes before a write. Futures whose bytes the write may take cannot be cancelled any more. The bytes of those that
// were cancelled before leave the queue.
func (c *Conn) offer() {
	m := c.outMarks()
	end := m.sent + c.out.reach()
	for i := 0; i < len(m.waits) && m.waits[i].mark.from < end; {
		if w := m.waits[i]; w.mark.from < m.offered || w.fix() || !c.withdraw(w) {
			i++
		} else {
			end = m.sent + c.out.reach()
		}
	}
	m.offered = max(m.offered, end)
}

// withdraw takes a cancelled write out of the queue, and reports whether it was there.
func (c *Conn) withdraw(w *writeFuture) bool {
	out := w.mark
	if out.from == out.to || w.State() != FutureCancelled {
		return false
	}
	c.outMarks().unwait(w)
	c.takeOut(out, ErrCancelled)
	return true
}

// removeCancelled takes a cancelled write that is in the queue out of it.
func (c *Conn) removeCancelled(w *writeFuture) {
	if c.has(listedClose) || !c.withdraw(w) {
		return
	}
	if c.out.head == nil {
		c.flush()
	}
	c.writeSettled()
}
