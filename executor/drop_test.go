package executor

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// A stopped pool gives the items of a waiting strand to its drop function, in order, and the other runners back.
func TestStoppedPoolDropsItems(t *testing.T) {
	for name, stop := range map[string]func(*Pool) []Runner{
		"Close": (*Pool).Close,
		"Shutdown": func(p *Pool) []Runner {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			left, _ := p.Shutdown(ctx)
			return left
		},
	} {
		p := newPool(t, Options{Workers: 1, OnPanic: func(any, []byte) {}})
		release := occupy(t, p, 1)
		var dropped []int
		s := NewStrand(p, 10, func(v int) { t.Errorf("%d ran", v) }).DropWith(func(v int) {
			dropped = append(dropped, v)
			if v == 2 {
				panic("contained")
			}
		})
		plain := NewStrand(p, 10, func(int) {})
		for v := range 4 {
			if err := errors.Join(s.Submit(v), plain.Submit(v)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Finish(4); err != nil {
			t.Fatal(err)
		}
		if left := stop(p); len(left) != 1 || left[0] != (*turn[int])(plain) {
			t.Errorf("%s: left %v", name, left)
		}
		if !slices.Equal(dropped, []int{0, 1, 2, 3, 4}) || s.Len() != 0 || plain.Len() != 4 {
			t.Errorf("%s: dropped %v, %d and %d wait", name, dropped, s.Len(), plain.Len())
		}
		if err := s.Submit(5); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: Submit after that: %v", name, err)
		}
		if p.Stats().Panics != 1 {
			t.Errorf("%s: %+v", name, p.Stats())
		}
		release()
	}
}

// However the end of the pool meets submissions, an item that was taken runs once or is dropped once.
func TestItemsRunOrAreDropped(t *testing.T) {
	for range 200 {
		p := newPool(t, Options{Workers: 2, Queue: 4})
		const producers, each = 3, 50
		var ends [producers * each]atomic.Int32
		var taken [producers * each]bool
		end := func(v int) { ends[v].Add(1); runtime.Gosched() }
		var all sync.WaitGroup
		for i := range producers {
			s := NewStrand(p, 64, end).DropWith(end)
			all.Go(func() {
				for v := i * each; v < (i+1)*each-1; v++ {
					taken[v] = s.Submit(v) == nil
				}
				taken[(i+1)*each-1] = s.Finish((i+1)*each-1) == nil
			})
		}
		all.Go(func() {
			for p.Stats().Submitted < 3 {
				runtime.Gosched()
			}
			p.Close()
		})
		all.Wait()
		if _, err := p.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		for v := range ends {
			if n := ends[v].Load(); (n == 1) != taken[v] || n > 1 {
				t.Fatalf("item %d: taken %v, ended %d times", v, taken[v], n)
			}
		}
	}
}

// TestAppend: what must not be lost is queued behind what waits, above every bound, and refused only where nothing runs.
func TestAppend(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 1})
	release := occupy(t, p, 1)
	if err := p.SubmitFunc(func() {}); err != nil {
		t.Fatal(err)
	}
	ran := make(chan int, 10)
	full, idle := NewStrand(p, 1, func(v int) { ran <- v }), NewStrand(p, 1, func(v int) { ran <- -v })
	for v := range 3 {
		if err := full.Append(v); err != nil {
			t.Fatalf("item %d: %v", v, err)
		}
	}
	if err := full.Submit(9); !errors.Is(err, ErrRejected) || full.Len() != 3 {
		t.Errorf("Submit above the bound = %v, %d wait", err, full.Len())
	}
	release()
	for v := range 3 {
		if got := testkit.Receive(t, "a run", ran); got != v {
			t.Errorf("ran %d, want %d", got, v)
		}
	}
	if err := full.Finish(3); err != nil || testkit.Receive(t, "a run", ran) != 3 {
		t.Errorf("Finish = %v", err)
	}
	if err := full.Append(4); !errors.Is(err, ErrClosed) {
		t.Errorf("Append after Finish = %v", err)
	}
	p.Close()
	if _, err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := idle.Append(1); !errors.Is(err, ErrClosed) || idle.Len() != 0 {
		t.Errorf("Append to a pool that has ended = %v, %d wait", err, idle.Len())
	}
}
