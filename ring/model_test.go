package ring

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// The model checks do random operations on a ring and on plain slices that say what must come of them. Both sides of a
// ring are one goroutine here; what several do to it at once is what the tests under load are for.

const (
	modelSeeds = 200
	modelSteps = 400
)

// model is a ring of one producer and one consumer as plain slices.
type model struct {
	capacity  int
	filled    []int // by Next, not published
	visible   []int // published, not fetched
	taken     []int // fetched, not released
	published int   // in all
}

func (m *model) room() int { return m.capacity - len(m.filled) - len(m.visible) - len(m.taken) }

func (m *model) publish() {
	m.published += len(m.filled)
	m.visible = append(m.visible, m.filled...)
	m.filled = nil
}

func (m *model) fetch(n int) {
	m.taken = append(m.taken, m.visible[:n]...)
	m.visible = m.visible[n:]
}

func (m *model) rollBack(n int) {
	at := len(m.taken) - n
	m.visible = append(append([]int(nil), m.taken[at:]...), m.visible...)
	m.taken = m.taken[:at]
}

func (m *model) clear() { m.filled, m.visible, m.taken = nil, nil, nil }

// checkRun compares a run of fetched slots with the front of what is visible.
func (m *model) checkRun(t *testing.T, got []int, most int) {
	t.Helper()
	if len(got) > most || len(got) > len(m.visible) || len(got) == 0 && most > 0 && len(m.visible) > 0 {
		t.Fatalf("%d slots of at most %d, %d are there", len(got), most, len(m.visible))
	}
	for i, v := range got {
		if v != m.visible[i] {
			t.Fatalf("slot %d holds %d, want %d", i, v, m.visible[i])
		}
	}
	m.fetch(len(got))
}

// stepSPSC does one random operation on q and m. next is the number of the next message.
func stepSPSC(t *testing.T, r *rand.Rand, q *SPSC[int], m *model, next *int) {
	t.Helper()
	put := func(slots ...*int) {
		for _, s := range slots {
			*s = *next
			m.filled = append(m.filled, *next)
			*next++
		}
	}
	switch r.IntN(10) {
	case 0, 1:
		if slot := q.Next(); slot == nil != (m.room() == 0) {
			t.Fatalf("Next = %v with room for %d", slot, m.room())
		} else if slot != nil {
			put(slot)
		}
	case 2:
		n, room := r.IntN(2*m.capacity)-1, m.room()
		want := min(max(n, 0), room, m.capacity-int(q.filled&q.mask)) // as far as they lie side by side
		run := q.NextBatch(n)
		if len(run) != want {
			t.Fatalf("NextBatch(%d) gave %d slots with room for %d, want %d", n, len(run), room, want)
		}
		for i := range run {
			put(&run[i])
		}
	case 3, 4:
		q.Publish()
		m.publish()
	case 5:
		if r.IntN(4) == 0 {
			q.Withdraw()
			m.filled = nil
		}
	case 6:
		if slot := q.Fetch(); slot == nil != (len(m.visible) == 0) {
			t.Fatalf("Fetch = %v with %d there", slot, len(m.visible))
		} else if slot != nil {
			m.checkRun(t, []int{*slot}, 1)
		}
	case 7:
		n := r.IntN(2*m.capacity) - 1
		want := min(max(n, 0), len(m.visible), m.capacity-int(q.fetched&q.mask))
		run := q.FetchBatch(n)
		if len(run) != want {
			t.Fatalf("FetchBatch(%d) gave %d messages of %d, want %d", n, len(run), len(m.visible), want)
		}
		m.checkRun(t, run, max(n, 0))
	case 8:
		q.Release()
		m.taken = nil
	case 9:
		n := r.IntN(m.capacity + 2)
		if err := q.RollBack(n); (err == nil) != (n <= len(m.taken)) || err != nil && !errors.Is(err, ErrRollBack) {
			t.Fatalf("RollBack(%d) = %v with %d fetched", n, err, len(m.taken))
		} else if err == nil {
			m.rollBack(n)
		}
	}
	if q.Len() != len(m.visible)+len(m.taken) || q.Unpublished() != len(m.filled) || q.Unreleased() != len(m.taken) {
		t.Fatalf("long %d, unpublished %d, unreleased %d; want %+v", q.Len(), q.Unpublished(), q.Unreleased(), *m)
	}
}

func TestSPSCModel(t *testing.T) {
	for seed := range uint64(modelSeeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			m := &model{capacity: 1 << r.IntN(5)}
			q := must(NewSPSC[int](m.capacity))
			next := 1
			for range modelSteps {
				stepSPSC(t, r, q, m, &next)
				if r.IntN(100) == 0 {
					q.Clear()
					m.clear()
				}
			}
		})
	}
}

