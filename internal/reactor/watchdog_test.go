package reactor

import (
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
)

// watched gives the rig's loop a watchdog that no goroutine runs.
func (r *rig) watched(threshold time.Duration) (told *[]time.Duration) {
	told = new([]time.Duration)
	r.Dog = NewWatchdog(r, threshold, []*Vitals{&r.Vitals}, func(loop int, took time.Duration) {
		if loop != 0 {
			r.t.Errorf("told of loop %d", loop)
		}
		*told = append(*told, took)
	})
	return told
}

// TestLastingStallsAreTold: while an iteration lasts for the threshold the watchdog tells of it, once.
func TestLastingStallsAreTold(t *testing.T) {
	r := newRig(t, Settings{Stall: time.Second})
	told := r.watched(time.Second)
	for i := range 3 {
		if err := r.Tasks.Push(func() {
			for range 4 {
				r.now += int64(time.Second) / 2
				r.Dog.Look()
			}
		}); err != nil {
			t.Fatal(err)
		}
		r.Iterate()
		r.Iterate()
		if n := r.Vitals.Stalls.Load(); n != uint64(i+1) || len(*told) != i+1 || (*told)[i] != time.Second {
			t.Fatalf("%d stalls counted, told of %v, want %d", n, *told, i+1)
		}
	}
}

// TestShortStallsAreCounted: a stall that was over before the watchdog looked counts all the same, once.
func TestShortStallsAreCounted(t *testing.T) {
	r := newRig(t, Settings{Stall: 5 * time.Millisecond})
	told := r.watched(5 * time.Millisecond)
	for i := range 10 {
		r.busy(6 * time.Millisecond)
		r.Iterate() // the next one settles the accounts of the one before
		r.Dog.Look()
		if n := r.Vitals.Stalls.Load(); n != uint64(i+1) || len(*told) != 0 {
			t.Fatalf("%d stalls counted, %d told, want %d and none", n, len(*told), i+1)
		}
	}
}

// TestNoStallWithoutOne: neither sleep nor many short iterations are stalls, and without a threshold nothing is.
func TestNoStallWithoutOne(t *testing.T) {
	r := newRig(t, Settings{Stall: time.Second})
	told := r.watched(time.Second)
	for range 30 {
		if err := r.Tasks.Push(func() { r.now += int64(100 * time.Millisecond); r.Dog.Look() }); err != nil {
			t.Fatal(err)
		}
		r.Iterate()
		r.Dog.Look()
	}
	r.perWait = time.Hour
	r.poller.onWait = func() { r.Dog.Look() }
	r.Iterate()
	if n := r.Vitals.Stalls.Load(); n != 0 || len(*told) != 0 || strings.Contains(r.log.String(), "stalled") {
		t.Errorf("%d stalls counted, told of %v, the log says %s", n, *told, r.log.String())
	}
	r = newRig(t, Settings{})
	r.busy(time.Hour)
	r.Iterate()
	if n := r.Vitals.Stalls.Load(); n != 0 || strings.Contains(r.log.String(), "stalled") {
		t.Errorf("without a threshold %d stalls counted, the log says %s", n, r.log.String())
	}
}

// TestWatchdogSleepsWithItsLoops: a watchdog falls asleep when no loop has run since it looked, and the next iteration of a
// loop rouses it, once.
func TestWatchdogSleepsWithItsLoops(t *testing.T) {
	r := newRig(t, Settings{})
	r.watched(time.Second)
	r.Iterate()
	if _, active := r.Dog.Look(); !active {
		t.Error("a loop that has run since the last look is not active")
	}
	r.poller.onWait = func() {
		if _, active := r.Dog.Look(); active || !r.Dog.settle() {
			t.Error("the watchdog stays awake although no loop runs")
		}
	}
	r.Iterate()
	r.poller.onWait = nil
	r.Iterate()
	if n := len(r.Dog.rouse); n != 1 || r.Dog.asleep.Load() {
		t.Errorf("roused %d times, asleep %v", n, r.Dog.asleep.Load())
	}
	r.expect(meter.Iterations, 3)
}
