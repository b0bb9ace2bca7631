package eddy

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestStrategies: with something to run the loop polls without waiting and asks nobody. Else the strategy says whether
// it waits, polls, or does without the poller.
func TestStrategies(t *testing.T) {
	for _, c := range []struct {
		name     string
		decision WaitDecision
		want     []time.Duration // timeouts of the poller
		events   uint64
	}{
		{"block", Block, []time.Duration{time.Second}, 1},
		{"busy-wait", BusyWait, []time.Duration{0}, 1},
		{"continue", Continue, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []LoopState
			srv := cutServer(func(*Context, string) error { return nil })
			srv.Loops, srv.Group = 0, &Group{Strategy: func(s LoopState) WaitDecision { asked = append(asked, s); return c.decision }}
			st, l := newStage(t, srv)
			p := st.nextPoller
			a := st.connect(l)
			if _, err := l.after(nil, time.Second, func() {}); err != nil {
				t.Fatal(err)
			}
			p.timeouts, asked = nil, nil
			a.send(";")
			before := l.counters[countEvents]
			l.iterate()
			if !slices.Equal(p.timeouts, c.want) || l.counters[countEvents]-before != c.events {
				t.Errorf("waited %v, %d events", p.timeouts, l.counters[countEvents]-before)
			}
			if len(asked) != 1 || asked[0].Name != "worker-0" || asked[0].Timeout != time.Second {
				t.Errorf("asked with %+v", asked)
			}
			p.timeouts, asked = nil, nil
			ran := 0
			st.flood(l, 1, 0, &ran)
			l.iterate()
			if !slices.Equal(p.timeouts, []time.Duration{0}) || len(asked) != 0 || ran != 1 {
				t.Errorf("with a task the loop waited %v, asked %d times and ran %d", p.timeouts, len(asked), ran)
			}
		})
	}
}

// TestStrategyKnowsEmptyPolls: it is told how many polls in a row brought nothing.
func TestStrategyKnowsEmptyPolls(t *testing.T) {
	var empty []int
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Loops, srv.Group = 0, &Group{Strategy: func(s LoopState) WaitDecision { empty = append(empty, s.Empty); return BusyWait }}
	st, l := newStage(t, srv)
	a := st.connect(l)
	empty = nil
	for i := range 6 {
		if i == 3 {
			a.send(";")
		}
		l.iterate()
	}
	first := empty[0]
	if want := []int{first, first + 1, first + 2, first + 3, 0, 1}; !slices.Equal(empty, want) {
		t.Errorf("told of %v empty polls, want %v", empty, want)
	}
}

// TestContinueServesDeadlines: without the poller, timers run and the loop can be stopped.
func TestContinueServesDeadlines(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Loops, srv.Group = 0, &Group{Strategy: func(LoopState) WaitDecision { return Continue }}
	st, l := newStage(t, srv)
	ran := 0
	if _, err := l.after(nil, time.Second, func() { ran++ }); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		st.now.Add(int64(time.Second))
		l.iterate()
	}
	if ran != 1 || len(st.nextPoller.timeouts) > 1 { // once when the timer was due
		t.Errorf("the timer ran %d times, the poller was asked %d times", ran, len(st.nextPoller.timeouts))
	}
}

// TestPanickingStrategy: it is reported and not asked again; the loop waits from then on.
func TestPanickingStrategy(t *testing.T) {
	var log strings.Builder
	asked := 0
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Loops, srv.Group = 0, &Group{Logger: slog.New(slog.NewTextHandler(&log, nil)), Strategy: func(LoopState) WaitDecision {
		asked++
		panic("no idea")
	}}
	st, l := newStage(t, srv)
	for range 3 {
		if !l.iterate() {
			t.Fatal("the loop ended")
		}
	}
	if asked != 1 || len(st.nextPoller.timeouts) != 3 || !strings.Contains(log.String(), "no idea") {
		t.Errorf("asked %d times, waited %v, logged %q", asked, st.nextPoller.timeouts, log.String())
	}
}

// TestSpin: a spinning loop polls without waiting, for the time it is given, and then sleeps; while it spins it looks
// asleep to nobody, so that work for it costs no wakeup.
func TestSpin(t *testing.T) {
	for _, c := range []struct {
		spin  time.Duration
		polls int // without waiting
		sleep time.Duration
	}{
		{100 * time.Microsecond, 10, time.Second},
		{-1, 100000, 0}, // until the deadline, 1 s = 100 000 polls of 10 µs
	} {
		srv := cutServer(func(*Context, string) error { return nil })
		srv.Loops, srv.Group = 0, &Group{Spin: c.spin, WaitMode: WaitPinned}
		st, l := newStage(t, srv)
		st.perWait = 10 * time.Microsecond
		if _, err := l.after(nil, time.Second, func() {}); err != nil {
			t.Fatal(err)
		}
		l.iterate()
		waits := st.nextPoller.timeouts
		if c.sleep > 0 {
			if last := waits[len(waits)-1]; last != c.sleep {
				t.Errorf("Spin %v: slept %v, want %v", c.spin, last, c.sleep)
			}
			waits = waits[:len(waits)-1]
		}
		if len(waits) != c.polls || slices.Max(waits) != 0 {
			t.Errorf("Spin %v: %d polls, longest %v, want %d", c.spin, len(waits), slices.Max(waits), c.polls)
		}
	}
}

