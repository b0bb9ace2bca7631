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

// TestStrategies: with something to run the loop polls without waiting and asks nobody. Else the strategy says whether
// the loop waits, polls, or does without the poller.
func TestStrategies(t *testing.T) {
	for _, c := range []struct {
		name     string
		decision Decision
		want     []time.Duration // timeouts of the poller
		events   uint64
	}{
		{"block", Block, []time.Duration{time.Second}, 1},
		{"busy-wait", BusyWait, []time.Duration{0}, 1},
		{"continue", Continue, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []time.Duration
			r := newRig(t, Settings{Strategy: func(timeout time.Duration, _ int) Decision { asked = append(asked, timeout); return c.decision }})
			if _, err := r.Watch(&Descriptor{FD: 5, Ready: func(sys.Ready) {}}); err != nil {
				t.Fatal(err)
			}
			r.after(time.Second, func() {})
			r.poller.ready = []int{5}
			r.Iterate()
			if !slices.Equal(r.poller.timeouts, c.want) || r.Counters[meter.Events] != c.events {
				t.Errorf("waited %v, %d events", r.poller.timeouts, r.Counters[meter.Events])
			}
			if len(asked) != 1 || asked[0] != time.Second {
				t.Errorf("asked with %v", asked)
			}
			r.poller.timeouts, asked = nil, nil
			ran := 0
			r.submit(1, 0, &ran)
			r.Iterate()
			if !slices.Equal(r.poller.timeouts, []time.Duration{0}) || len(asked) != 0 || ran != 1 {
				t.Errorf("with a task the loop waited %v, asked %d times and ran %d", r.poller.timeouts, len(asked), ran)
			}
		})
	}
}

// TestYield: a loop that goes on with input in hand lets other goroutines run after yieldEvery, unless its processor is its
// own. One that goes on because of a task does not.
func TestYield(t *testing.T) {
	for pinned, want := range map[bool]int{false: 2, true: 0} {
		r, ran := newRig(t, Settings{Pinned: pinned}), 0
		yields := 0
		r.Kernel.Yield = func() { yields++ }
		r.Iterate() // sleeps
		r.now += int64(2 * yieldEvery)
		r.submit(1, 0, &ran)
		r.Iterate()
		if yields != 0 || ran != 1 {
			t.Errorf("pinned %t: %d yields before a task", pinned, yields)
		}
		r.input = true
		for range 4 { // the second and the fourth come too early
			r.Iterate()
			r.now += int64(yieldEvery / 2)
		}
		if yields != want {
			t.Errorf("pinned %t: %d yields in two times yieldEvery with input in hand, want %d", pinned, yields, want)
		}
		r.input = false
		r.Iterate() // sleeps
		r.input = true
		r.Iterate()
		if yields != want {
			t.Errorf("pinned %t: a yield right after a sleep", pinned)
		}
	}
}

// TestYieldBeforeSleep: a loop yields before it sleeps, as long as that brings tasks. It then runs them without asking the
// poller, but asks every second time. Loops whose yields bring nothing, and pinned ones, sleep at once.
func TestYieldBeforeSleep(t *testing.T) {
	r, ran := newRig(t, Settings{}), 0
	brings, yields := false, 0
	r.Kernel.Yield = func() {
		yields++
		if brings {
			r.submit(1, 0, &ran)
		}
	}
	iterate := func(n int) []time.Duration {
		r.poller.timeouts, yields, ran = nil, 0, 0
		for range n {
			r.Iterate()
		}
		return r.poller.timeouts
	}
	if iterate(probeEvery - 1); yields != 0 {
		t.Errorf("%d yields of a loop without trust", yields)
	}
	if waits := iterate(1); yields != 1 || !slices.Equal(waits, []time.Duration{-1}) {
		t.Errorf("%d yields at a probe that brings nothing, waited %v", yields, waits)
	}
	iterate(probeEvery - 1)
	brings = true
	if waits := iterate(6); yields != 6 || ran != 6 || !slices.Equal(waits, []time.Duration{0, 0, 0}) {
		t.Errorf("%d yields, %d tasks, waited %v: want 6, 6 and every second time 0", yields, ran, waits)
	}
	brings = false
	if waits := iterate(maxTrust + 10); yields != maxTrust || len(waits) != maxTrust+10 || slices.Contains(waits, 0) {
		t.Errorf("%d yields in %d sleeps that bring nothing, want %d; waited %v", yields, maxTrust+10, maxTrust, waits)
	}
	for _, first := range []bool{false, true} {
		brings = false
		iterate(3 * probeEvery) // no trust is left
		for i := range 2 * probeEvery {
			brings = first == (i%2 == 0) // before every second sleep, as with one caller
			iterate(1)
		}
		if r.waits.trust == 0 {
			t.Errorf("first %t: the loop has not noticed that every second yield brings a task", first)
		}
	}
	r.Set.Pinned, brings = true, true
	if iterate(2 * probeEvery); yields != 0 {
		t.Errorf("%d yields of a pinned loop", yields)
	}
}

