package eddy

import (
	"bytes"
	"strings"
	"testing"
	"time"
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
		if told != 15*second || l.stalls.Load() != uint64(told) || withStack != sampleLines*second {
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

func TestFindStack(t *testing.T) {
	dump := []byte("goroutine 1 [running]:\nmain.main()\n\t/x/main.go:3 +0x1d\n\ngoroutine 17 [chan receive]:\nmain.f(0x1, 0x2)\n\t/x/f.go:1\n\n" +
		"goroutine 7 [select]:\nmain.g()\n\t/x/g.go:1\n")
	for id, want := range map[uint64]string{1: "main.main()", 17: "main.f(", 7: "main.g()", 2: ""} {
		got := findStack(dump, id)
		if (want == "") != (got == "") || !strings.Contains(got, want) || strings.Count(got, "goroutine ") > 1 {
			t.Errorf("goroutine %d: %q", id, got)
		}
	}
	if s := stackOf(goroutineID()); !strings.Contains(s, "TestFindStack") || strings.Count(s, "\n\n") > 0 {
		t.Errorf("my own stack is %q", s)
	}
	if s := stackOf(1 << 60); s != "" {
		t.Errorf("nobody's stack is %q", s)
	}
}

func TestHandlerIn(t *testing.T) {
	for stack, want := range map[string]string{
		"goroutine 5 [chan receive]:\nmain.wait(0x1)\n\t/x.go:1\nmain.(*App).HandleRead(0x1, {0x2, 0x3})\n\t/x.go:2\n" +
			"github.com/go-eddy/eddy.(*Context).deliverRead(...)\n\t/e.go:1\ngithub.com/go-eddy/eddy.(*loop).run(0x1)\n\t/e.go:2\n" +
			"created by github.com/go-eddy/eddy.(*loop).start in goroutine 1\n\t/e.go:3": "main.(*App).HandleRead",
		"goroutine 5 [running]:\ngithub.com/go-eddy/eddy/buf.(*Segment).Commit(0x1)\n\t/b.go:1\ngithub.com/go-eddy/eddy.(*Conn).enqueue(0x1)\n\t/e.go:1\n" +
			"main.main.func1(0x1)\n\t/x.go:2\ngithub.com/go-eddy/eddy.typed[...].HandleRead(0x1)\n\t/e.go:2": "main.main.func1",
		"goroutine 5 [running]:\ngithub.com/go-eddy/eddy.(*loop).run(0x1)\n\t/e.go:2": "",
		"": "",
	} {
		if got := handlerIn(stack); got != want {
			t.Errorf("%q for\n%s", got, stack)
		}
	}
}
