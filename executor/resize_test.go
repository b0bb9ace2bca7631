package executor

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

func TestResizeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewFixed(Options{Name: "db", Workers: 2, Queue: 1})
		if err != nil {
			t.Fatal(err)
		}
		gates := make(chan struct{})
		submit := func(want int) { // more until it is refused
			t.Helper()
			n := 0
			for p.SubmitFunc(func() { <-gates }) == nil {
				n++
			}
			synctest.Wait()
			if n != want {
				t.Errorf("%d taken, want %d: %+v", n, want, p.Stats())
			}
		}
		resize := func(workers, queue, wantRunning, wantQueued int) {
			t.Helper()
			if err := p.Resize(workers, queue); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if s := p.Stats(); s.Running != wantRunning || s.Queued != wantQueued {
				t.Errorf("after Resize(%d, %d): %+v", workers, queue, s)
			}
		}
		finish := func(n int) {
			for range n {
				gates <- struct{}{}
			}
			synctest.Wait()
		}
		submit(3)
		resize(0, 5, 2, 1)
		submit(4)
		resize(4, 0, 4, 3) // what waits gets the new workers at once
		submit(2)
		if err := p.SubmitFunc(func() {}); err == nil || !strings.Contains(err.Error(), "limit of 5") {
			t.Error(err)
		}
		resize(1, 2, 4, 5) // what runs goes on
		finish(3)
		if s := p.Stats(); s.Workers != 1 || s.Running != 1 || s.Queued != 5 {
			t.Errorf("smaller: %+v", s)
		}
		submit(0)
		finish(4)
		submit(1)
		resize(0, HandOff, 1, 2)
		if err := p.SubmitFunc(func() {}); err == nil || !strings.Contains(err.Error(), "the number of workers is at its limit of 1") {
			t.Error(err)
		}
		finish(3)
		resize(3, HandOff, 0, 0)
		submit(3)
		finish(3)
		if s := p.Stats(); s.Workers != 3 || s.Running != 0 {
			t.Errorf("idle: %+v", s)
		}
		if s := p.Stats(); s.MaxWorkers != 3 || s.MaxQueue != 0 {
			t.Errorf("limits: %+v", s)
		}
		resize(2, 0, 0, 0) // idle ones end at once
		if s := p.Stats(); s.Workers != 2 || s.MaxWorkers != 2 {
			t.Errorf("idle and smaller: %+v", s)
		}
		for _, limits := range [][2]int{{-1, 0}, {0, -2}} {
			if err := p.Resize(limits[0], limits[1]); err == nil {
				t.Errorf("Resize%v is taken", limits)
			}
		}
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.Resize(1, 1); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// A larger queue takes what waits for room, and a core shrinks with the workers.
func TestResizeAdmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewFixed(Options{Workers: 2, Core: 2, Queue: 1, Policy: Block(time.Hour, anyone)})
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		for range 6 {
			go func() {
				if err := p.SubmitFunc(func() { <-gate }); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if err := p.Resize(0, 3); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := p.Stats(); s.Queued != 3 || s.Submitted != 5 {
			t.Errorf("%+v", s)
		}
		if err := p.Resize(1, 0); err != nil {
			t.Fatal(err)
		}
		close(gate)
		time.Sleep(10 * time.Minute)
		if s := p.Stats(); s.Completed != 6 || s.Workers != 1 || p.o.Core != 1 {
			t.Errorf("%+v, core %d", s, p.o.Core)
		}
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	limited, err := NewLimited(Options{Workers: 9})
	if err != nil {
		t.Fatal(err)
	}
	if err := limited.Resize(12, 0); err != nil || limited.o.Core != 12 {
		t.Errorf("%v, core %d", err, limited.o.Core)
	}
	limited.Close()
}

// Limits that change all the time under load lose no work and run none twice.
func TestResizeUnderLoad(t *testing.T) {
	for _, queue := range []int{HandOff, 16} {
		p, err := NewFixed(Options{Workers: 4, Queue: queue, KeepAlive: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		const producers, each = 4, 4000
		counts := make([]atomic.Int32, producers*each)
		taken := make([]bool, producers*each)
		s := NewStrand(p, 64, func(int) { runtime.Gosched() })
		var all sync.WaitGroup
		for i := range producers {
			all.Go(func() {
				for n := i * each; n < (i+1)*each; n++ {
					_ = s.Submit(n)
					taken[n] = p.SubmitFunc(func() { counts[n].Add(1) }) == nil
					if !taken[n] {
						runtime.Gosched()
					}
				}
			})
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			r := rand.New(rand.NewPCG(1, 2))
			for {
				select {
				case <-stop:
					return
				default:
				}
				size := r.IntN(20)
				if queue == HandOff || size == 0 {
					size = HandOff
				}
				if err := p.Resize(1+r.IntN(6), size); err != nil {
					t.Error(err)
				}
				runtime.Gosched()
			}
		}()
		all.Wait()
		close(stop)
		testkit.Receive(t, "the end", stopped)
		testkit.Eventually(t, "all ran without a further submission", func() bool { st := p.Stats(); return st.Submitted == st.Completed && s.Len() == 0 })
		if _, err := p.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		for n := range counts {
			if got := counts[n].Load(); (got == 1) != taken[n] || got > 1 {
				t.Fatalf("task %d: taken %v, ran %d times", n, taken[n], got)
			}
		}
	}
}
