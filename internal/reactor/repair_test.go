package reactor

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
)

// TestRebuildCanBeOff: without a threshold, early returns never replace the poller.
func TestRebuildCanBeOff(t *testing.T) {
	r := newRig(t, Settings{})
	for range 1024 {
		r.Iterate()
	}
	r.expect(meter.Rebuilds, 0)
	r.expect(meter.Premature, 1024)
}

// TestLoopOutlivesItsPoller: while the poller fails and no new one helps, the loop pauses, longer each time up to a
// second, serves tasks and timers, and calls itself unwell. When the poller works again everything is as before.
func TestLoopOutlivesItsPoller(t *testing.T) {
	for _, c := range []struct {
		name   string
		break_ func(*rig)
		repair func(*rig)
	}{
		{"every poller fails", func(r *rig) { r.waitErr = errors.New("unwell") }, func(r *rig) { r.waitErr = nil }},
		{"no poller can be opened", func(r *rig) {
			r.openErr = errors.New("no descriptors")
			r.poller.err = errors.New("unwell")
		}, func(r *rig) { r.openErr, r.poller.err = nil, nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Settings{})
			first, handled := r.poller, 0
			if _, err := r.Watch(&Descriptor{FD: 5, Ready: func(sys.Ready) { handled++; r.poller.ready = nil }}); err != nil {
				t.Fatal(err)
			}
			c.break_(r)
			ticks := 0
			tick, err := r.NewTimer("Every", 100*time.Millisecond, func() { ticks++ })
			if err != nil {
				t.Fatal(err)
			}
			tick.Repeat(100*time.Millisecond, false)
			r.AddTimer(tick)
			for begin := r.now; r.now-begin < int64(10*time.Second); {
				r.Iterate()
			}
			if ticks < 95 || ticks > 100 {
				t.Errorf("a timer of 100 ms ran %d times in 10 s", ticks)
			}
			if n := r.Counters[meter.PollErrors]; n < 15 || n > 25 {
				t.Errorf("the poller was tried %d times in 10 s", n)
			}
			if m := slices.Max(r.pauses); m > 100*time.Millisecond || r.pauses[0] > 2*time.Millisecond {
				t.Errorf("paused %v", r.pauses)
			}
			ran := 0
			r.submit(5, 0, &ran)
			if r.Iterate(); ran != 5 {
				t.Errorf("%d of 5 tasks ran beside the broken poller", ran)
			}
			if r.Healthy() || !strings.Contains(r.log.String(), "poller failed") {
				t.Errorf("healthy %v, logged %q", r.Healthy(), r.log.String())
			}
			c.repair(r)
			r.now += int64(time.Second)
			r.Iterate()
			r.poller.ready = []int{5}
			r.Iterate()
			if handled != 1 || !r.Healthy() || r.health.failures != 0 {
				t.Errorf("after the repair: %d handled, healthy %v", handled, r.Healthy())
			}
			if first.closed > 1 {
				t.Errorf("the first poller was closed %d times", first.closed)
			}
		})
	}
}

// TestPauseIsLong: the pauses of a loop with nothing else to do double from 1 ms to 1 s.
func TestPauseIsLong(t *testing.T) {
	r := newRig(t, Settings{})
	r.waitErr = errors.New("unwell")
	for range 40 {
		r.Iterate()
	}
	want := []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if got := r.pauses[:min(len(r.pauses), len(want))]; !slices.Equal(got, want) {
		t.Errorf("paused %v, want %v", got, want)
	}
}

// TestRestIsEndedByTasks: a loop that rests is woken by a task, at once.
func TestRestIsEndedByTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Settings{})
		r.Kernel.Pause = nil // the time of Go
		r.waitErr = errors.New("unwell")
		r.health.failures = 20 // so the next pause is a second
		r.Iterate()
		ran, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			r.Iterate()
		}()
		synctest.Wait()
		if !r.health.resting.Load() {
			t.Fatal("the loop does not rest")
		}
		begin := time.Now()
		if err := r.Tasks.Push(func() { close(ran) }); err != nil {
			t.Fatal(err)
		}
		<-ran
		if d := time.Since(begin); d > 0 {
			t.Errorf("a task waits %v for the end of the rest", d)
		}
		<-ended
	})
}

// TestPanicInEveryIteration: a loop that meets a panic of the engine each time pauses between them, and can still be
// stopped.
func TestPanicInEveryIteration(t *testing.T) {
	r := newRig(t, Settings{})
	if _, err := r.Watch(&Descriptor{FD: 5, Ready: func(sys.Ready) { panic("again") }}); err != nil {
		t.Fatal(err)
	}
	r.poller.ready = []int{5}
	r.lives = true
	for begin := r.now; r.now-begin < int64(10*time.Second); {
		if !r.Iterate() {
			t.Fatal("the loop ended")
		}
	}
	if n := r.Counters[meter.Faults]; n < 10 || n > 25 || strings.Count(r.log.String(), "going on") > 25 {
		t.Errorf("%d faults in 10 s", n)
	}
	if r.Healthy() {
		t.Error("the loop calls itself healthy")
	}
	r.Stopping = true
	r.health.retryAt = 0
	if r.Iterate() || r.lives {
		t.Error("the loop did not end, or what lives on it did not leave")
	}
}

// TestRepollsAreForManyEnds: an iteration in which many registrations end asks the poller twice, and those that follow
// do not.
func TestRepollsAreForManyEnds(t *testing.T) {
	r := newRig(t, Settings{})
	for range 3 {
		for range RepollAfter / 2 {
			token, err := r.Watch(&Descriptor{FD: 5, Ready: func(sys.Ready) {}})
			if err == nil {
				err = r.Unwatch(token)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		r.Iterate()
	}
	r.expect(meter.Repolls, 0)
	for range RepollAfter + 1 {
		token, err := r.Watch(&Descriptor{FD: 5, Ready: func(sys.Ready) {}})
		if err == nil {
			err = r.Unwatch(token)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.Iterate()
	r.Iterate()
	r.expect(meter.Repolls, 1)
}
