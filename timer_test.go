package eddy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

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
	l := g.crew.Load().loops[0]
	until(t, "the heap to be empty", func() (empty bool) {
		l.do(func() { empty = len(l.Timers.All()) <= 64 })
		return empty
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
	l.Tasks.Limit = 0
	if err := errOf(h.After(1, f)); err != ErrSaturated {
		t.Errorf("After with a full queue = %v", err)
	}
	l.Tasks.Close()
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