// TestDemuxModel: what the producer fills in goes to one consumer each, in order, and what it withdraws to none.
func TestDemuxModel(t *testing.T) {
	for seed := range uint64(modelSeeds) {
		r := rand.New(rand.NewPCG(seed, 1))
		consumers, capacity := 1+r.IntN(4), 1<<r.IntN(4)
		d := must(NewDemux[int](consumers, capacity))
		var published, filled []int
		seen := map[int]bool{}
		last := make([]int, consumers)
		for next := 1; next < modelSteps; {
			switch r.IntN(6) {
			case 0:
				if slot := d.Next(); slot != nil {
					*slot = next
				} else {
					continue
				}
				filled = append(filled, next)
				next++
			case 1:
				for i, run := 0, d.NextBatch(r.IntN(6)); i < len(run); i++ {
					run[i] = next
					filled = append(filled, next)
					next++
				}
			case 2:
				if slot := d.NextTo(r.IntN(consumers)); slot != nil {
					*slot = next
					filled = append(filled, next)
					next++
				}
			case 3:
				d.Publish()
				published, filled = append(published, filled...), nil
			case 4:
				if r.IntN(4) == 0 {
					d.Withdraw()
					filled = nil
				}
			case 5:
				i := r.IntN(consumers)
				for _, v := range d.Consumer(i).FetchBatch(r.IntN(5)) {
					if v <= last[i] || seen[v] {
						t.Fatalf("seed %d: consumer %d got %d after %d, again: %v", seed, i, v, last[i], seen[v])
					}
					last[i], seen[v] = v, true
				}
				d.Consumer(i).Release()
			}
		}
		d.Publish()
		published = append(published, filled...)
		for i := range consumers {
			for v, ok := d.Consumer(i).Recv(); ok; v, ok = d.Consumer(i).Recv() {
				seen[v] = true
			}
		}
		for _, v := range published {
			if !seen[v] {
				t.Fatalf("seed %d: %d was lost", seed, v)
			}
			delete(seen, v)
		}
		if len(seen) > 0 {
			t.Fatalf("seed %d: seen and not published: %v", seed, seen)
		}
	}
}

// TestMuxModel: each producer's messages come once and in order, also over roll backs, and the lengths agree.
func TestMuxModel(t *testing.T) {
	for seed := range uint64(modelSeeds) {
		r := rand.New(rand.NewPCG(seed, 2))
		producers, capacity := 1+r.IntN(4), 1<<r.IntN(4)
		m := must(NewMux[[2]int](producers, capacity))
		sent := make([]int, producers)
		released, fetched := make([]int, producers), make([]int, producers)
		take := func(v [2]int) {
			if v[1] != fetched[v[0]] {
				t.Fatalf("seed %d: producer %d: got %d, want %d", seed, v[0], v[1], fetched[v[0]])
			}
			fetched[v[0]]++
		}
		for range modelSteps {
			switch r.IntN(6) {
			case 0, 1:
				p := r.IntN(producers)
				if m.Producer(p).Send([2]int{p, sent[p]}) {
					sent[p]++
				} else if sent[p]-released[p] < capacity {
					t.Fatalf("seed %d: producer %d is refused with %d on their way", seed, p, sent[p]-released[p])
				}
			case 2:
				if v := m.Fetch(); v != nil {
					take(*v)
				} else if sum(sent) > sum(fetched) {
					t.Fatalf("seed %d: nothing to fetch of %v, %v taken", seed, sent, fetched)
				}
			case 3:
				for _, v := range m.FetchBatch(r.IntN(4)) {
					take(v)
				}
			case 4:
				m.Release()
				copy(released, fetched)
			case 5:
				if r.IntN(3) == 0 {
					m.RollBack()
					copy(fetched, released)
				}
			}
			if m.Len() != sum(sent)-sum(released) {
				t.Fatalf("seed %d: Len %d, want %d", seed, m.Len(), sum(sent)-sum(released))
			}
		}
		for v := m.Fetch(); v != nil; v = m.Fetch() {
			take(*v)
		}
		if fmt.Sprint(fetched) != fmt.Sprint(sent) {
			t.Fatalf("seed %d: sent %v, fetched %v", seed, sent, fetched)
		}
	}
}

func sum(all []int) (n int) {
	for _, v := range all {
		n += v
	}
	return n
}

