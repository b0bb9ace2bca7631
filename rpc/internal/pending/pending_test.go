package pending

import (
	"math"
	"slices"
	"testing"
	"time"
)

type entry struct{ name string }

// TestTable: ids are never 0, name their entry only while it is there, and tell what has ended from what never was, also
// when the count of a slot wraps.
func TestTable(t *testing.T) {
	p := New[entry](3, 0)
	entries := []*entry{{}, {}, {}, {}}
	var ids []uint64
	for i, e := range entries {
		id, ok := p.Add(e, 0)
		if ok != (i < 3) {
			t.Fatalf("add %d: %v", i, ok)
		}
		ids = append(ids, id)
	}
	for i, id := range ids[:3] {
		if e, known := p.Get(id); id == 0 || e != entries[i] || !known {
			t.Errorf("id %#x: %p, %v", id, e, known)
		}
	}
	p.Remove(ids[1])
	if e, known := p.Get(ids[1]); e != nil || !known {
		t.Error("an id that has ended")
	}
	for _, id := range []uint64{0, ids[0] + 1<<32, 4, 1<<32 | 4, 1 << 63, math.MaxUint64 &^ 0xffffffff} {
		if e, known := p.Get(id); e != nil || known {
			t.Errorf("id %#x: %p, %v", id, e, known)
		}
	}
	if e, known := p.Get(7<<32 | OneWaySlot); e != nil || !known {
		t.Error("the id of a one-way request")
	}
	if p.Len() != 2 {
		t.Errorf("%d entries", p.Len())
	}
	// The count of uses wraps.
	p.slots[1].uses = math.MaxUint32 - 1
	var last uint64
	for range 4 {
		id, ok := p.Add(entries[3], 0)
		if !ok || id == 0 || id == last {
			t.Fatalf("%#x, %v", id, ok)
		}
		if e, _ := p.Get(id); e != entries[3] {
			t.Errorf("id %#x is not there", id)
		}
		if last != 0 {
			if e, known := p.Get(last); e != nil || !known {
				t.Errorf("id %#x: %p, %v", last, e, known)
			}
		}
		p.Remove(id)
		last = id
	}
	if all := p.TakeAll(); len(all) != 2 || p.Len() != 0 {
		t.Errorf("%d entries", len(all))
	}
}

// TestDeadlines: an entry is over at its deadline, once, unless it was removed or taken before, and no more of them at
// once than the limit says.
func TestDeadlines(t *testing.T) {
	p := New[entry](10, 0)
	add := func(name string, due time.Duration) uint64 {
		id, ok := p.Add(&entry{name}, int64(due))
		if !ok {
			t.Fatal("no room")
		}
		return id
	}
	var over []string
	expire := func(now time.Duration, limit int) []string {
		over = nil
		p.Expire(int64(now), limit, func(id uint64, e *entry) {
			if got, known := p.Get(id); got != nil || !known {
				t.Errorf("%s is over and still there", e.name)
			}
			over = append(over, e.name)
		})
		slices.Sort(over)
		return over
	}
	add("a", time.Second)
	add("b", time.Second)
	add("never", 0)
	p.Remove(add("removed", time.Second))
	add("late", time.Hour)
	if when, ok := p.Next(); !ok || when > int64(time.Second+tick) {
		t.Errorf("the next deadline is at %v, %v", time.Duration(when), ok)
	}
	if got := expire(time.Second/2, 9); got != nil {
		t.Errorf("%v are over", got)
	}
	if got := expire(2*time.Second, 1); len(got) != 1 {
		t.Errorf("%v are over, want one", got)
	}
	if got := expire(2*time.Second, 9); len(got) != 1 || p.Len() != 2 {
		t.Errorf("%v are over, %d left", got, p.Len())
	}
	if all := p.TakeAll(); len(all) != 2 {
		t.Errorf("%d left", len(all))
	}
	if _, ok := p.Next(); ok {
		t.Error("an empty table has a deadline")
	}
}
