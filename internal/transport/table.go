package transport

import (
	"fmt"
	"iter"
	"slices"
)

// Table gives the streams of a loop their slots. A stream is named by a token, its slot with the slot's generation, so that
// an event or a handle of a stream that has ended never reaches the next one in its slot.
type Table[T any] struct {
	slots  []*T
	gens   []uint32
	free   []uint32
	active int
}

// Token names what has a slot. Its generation is not 0, which marks descriptors that are no streams.
func Token(slot, gen uint32) uint64 { return uint64(gen)<<32 | uint64(slot) }

// Adopt gives c a slot and a generation.
func (t *Table[T]) Adopt(c *T) (slot, gen uint32) {
	if n := len(t.free); n > 0 {
		slot = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		slot = uint32(len(t.slots))
		t.grow()
		t.slots = append(t.slots, nil)
		t.gens = append(t.gens, 0)
	}
	t.gens[slot]++
	if t.gens[slot] == 0 {
		t.gens[slot] = 1
	}
	t.slots[slot] = c
	t.active++
	return slot, t.gens[slot]
}

// grow doubles the room when there is none. append would grow by a quarter, and leave four times the table as garbage.
func (t *Table[T]) grow() {
	if n := len(t.slots); n == cap(t.slots) {
		t.slots, t.gens = slices.Grow(t.slots, max(n, minSlots)), slices.Grow(t.gens, max(n, minSlots))
	}
}

// minSlots is the room that a table begins with.
const minSlots = 64

// Release frees a slot; tokens that still carry its generation are stale from now on.
func (t *Table[T]) Release(slot uint32) {
	t.slots[slot] = nil
	t.gens[slot]++
	t.free = append(t.free, slot)
	t.active--
}

// Lookup returns what a token names, nil when it has ended.
func (t *Table[T]) Lookup(token uint64) *T {
	slot, gen := uint32(token), uint32(token>>32)
	if int(slot) >= len(t.slots) || t.gens[slot] != gen {
		return nil
	}
	return t.slots[slot]
}

// Active returns how many slots are taken, Len how many there are.
func (t *Table[T]) Active() int { return t.active }
func (t *Table[T]) Len() int    { return len(t.slots) }

// Part returns the slots from from up to end, which are at most n. Free ones are nil.
func (t *Table[T]) Part(from, n int) (part []*T, end int) {
	end = min(from+n, len(t.slots))
	return t.slots[min(from, end):end], end
}

// All yields what has a slot, in the order of the slots.
func (t *Table[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, c := range t.slots {
			if c != nil && !yield(c) {
				return
			}
		}
	}
}

// Check returns an error that says where the table contradicts itself.
func (t *Table[T]) Check() error {
	used := 0
	for range t.All() {
		used++
	}
	if used != t.active || len(t.free)+used != len(t.slots) {
		return fmt.Errorf("%d slots: %d used, %d counted, %d free", len(t.slots), used, t.active, len(t.free))
	}
	for i, s := range t.free {
		if t.slots[s] != nil || slices.Contains(t.free[:i], s) {
			return fmt.Errorf("slot %d is free and is not", s)
		}
	}
	return nil
}
