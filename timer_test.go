package eddy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTimerOrder: timers run by deadline, to the nanosecond, and those with the same deadline in the order of the calls
// that made them, whether on the loop or from outside.
func TestTimerOrder(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	h := &l.handle
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
		var err error
		if i%3 == 0 { // on the loop
			_, err = l.after(nil, m.when, f)
		} else {
			_, err = h.After(m.when, f)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(want, func(a, b made) int {
		if a.when != b.when {
			return int(a.when - b.when)
		}
		return a.seq - b.seq
	})
	for l.tasks.depth() > 0 {
		l.runTasks(0) // they arrive before anything is due
	}
	for range 25 {
		l.iterate()
		st.now.Add(1)
	}
	if !slices.Equal(got, want) {
		t.Errorf("ran %v,\nwant %v", got, want)
	}
}

// TestTimerIsExact: a timer is due when its time has come, not a tick of the wheel later, and never before.
func TestTimerIsExact(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	ran := 0
	if _, err := l.after(nil, 1234567, func() { ran++ }); err != nil {
		t.Fatal(err)
	}
	l.iterate()
	if d := st.nextPoller.timeouts[0]; d != 1234567 {
		t.Errorf("waited %v", d)
	}
	st.now.Add(1234566)
	if l.iterate(); ran != 0 {
		t.Error("a timer ran early")
	}
	st.now.Add(1)
	if l.iterate(); ran != 1 {
		t.Error("a timer is late")
	}
}

// TestPeriodicTimers: Every keeps to its grid and leaves out what a stall has made it miss; EveryAfter counts from the end
// of each run. A panic in a run does not end either.
func TestPeriodicTimers(t *testing.T) {
	const second = int64(time.Second)
	for _, c := range []struct {
		name string
		make func(*Loop, func()) (*Timer, error)
		want []int64 // in tenths of a second
	}{
		{"fixed rate", func(h *Loop, f func()) (*Timer, error) { return h.Every(time.Second, f) }, []int64{10, 20, 30, 80, 90, 100}},
		{"fixed delay", func(h *Loop, f func()) (*Timer, error) { return h.EveryAfter(time.Second, f) }, []int64{10, 22, 34, 89, 101}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
			begin := st.now.Load()
			var ran []int64
			timer, err := c.make(&l.handle, func() {
				ran = append(ran, (st.now.Load()-begin)*10/second)
				switch len(ran) {
				case 2:
					st.now.Add(second / 5)
					panic("contained")
				case 3:
					st.now.Add(45 * second / 10) // a stall
				default:
					st.now.Add(second / 5)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for st.now.Load()-begin < 105*second/10 {
				l.iterate()
				st.now.Add(second / 20)
				st.now.Add(-((st.now.Load() - begin) % (second / 20)))
			}
			if !slices.Equal(ran, c.want) {
				t.Errorf("ran at %v, want %v", ran, c.want)
			}
			n := len(ran)
			st.now.Add(35 * second / 10) // somebody else's stall
			if l.iterate(); len(ran) != n+1 {
				t.Errorf("%d runs after a stall, want 1", len(ran)-n)
			}
			n++
			if !timer.Stop() || timer.Stop() {
				t.Error("Stop must report true once")
			}
			st.now.Add(10 * second)
			l.iterate()
			if len(ran) != n || l.nextDeadline() != sleepForever {
				t.Error("a stopped timer goes on")
			}
		})
	}
}

// TestTimerStop: whoever stops a timer first knows that it will not run; the timer lets go of its function at once, and
// of its place in the heap when such places are many.
func TestTimerStop(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	ran := 0
	var timers []*Timer
	for i := range 1000 {
		timer, err := l.handle.After(time.Duration(i)*time.Millisecond, func() { ran++ })
		if err != nil {
			t.Fatal(err)
		}
		timers = append(timers, timer)
	}
	for i, timer := range timers[:500] { // some on their way to the loop
		if i%2 == 0 && (!timer.Stop() || timer.Stop() || timer.f != nil) {
			t.Fatal("Stop must report true once, and let go of the function")
		}
	}
	for l.tasks.depth() > 0 {
		l.iterate()
	}
	if n, s := len(l.timers.heap), l.timers.stopped.Load(); n != 750 || s != 0 {
		t.Errorf("%d timers in the heap, %d stopped, want 750 and none", n, s)
	}
	for _, timer := range timers[500:] {
		if !timer.Stop() {
			t.Fatal("a timer that is armed could not be stopped")
		}
	}
	l.iterate()
	if n := len(l.timers.heap); n > 250 {
		t.Errorf("%d entries in the heap for 250 timers", n)
	}
	if d := l.nextDeadline() - st.now.Load(); d != int64(time.Millisecond) {
		t.Errorf("the next deadline is in %v", time.Duration(d))
	}
	st.now.Add(int64(time.Hour))
	l.iterate()
	if ran != 250 || l.counters[countTimers] != 250 || timers[1].Stop() || l.timers.stopped.Load() != 0 {
		t.Errorf("%d timers ran, want 250; %d count as stopped", ran, l.timers.stopped.Load())
	}
}

// TestTimerStopRace: of a Stop from outside and the loop that fires the timer exactly one wins.
func TestTimerStopRace(t *testing.T) {
	g := &Group{Loops: 1}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var ran, stopped atomic.Int64
	var wg sync.WaitGroup
	const n = 2000
	for range 4 {
		wg.Go(func() {
			for i := range n / 4 {
				timer, err := g.Loop(0).After(time.Duration(i%50)*time.Microsecond, func() { ran.Add(1) })
				if err != nil {
					t.Error(err)
					return
				}
				for range i % 300 {
					_ = stopped.Load()
				}
				if timer.Stop() {
					stopped.Add(1)
				}
			}
		})
	}
	wg.Wait()
	until(t, "every timer to run or to be stopped", func() bool { return ran.Load()+stopped.Load() == n })
	t.Logf("%d ran, %d stopped", ran.Load(), stopped.Load())
	until(t, "the heap to be empty", func() bool {
		return g.crew.Load().loops[0].timers.stopped.Load() <= 64
	})
}

func TestTimerArguments(t *testing.T) {
	_, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	h, f := &l.handle, func() {}
	for what, err := range map[string]error{
		"After(-1)":           errOf(h.After(-1, f)),
		"After(nil)":          errOf(h.After(1, nil)),
		"Every(1ms-1)":        errOf(h.Every(time.Millisecond-1, f)),
		"EveryAfter(0)":       errOf(h.EveryAfter(0, f)),
		"EveryAfter(1s, nil)": errOf(h.EveryAfter(time.Second, nil)),
		"Post(nil)":           h.Post(nil),
	} {
		if err == nil || err == ErrClosed {
			t.Errorf("%s = %v", what, err)
		}
	}
	l.tasks.limit = 0
	if err := errOf(h.After(1, f)); err != ErrSaturated {
		t.Errorf("After with a full queue = %v", err)
	}
	l.tasks.close()
	for what, err := range map[string]error{
		"After": errOf(h.After(1, f)), "Every": errOf(h.Every(time.Second, f)), "Post": h.Post(f), "Tail": h.Tail(f),
	} {
		if err != ErrClosed {
			t.Errorf("%s after the end = %v", what, err)
		}
	}
	if s := fmt.Sprint(h.Name()); s != "worker-0" {
		t.Errorf("the loop is called %q", s)
	}
}

func errOf[T any](_ T, err error) error { return err }
