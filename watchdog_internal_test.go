package eddy

import (
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