// TestStrategyKnowsEmptyPolls: a strategy is told how many polls in a row brought nothing.
func TestStrategyKnowsEmptyPolls(t *testing.T) {
	var empty []int
	r := newRig(t, Settings{Strategy: func(_ time.Duration, n int) Decision { empty = append(empty, n); return BusyWait }})
	if _, err := r.Watch(&Descriptor{FD: 5, Ready: func(sys.Ready) {}}); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		r.poller.ready = nil
		if i == 3 {
			r.poller.ready = []int{5}
		}
		r.Iterate()
	}
	if want := []int{0, 1, 2, 3, 0, 1}; !slices.Equal(empty, want) {
		t.Errorf("told of %v empty polls, want %v", empty, want)
	}
}

// TestContinueServesDeadlines: without the poller, timers run.
func TestContinueServesDeadlines(t *testing.T) {
	r := newRig(t, Settings{Strategy: func(time.Duration, int) Decision { return Continue }})
	ran := 0
	r.after(time.Second, func() { ran++ })
	for range 3 {
		r.now += int64(time.Second)
		r.Iterate()
	}
	if ran != 1 || len(r.poller.timeouts) > 1 { // once when the timer was due
		t.Errorf("the timer ran %d times, the poller was asked %d times", ran, len(r.poller.timeouts))
	}
}

// TestPanickingStrategy: a strategy that panics is reported and not asked again. The loop waits from then on.
func TestPanickingStrategy(t *testing.T) {
	asked := 0
	r := newRig(t, Settings{Strategy: func(time.Duration, int) Decision { asked++; panic("no idea") }})
	for range 3 {
		if !r.Iterate() {
			t.Fatal("the loop ended")
		}
	}
	if asked != 1 || len(r.poller.timeouts) != 3 || len(r.panicked) != 1 || r.panicked[0] != "no idea" {
		t.Errorf("asked %d times, waited %v, panicked %v", asked, r.poller.timeouts, r.panicked)
	}
}

