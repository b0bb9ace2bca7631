// Package wheel is a hierarchical timing wheel for the deadlines of one loop.
//
// Each level has 64 slots, and each slot of a level spans a whole turn of the level below. An entry is filed by the
// highest bit in which its tick differs from the current one. So the lowest occupied slot of the lowest occupied level
// is always the next one to look at. Two bit scans find it, whatever the number of entries. A slot above level 0 is
// spread over the levels below when its first tick arrives.
//
// A Wheel has no locks: every method must be called by the goroutine that owns it.
package wheel

import (
	"math"
	"math/bits"
	"time"
)

const (
	slotBits = 6
	slots    = 1 << slotBits
	// maxLevels covers 64 bits of ticks, the case of a 1 ns tick.
	maxLevels = (64 + slotBits - 1) / slotBits

	// maxRelinks bounds how many entries one Advance moves down a level, so a slot
	// that holds a million entries is spread over several calls.
	maxRelinks = 16384
)

// Handle names an armed entry. 0 names none. A handle is dead once its entry has
// fired or was cancelled; the wheel then gives it to a later Schedule.
type Handle uint32

// After returns the time that is d after t. If that lies beyond the largest time, it returns the largest time, which
// never comes. t must not be negative. Use After for all deadlines: a plain sum of a time and a duration near the
// maximum is a time long past.
func After(t int64, d time.Duration) int64 {
	return t + min(int64(d), math.MaxInt64-t)
}

// Wheel keeps entries ordered by tick. Use New.
type Wheel struct {
	tick    uint64 // ns
	base    int64  // ns, time of tick 0
	now     int64  // ns, largest time given to Advance
	elapsed uint64 // ticks up to which slots have been emptied

	occupied uint16            // bit per level with a non-empty slot
	bitmap   [maxLevels]uint64 // bit per non-empty slot
	slab     slab
	armed    int

	// Sentinels of the lists that are not slots.
	due, firing, cascade Handle
	relinks              int
}

// New returns a wheel of the given resolution whose time starts at now, in
// nanoseconds of a monotonic clock. A tick below 1 ns counts as 1 ns.
func New(tick time.Duration, now int64) *Wheel {
	w := &Wheel{tick: uint64(max(tick, 1)), base: now, now: now, relinks: maxRelinks}
	levels := (bits.Len64(math.MaxUint64/w.tick) + slotBits - 1) / slotBits
	n := Handle(levels * slots)
	w.due, w.firing, w.cascade = n, n+1, n+2
	w.slab.init(n + 3)
	return w
}

// Len returns the number of armed entries.
func (w *Wheel) Len() int { return w.armed }

// Schedule arms an entry for the absolute time when, in nanoseconds, and returns
// its handle. The time is rounded up to a tick, so the entry never fires early and
// at most one tick late. A time that has passed fires on the next Advance.
func (w *Wheel) Schedule(when int64, payload uint64) Handle {
	h := w.slab.alloc()
	e := w.slab.at(h)
	e.payload = payload
	w.armed++
	w.file(h, e, when)
	return h
}

// Cancel disarms h. It panics when h is not armed, unless h is 0, which it ignores.
func (w *Wheel) Cancel(h Handle) {
	if h == 0 {
		return
	}
	w.unlink(w.slab.live(h, "Cancel"))
	w.release(h)
}

// Move re-arms h for another time and keeps its payload. It panics when h is not armed.
func (w *Wheel) Move(h Handle, when int64) {
	e := w.slab.live(h, "Move")
	if when > w.now && e.tick == w.ceil(when) && e.tick > w.elapsed {
		return
	}
	w.unlink(e)
	w.file(h, e, when)
}

// Armed returns the payload of h, and whether h is armed. It is for tests.
func (w *Wheel) Armed(h Handle) (payload uint64, ok bool) {
	if h == 0 || h >= w.slab.used || w.slab.at(h).tick == freeTick {
		return 0, false
	}
	return w.slab.at(h).payload, true
}

// When returns the time for which h is armed, rounded up to a tick. It panics when h is not armed.
func (w *Wheel) When(h Handle) int64 { return w.time(w.slab.live(h, "When").tick) }

// Advance moves the wheel's time to now and calls fire for entries whose tick has come, earliest tick first. Entries of
// one tick have no promised order. The handle is free when fire is called. fire may call Schedule, Cancel and Move.
// What it arms for a time that has passed fires on the next Advance, not in this one.
//
// Advance calls fire at most limit times and does a bounded amount of filing. When something is left, Next reports a
// time that has passed. A now below an earlier one counts as the earlier one.
func (w *Wheel) Advance(now int64, limit int, fire func(h Handle, payload uint64)) (fired int) {
	w.now = max(w.now, now)
	target := w.floor(w.now)
	relinks := w.relinks
	w.slab.splice(w.firing, w.due)
	for {
		if relinks = w.spread(relinks); relinks < 0 {
			return fired
		}
		for !w.slab.empty(w.firing) {
			if fired >= limit {
				return fired
			}
			fired++
			w.fireFirst(fire)
		}
		if !w.take(target) {
			return fired
		}
	}
}

