package reactor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
)

// serving makes descriptor 5 ready in each iteration, for which the resident takes a time.
func (r *rig) serving(each time.Duration) {
	r.t.Helper()
	if _, err := r.Watch(&Descriptor{FD: 5, Ready: func(sys.Ready) {}}); err != nil {
		r.t.Fatal(err)
	}
	r.poller.ready, r.ioTime = []int{5}, each
}

// TestIORatio: while I/O is ready, tasks run for the time of the last I/O phase × (100 − r) / r, by a clock that is read
// after every 64th task, and never more than the task budget; at 100 all that were queued run.
func TestIORatio(t *testing.T) {
	const io, each = 12800 * time.Microsecond, 100 * time.Microsecond
	for _, c := range []struct{ ratio, budget, want int }{
		{ratio: 50, want: 128}, // 12.8 ms
		{ratio: 20, want: 512}, // 51.2 ms
		{ratio: 80, want: 64},  // 3.2 ms, but the clock is read every 6.4
		{ratio: 99, want: 64},
		{ratio: 1, want: 1024},
		{ratio: 1, budget: 200, want: 200},
		{ratio: 100, want: 3000},
	} {
		t.Run(fmt.Sprintf("ratio=%d,budget=%d", c.ratio, c.budget), func(t *testing.T) {
			r := newRig(t, Settings{IORatio: c.ratio, TaskBudget: c.budget})
			r.serving(io)
			r.Iterate() // I/O without tasks: its time is known
			r.Iterate()
			ran := 0
			r.submit(3000, each, &ran)
			r.Iterate()
			if ran != c.want {
				t.Errorf("%d tasks ran beside ready I/O, want %d", ran, c.want)
			}
		})
	}
}

// TestInputIsIO: input that the resident holds from an earlier read counts as I/O, too.
func TestInputIsIO(t *testing.T) {
	r := newRig(t, Settings{MinTasks: 10})
	ran := 0
	r.submit(3000, 0, &ran)
	r.input = true
	if r.Iterate(); ran != taskClockEvery { // input takes no time here
		t.Errorf("%d tasks ran beside input that waits, want %d", ran, taskClockEvery)
	}
	if d := r.poller.timeouts[0]; d != 0 {
		t.Errorf("the loop waited %v with input in hand", d)
	}
}

// TestTasksBesideSlowTasks: the time of the tasks themselves does not count as I/O, which would let them grow into
// their own budget.
func TestTasksBesideSlowTasks(t *testing.T) {
	r := newRig(t, Settings{})
	r.serving(0) // I/O that takes no time
	ran := 0
	r.submit(20*taskClockEvery, time.Millisecond, &ran)
	for i := range 8 {
		r.Iterate()
		if want := (i + 1) * taskClockEvery; ran != want {
			t.Fatalf("iteration %d: %d tasks in all, want %d", i, ran, want)
		}
	}
}

// TestFewSlowTasks: where the clock was not read between tasks and I/O, what they took together is taken for neither.
func TestFewSlowTasks(t *testing.T) {
	r := newRig(t, Settings{})
	r.serving(0)
	r.Iterate()
	ran := 0
	r.submit(taskClockEvery-1, time.Second, &ran)
	r.Iterate()
	r.Iterate()
	r.submit(1000, time.Millisecond, &ran)
	ran = 0
	if r.Iterate(); ran != taskClockEvery {
		t.Errorf("%d tasks ran beside I/O that takes no time, want %d", ran, taskClockEvery)
	}
}

// TestMinimumBatch: an iteration in which no I/O was ready runs 64 tasks and looks for I/O again.
func TestMinimumBatch(t *testing.T) {
	for _, c := range []struct{ min, want int }{{0, 64}, {10, 10}} {
		r := newRig(t, Settings{MinTasks: c.min})
		ran := 0
		r.submit(1000, 0, &ran)
		for i := range 3 {
			r.Iterate()
			if ran != (i+1)*c.want {
				t.Errorf("MinTasks %d: %d tasks after %d iterations, want %d each", c.min, ran, i+1, c.want)
			}
		}
		if d := r.poller.timeouts; slices.ContainsFunc(d, func(d time.Duration) bool { return d != 0 }) {
			t.Errorf("the loop slept over tasks: %v", d)
		}
	}
}

// TestAllTasksAfterFailedIO: at ratio 100 the tasks that follow I/O run although the engine panicked in the middle of
// it, and the loop goes on.
func TestAllTasksAfterFailedIO(t *testing.T) {
	r := newRig(t, Settings{IORatio: 100})
	ran := 0
	if _, err := r.Watch(&Descriptor{FD: 5, Ready: func(sys.Ready) {
		r.submit(3000, time.Millisecond, &ran)
		r.poller.ready = nil
		panic("the engine is at fault")
	}}); err != nil {
		t.Fatal(err)
	}
	r.poller.ready = []int{5}
	if !r.Iterate() || ran != 0 {
		t.Fatalf("%d tasks ran before the I/O they follow", ran)
	}
	if !r.Iterate() || ran != 3000 {
		t.Errorf("%d tasks ran after the failed I/O, want 3000", ran)
	}
	r.expect(meter.Faults, 1)
	if !strings.Contains(r.log.String(), "the engine is at fault") || r.faults != 1 {
		t.Errorf("the resident was told of %d faults, logged %q", r.faults, r.log.String())
	}
}
