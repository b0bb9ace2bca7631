package transport

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTableAgainstModel: what has a slot is found by its token, in the order of the slots, and nothing by the token of
// what has ended.
func TestTableAgainstModel(t *testing.T) {
	type stream struct{ slot, gen uint32 }
	rnd := rand.New(rand.NewPCG(1, 7))
	var table Table[stream]
	var live []*stream
	var stale []uint64
	for range 2000 {
		if n := len(live); n > 0 && rnd.IntN(20) < n {
			i := rnd.IntN(n)
			c := live[i]
			table.Release(c.slot)
			stale = append(stale, Token(c.slot, c.gen))
			live = slices.Delete(live, i, i+1)
		} else {
			c := new(stream)
			c.slot, c.gen = table.Adopt(c)
			live = append(live, c)
		}
		if err := table.Check(); err != nil || table.Active() != len(live) || table.Len() > 20 {
			t.Fatalf("%v; %d slots, %d active, want %d", err, table.Len(), table.Active(), len(live))
		}
		slices.SortFunc(live, func(a, b *stream) int { return int(a.slot) - int(b.slot) })
		if got := slices.Collect(table.All()); !slices.Equal(got, live) {
			t.Fatalf("%d streams have slots, want %d", len(got), len(live))
		}
		var got []*stream
		for from, end := 0, 0; from < table.Len(); from = end {
			var part []*stream
			part, end = table.Part(from, 3)
			if len(part) > 3 || end <= from {
				t.Fatalf("the part from %d on has %d slots and ends at %d", from, len(part), end)
			}
			got = append(got, slices.DeleteFunc(slices.Clone(part), func(c *stream) bool { return c == nil })...)
		}
		if !slices.Equal(got, live) {
			t.Fatalf("part by part %d streams have slots, want %d", len(got), len(live))
		}
		for _, c := range live {
			if token := Token(c.slot, c.gen); table.Lookup(token) != c || token>>32 == 0 {
				t.Fatalf("token %x names another stream", token)
			}
		}
		for _, token := range stale {
			if table.Lookup(token) != nil {
				t.Fatalf("token %x names what has ended", token)
			}
		}
	}
	if part, end := table.Part(1000, 3); len(part) != 0 || end != table.Len() {
		t.Errorf("behind the end there are %d slots up to %d", len(part), end)
	}
	if table.Lookup(Token(1000, 1)) != nil {
		t.Error("a slot that does not exist is taken")
	}
}

// TestGenerationsWrapAround: the generation that follows the last number is not 0, which marks special descriptors.
func TestGenerationsWrapAround(t *testing.T) {
	var table Table[int]
	table.Release(first(table.Adopt(new(int))))
	table.gens[0] = math.MaxUint32
	c := new(int)
	if slot, gen := table.Adopt(c); slot != 0 || gen == 0 || table.Lookup(Token(slot, gen)) != c {
		t.Errorf("slot %d, generation %d", slot, gen)
	}
}

func first(slot, _ uint32) uint32 { return slot }

// TestTableIsChecked: a table that contradicts itself is found out.
func TestTableIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(t *Table[int]){
		"one more":         func(t *Table[int]) { t.active++ },
		"one less":         func(t *Table[int]) { t.slots[1] = nil },
		"a lost slot":      func(t *Table[int]) { t.free = nil },
		"free and taken":   func(t *Table[int]) { t.free[0] = 1 },
		"free twice":       func(t *Table[int]) { t.free = append(t.free, t.free[0]); t.slots = append(t.slots, nil) },
		"released at once": func(t *Table[int]) { t.Release(2); t.active++ },
	} {
		var table Table[int]
		for range 3 {
			table.Adopt(new(int))
		}
		table.Release(0)
		if err := table.Check(); err != nil {
			t.Fatal(err)
		}
		if spoil(&table); table.Check() == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
