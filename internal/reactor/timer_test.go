package reactor

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/meter"
)

// TestTimerOrder: timers run by deadline, to the nanosecond, and those with the same deadline in the order of the calls
// that made them, whether on the loop or from outside.
func TestTimerOrder(t *testing.T) {
	r := newRig(t, Settings{})
	type made struct {
		when time.Duration
		seq  int
	}
	var got, want []made
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		m := made{time.Duration(random.IntN(20)), i}
		want = append(want, m)
		f := func() { got = append(got, m) }
		if i%3 == 0 { // on the loop
			r.after(m.when, f)
			continue
		}
		timer, err := r.NewTimer("After", m.when, f)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Tasks.Push(func() { r.AddTimer(timer) }); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(want, func(a, b made) int {
		if a.when != b.when {
			return int(a.when - b.when)
		}
		return a.seq - b.seq
	})
	for r.Tasks.Depth() > 0 {
		r.RunTasks(0) // they arrive before anything is due
	}
	for range 25 {
		r.Iterate()
		r.now++
	}
	if !slices.Equal(got, want) {
		t.Errorf("ran %v,\nwant %v", got, want)
	}
}

// TestTimerIsExact: a timer is due when its time has come, not a tick of the wheel later, and never before.
func TestTimerIsExact(t *testing.T) {
	r := newRig(t, Settings{})
	ran := 0
	r.after(1234567, func() { ran++ })
	r.Iterate()
	if d := r.poller.timeouts[0]; d != 1234567 {
		t.Errorf("waited %v", d)
	}
	r.now += 1234566
	if r.Iterate(); ran != 0 {
		t.Error("a timer ran early")
	}
	r.now++
	if r.Iterate(); ran != 1 {
		t.Error("a timer is late")
	}
}

// TestPeriodicTimers: at a fixed rate a timer keeps to its grid and leaves out what a stall has made it miss; with drift it
// counts from the end of each run. A panic in a run does not end either.
func TestPeriodicTimers(t *testing.T) {
	const second = int64(time.Second)
	for _, c := range []struct {
		name  string
		drift bool
		want  []int64 // in tenths of a second
	}{
		{"fixed rate", false, []int64{10, 20, 30, 80, 90, 100}},
		{"fixed delay", true, []int64{10, 22, 34, 89, 101}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Settings{})
			begin := r.now
			var ran []int64
			timer, err := r.NewTimer("Every", time.Second, func() {
				ran = append(ran, (r.now-begin)*10/second)
				switch len(ran) {
				case 2:
					r.now += second / 5
					panic("contained")
				case 3:
					r.now += 45 * second / 10 // a stall
				default:
					r.now += second / 5
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			timer.Repeat(time.Second, c.drift)
			r.AddTimer(timer)
			for r.now-begin < 105*second/10 {
				r.Iterate()
				r.now += second / 20
				r.now -= (r.now - begin) % (second / 20)
			}
			if !slices.Equal(ran, c.want) {
				t.Errorf("ran at %v, want %v", ran, c.want)
			}
			n := len(ran)
			r.now += 35 * second / 10 // somebody else's stall
			if r.Iterate(); len(ran) != n+1 {
				t.Errorf("%d runs after a stall, want 1", len(ran)-n)
			}
			n++
			if !timer.Stop() || timer.Stop() {
				t.Error("Stop must report true once")
			}
			r.now += 10 * second
			r.Iterate()
			if len(ran) != n || r.NextDeadline() != SleepForever {
				t.Error("a stopped timer goes on")
			}
		})
	}
}

// TestTimerStop: whoever stops a timer first knows that it will not run; the timer lets go of its function at once, and
// of its place in the heap when such places are many.
func TestTimerStop(t *testing.T) {
	r := newRig(t, Settings{})
	ran := 0
	var timers []*Timer
	for i := range 1000 {
		timer, err := r.NewTimer("After", time.Duration(i)*time.Millisecond, func() { ran++ })
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Tasks.Push(func() { r.AddTimer(timer) }); err != nil {
			t.Fatal(err)
		}
		timers = append(timers, timer)
	}
	for i, timer := range timers[:500] { // some on their way to the loop
		if i%2 == 0 && (!timer.Stop() || timer.Stop() || timer.f != nil) {
			t.Fatal("Stop must report true once, and let go of the function")
		}
	}
	for r.Tasks.Depth() > 0 {
		r.Iterate()
	}
	if n, s := len(r.Timers.heap), r.Timers.stopped.Load(); n != 750 || s != 0 {
		t.Errorf("%d timers in the heap, %d stopped, want 750 and none", n, s)
	}
	for _, timer := range timers[500:] {
		if !timer.Stop() {
			t.Fatal("a timer that is armed could not be stopped")
		}
	}
	r.Iterate()
	if n := len(r.Timers.heap); n > 250 {
		t.Errorf("%d entries in the heap for 250 timers", n)
	}
	if d := r.NextDeadline() - r.now; d != int64(time.Millisecond) {
		t.Errorf("the next deadline is in %v", time.Duration(d))
	}
	r.now += int64(time.Hour)
	r.Iterate()
	r.expect(meter.Timers, 250)
	if ran != 250 || timers[1].Stop() || r.Timers.stopped.Load() != 0 {
		t.Errorf("%d timers ran, want 250; %d count as stopped", ran, r.Timers.stopped.Load())
	}
}

// owner keeps the timers of a test.
type owner struct{ timers list.List[Timer] }

func (o *owner) TimerList() *list.List[Timer] { return &o.timers }

// TestOwnersTimers: an owner's timers are in its list until they have run or are stopped, and end with it.
func TestOwnersTimers(t *testing.T) {
	r := newRig(t, Settings{})
	var o owner
	ran := 0
	var timers []*Timer
	for i := range 5 {
		timer, err := r.After(&o, time.Duration(i+1)*time.Second, func() { ran++ })
		if err != nil {
			t.Fatal(err)
		}
		timers = append(timers, timer)
	}
	listed := func() (n int) {
		for timer := range o.timers.All() {
			if timer.Owner() != Owner(&o) {
				t.Error("a timer of the list has another owner")
			}
			n++
		}
		return n
	}
	r.now += int64(time.Second)
	if r.Iterate(); ran != 1 || listed() != 4 {
		t.Errorf("%d ran, %d are listed, want 1 and 4", ran, listed())
	}
	timers[2].Stop()
	r.now += int64(2 * time.Second)
	if r.Iterate(); ran != 2 || listed() != 2 {
		t.Errorf("%d ran, %d are listed, want 2 and 2", ran, listed())
	}
	StopAll(&o.timers)
	r.now += int64(time.Hour)
	if r.Iterate(); ran != 2 || listed() != 0 || r.NextDeadline() != SleepForever {
		t.Errorf("after the owner's end %d ran and %d are listed", ran, listed())
	}
}
