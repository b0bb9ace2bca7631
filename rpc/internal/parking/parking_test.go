package parking

import (
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

type runner func()

func (r runner) Run() { r() }

// fullPool returns a pool of one worker, which is busy until release is called, and without a queue.
func fullPool(t *testing.T) (pool *executor.Pool, release func()) {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Workers: 1, Queue: executor.HandOff})
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	t.Cleanup(func() {
		if _, err := pool.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	if err := pool.SubmitFunc(func() { <-gate }); err != nil {
		t.Fatal(err)
	}
	return pool, func() { close(gate) }
}

// TestLotLeavesRoom: a Lot that is told of room when nothing of it waits any more leaves it to who is next.
func TestLotLeavesRoom(t *testing.T) {
	pool, release := fullPool(t)
	p := New(pool, new(atomic.Uint64))
	p.Submit(runner(func() { t.Error("it was taken out") }))
	told := make(chan struct{})
	pool.AwaitRoom(executor.NewRoom(func() { close(told) }))
	p.next() // as another call of unpark does
	release()
	testkit.Eventually(t, "the next one to be told", func() bool {
		select {
		case <-told:
			return true
		default:
			return false
		}
	})
}

// TestLotsAreIndependent: what waits for one pool does not hold up what waits for another.
func TestLotsAreIndependent(t *testing.T) {
	var parked atomic.Uint64
	full, releaseFull := fullPool(t)
	other, releaseOther := fullPool(t)
	ran := make(chan string, 3)
	first, second := New(full, &parked), New(other, &parked)
	first.Submit(runner(func() { ran <- "first" }))
	second.Submit(runner(func() { ran <- "second" }))
	second.Submit(runner(func() { ran <- "third" }))
	releaseOther()
	for _, want := range []string{"second", "third"} {
		if got := <-ran; got != want {
			t.Errorf("%s ran, want the %s", got, want)
		}
	}
	releaseFull()
	if got := <-ran; got != "first" {
		t.Errorf("%s ran, want the first", got)
	}
	if n := parked.Load(); n != 3 {
		t.Errorf("%d waited, want 3", n)
	}
}