// TestSpinningLoopSeesTasks: a task ends the spinning without a wakeup.
func TestSpinningLoopSeesTasks(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Loops, srv.Group = 0, &Group{Spin: -1, WaitMode: WaitPinned}
	st, l := newStage(t, srv)
	ran, polls := 0, 0
	st.nextPoller.onWait = func() {
		if polls++; polls == 50 {
			st.flood(l, 1, 0, &ran)
		}
	}
	l.iterate()
	if ran != 1 || polls != 50 || st.nextPoller.wakes.Load() != 0 {
		t.Errorf("ran %d tasks after %d polls with %d wakeups", ran, polls, st.nextPoller.wakes.Load())
	}
}

// TestTimerWakesOnlyForAnEarlierDeadline: the wake state that a loop publishes is the time until which it sleeps, so a
// timer set from outside wakes it only when it is due before that.
func TestTimerWakesOnlyForAnEarlierDeadline(t *testing.T) {
	var h *Loop
	var st *stage
	fired := map[string]time.Duration{}
	srv := cutServer(func(*Context, string) error { return nil })
	st, l := newStage(t, srv)
	h = &l.handle
	p := st.nextPoller
	start := st.now.Load()
	set := func(name string, d time.Duration, wantWake bool) {
		t.Helper()
		before := p.wakes.Load()
		if _, err := h.After(d, func() { fired[name] = time.Duration(st.now.Load() - start) }); err != nil {
			t.Fatal(err)
		}
		if woken := p.wakes.Load() > before; woken != wantWake {
			t.Errorf("%s woke the loop: %v", name, woken)
		}
	}
	sleeping := func(steps func()) {
		p.onWait = func() { p.onWait = nil; steps() }
		l.iterate()
	}
	sleeping(func() { set("first, 10 s", 10*time.Second, true) }) // slept for ever
	l.iterate()                                                   // takes the timer over
	sleeping(func() {
		set("later, 20 s", 20*time.Second, false)
		set("the same, 10 s", 10*time.Second, false)
		set("earlier, 5 s", 5*time.Second, true)
		set("earlier still, 1 s", time.Second, false) // the loop is on its way
	})
	for range 40 {
		l.iterate()
		st.now.Add(int64(500 * time.Millisecond))
	}
	l.iterate()
	want := map[string]time.Duration{"first, 10 s": 10 * time.Second, "later, 20 s": 20 * time.Second, "the same, 10 s": 10 * time.Second,
		"earlier, 5 s": 5 * time.Second, "earlier still, 1 s": time.Second}
	if fmt.Sprint(fired) != fmt.Sprint(want) {
		t.Errorf("fired at %v, want %v", fired, want)
	}
}

func TestGroupTuningIsChecked(t *testing.T) {
	for _, c := range []struct {
		group *Group
		want  string
	}{
		{&Group{IORatio: 101}, "Group.IORatio is 101"},
		{&Group{IORatio: -1}, "Group.IORatio is -1"},
		{&Group{TaskBudget: -1}, "Group.TaskBudget is -1"},
		{&Group{TaskBudget: 10, MinTasks: 11}, "Group.MinTasks is 11: it must be between 1 and TaskBudget, which is 10"},
		{&Group{MinTasks: -1}, "Group.MinTasks is -1"},
		{&Group{MaxEvents: -1}, "Group.MaxEvents is -1"},
		{&Group{CPUs: []int{0}}, "only loops in WaitPinned can be pinned"},
		{&Group{CPUs: []int{-1}, WaitMode: WaitPinned}, "Group.CPUs names processor -1"},
		{&Group{Spin: 1}, "only loops in WaitPinned may spin"},
	} {
		err := c.group.Start()
		if err == nil {
			t.Errorf("%+v was accepted", c.want)
			c.group.Close()
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q does not say %q", err, c.want)
		}
	}
}

// TestBossIsTunedLikeItsWorkers: the boss that a server makes takes the group's settings over, but neither processors nor
// spinning.
func TestBossIsTunedLikeItsWorkers(t *testing.T) {
	for _, g := range []*Group{
		{},
		{StallThreshold: -1, RebuildAfter: -1},
		{IORatio: 70, TaskBudget: 90, MinTasks: 8, MaxEvents: 7, RebuildAfter: 9, StallThreshold: time.Second},
		{WaitMode: WaitPinned, CPUs: []int{0}, Spin: -1},
	} {
		w, err := g.prepare()
		if err != nil {
			t.Fatal(err)
		}
		boss, err := w.privateBoss().tuning()
		if err != nil {
			t.Fatal(err)
		}
		want := w.set.tuning
		want.cpus, want.spin = nil, 0
		if fmt.Sprint(boss) != fmt.Sprint(want) {
			t.Errorf("workers %+v, boss %+v", want, boss)
		}
	}
}
