package fairqueue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLongestGivesWay: a queue that is full of what waits keeps nobody from waiting in another one; its latest give way, until both have the same.
func TestLongestGivesWay(t *testing.T) {
	var (
		b           Bound[int]
		stuck, live Queue[int]
	)
	const limit = 8
	for i := range limit {
		if refused, full := b.Push(&stuck, i, limit); full {
			t.Fatalf("%d refused with %d of %d waiting", refused, b.Len(), limit)
		}
	}
	if refused, full := b.Push(&stuck, 8, limit); !full || refused != 8 {
		t.Errorf("one more in the only queue: %d refused, full: %v", refused, full)
	}
	for i := range limit / 2 {
		if refused, full := b.Push(&live, 100+i, limit); !full || refused != limit-1-i {
			t.Errorf("the other queue's %d: %d refused, full: %v", i, refused, full)
		}
	}
	for v, q := range map[int]*Queue[int]{9: &stuck, 104: &live} {
		if refused, full := b.Push(q, v, limit); !full || refused != v {
			t.Errorf("one more where both have the same: %d refused, full: %v", refused, full)
		}
	}
	if got := b.Drain(&stuck); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("left in the long queue: %v", got)
	}
	if got := b.Drain(&live); !slices.Equal(got, []int{100, 101, 102, 103}) {
		t.Errorf("in the other: %v", got)
	}
}

// TestAgainstModel: random calls on four queues against a list of all that waits, in the order in which it came.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		type waiting struct{ q, v int }
		var (
			b      Bound[int]
			queues [4]Queue[int]
			model  []waiting
		)
		of := func(q int) (all []int) {
			for _, w := range model {
				if w.q == q {
					all = append(all, w.v)
				}
			}
			return all
		}
		drop := func(v int) { model = slices.DeleteFunc(model, func(w waiting) bool { return w.v == v }) }
		for v := range 300 {
			q := random.IntN(4)
			switch op := random.IntN(8); {
			case op < 5:
				was := of(q)
				refused, full := b.Push(&queues[q], v, 10)
				switch {
				case full != (len(model) == 10):
					t.Fatalf("seed %d, %d: full: %v with %d waiting", seed, v, full, len(model))
				case !full || refused != v:
					model = append(model, waiting{q, v})
				}
				if full && refused != v {
					i := slices.IndexFunc(model, func(w waiting) bool { return w.v == refused })
					if all := of(model[i].q); len(all) <= len(was)+1 || all[len(all)-1] != refused {
						t.Fatalf("seed %d, %d: %d gives way, of %v, for the queue %v", seed, v, refused, all, was)
					}
					drop(refused)
				}
			case op == 5 && queues[q].Len() > 0:
				first := queues[q].First()
				b.Pop(&queues[q])
				if first != of(q)[0] {
					t.Fatalf("seed %d, %d: %d is first of %v", seed, v, first, of(q))
				}
				drop(first)
			case op == 6 && v > 0:
				gone := random.IntN(v)
				if b.Remove(&queues[q], gone) != slices.Contains(of(q), gone) {
					t.Fatalf("seed %d, %d: %d of %v", seed, v, gone, of(q))
				}
				if slices.Contains(of(q), gone) {
					drop(gone)
				}
			}
			if b.Len() != len(model) {
				t.Fatalf("seed %d, %d: %d wait, want %d", seed, v, b.Len(), len(model))
			}
			for q := range queues {
				for o := range queues {
					if q == o || queues[q].Len() == 0 || queues[o].Len() == 0 {
						continue
					}
					before := slices.IndexFunc(model, func(w waiting) bool { return w.q == q }) < slices.IndexFunc(model, func(w waiting) bool { return w.q == o })
					if before != (queues[q].Compare(&queues[o]) < 0) {
						t.Fatalf("seed %d, %d: %v before %v: %v", seed, v, of(q), of(o), before)
					}
				}
			}
		}
		for q := range queues {
			if want, got := of(q), b.Drain(&queues[q]); !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
		}
		if b.Len() != 0 || len(b.queues) != 0 {
			t.Fatalf("seed %d: %d of %d queues are left", seed, b.Len(), len(b.queues))
		}
	}
}
