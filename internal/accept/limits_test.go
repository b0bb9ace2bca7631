package accept

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestTable: many goroutines never pass the limit, and nothing is left behind.
func TestTable(t *testing.T) {
	const limit = 3
	var table Table[int]
	var mu sync.Mutex
	held := map[int]int{}
	var wg sync.WaitGroup
	for seed := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(seed), 1))
			var mine []int
			for range 5000 {
				key := rnd.IntN(2000)
				if table.Add(key, limit) {
					mine = append(mine, key)
					mu.Lock()
					if held[key]++; held[key] > limit {
						t.Errorf("%d hold key %d", held[key], key)
					}
					mu.Unlock()
				}
				if len(mine) > 400 {
					mu.Lock()
					held[mine[0]]--
					mu.Unlock()
					table.Remove(mine[0])
					mine = mine[1:]
				}
			}
			for _, key := range mine {
				mu.Lock()
				held[key]--
				mu.Unlock()
				table.Remove(key)
			}
		})
	}
	wg.Wait()
	if n := table.Len(); n != 0 {
		t.Errorf("%d keys left", n)
	}
	for i := range table.shards {
		if s := &table.shards[i]; s.counts != nil && s.peak > sparseShard {
			t.Errorf("shard %d keeps the map of its busiest time", i)
		}
	}
}

// TestRate: as many as the burst come at once, then one in each interval; what is given back can be taken again.
func TestRate(t *testing.T) {
	var none, r Rate
	none.Set(0, 0)
	r.Set(100, 3)
	now := int64(time.Hour)
	for range 1000 {
		if none.Take(now) != 0 {
			t.Fatal("without a limit somebody waits")
		}
	}
	for i := range 3 {
		if wait := r.Take(now); wait != 0 {
			t.Fatalf("number %d of a burst of 3 waits %v", i+1, wait)
		}
	}
	if wait := r.Take(now); wait != 10*time.Millisecond {
		t.Errorf("beyond the burst the wait is %v, want 10 ms", wait)
	}
	r.GiveBack()
	if r.Take(now) != 0 || r.Take(now) == 0 {
		t.Error("what was given back cannot be taken, or more than that")
	}
	if now += int64(10 * time.Millisecond); r.Take(now) != 0 || r.Take(now) == 0 {
		t.Error("an interval later not exactly one may come")
	}
}
