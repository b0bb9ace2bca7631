package eddy

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/internal/poll"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/internal/sys"
)

// watchedStage is a stage whose loop a watchdog looks after that no goroutine runs.
func watchedStage(t *testing.T, g *Group) (st *stage, l *loop, dog *reactor.Watchdog, log *bytes.Buffer) {
	t.Helper()
	st, l, log = loggedStage(t, g, func(*Context, string) error { return nil })
	l.crew.loops = st.loops
	dog = l.crew.newWatchdog()
	l.Dog = dog
	l.Vitals.Goroutine.Store(goroutineID())
	return st, l, dog, log
}

// work lets an iteration run f.
func work(t *testing.T, l *loop, f func()) {
	t.Helper()
	if err := l.Tasks.Push(task{kind: taskFunc, msg: f}); err != nil {
		t.Fatal(err)
	}
	l.Iterate()
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
					dog.Look()
				}
			})
		}
		if told != 15*second || l.Vitals.Stalls.Load() != uint64(told) || withStack != sample.PerInterval*second {
			t.Fatalf("second %d: %d stalls told, %d with a stack, %d counted", second, told, withStack, l.Vitals.Stalls.Load())
		}
		st.now.Add(int64(time.Second))
	}
	if n := strings.Count(log.String(), "a handler blocks its loop"); n != withStack || !strings.Contains(log.String(), "held_back=10") {
		t.Errorf("%d lines for %d stalls with a stack:\n%s", n, withStack, log)
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
	l.Vitals.Goroutine.Store(<-began)
	stepUntil(t, "the wait", func() bool { return strings.Contains(reactor.StackOf(l.Vitals.Goroutine.Load()), "internal/poll.") })
	work(t, l, func() {
		st.now.Add(int64(2 * time.Second))
		dog.Look()
	})
	if !told.Starved || told.Handler != "" || !strings.Contains(log.String(), `msg="eddy: a loop gets no processor" loop=worker-0 for=2s`) {
		t.Errorf("told of %+v\n%s", told, log)
	}
}
