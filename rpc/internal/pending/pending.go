// Package pending holds the calls of one connection that wait for their responses.
package pending

import (
	"time"

	"github.com/go-eddy/eddy/internal/wheel"
)

// Parts of ids that name no slot.
const (
	OneWaySlot = 1<<32 - 1
	PingSlot   = 1<<32 - 2
	MaxSlots   = 1 << 24 // bound of Table.Limit
)

const tick = time.Millisecond // resolution of deadlines

// Table holds entries by id, with their deadlines. The id of an entry names its slot and how often the slot was used. So
// finding an entry is one index, an id is never 0, and an id that has ended is told from one that never was. The counts
// may wrap: an id comes again after 2³² entries in one slot. A lock of the owner guards a Table.
type Table[E any] struct {
	Limit int // entries at most

	slots []slot[E]
	free  []uint32 // the last one is used next
	wheel *wheel.Wheel
}

type slot[E any] struct {
	entry *E // nil when the slot is free
	uses  uint32
	due   wheel.Handle
}

// New returns an empty table. now is the owner's monotonic time in nanoseconds.
func New[E any](limit int, now int64) *Table[E] {
	return &Table[E]{Limit: limit, wheel: wheel.New(tick, now)}
}

// Len returns the number of entries.
func (t *Table[E]) Len() int { return len(t.slots) - len(t.free) }

// Add gives an entry a slot and returns its id; ok is false when all slots are taken. due is the entry's deadline, 0 for
// none.
func (t *Table[E]) Add(e *E, due int64) (id uint64, ok bool) {
	var i uint32
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else if len(t.slots) < t.Limit {
		i = uint32(len(t.slots))
		t.slots = append(t.slots, slot[E]{})
	} else {
		return 0, false
	}
	s := &t.slots[i]
	s.uses++
	s.entry = e
	id = uint64(s.uses)<<32 | uint64(i+1)
	if due != 0 {
		s.due = t.wheel.Schedule(due, id)
	}
	return id, true
}

// Get returns the entry of an id, nil if it is not there. known says that the id was given to an entry.
func (t *Table[E]) Get(id uint64) (e *E, known bool) {
	i := uint32(id)
	if i == OneWaySlot {
		return nil, true
	}
	if i == 0 || uint64(i) > uint64(len(t.slots)) {
		return nil, false
	}
	s := &t.slots[i-1]
	uses := uint32(id >> 32)
	switch {
	case s.uses == uses && s.entry != nil:
		return s.entry, true
	case int32(s.uses-uses) < 0:
		return nil, false
	}
	return nil, true
}

// Remove takes out the entry of an id that is there.
func (t *Table[E]) Remove(id uint64) {
	i := uint32(id) - 1
	s := &t.slots[i]
	t.wheel.Cancel(s.due)
	s.entry, s.due = nil, 0
	t.free = append(t.free, i)
}

// TakeAll empties the table and returns what it held.
func (t *Table[E]) TakeAll() []*E {
	var all []*E
	for i := range t.slots {
		if s := &t.slots[i]; s.entry != nil {
			t.wheel.Cancel(s.due)
			all = append(all, s.entry)
		}
	}
	t.slots, t.free = nil, nil
	return all
}

// Next returns the time of the next deadline at the latest; ok is false without one.
func (t *Table[E]) Next() (when int64, ok bool) { return t.wheel.Next() }

// Expire takes out entries whose deadlines have passed, at most limit of them, and calls over for each.
func (t *Table[E]) Expire(now int64, limit int, over func(id uint64, e *E)) {
	t.wheel.Advance(now, limit, func(_ wheel.Handle, id uint64) {
		s := &t.slots[uint32(id)-1]
		e := s.entry
		s.due = 0 // it has fired
		t.Remove(id)
		over(id, e)
	})
}
