package reactor

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestOneWakeupPerSleep: however many producers push, one published sleep is answered by exactly one wakeup, and a task
// that came before the publication forbids the sleep.
func TestOneWakeupPerSleep(t *testing.T) {
	var wakeups atomic.Int64
	q := Queue[int]{Limit: 1 << 20, wake: func() { wakeups.Add(1) }}
	for round := range 200 {
		for {
			if _, ok := q.take(); !ok {
				break
			}
		}
		if !q.sleep(SleepForever) {
			t.Fatal("an empty queue forbids sleep")
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range 50 {
					if err := q.Push(i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := wakeups.Load(); n != int64(round+1) {
			t.Fatalf("round %d: %d wakeups", round, n)
		}
		if q.sleep(SleepForever) {
			t.Fatal("the loop may sleep over 200 tasks")
		}
	}
}

// TestQueueBound: the limit holds for tasks and for functions, not for control tasks; what was accepted before the close
// is not lost.
func TestQueueBound(t *testing.T) {
	q := Queue[int]{Limit: 3, wake: func() {}}
	for i := range 3 {
		if err := q.Push(i); err != nil {
			t.Fatalf("push %d: %v", i, err)
		}
	}
	if err := q.Push(9); err != ErrSaturated {
		t.Fatalf("a push beyond the limit: %v", err)
	}
	if err := q.PushControl(3); err != nil {
		t.Fatalf("a control push beyond the limit: %v", err)
	}
	for range 3 {
		if err := q.PushTail(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.PushTail(func() {}); err != ErrSaturated {
		t.Fatalf("a function beyond the limit: %v", err)
	}
	q.Close()
	for what, err := range map[string]error{"Push": q.Push(9), "PushControl": q.PushControl(9), "PushTail": q.PushTail(func() {})} {
		if err != ErrClosed {
			t.Errorf("%s after the close: %v", what, err)
		}
	}
	if err := q.PushLast(4); err != nil {
		t.Errorf("PushLast after the close: %v", err)
	}
	for want := range 5 {
		if got, ok := q.take(); !ok || got != want {
			t.Fatalf("took %d, %v, want %d", got, ok, want)
		}
	}
	if q.finish() {
		t.Error("the queue ended with functions in it")
	}
	q.tail = tail{}
	if !q.finish() {
		t.Error("an empty queue did not end")
	}
	if err := q.PushLast(5); err != ErrClosed {
		t.Errorf("PushLast after the end: %v", err)
	}
}

// TestTailOfAnIteration: functions run at the end of the iteration, and those that they add in the next.
func TestTailOfAnIteration(t *testing.T) {
	r := newRig(t, Settings{})
	var order []string
	note := func(s string) func() { return func() { order = append(order, s) } }
	if err := r.Tasks.PushTail(func() {
		note("tail")()
		if err := r.Tasks.PushTail(note("next")); err != nil {
			t.Error(err)
		}
		panic("contained")
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.Tasks.Push(note("task")); err != nil {
		t.Fatal(err)
	}
	r.Iterate()
	if len(order) != 2 || order[0] != "task" || order[1] != "tail" || len(r.panicked) != 1 {
		t.Errorf("one iteration ran %q", order)
	}
	if r.Iterate(); len(order) != 3 || r.faults != 0 {
		t.Errorf("two iterations ran %q", order)
	}
}
