package eddy

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/internal/poll"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/internal/sys"
)

// TestWatchdogSleepsWithItsLoops: a watchdog whose loops are idle waits for nothing but to be roused, and the next
// iteration of a loop does that, once.
func TestWatchdogSleepsWithItsLoops(t *testing.T) {
	g := &Group{Loops: 2, StallThreshold: 20 * time.Millisecond}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	dog := g.crew.Load().dog
	for range 5 {
		until(t, "the watchdog to fall asleep", dog.asleep.Load)
		asleep := make(chan bool, 1)
		if err := g.Loop(1).Post(func() { asleep <- dog.asleep.Load() }); err != nil {
			t.Fatal(err)
		}
		if <-asleep {
			t.Fatal("the watchdog sleeps while a loop runs")
		}
	}
}

// watchedStage is a stage whose loop a watchdog looks after that no goroutine runs.
func watchedStage(t *testing.T, g *Group) (st *stage, l *loop, dog *watchdog, log *bytes.Buffer) {
	t.Helper()
	st, l, log = loggedStage(t, g, func(*Context, string) error { return nil })
	l.crew.loops = st.loops
	dog = newWatchdog(l.crew)
	l.dog = dog
	l.goid.Store(goroutineID())
	return st, l, dog, log
}

// work lets an iteration run f.
func work(t *testing.T, l *loop, f func()) {
	t.Helper()
	if err := l.tasks.push(task{kind: taskFunc, msg: f}, false); err != nil {
		t.Fatal(err)
	}
	l.iterate()
}

// TestWatchdogIsRateLimited: of many stalls a few in each second are logged with a stack; all are counted and told.
func TestWatchdogIsRateLimited(t *testing.T) {
	told, withStack := 0, 0
	st, l, dog, log := watchedStage(t, &Group{StallThreshold: 10 * time.Millisecond, OnStall: func(s Stall) {
		told++
		if s.Stack != "" {
			withStack++
		}
	}})
	for second := 1; second <= 3; second++ {
		for range 15 {
			work(t, l, func() {
				st.now.Add(int64(11 * time.Millisecond))
				for range 2 {
					dog.look()
				}
			})
		}
		if told != 15*second || l.stalls.Load() != uint64(told) || withStack != sample.PerInterval*second {
			t.Fatalf("second %d: %d stalls told, %d with a stack, %d counted", second, told, withStack, l.stalls.Load())
		}
		st.now.Add(int64(time.Second))
	}
	if n := strings.Count(log.String(), "a handler blocks its loop"); n != withStack || !strings.Contains(log.String(), "held_back=10") {
		t.Errorf("%d lines for %d stalls with a stack:\n%s", n, withStack, log)
	}
}

// TestShortStallsAreCounted: a stall that was over before the watchdog looked counts all the same, once.
func TestShortStallsAreCounted(t *testing.T) {
	told := 0
	st, l, dog, _ := watchedStage(t, &Group{StallThreshold: 5 * time.Millisecond, OnStall: func(Stall) { told++ }})
	for i := range 10 {
		work(t, l, func() { st.now.Add(int64(6 * time.Millisecond)) })
		l.iterate() // the next one settles the accounts of the one before
		dog.look()
		if n := l.stalls.Load(); n != uint64(i+1) || told != 0 {
			t.Fatalf("%d stalls counted, %d told, want %d and none", n, told, i+1)
		}
	}
}

// TestNoStallWithoutOne: neither sleep nor many short iterations are stalls, and with a negative threshold nothing is.
func TestNoStallWithoutOne(t *testing.T) {
	st, l, dog, log := watchedStage(t, &Group{StallThreshold: time.Second, OnStall: func(s Stall) { t.Errorf("told of %+v", s) }})
	for range 30 {
		work(t, l, func() { st.now.Add(int64(100 * time.Millisecond)); dog.look() })
		dog.look()
	}
	st.perWait = time.Hour
	st.nextPoller.onWait = func() { dog.look() }
	l.iterate()
	if n := l.stalls.Load(); n != 0 || strings.Contains(log.String(), "stalled") {
		t.Errorf("%d stalls counted, the log says %s", n, log)
	}

	st, l, log = loggedStage(t, &Group{StallThreshold: -1}, func(*Context, string) error { return nil })
	work(t, l, func() { st.now.Add(int64(time.Hour)) })
	if n := l.stalls.Load(); n != 0 || strings.Contains(log.String(), "stalled") {
		t.Errorf("with a negative threshold %d stalls counted, the log says %s", n, log)
	}
	g := &Group{Loops: 1, StallThreshold: -1}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if g.crew.Load().dog != nil {
		t.Error("with a negative threshold there is a watchdog")
	}
}

// TestWatchdogTellsAStarvedLoop: a loop that is at its poller while an iteration of it lasts is blocked by no handler.
func TestWatchdogTellsAStarvedLoop(t *testing.T) {
	var told Stall
	st, l, dog, log := watchedStage(t, &Group{StallThreshold: time.Second, OnStall: func(s Stall) { told = s }})
	p, err := backend.NewPoller("poll", poll.Parked)
	if err != nil {
		t.Skip(err)
	}
	began, ended := make(chan uint64), make(chan struct{})
	go func() {
		defer close(ended)
		began <- goroutineID()
		_, _ = p.Wait(make([]sys.Event, 1), -1)
	}()
	defer func() { _ = p.Wake(); <-ended; _ = p.Close() }()
	l.goid.Store(<-began)
	stepUntil(t, "the wait", func() bool { return strings.Contains(stackOf(l.goid.Load()), "internal/poll.") })
	work(t, l, func() {
		st.now.Add(int64(2 * time.Second))
		dog.look()
	})
	if !told.Starved || told.Handler != "" || !strings.Contains(log.String(), `msg="eddy: a loop gets no processor" loop=worker-0 for=2s`) {
		t.Errorf("told of %+v\n%s", told, log)
	}
}
