package transport

import (
	"fmt"
	"slices"
)

// Span is a stretch of the stream between two offsets, see Marks. It has begun to be sent when sent has passed From, and is
// sent when sent has reached To.
type Span struct{ From, To int64 }

// follow moves s when out has left the queue.
func (s *Span) follow(out Span) { s.From, s.To = out.moved(s.From), out.moved(s.To) }

// moved returns the offset that replaces at when s has left the queue. What was before s has moved up to its end.
func (s Span) moved(at int64) int64 { return max(at, min(at+s.To-s.From, s.To)) }

// Waiter waits until its span was sent. A Span that ends at 0 has no place in the stream. One that begins where it ends
// cannot be taken out.
type Waiter interface {
	comparable
	Span() *Span
}

// Unit is a file, or a message of a class C. A message is a unit until its first byte was sent.
type Unit[C comparable, W Waiter] struct {
	Span
	Class C                      // of a message, else zero
	Waits []W                    // fail when the message is dropped
	File  interface{ Release() } // what does not lie in memory, else nil
	Left  int64                  // bytes of the file left to send
}

// Marks says where in a Queue files and droppable messages lie, and the bytes that waiters wait for. Places are offsets in
// the stream of all that was queued, in which a file has the length one. What leaves the queue unsent counts as sent: the
// offsets of what was before it grow, and those of what was behind it stay.
//
// Start begins to count, and Reset ends it.
type Marks[C comparable, W Waiter] struct {
	queued  int64 // offset of the queue's end
	sent    int64 // offset of its head
	offered int64 // offset up to which the kernel was offered bytes

	units   []Unit[C, W] // in the order of the queue
	tallies []Tally[C]
	waits   []W // in the order of their spans
}

const (
	// MaxUnits bounds the units of one queue.
	MaxUnits = 4096
	// maxIdleWaits and maxIdleUnits are the capacities of Marks.waits and units that are kept for the next count.
	maxIdleWaits, maxIdleUnits = 32, 2
)

// Start begins to count what is queued and sent, from what is in q.
func (m *Marks[C, W]) Start(q *Queue) { m.queued = q.extent() }

// Reset ends the count, because the queue is empty or lost. Units that are left are the caller's.
func (m *Marks[C, W]) Reset() {
	clear(m.waits)
	if cap(m.waits) > maxIdleWaits {
		m.waits = nil
	}
	*m = Marks[C, W]{waits: m.waits[:0], units: m.noUnits()}
}

// noUnits returns an empty list in the memory of units, if that is little.
func (m *Marks[C, W]) noUnits() []Unit[C, W] {
	if cap(m.units) > maxIdleUnits {
		return nil
	}
	clear(m.units)
	return m.units[:0]
}

// End returns the offset of the queue's end.
func (m *Marks[C, W]) End() int64 { return m.queued }

// Units returns the files and messages, in the order of the queue.
func (m *Marks[C, W]) Units() []Unit[C, W] { return m.units }

// Waiting returns how many waiters have a place.
func (m *Marks[C, W]) Waiting() int { return len(m.waits) }

// Grow follows n of the stream that were appended to the queue.
func (m *Marks[C, W]) Grow(n int) { m.queued += int64(n) }

// Add makes the last n of the stream the unit u.
func (m *Marks[C, W]) Add(u Unit[C, W], n int) {
	u.Span = Span{m.queued - int64(n), m.queued}
	m.units = append(m.units, u)
	m.count(&u, 1)
}

// count adds a message to the tally of its class, or takes it off with -1. A file has none.
func (m *Marks[C, W]) count(u *Unit[C, W], by int) {
	var none C
	if u.Class != none {
		t := m.Tally(u.Class)
		t.Messages += by
		t.Bytes += by * int(u.To-u.From)
	}
}

// forget removes the mark of a unit.
func (m *Marks[C, W]) forget(i int) {
	m.count(&m.units[i], -1)
	switch {
	case len(m.units) == 1:
		m.units, m.tallies = m.noUnits(), nil
	case i == 0:
		m.units[0] = Unit[C, W]{}
		m.units = m.units[1:]
	default:
		m.units = slices.Delete(m.units, i, i+1)
	}
}

// Pass follows n more of the stream that were sent, and calls done for each waiter whose last byte is among them. Messages
// that have begun to be sent can be dropped no more.
func (m *Marks[C, W]) Pass(n int, done func(W)) {
	m.sent += int64(n)
	for len(m.units) > 0 && m.units[0].From < m.sent {
		m.forget(0)
	}
	k := 0
	for ; k < len(m.waits) && m.waits[k].Span().To <= m.sent; k++ {
		w := m.waits[k]
		*w.Span() = Span{}
		done(w)
	}
	if k > 0 {
		m.waits = slices.Delete(m.waits, 0, k)
	}
}

