package rpc

import (
	"math"
	"testing"
)

// TestPendingTable: ids are never 0, name their call only while it is there, and tell what has ended from what never was, also when
// the count of a slot wraps.
func TestPendingTable(t *testing.T) {
	p := &pendingTable{limit: 3}
	calls := []*call{{}, {}, {}, {}}
	var ids []uint64
	for i, c := range calls {
		id, ok := p.add(c)
		if ok != (i < 3) {
			t.Fatalf("add %d: %v", i, ok)
		}
		ids = append(ids, id)
	}
	for i, id := range ids[:3] {
		if s, known := p.slot(id); id == 0 || s == nil || s.call != calls[i] || !known {
			t.Errorf("id %#x: %+v, %v", id, s, known)
		}
	}
	p.remove(ids[1])
	if s, known := p.slot(ids[1]); s != nil || !known {
		t.Error("an id that has ended")
	}
	for _, id := range []uint64{0, ids[0] + 1<<32, 4, 1<<32 | 4, 1 << 63, math.MaxUint64 &^ 0xffffffff} {
		if s, known := p.slot(id); s != nil || known {
			t.Errorf("id %#x: %+v, %v", id, s, known)
		}
	}
	if s, known := p.slot(7<<32 | oneWaySlot); s != nil || !known {
		t.Error("the id of a one-way request")
	}
	if p.len() != 2 {
		t.Errorf("%d calls", p.len())
	}
	// The count of uses wraps.
	p.slots[1].uses = math.MaxUint32 - 1
	var last uint64
	for range 4 {
		id, ok := p.add(calls[3])
		if !ok || id == 0 || id == last {
			t.Fatalf("%#x, %v", id, ok)
		}
		if s, _ := p.slot(id); s == nil || s.call != calls[3] {
			t.Errorf("id %#x is not there", id)
		}
		if last != 0 {
			if s, known := p.slot(last); s != nil || !known {
				t.Errorf("id %#x: %+v, %v", last, s, known)
			}
		}
		p.remove(id)
		last = id
	}
	if all := p.takeAll(); len(all) != 2 || p.len() != 0 {
		t.Errorf("%d calls", len(all))
	}
}