// Next returns the earliest time at which Advance has something to do: an expiry,
// or a slot of a higher level to spread. A time in the past means at once; ok is
// false when nothing is armed.
func (w *Wheel) Next() (when int64, ok bool) {
	if w.armed == 0 {
		return 0, false
	}
	if !w.slab.empty(w.due) || !w.slab.empty(w.firing) || !w.slab.empty(w.cascade) {
		return w.now, true
	}
	_, tick := w.first()
	return w.time(tick), true
}

// take moves the first slot to the firing or the cascade list if it begins at or
// before target; else it moves the wheel's time to target and returns false.
func (w *Wheel) take(target uint64) bool {
	if w.occupied == 0 {
		w.elapsed = max(w.elapsed, target)
		return false
	}
	slot, tick := w.first()
	if tick > target {
		w.elapsed = max(w.elapsed, target)
		return false
	}
	w.elapsed = max(w.elapsed, tick)
	list := w.firing
	if slot >= slots {
		list = w.cascade
	}
	w.slab.splice(list, slot)
	w.vacate(slot)
	return true
}

// spread files the entries of the cascade list anew. It returns what is left of
// the budget, below zero when that ran out first.
func (w *Wheel) spread(budget int) int {
	for !w.slab.empty(w.cascade) {
		if budget == 0 {
			return -1
		}
		budget--
		h := w.slab.at(w.cascade).next
		e := w.slab.at(h)
		w.slab.unlink(e)
		w.fileTick(h, e)
	}
	return budget
}

// fireFirst frees the first entry of the firing list, then reports it.
func (w *Wheel) fireFirst(fire func(Handle, uint64)) {
	h := w.slab.at(w.firing).next
	e := w.slab.at(h)
	payload := e.payload
	w.slab.unlink(e)
	w.release(h)
	fire(h, payload)
}

// first returns the first occupied slot and the tick at which it begins. At least
// one slot must be occupied.
func (w *Wheel) first() (slot Handle, tick uint64) {
	level := bits.TrailingZeros16(w.occupied)
	n := uint64(bits.TrailingZeros64(w.bitmap[level]))
	shift := level * slotBits
	above := w.elapsed &^ (uint64(1)<<(shift+slotBits) - 1)
	return Handle(level*slots) + Handle(n), above | n<<shift
}

// file links e into the list for the time when.
func (w *Wheel) file(h Handle, e *entry, when int64) {
	if when <= w.now {
		e.tick = w.elapsed
		w.slab.push(w.due, h, e)
		return
	}
	e.tick = w.ceil(when)
	w.fileTick(h, e)
}

// fileTick links e into the slot of its tick, which is not before the wheel's time.
func (w *Wheel) fileTick(h Handle, e *entry) {
	level := (bits.Len64((w.elapsed^e.tick)|(slots-1)) - 1) / slotBits
	n := e.tick >> (level * slotBits) & (slots - 1)
	w.occupied |= 1 << level
	w.bitmap[level] |= 1 << n
	w.slab.push(Handle(level*slots)+Handle(n), h, e)
}

// unlink takes e out of its list. It clears the bit of a slot that becomes empty.
func (w *Wheel) unlink(e *entry) {
	alone := e.next == e.prev // then both name the list's sentinel
	list := e.next
	w.slab.unlink(e)
	if alone && list < w.due {
		w.vacate(list)
	}
}

// vacate clears the bit of an empty slot.
func (w *Wheel) vacate(slot Handle) {
	level := slot >> slotBits
	w.bitmap[level] &^= 1 << (slot & (slots - 1))
	if w.bitmap[level] == 0 {
		w.occupied &^= 1 << level
	}
}

// release returns an unlinked entry to the slab.
func (w *Wheel) release(h Handle) {
	w.armed--
	w.slab.free(h)
}

// ceil returns the first tick at or after t.
func (w *Wheel) ceil(t int64) uint64 {
	d := uint64(t) - uint64(w.base)
	q := d / w.tick
	if q*w.tick != d {
		q++
	}
	return q
}

// floor returns the last tick at or before t.
func (w *Wheel) floor(t int64) uint64 { return (uint64(t) - uint64(w.base)) / w.tick }

// time returns the time of a tick, capped to the largest one.
func (w *Wheel) time(tick uint64) int64 {
	hi, d := bits.Mul64(tick, w.tick)
	if hi != 0 || d > uint64(math.MaxInt64)-uint64(w.base) {
		return math.MaxInt64
	}
	return int64(uint64(w.base) + d)
}
