package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// Items of one producer run in its order and one at a time, whatever the number of
// producers and workers. The plain counter makes the race detector check the latter.
func TestStrandRunsSeriallyInOrder(t *testing.T) {
	const producers, each = 8, 4000
	type item struct{ producer, n int }
	p := newPool(t, Options{Workers: 4, Queue: 16})
	var last [producers]int
	ran := 0
	finished := make(chan int, 1)
	s := NewStrand(p, 50, func(it item) {
		if it.n != last[it.producer]+1 {
			t.Errorf("producer %d: item %d after %d", it.producer, it.n, last[it.producer])
		}
		last[it.producer] = it.n
		if ran++; ran == producers*each {
			finished <- ran
		}
	})
	var all sync.WaitGroup
	for i := range producers {
		all.Go(func() {
			for n := 1; n <= each; {
				switch err := s.Submit(item{i, n}); {
				case err == nil:
					n++
				case errors.Is(err, ErrRejected):
					runtime.Gosched()
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	testkit.Receive(t, "the end", finished)
	if s.Len() != 0 {
		t.Errorf("Len %d at the end", s.Len())
	}
}

func TestStrandBound(t *testing.T) {
	p := newPool(t, Options{Name: "work", Workers: 1})
	gate, entered := make(chan struct{}), make(chan struct{}, 1)
	ran := make(chan int, 10)
	s := NewStrand(p, 3, func(v int) {
		if v == 0 {
			entered <- struct{}{}
			<-gate
		}
		ran <- v
	})
	for v := range 4 { // one runs, three wait
		if err := s.Submit(v); err != nil {
			t.Fatal(err)
		}
		if v == 0 {
			testkit.Receive(t, "the beginning of a task", entered)
		}
	}
	err := s.Submit(4)
	if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "limit of 3") {
		t.Errorf("at the bound: %v", err)
	}
	if s.Len() != 3 || p.Stats().Rejected != 1 {
		t.Errorf("Len %d, stats %+v", s.Len(), p.Stats())
	}
	close(gate)
	for v := range 4 {
		if got := testkit.Receive(t, "a run", ran); got != v {
			t.Errorf("ran %d, want %d", got, v)
		}
	}
}

// When the pool refuses the strand's turn, the item is not taken.
func TestStrandIsRejectedByAFullPool(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 1})
	release := occupy(t, p, 1)
	if err := p.SubmitFunc(func() {}); err != nil {
		t.Fatal(err)
	}
	ran := make(chan int, 10)
	s := NewStrand(p, 0, func(v int) { ran <- v })
	if err := s.Submit(1); !errors.Is(err, ErrRejected) {
		t.Fatalf("full pool: %v", err)
	}
	if s.Len() != 0 {
		t.Errorf("Len %d after a rejection", s.Len())
	}
	release()
	testkit.Eventually(t, "taken", func() bool { return s.Submit(2) == nil })
	if v := testkit.Receive(t, "a run", ran); v != 2 {
		t.Errorf("ran %d", v)
	}
}

func TestStrandSurvivesPanicAndGoexit(t *testing.T) {
	var reported atomic.Int64
	p := newPool(t, Options{Workers: 2, OnPanic: func(any, []byte) { reported.Add(1) }})
	ran := make(chan int, 100)
	s := NewStrand(p, 0, func(v int) {
		switch v % 3 {
		case 0:
			panic(v)
		case 1:
			runtime.Goexit()
		}
		ran <- v
	})
	for v := range 30 {
		if err := s.Submit(v); err != nil {
			t.Fatal(err)
		}
	}
	for v := 2; v < 30; v += 3 {
		if got := testkit.Receive(t, "a run", ran); got != v {
			t.Errorf("ran %d, want %d", got, v)
		}
	}
	if s := p.Stats(); s.Panics != 10 || reported.Load() != 10 {
		t.Errorf("panics %d, reported %d", s.Panics, reported.Load())
	}
}

// With one worker and a full queue, a strand that always has items lets the others run
// after every turn.
func TestBusyStrandDoesNotStarveOthers(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 2})
	var s *Strand[int]
	items, others := 0, 0
	entered, gate := make(chan struct{}), make(chan struct{})
	s = NewStrand(p, 10, func(int) {
		if items++; items == 1 {
			entered <- struct{}{}
			<-gate
		}
		if others < 2 {
			if err := s.Submit(0); err != nil { // it never runs dry
				t.Error(err)
			}
		}
	})
	if err := s.Submit(0); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the beginning of a task", entered)
	at := make(chan int, 2)
	for range 2 {
		if err := p.SubmitFunc(func() { others++; at <- items }); err != nil {
			t.Fatal(err)
		}
	}
	close(gate)
	for range 2 {
		if n := testkit.Receive(t, "the next task", at); n > turnItems {
			t.Errorf("another runner had to wait for %d items", n)
		}
	}
}

