package eddy

// connTable gives the connections of a loop their places. A place is named by slot and generation, so that an event or a handle
// of a connection that has ended never reaches the next one in its slot.
type connTable struct {
	slots  []*Conn
	gens   []uint32
	free   []uint32
	active int
}

// adopt gives a new connection a slot and a generation.
func (t *connTable) adopt(c *Conn) {
	var slot uint32
	if n := len(t.free); n > 0 {
		slot = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		slot = uint32(len(t.slots))
		t.slots = append(t.slots, nil)
		t.gens = append(t.gens, 0)
	}
	t.gens[slot]++
	if t.gens[slot] == 0 { // generation 0 marks descriptors that are no connections
		t.gens[slot] = 1
	}
	t.slots[slot] = c
	c.slot, c.gen = slot, t.gens[slot]
	t.active++
}

// release frees a connection's slot; events and handles that still carry its generation are stale from now on.
func (t *connTable) release(c *Conn) {
	t.slots[c.slot] = nil
	t.gens[c.slot]++
	t.free = append(t.free, c.slot)
	t.active--
}

// lookup returns the connection that a token or handle names, nil when it has ended.
func (t *connTable) lookup(token uint64) *Conn {
	slot, gen := uint32(token), uint32(token>>32)
	if int(slot) >= len(t.slots) || t.gens[slot] != gen {
		return nil
	}
	return t.slots[slot]
}