// TestMPSCModel: like one producer and one consumer, and a batch comes whole or not at all.
func TestMPSCModel(t *testing.T) {
	for seed := range uint64(modelSeeds) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := &model{capacity: 1 << r.IntN(5)}
		q := must(NewMPSC[int](m.capacity))
		next := 1
		for range modelSteps {
			switch r.IntN(6) {
			case 0, 1:
				batch := make([]int, r.IntN(m.capacity+2))
				for i := range batch {
					batch[i] = next + i
				}
				if ok := q.SendBatch(batch); ok != (len(batch) <= m.room()) {
					t.Fatalf("seed %d: SendBatch of %d = %v with room for %d", seed, len(batch), ok, m.room())
				} else if ok {
					m.visible = append(m.visible, batch...)
					next += len(batch)
				}
			case 2:
				if slot := q.Fetch(); slot == nil != (len(m.visible) == 0) {
					t.Fatalf("seed %d: Fetch = %v with %d there", seed, slot, len(m.visible))
				} else if slot != nil {
					m.checkRun(t, []int{*slot}, 1)
				}
			case 3:
				q.Release()
				m.taken = nil
			case 4:
				n := r.IntN(m.capacity + 2)
				if err := q.RollBack(n); (err == nil) != (n <= len(m.taken)) {
					t.Fatalf("seed %d: RollBack(%d) = %v with %d fetched", seed, n, err, len(m.taken))
				} else if err == nil {
					m.rollBack(n)
				}
			case 5:
				if r.IntN(20) == 0 {
					q.Clear()
					m.clear()
				}
			}
			if q.Len() != len(m.visible)+len(m.taken) || q.Unreleased() != len(m.taken) {
				t.Fatalf("seed %d: long %d, unreleased %d; want %+v", seed, q.Len(), q.Unreleased(), *m)
			}
		}
	}
}

// TestSharedModel: consumers that take one after the other get the messages in order.
func TestSharedModel(t *testing.T) {
	for seed := range uint64(modelSeeds) {
		r := rand.New(rand.NewPCG(seed, 4))
		m := &model{capacity: 1 << r.IntN(5)}
		q := must(NewShared[int](m.capacity))
		next := 1
		for range modelSteps {
			switch r.IntN(6) {
			case 0, 1:
				if slot := q.Next(); slot == nil != (m.room() == 0) {
					t.Fatalf("seed %d: Next = %v with room for %d", seed, slot, m.room())
				} else if slot != nil {
					*slot = next
					m.filled = append(m.filled, next)
					next++
				}
			case 2:
				q.Publish()
				m.publish()
			case 3:
				vs := make([]int, r.IntN(m.capacity+2))
				m.checkRun(t, vs[:q.RecvBatch(vs)], len(vs))
			case 4:
				if v, ok := q.Recv(); ok != (len(m.visible) > 0) {
					t.Fatalf("seed %d: Recv = %v with %d there", seed, ok, len(m.visible))
				} else if ok {
					m.checkRun(t, []int{v}, 1)
				}
			case 5:
				switch r.IntN(20) {
				case 0:
					q.Clear()
					m.clear()
				case 1, 2:
					q.Withdraw()
					m.filled = nil
				}
			}
			m.taken = nil
			if q.Len() != len(m.visible) {
				t.Fatalf("seed %d: Len %d, want %d", seed, q.Len(), len(m.visible))
			}
		}
	}
}

// TestBroadcastModel: each consumer sees all of it, the slowest one sets the limit.
func TestBroadcastModel(t *testing.T) {
	for seed := range uint64(modelSeeds) {
		r := rand.New(rand.NewPCG(seed, 5))
		consumers, capacity := 1+r.IntN(3), 1<<r.IntN(5)
		b := must(NewBroadcast[int](consumers, capacity))
		models := make([]*model, consumers)
		for i := range models {
			models[i] = &model{capacity: capacity}
		}
		room := func() int {
			least := capacity
			for _, m := range models {
				least = min(least, m.room())
			}
			return least
		}
		for next := 1; next < modelSteps; next++ {
			i := r.IntN(consumers)
			m, reader := models[i], b.Consumer(i)
			switch r.IntN(7) {
			case 0, 1:
				if slot := b.Next(); slot == nil != (room() == 0) {
					t.Fatalf("seed %d: Next = %v with room for %d", seed, slot, room())
				} else if slot != nil {
					*slot = next
					for _, m := range models {
						m.filled = append(m.filled, next)
					}
				}
			case 2:
				b.Publish()
				for _, m := range models {
					m.publish()
				}
			case 3:
				if slot := reader.Fetch(); slot == nil != (len(m.visible) == 0) {
					t.Fatalf("seed %d: Fetch = %v with %d there", seed, slot, len(m.visible))
				} else if slot != nil {
					m.checkRun(t, []int{*slot}, 1)
				}
			case 4:
				reader.Release()
				m.taken = nil
			case 5:
				n := r.IntN(capacity + 2)
				if err := reader.RollBack(n); (err == nil) != (n <= len(m.taken)) {
					t.Fatalf("seed %d: RollBack(%d) = %v with %d fetched", seed, n, err, len(m.taken))
				} else if err == nil {
					m.rollBack(n)
				}
			case 6:
				switch r.IntN(20) {
				case 0:
					b.Clear()
					for _, m := range models {
						m.clear()
					}
				case 1, 2:
					b.Withdraw()
					for _, m := range models {
						m.filled = nil
					}
				}
			}
			longest := 0
			for _, m := range models {
				longest = max(longest, len(m.visible)+len(m.taken))
			}
			if b.Len() != longest {
				t.Fatalf("seed %d: Len %d, want %d", seed, b.Len(), longest)
			}
		}
	}
}