// Cut takes a stretch out of q of which nothing was sent: a unit, or bytes of no unit. Cut returns the unit if it was one,
// how many bytes are gone, and the segments that nothing is left of.
func (m *Marks[C, W]) Cut(q *Queue, out Span) (u Unit[C, W], bytes int, segments Queue) {
	bytes, segments = q.cut(out.From-m.sent, out.To-out.From)
	m.sent = out.moved(m.sent)
	m.offered = out.moved(m.offered)
	for _, w := range m.waits {
		if w.Span().To >= out.To {
			break
		}
		w.Span().follow(out)
	}
	for i := range m.units {
		if m.units[i].Span == out {
			u = m.units[i]
			m.forget(i)
			break
		}
		m.units[i].follow(out)
	}
	return u, bytes, segments
}

// Wait gives w, which has no place, one at the end of the stream, from the offset from on.
func (m *Marks[C, W]) Wait(w W, from int64) {
	*w.Span() = Span{from, m.queued}
	m.waits = append(m.waits, w)
}

// Unwait takes the place of w away, if it has one.
func (m *Marks[C, W]) Unwait(w W) {
	if i := slices.Index(m.waits, w); i >= 0 {
		m.waits = slices.Delete(m.waits, i, i+1)
	}
	*w.Span() = Span{}
}

// Sweep takes the places of waiters away that are over.
func (m *Marks[C, W]) Sweep(over func(W) bool) {
	m.waits = slices.DeleteFunc(m.waits, func(w W) bool {
		gone := over(w)
		if gone {
			*w.Span() = Span{}
		}
		return gone
	})
}

// InOnePiece reports whether what lies from the offset from to the end of the stream is n long, was not offered, is nothing
// that another waiter waits for, and either is a unit or holds none.
func (m *Marks[C, W]) InOnePiece(from int64, n int) bool {
	at := Span{from, m.queued}
	if at.From < m.offered || at.To-at.From != int64(n) {
		return false
	}
	if i := len(m.waits) - 1; i >= 0 && m.waits[i].Span().To > at.From {
		return false
	}
	i := len(m.units) - 1
	return i < 0 || m.units[i].To <= at.From || m.units[i].Span == at
}

// Offer comes before a write call. It calls leave for each waiter whose bytes the call may take. leave takes them out of q,
// or returns false, and then they can be taken out no more.
func (m *Marks[C, W]) Offer(q *Queue, leave func(W) bool) {
	end := m.sent + q.reach()
	for i := 0; i < len(m.waits) && m.waits[i].Span().From < end; {
		if w := m.waits[i]; w.Span().From < m.offered || !leave(w) {
			i++
		} else {
			end = m.sent + q.reach()
		}
	}
	m.offered = max(m.offered, end)
}

// Tally counts the waiting messages and bytes of one class.
type Tally[C comparable] struct {
	class           C
	Messages, Bytes int
}

// Tally returns the numbers of a class, from a list, since a queue sees few classes.
func (m *Marks[C, W]) Tally(class C) *Tally[C] {
	for i := range m.tallies {
		if m.tallies[i].class == class {
			return &m.tallies[i]
		}
	}
	m.tallies = append(m.tallies, Tally[C]{class: class})
	return &m.tallies[len(m.tallies)-1]
}

// Check returns an error that says where the marks do not fit q.
func (m *Marks[C, W]) Check(q *Queue) error {
	if m.queued-m.sent != q.extent() || m.offered < m.sent || m.offered > m.queued {
		return fmt.Errorf("counts %d queued, %d offered, %d sent; the queue holds %d", m.queued, m.offered, m.sent, q.extent())
	}
	var none C
	at := m.sent
	for i, u := range m.units {
		if u.From < at || u.To <= u.From || u.To > m.queued || (u.Class != none) == (u.File != nil) {
			return fmt.Errorf("unit %d lies at %v, the one before ends at %d, the queue at %d", i, u.Span, at, m.queued)
		}
		at = u.To
	}
	at = m.sent // Pass tells those whose last byte was cut out before them
	for i, w := range m.waits {
		s := w.Span()
		if s.To < at || s.From > s.To || s.To > m.queued {
			return fmt.Errorf("future %d waits for %v, the one before for %d, the queue ends at %d", i, *s, at, m.queued)
		}
		at = s.To
	}
	return nil
}
