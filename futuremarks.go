package eddy

import (
	"slices"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
)

// futureMark says where in its connection's outbound queue the bytes of a write lie. Owned by the loop.
type futureMark struct {
	set        bool
	settled    bool  // offered to the kernel, or in several places: it cannot be taken out any more
	unit       bool  // it is one file or message of a class, from its mark in outMarks
	from, to   place // from only while it is not settled
	next, prev *writeFuture
}

// markList is the list of a queue's marks, in the order of the queue.
type markList struct {
	first, last *writeFuture
	n           int
}

func (q *markList) push(w *writeFuture) {
	w.mark.prev, w.mark.next = q.last, nil
	if q.last == nil {
		q.first = w
	} else {
		q.last.mark.next = w
	}
	q.last = w
	q.n++
}

func (q *markList) remove(w *writeFuture) {
	m := &w.mark
	if m.prev == nil {
		q.first = m.next
	} else {
		m.prev.mark.next = m.next
	}
	if m.next == nil {
		q.last = m.prev
	} else {
		m.next.mark.prev = m.prev
	}
	m.prev, m.next = nil, nil
	q.n--
}

// placeMark notes where the bytes end that k, which may be nil, has queued for w. A future has one mark, at the last of its
// bytes, because the others go out before it.
func (c *Conn) placeMark(w *writeFuture, k *tracking) {
	if c.out.tail == nil { // everything has gone out meanwhile
		return
	}
	x := c.outMarks()
	again := w.mark.set
	if again {
		x.waits.remove(w)
	} else {
		w.addPart()
	}
	w.mark = futureMark{set: true, to: c.outEnd()}
	if again || k == nil || !c.locate(w, k) {
		w.mark.settled = true
	} else {
		w.unfix()
	}
	x.waits.push(w)
	c.raise(marked)
	if x.waits.n > maxFutures {
		x.sweep()
	}
}

// locate finds out where the bytes of w begin, and reports false when they cannot be taken out as they lie.
func (c *Conn) locate(w *writeFuture, k *tracking) bool {
	m, x := &w.mark, c.outMarks()
	switch {
	case k.writes != c.loop.Counters[meter.Writes]: // some of them may have gone out
		return false
	case k.units == 1 && c.sealed():
		u := &x.list[len(x.list)-1]
		m.unit, m.from = true, place{u.first, u.first.Begin()}
		return u.queued() == k.bytes
	case k.units > 0 || k.mixed:
		return false
	case k.tail.seg == nil:
		m.from = place{c.out.head, c.out.head.Begin()}
	case k.tail.seg.End() > k.tail.at:
		m.from = k.tail
	default:
		m.from = place{k.tail.seg.Next, k.tail.seg.Next.Begin()}
	}
	return true
}

// sweep forgets the marks of futures that were completed before their bytes went out. Marks beyond maxFutures are such.
func (x *outMarks) sweep() {
	for w := x.waits.first; w != nil; {
		next := w.mark.next
		if s := w.State(); s == FutureFailed || w.mark.settled && s != FuturePending {
			x.waits.remove(w)
			w.mark = futureMark{}
		}
		w = next
	}
}

// reached completes the futures whose last byte lies before position at of the queue's head s. at is -1 when all of s has
// gone.
func (c *Conn) reached(s *buf.Segment, at int) {
	if !c.has(marked) {
		return
	}
	x := c.outMarks()
	for w := x.waits.first; w != nil && w.mark.to.seg == s && (at < 0 || w.mark.to.at <= at); w = x.waits.first {
		x.waits.remove(w)
		w.mark = futureMark{}
		w.partEnded(nil, c.loop)
	}
	x.settleMarked(c)
}

// settleMarked forgets the marks when there are none.
func (x *outMarks) settleMarked(c *Conn) {
	if len(x.list) == 0 && x.waits.first == nil {
		*x = outMarks{}
		c.clear(marked)
	}
}

// offer comes before a write. Futures whose bytes the write may take cannot be cancelled any more. The bytes of those that
// were cancelled before leave the queue.
func (c *Conn) offer() {
	w := c.outMarks().waits.first
	s := c.out.head
	for i := 0; w != nil && s != nil && i < maxGather; {
		switch {
		case w.mark.settled:
			w = w.mark.next
		case w.mark.from.seg != s:
			s = s.Next
			i++
		case w.fix() || w.State() != FutureCancelled:
			w.mark.settled = true
			w = w.mark.next
		default:
			c.takeOut(w)
			w, s, i = c.outMarks().waits.first, c.out.head, 0
		}
	}
}

// removeCancelled takes a cancelled write that is in the queue out of it.
func (c *Conn) removeCancelled(w *writeFuture) {
	if !w.mark.set || w.mark.settled || c.has(listedClose) {
		return
	}
	c.takeOut(w)
	if c.out.head == nil {
		c.flush()
	}
	c.writeSettled()
}

// takeOut removes the bytes of w, none of which was offered to the kernel, from the queue.
func (c *Conn) takeOut(w *writeFuture) {
	x, m := c.outMarks(), w.mark
	x.waits.remove(w)
	w.mark = futureMark{}
	if m.unit {
		c.dropAt(slices.IndexFunc(x.list, func(u outMark) bool { return u.first == m.from.seg }), ErrCancelled)
	} else {
		c.loop.out.tracking.mixed = true
		c.queued.Add(-int64(c.cut(m.from, m.to)))
	}
	x.settleMarked(c)
}

// cut takes the bytes between two places out of the queue and returns how many they were.
func (c *Conn) cut(from, to place) (n int) {
	var before *buf.Segment
	s := c.out.head
	for s != from.seg {
		before, s = s, s.Next
	}
	for at := from.at; ; at = s.Begin() {
		end, last := s.End(), s == to.seg
		if last {
			end = to.at
		}
		n += end - at
		inside := at > s.Begin() && end < s.End()
		s.Cut(at, end)
		if inside {
			c.outMarks().waits.shift(s, end, end-at)
		}
		next := s.Next
		if s.Len() == 0 {
			c.unlink(before, s)
		} else {
			before = s
		}
		if last {
			return n
		}
		s = next
	}
}

// shift moves the places of what lies in s behind position at forward by n.
func (q *markList) shift(s *buf.Segment, at, n int) {
	for w := q.first; w != nil; w = w.mark.next {
		for _, p := range []*place{&w.mark.from, &w.mark.to} {
			if p.seg == s && p.at >= at {
				p.at -= n
			}
		}
	}
}

// unlink takes an empty segment, which follows before, out of the queue.
func (c *Conn) unlink(before, s *buf.Segment) {
	if before == nil {
		c.out.head = s.Next
	} else {
		before.Next = s.Next
	}
	if s.Next == nil {
		c.out.tail = before
	}
	for i := range c.outMarks().list {
		if m := &c.outMarks().list[i]; m.before == s {
			m.before = before
		}
	}
	s.Next = nil
	c.giveBack(s)
}
