package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string // in the error; "" for none
	}{
		{Options{}, ""},
		{Options{Workers: 3, Queue: 1, KeepAlive: time.Second}, ""},
		{Options{Workers: 3, Core: 3, Queue: HandOff}, ""},
		{Options{Workers: 3, Core: 4}, "Options.Core is 4, with 3 Workers"},
		{Options{Core: -1}, "Options.Core is -1"},
		{Options{Workers: -1}, "Options.Workers is -1"},
		{Options{Queue: -2}, "Options.Queue is -2"},
		{Options{KeepAlive: -time.Second}, "Options.KeepAlive is -1s"},
	} {
		p, err := NewFixed(c.o)
		if c.want == "" && (err != nil || p == nil) {
			t.Errorf("%+v: %v", c.o, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || p != nil) {
			t.Errorf("%+v: error %v, want one with %q", c.o, err, c.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	p := newPool(t, Options{})
	if p.o.Workers != runtime.GOMAXPROCS(0) || p.o.Queue != 1024 || p.o.KeepAlive != time.Minute {
		t.Errorf("defaults %+v", p.o)
	}
}

// A fixed pool never runs more than Workers runners at once, and starts them on demand.
func TestFixedNumberOfWorkers(t *testing.T) {
	const workers = 3
	p := newPool(t, Options{Workers: workers})
	if s := p.Stats(); s.Workers != 0 {
		t.Fatalf("%d workers before the first task", s.Workers)
	}
	var running, most atomic.Int64
	var all sync.WaitGroup
	for range 500 {
		all.Add(1)
		err := p.SubmitFunc(func() {
			defer all.Done()
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			runtime.Gosched()
			running.Add(-1)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	if most.Load() > workers {
		t.Errorf("%d ran at once, limit %d", most.Load(), workers)
	}
	testkit.Eventually(t, "all completed", func() bool { return p.Stats().Completed == 500 })
	if s := p.Stats(); s.Workers < 1 || s.Workers > workers || s.Submitted != 500 || s.Queued != 0 { // two may have been enough
		t.Errorf("stats %+v", s)
	}
}

// A saturated pool answers at once with ErrRejected, runs what it took in order, and
// takes work again once there is room.
func TestSaturation(t *testing.T) {
	const queue = 5
	p := newPool(t, Options{Name: "db", Workers: 2, Queue: queue})
	release := occupy(t, p, 2)
	var mu sync.Mutex
	var order []int
	for i := range queue {
		if err := p.SubmitFunc(func() { mu.Lock(); order = append(order, i); mu.Unlock() }); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		err := p.SubmitFunc(func() { t.Error("a rejected task ran") })
		if !errors.Is(err, ErrRejected) {
			t.Fatalf("full pool answered %v", err)
		}
		for _, part := range []string{`"db"`, "limit of 5"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not name %s", err, part)
			}
		}
	}
	if s := p.Stats(); s.Queued != queue || s.Rejected != 3 || s.Running != 2 || s.Workers != 2 {
		t.Errorf("stats %+v", s)
	}
	release()
	testkit.Eventually(t, "queue empty", func() bool { return p.Stats().Completed == 2+queue })
	done := make(chan int, 1)
	if err := p.SubmitFunc(func() { done <- 1 }); err != nil {
		t.Fatalf("after the load: %v", err)
	}
	testkit.Receive(t, "the end", done)
}

func TestQueueOrder(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 1000})
	release := occupy(t, p, 1)
	var order []int
	for i := range 1000 {
		if err := p.SubmitFunc(func() { order = append(order, i) }); err != nil {
			t.Fatal(err)
		}
	}
	release()
	done := make(chan int)
	if err := p.SubmitFunc(func() { done <- 1 }); err != nil {
		testkit.Eventually(t, "room", func() bool { return p.SubmitFunc(func() { done <- 1 }) == nil })
	}
	testkit.Receive(t, "the end", done)
	if len(order) != 1000 || !slices.IsSorted(order) {
		t.Errorf("ran %d, sorted %v", len(order), slices.IsSorted(order))
	}
}

func TestPanicIsContainedAndReported(t *testing.T) {
	type report struct {
		v     any
		stack string
	}
	reports := make(chan report, 10)
	p := newPool(t, Options{Workers: 1, OnPanic: func(v any, stack []byte) {
		reports <- report{v, string(stack)}
		panic("and in OnPanic")
	}})
	for i := range 5 {
		if err := p.SubmitFunc(func() { explode(i) }); err != nil {
			t.Fatal(err)
		}
		r := testkit.Receive(t, "a report", reports)
		if r.v != i || !strings.Contains(r.stack, "explode") {
			t.Errorf("reported %v with stack\n%s", r.v, r.stack)
		}
	}
	testkit.Eventually(t, "completed", func() bool { return p.Stats().Completed == 5 })
	if s := p.Stats(); s.Panics != 5 || s.Workers != 1 {
		t.Errorf("stats %+v", s)
	}
}

func explode(i int) { panic(i) }

// runtime.Goexit, which testing.T.FailNow calls, ends a goroutine without a panic. The
// pool keeps its worker all the same.
func TestGoexitCostsNoWorker(t *testing.T) {
	p := newPool(t, Options{Workers: 1})
	for range 3 {
		if err := p.SubmitFunc(runtime.Goexit); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan int)
	if err := p.SubmitFunc(func() { done <- 1 }); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the end", done)
	testkit.Eventually(t, "completed", func() bool { return p.Stats().Completed == 4 })
	if s := p.Stats(); s.Workers != 1 || s.Panics != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestIdleWorkersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewFixed(Options{Workers: 4, KeepAlive: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		burst := func(n int) {
			gate := make(chan struct{})
			for range n {
				if err := p.SubmitFunc(func() { <-gate }); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if s := p.Stats(); s.Running != n {
				t.Fatalf("%d run, want %d", s.Running, n)
			}
			close(gate)
			synctest.Wait()
		}
		burst(4)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if s := p.Stats(); s.Workers != 4 || s.Running != 0 {
			t.Errorf("before KeepAlive: %+v", s)
		}
		for range 130 { // one worker stays in use
			time.Sleep(time.Second)
			burst(1)
		}
		if s := p.Stats(); s.Workers != 1 {
			t.Errorf("after 2 KeepAlive with one in use: %+v", s)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := p.Stats(); s.Workers != 0 {
			t.Errorf("after 2 idle KeepAlive: %+v", s)
		}
		burst(3)
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownRunsWhatWaits(t *testing.T) {
	p := newPool(t, Options{Workers: 2})
	release := occupy(t, p, 2)
	var ran atomic.Int64
	for range 100 {
		if err := p.SubmitFunc(func() { ran.Add(1) }); err != nil {
			t.Fatal(err)
		}
	}
	result := make(chan error)
	go func() {
		left, err := p.Shutdown(context.Background())
		if len(left) != 0 {
			err = fmt.Errorf("%d left, %w", len(left), err)
		}
		result <- err
	}()
	testkit.Eventually(t, "closed", func() bool { return errors.Is(p.SubmitFunc(func() {}), ErrClosed) })
	release()
	if err := testkit.Receive(t, "the result", result); err != nil {
		t.Error(err)
	}
	if s := p.Stats(); ran.Load() != 100 || s.Workers != 0 || s.Queued != 0 || s.Running != 0 {
		t.Errorf("ran %d, stats %+v", ran.Load(), s)
	}
	if left, err := p.Shutdown(context.Background()); left != nil || err != nil {
		t.Errorf("second Shutdown: %v, %v", left, err)
	}
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	p := newPool(t, Options{Name: "slow", Workers: 1})
	release := occupy(t, p, 1)
	var ran atomic.Int64
	for range 10 {
		if err := p.SubmitFunc(func() { ran.Add(1) }); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	left, err := p.Shutdown(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), `"slow": 1 workers busy, 10 runners left`) {
		t.Errorf("error %v", err)
	}
	if len(left) != 10 {
		t.Fatalf("%d left, want 10", len(left))
	}
	release()
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if ran.Load() != 0 {
		t.Errorf("%d of the runners that were given back ran", ran.Load())
	}
	for _, r := range left {
		r.Run()
	}
	if ran.Load() != 10 {
		t.Errorf("the caller ran %d", ran.Load())
	}
}

func TestClose(t *testing.T) {
	p := newPool(t, Options{Workers: 1})
	release := occupy(t, p, 1)
	for range 3 {
		if err := p.SubmitFunc(func() { t.Error("ran after Close") }); err != nil {
			t.Fatal(err)
		}
	}
	if left := p.Close(); len(left) != 3 {
		t.Errorf("%d left, want 3", len(left))
	}
	if left := p.Close(); left != nil {
		t.Errorf("second Close returned %d", len(left))
	}
	if err := p.SubmitFunc(func() {}); !errors.Is(err, ErrClosed) {
		t.Errorf("Submit after Close: %v", err)
	}
	if s := p.Stats(); s.Running != 1 || s.Queued != 0 {
		t.Errorf("stats %+v", s)
	}
	release()
}

// Every task that was taken runs exactly once, in a pool that is pushed to its limits
// while it is shut down.
func TestExactlyOnceUnderStress(t *testing.T) {
	p := newPool(t, Options{Workers: 4, Queue: 64, KeepAlive: time.Millisecond})
	const producers, each = 8, 3000
	counts := make([]atomic.Int32, producers*each)
	taken := make([]bool, producers*each)
	var all sync.WaitGroup
	for i := range producers {
		all.Go(func() {
			for j := range each {
				n := i*each + j
				for {
					err := p.SubmitFunc(func() { counts[n].Add(1) })
					if taken[n] = err == nil; taken[n] || errors.Is(err, ErrClosed) {
						break
					}
					runtime.Gosched()
				}
				if n == each*producers/2 {
					go p.Shutdown(context.Background())
				}
			}
		})
	}
	all.Wait()
	if _, err := p.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for n := range counts {
		want := int32(0)
		if taken[n] {
			want = 1
		}
		if got := counts[n].Load(); got != want {
			t.Fatalf("task %d taken %v, ran %d times", n, taken[n], got)
		}
	}
	if s := p.Stats(); s.Submitted != s.Completed || s.Workers != 0 {
		t.Errorf("stats %+v", s)
	}
}

type nothing struct{}

func (nothing) Run() {}

func TestSubmitAllocatesNothing(t *testing.T) {
	p := newPool(t, Options{Workers: 2})
	if n := testing.AllocsPerRun(2000, func() {
		for p.Submit(nothing{}) != nil {
			runtime.Gosched()
		}
	}); n != 0 {
		t.Errorf("%v allocations per Submit", n)
	}
	f := func() {}
	if n := testing.AllocsPerRun(2000, func() {
		for p.SubmitFunc(f) != nil {
			runtime.Gosched()
		}
	}); n != 0 {
		t.Errorf("%v allocations per SubmitFunc", n)
	}
}
