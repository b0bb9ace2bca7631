package executor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

// One greedy key gets half of the places, two a third each, and small keys always find one.
func TestKeysShareTheQueue(t *testing.T) {
	const total = 1200
	for greedy := 1; greedy <= 3; greedy++ {
		p := newPool(t, Options{Workers: 1, Queue: 4 * total})
		k := NewKeyed[int](p, total, total)
		release := occupy(t, p, 1)
		taken := make([]int, greedy)
		for range total {
			for key := range greedy {
				if err := k.Submit(key, func() {}); err == nil {
					taken[key]++
				} else if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "the share of a key in the total") {
					t.Fatal(err)
				}
			}
		}
		share := total / (greedy + 1)
		for key, n := range taken {
			if n < share-1 || n > share+1 {
				t.Errorf("%d greedy keys: key %d has %d places, its share is %d", greedy, key, n, share)
			}
		}
		room := total - k.Len()
		for small := range room {
			if err := k.Submit(1000+small, func() {}); err != nil {
				t.Fatalf("small key %d of %d: %v", small, room, err)
			}
		}
		if err := k.Submit(99, func() {}); !errors.Is(err, ErrRejected) || k.Len() != total {
			t.Errorf("above the total: %v, %d wait", err, k.Len())
		}
		release()
		testkit.Eventually(t, "empty", func() bool { return k.Keys() == 0 })
	}
}

// A greedy key with slow tasks, and a strand like it, holds the only worker for one turn at a time, not for all its tasks.
func TestGreedyKeyGivesItsWorkerBack(t *testing.T) {
	for _, kind := range []string{"key", "strand"} {
		synctest.Test(t, func(t *testing.T) {
			p, err := NewFixed(Options{Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			k := NewKeyed[string](p, 0, 0)
			var ran []string
			slow := func(string) { time.Sleep(10 * time.Millisecond); ran = append(ran, "greedy") }
			s := NewStrand(p, 0, slow)
			gate := make(chan struct{})
			if err := p.SubmitFunc(func() { <-gate }); err != nil {
				t.Fatal(err)
			}
			for range 50 {
				if kind == "strand" {
					err = s.Submit("")
				} else {
					err = k.Submit("greedy", func() { slow("") })
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for n := range 20 {
				if err := k.Submit(string(rune('a'+n)), func() { ran = append(ran, "small") }); err != nil {
					t.Fatal(err)
				}
			}
			close(gate)
			if _, err := p.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			last := len(ran) - 1
			for ; last >= 0 && ran[last] != "small"; last-- {
			}
			if before := len(slices.DeleteFunc(slices.Clone(ran[:last+1]), func(s string) bool { return s == "small" })); before > 2 {
				t.Errorf("%s: the last small key waited for %d tasks of the greedy one", kind, before)
			}
			if len(ran) != 70 {
				t.Errorf("%s: %d ran", kind, len(ran))
			}
		})
	}
}
