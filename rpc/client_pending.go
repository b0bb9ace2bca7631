package rpc

import "github.com/go-eddy/eddy/internal/wheel"

// pendingTable holds the calls of one connection that wait for their responses. wire.mu guards it. The id of a call names
// its slot and how often the slot was used. So finding a call is one index, an id is never 0, and an id that has ended is
// told from one that never was. The counts may wrap: an id comes again after 2³² calls in one slot.
type pendingTable struct {
	slots []pendingSlot
	free  []uint32 // the last one is used next
	limit int
}

type pendingSlot struct {
	call *call // nil when the slot is free
	uses uint32
	due  wheel.Handle
}

// Parts of ids that name no slot.
const (
	oneWaySlot = 1<<32 - 1
	pingSlot   = 1<<32 - 2
	maxSlots   = 1 << 24 // bound of MaxPending
)

func (p *pendingTable) len() int { return len(p.slots) - len(p.free) }

// add gives a call a slot and returns its id; ok is false when all slots are taken.
func (p *pendingTable) add(c *call) (id uint64, ok bool) {
	var i uint32
	if n := len(p.free); n > 0 {
		i = p.free[n-1]
		p.free = p.free[:n-1]
	} else if len(p.slots) < p.limit {
		i = uint32(len(p.slots))
		p.slots = append(p.slots, pendingSlot{})
	} else {
		return 0, false
	}
	s := &p.slots[i]
	s.uses++
	s.call = c
	return uint64(s.uses)<<32 | uint64(i+1), true
}

// slot returns the slot of an id that is in use, nil for any other. known says that the id was given to a call.
func (p *pendingTable) slot(id uint64) (s *pendingSlot, known bool) {
	i := uint32(id)
	if i == oneWaySlot {
		return nil, true
	}
	if i == 0 || uint64(i) > uint64(len(p.slots)) {
		return nil, false
	}
	s = &p.slots[i-1]
	uses := uint32(id >> 32)
	switch {
	case s.uses == uses && s.call != nil:
		return s, true
	case int32(s.uses-uses) < 0:
		return nil, false
	}
	return nil, true
}

// remove frees a slot in use.
func (p *pendingTable) remove(id uint64) {
	i := uint32(id) - 1
	p.slots[i].call, p.slots[i].due = nil, 0
	p.free = append(p.free, i)
}

// takeAll empties the table and returns what it held.
func (p *pendingTable) takeAll() []*call {
	var all []*call
	for i := range p.slots {
		if c := p.slots[i].call; c != nil {
			all = append(all, c)
		}
	}
	p.slots, p.free = nil, nil
	return all
}