// TestSpin: a spinning loop polls without waiting, for the time that is set, and then sleeps.
func TestSpin(t *testing.T) {
	for _, c := range []struct {
		spin  time.Duration
		polls int // without waiting
		sleep time.Duration
	}{
		{100 * time.Microsecond, 10, time.Second},
		{-1, 100000, 0}, // until the deadline, 1 s = 100 000 polls of 10 µs
	} {
		r := newRig(t, Settings{Spin: c.spin})
		r.perWait = 10 * time.Microsecond
		r.after(time.Second, func() {})
		r.Iterate()
		waits := r.poller.timeouts
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
	r := newRig(t, Settings{Spin: -1})
	ran, polls := 0, 0
	r.poller.onWait = func() {
		if polls++; polls == 50 {
			r.submit(1, 0, &ran)
		}
	}
	r.Iterate()
	if ran != 1 || polls != 50 || r.poller.wakes != 0 {
		t.Errorf("ran %d tasks after %d polls with %d wakeups", ran, polls, r.poller.wakes)
	}
}

// TestTimerWakesOnlyForAnEarlierDeadline: the wake state that a loop publishes is the time until which it sleeps, so a
// timer set from outside wakes the loop only when it is due before that.
func TestTimerWakesOnlyForAnEarlierDeadline(t *testing.T) {
	r := newRig(t, Settings{})
	p, start := r.poller, r.now
	fired := map[string]time.Duration{}
	set := func(name string, d time.Duration, wantWake bool) {
		t.Helper()
		before := p.wakes
		timer, err := r.NewTimer("After", d, func() { fired[name] = time.Duration(r.now - start) })
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Tasks.PushTimed(func() { r.AddTimer(timer) }, timer.When()); err != nil {
			t.Fatal(err)
		}
		if woken := p.wakes > before; woken != wantWake {
			t.Errorf("%s woke the loop: %v", name, woken)
		}
	}
	sleeping := func(steps func()) {
		p.onWait = func() { p.onWait = nil; steps() }
		r.Iterate()
	}
	sleeping(func() { set("first, 10 s", 10*time.Second, true) }) // slept for ever
	r.Iterate()                                                   // takes the timer over
	sleeping(func() {
		set("later, 20 s", 20*time.Second, false)
		set("the same, 10 s", 10*time.Second, false)
		set("earlier, 5 s", 5*time.Second, true)
		set("earlier still, 1 s", time.Second, false) // the loop is on its way
	})
	for range 40 {
		r.Iterate()
		r.now += int64(500 * time.Millisecond)
	}
	r.Iterate()
	want := map[string]time.Duration{"first, 10 s": 10 * time.Second, "later, 20 s": 20 * time.Second, "the same, 10 s": 10 * time.Second,
		"earlier, 5 s": 5 * time.Second, "earlier still, 1 s": time.Second}
	if fmt.Sprint(fired) != fmt.Sprint(want) {
		t.Errorf("fired at %v, want %v", fired, want)
	}
}

// TestPrematureWakeups: waits that return early with nothing, nobody having woken the loop, are counted. More than 3 in a
// row are worth a debug line, and at the threshold the poller is replaced. Everything else begins the count anew.
func TestPrematureWakeups(t *testing.T) {
	r := newRig(t, Settings{RebuildAfter: 10})
	first := r.poller
	if _, err := r.Watch(&Descriptor{FD: 5, Ready: func(sys.Ready) { first.ready = nil }}); err != nil {
		t.Fatal(err)
	}
	early := func(n int) {
		for range n {
			r.Iterate()
		}
	}
	early(3)
	r.submit(1, 0, new(int))
	r.Iterate() // not a wait
	early(3)
	r.expect(meter.Premature, 6)
	r.waits.premature = 0
	for what, ending := range map[string]func(){
		"an event":   func() { first.ready = []int{5}; r.Iterate() },
		"a wakeup":   func() { first.onWait = func() { r.submit(1, 0, new(int)) }; r.Iterate(); first.onWait = nil },
		"a deadline": func() { r.after(time.Second, func() {}); r.perWait = time.Second; r.Iterate(); r.perWait = 0 },
	} {
		early(4)
		r.log.Reset()
		ending()
		if r.waits.premature > 0 {
			t.Errorf("%s leaves a count of %d", what, r.waits.premature)
		}
		if got := r.log.String(); !strings.Contains(got, "level=DEBUG") || !strings.Contains(got, "returned early") {
			t.Errorf("%s after 4 early returns logged %q", what, got)
		}
		r.Iterate()
		r.waits.premature = 0
		r.log.Reset()
		early(3)
		ending()
		if strings.Contains(r.log.String(), "returned early") {
			t.Errorf("3 early returns logged %q", r.log.String())
		}
		r.waits.premature = 0
	}
	if r.poller != first {
		t.Fatal("the poller was replaced too early")
	}
	r.log.Reset()
	early(10)
	if r.poller == first || first.closed != 1 || r.Counters[meter.Rebuilds] != 1 || r.waits.premature != 0 {
		t.Errorf("after 10 early returns: %d rebuilds, old poller closed %d times", r.Counters[meter.Rebuilds], first.closed)
	}
	if got := r.log.String(); strings.Count(got, "migrated") != 1 {
		t.Errorf("the rebuild logged %q", got)
	}
}

// TestEventArrayGrows: the array of events doubles when one wait fills it, up to the bound; at a bound of 128 or less it
// keeps its size.
func TestEventArrayGrows(t *testing.T) {
	for _, c := range []struct {
		max  int
		want []int
	}{
		{0, []int{128, 256, 512, 1024, 2048, 4096, 4096}},
		{300, []int{128, 256, 300, 300}},
		{128, []int{128, 128}},
		{7, []int{7, 7}},
	} {
		r := newRig(t, Settings{MaxEvents: c.max})
		var sizes []int
		for range c.want {
			sizes = append(sizes, len(r.events))
			r.growEvents(len(r.events) - 1)
			r.growEvents(len(r.events))
		}
		if !slices.Equal(sizes, c.want) {
			t.Errorf("MaxEvents %d: sizes %v, want %v", c.max, sizes, c.want)
		}
	}
}
