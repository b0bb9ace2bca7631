package executor

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// warm makes p start n workers and waits until they are idle.
func warm(t *testing.T, p *Pool, n int) {
	t.Helper()
	occupy(t, p, n)()
	testkit.Eventually(t, "idle workers", func() bool { s := p.Stats(); return s.Workers == n && s.Running == 0 })
}

// TestOldestFirst: runners submitted in a row by a goroutine that shares its only processor with the workers begin in the
// order of submission, whichever worker the scheduler lets run first. A preemption may spoil a round.
func TestOldestFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds, workers = 100, 4
	p := newPool(t, Options{Workers: workers})
	warm(t, p, workers)
	inOrder := 0
	var order []int
	for range rounds {
		var mu sync.Mutex
		var all sync.WaitGroup
		order = nil
		for i := range workers {
			all.Add(1)
			err := p.SubmitFunc(func() {
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				all.Done()
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		all.Wait()
		if slices.IsSorted(order) {
			inOrder++
		}
		testkit.Eventually(t, "idle workers", func() bool { return p.Stats().Running == 0 })
	}
	if inOrder < rounds/2 {
		t.Errorf("%d of %d rounds began in order, the last one as %v", inOrder, rounds, order)
	}
}

// TestWorkersCallEachOther: one wakeup is enough to occupy all workers when there is work for them.
func TestWorkersCallEachOther(t *testing.T) {
	const workers = 4
	p := newPool(t, Options{Workers: workers})
	for _, state := range []string{"before any has started", "while all are idle"} {
		var running atomic.Int64
		gate := make(chan struct{})
		for range workers {
			s := NewStrand(p, 0, func(int) { running.Add(1); <-gate })
			if wake, err := s.Enqueue(1); !wake || err != nil {
				t.Fatalf("%s: wake %v, error %v", state, wake, err)
			}
			if wake, err := s.Enqueue(2); wake || err != nil {
				t.Fatalf("%s: second item: wake %v, error %v", state, wake, err)
			}
		}
		p.Wake()
		testkit.Eventually(t, state+": all run", func() bool { return running.Load() == workers })
		if s := p.Stats(); s.Queued != 0 || s.Running != workers {
			t.Errorf("%s: %+v", state, s)
		}
		close(gate)
		testkit.Eventually(t, state+": the second items", func() bool { return running.Load() == 2*workers && p.Stats().Running == 0 })
	}
}

// TestEnqueueWakesNobody: what was enqueued waits for Wake, and counts against the queue.
func TestEnqueueWakesNobody(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 1})
	warm(t, p, 1)
	ran := make(chan int, 2)
	strands := [3]*Strand[int]{}
	for i := range strands {
		strands[i] = NewStrand(p, 0, func(v int) { ran <- v })
	}
	for i := range 2 { // one for the idle worker, one in the queue
		if _, err := strands[i].Enqueue(i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := strands[2].Enqueue(2); err == nil {
		t.Error("a third strand found room in a queue of 1")
	}
	if s := p.Stats(); s.Running != 0 || s.Queued != 2 {
		t.Errorf("before Wake: %+v", s)
	}
	p.Wake()
	if a, b := testkit.Receive(t, "a run", ran), testkit.Receive(t, "a run", ran); a != 0 || b != 1 {
		t.Errorf("ran %d, %d", a, b)
	}
}

// TestShutdownRunsWhatWasEnqueued: a pool that is shut down before the Wake owes its run to what it took.
func TestShutdownRunsWhatWasEnqueued(t *testing.T) {
	for _, workers := range []int{0, 2} { // that are idle
		p := newPool(t, Options{Workers: 2})
		if workers > 0 {
			warm(t, p, workers)
		}
		var ran atomic.Int64
		for range 5 {
			if _, err := NewStrand(p, 0, func(int) { ran.Add(1) }).Enqueue(1); err != nil {
				t.Fatal(err)
			}
		}
		if left, err := p.Shutdown(context.Background()); left != nil || err != nil || ran.Load() != 5 {
			t.Errorf("%d idle workers: %d left, error %v, %d ran", workers, len(left), err, ran.Load())
		}
		p.Wake()
		if s := p.Stats(); s.Workers != 0 || s.Queued != 0 {
			t.Errorf("%d idle workers, after Shutdown: %+v", workers, s)
		}
	}
}