// A strand keeps its worker while nobody else wants it.
func TestStrandDoesNotYieldToNobody(t *testing.T) {
	p := newPool(t, Options{Workers: 1})
	done := make(chan int, 1)
	release := occupy(t, p, 1)
	n := 0
	s := NewStrand(p, 1000, func(int) {
		if n++; n == 1000 {
			done <- n
		}
	})
	for range 1000 {
		if err := s.Submit(0); err != nil {
			t.Fatal(err)
		}
	}
	release()
	testkit.Receive(t, "the end", done)
	testkit.Eventually(t, "turn over", func() bool { return p.Stats().Running == 0 })
	if st := p.Stats(); st.Submitted != 2 {
		t.Errorf("%d runners, want the occupant and one turn", st.Submitted)
	}
}

func TestStrandClose(t *testing.T) {
	p := newPool(t, Options{Workers: 1})
	entered, gate := make(chan struct{}), make(chan struct{})
	ran := make(chan int, 10)
	s := NewStrand(p, 10, func(v int) { entered <- struct{}{}; <-gate; ran <- v })
	for v := range 4 {
		if err := s.Submit(v); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Receive(t, "the beginning of a task", entered)
	var dropped []int
	s.Close(func(v int) { dropped = append(dropped, v) })
	if !slices.Equal(dropped, []int{1, 2, 3}) || s.Len() != 0 {
		t.Errorf("dropped %v, Len %d", dropped, s.Len())
	}
	s.Close(func(v int) { t.Errorf("second Close dropped %d", v) })
	s.Close(nil)
	if err := s.Submit(5); !errors.Is(err, ErrClosed) {
		t.Errorf("Submit after Close: %v", err)
	}
	if err := s.Finish(5); !errors.Is(err, ErrClosed) {
		t.Errorf("Finish after Close: %v", err)
	}
	close(gate)
	if v := testkit.Receive(t, "a run", ran); v != 0 {
		t.Errorf("ran %d", v)
	}
}

// The last item gets in where no other does, and runs behind what waits.
func TestStrandFinish(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 1})
	release := occupy(t, p, 1)
	ran := make(chan string, 10)
	waiting := NewStrand(p, 1, func(v int) { ran <- fmt.Sprint("waiting ", v) })
	if err := waiting.Submit(1); err != nil {
		t.Fatal(err)
	}
	idle := NewStrand(p, 1, func(v int) { ran <- fmt.Sprint("idle ", v) })
	if err := idle.Submit(1); !errors.Is(err, ErrRejected) {
		t.Fatalf("full pool: %v", err)
	}
	if err := waiting.Finish(2); err != nil {
		t.Error(err)
	}
	if err := idle.Finish(2); err != nil {
		t.Error(err)
	}
	if err := idle.Submit(3); !errors.Is(err, ErrClosed) {
		t.Errorf("Submit after Finish: %v", err)
	}
	release()
	for _, want := range []string{"waiting 1", "waiting 2", "idle 2"} {
		if got := testkit.Receive(t, "a run", ran); got != want {
			t.Errorf("ran %q, want %q", got, want)
		}
	}
}

func TestStrandOfAClosedPool(t *testing.T) {
	p := newPool(t, Options{Workers: 1})
	release := occupy(t, p, 1)
	var ran []int
	s := NewStrand(p, 10, func(v int) { ran = append(ran, v) })
	for v := range 3 {
		if err := s.Submit(v); err != nil {
			t.Fatal(err)
		}
	}
	left := p.Close()
	for _, err := range []error{s.Submit(4), NewStrand(p, 1, func(int) {}).Submit(1), NewStrand(p, 1, func(int) {}).Finish(1)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("closed pool: %v", err)
		}
	}
	if len(left) != 1 || s.Len() != 3 {
		t.Fatalf("%d left, Len %d", len(left), s.Len())
	}
	left[0].Run() // the turn, here
	if !slices.Equal(ran, []int{0, 1, 2}) {
		t.Errorf("ran %v", ran)
	}
	release()
}

// Shutdown runs the items of strands to the end, over several turns.
func TestShutdownRunsStrandItems(t *testing.T) {
	p := newPool(t, Options{Workers: 2})
	release := occupy(t, p, 2)
	var ran atomic.Int64
	for range 10 {
		s := NewStrand(p, 500, func(int) { ran.Add(1) })
		for v := range 500 {
			if err := s.Submit(v); err != nil {
				t.Fatal(err)
			}
		}
	}
	release()
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if ran.Load() != 5000 {
		t.Errorf("ran %d of 5000", ran.Load())
	}
}

// An idle strand holds little: a grown queue is given back when it is empty.
func TestIdleStrandGivesMemoryBack(t *testing.T) {
	p := newPool(t, Options{Workers: 1})
	release := occupy(t, p, 1)
	s := NewStrand(p, 1000, func(int) {})
	for v := range 1000 {
		if err := s.Submit(v); err != nil {
			t.Fatal(err)
		}
	}
	release()
	testkit.Eventually(t, "idle", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.active
	})
	if n := len(s.queue.items); n > keptItems {
		t.Errorf("an idle strand holds room for %d items", n)
	}
}

func TestStrandSubmitAllocatesNothing(t *testing.T) {
	p := newPool(t, Options{Workers: 2})
	s := NewStrand(p, 100, func(*int) {})
	v := new(int)
	if n := testing.AllocsPerRun(5000, func() {
		for s.Submit(v) != nil {
			runtime.Gosched()
		}
	}); n != 0 {
		t.Errorf("%v allocations per Submit", n)
	}
}
