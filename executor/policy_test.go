package executor

import (
	"context"
	"errors"
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

func anyone() bool { return true }
func nobody() bool { return false }

func TestPolicyOptions(t *testing.T) {
	for _, policy := range []Policy{CallerRuns(nil), Block(time.Second, nil), Block(0, anyone)} {
		if _, err := NewFixed(Options{Policy: policy}); err == nil || !strings.Contains(err.Error(), "Options.Policy") {
			t.Errorf("%+v: error %v", policy, err)
		}
	}
}

// numbered is a runner that its owner knows again.
type numbered struct {
	n   int
	ran *[]int
}

func (r *numbered) Run() { *r.ran = append(*r.ran, r.n) }

// saturated returns a pool with one worker, which is busy until release is called, and two runners that wait, 1 and 2.
func saturated(t *testing.T, policy Policy) (p *Pool, ran *[]int, release func()) {
	t.Helper()
	p = newPool(t, Options{Name: "db", Workers: 1, Queue: 2, Policy: policy})
	free := occupy(t, p, 1)
	ran = new([]int)
	for n := range 2 {
		if err := p.Submit(&numbered{n + 1, ran}); err != nil {
			t.Fatal(err)
		}
	}
	return p, ran, func() {
		free()
		testkit.Eventually(t, "all ran", func() bool { s := p.Stats(); return s.Queued+s.Running == 0 })
	}
}

func TestAbort(t *testing.T) {
	p, ran, release := saturated(t, Abort())
	if err := p.Submit(&numbered{3, ran}); !errors.Is(err, ErrRejected) {
		t.Error(err)
	}
	if s := p.Stats(); s.Rejected != 1 || s.Exhausted != 1 {
		t.Errorf("%+v", s)
	}
	release()
	if !slices.Equal(*ran, []int{1, 2}) {
		t.Errorf("ran %v", *ran)
	}
}

func TestCallerRuns(t *testing.T) {
	p, _, release := saturated(t, CallerRuns(anyone))
	own := false
	if err := p.SubmitFunc(func() { own = true }); err != nil || !own {
		t.Errorf("%v, ran on the caller %v", err, own)
	}
	if err := p.SubmitFunc(func() { panic("contained") }); err != nil {
		t.Error(err)
	}
	if s := p.Stats(); s.CallerRan != 2 || s.Exhausted != 2 || s.Rejected != 0 || s.Panics != 1 || s.Submitted != 3 {
		t.Errorf("%+v", s)
	}
	release()
	if err := p.SubmitFunc(func() {}); err != nil || p.Stats().CallerRan != 2 {
		t.Errorf("%v: the caller ran it although there was room: %+v", err, p.Stats())
	}
}

// A goroutine that must not run what it submits, such as a loop, or wait, is refused at once.
func TestPoliciesRefusedOnALoop(t *testing.T) {
	for name, policy := range map[string]Policy{"CallerRuns": CallerRuns(nobody), "Block": Block(time.Hour, nobody)} {
		p, ran, release := saturated(t, policy)
		if err := p.Submit(&numbered{3, ran}); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), `"db"`) {
			t.Errorf("%s: %v", name, err)
		}
		if s := p.Stats(); s.Rejected != 1 || s.Exhausted != 1 || s.CallerRan+s.Waited != 0 {
			t.Errorf("%s: %+v", name, s)
		}
		release()
		if !slices.Equal(*ran, []int{1, 2}) {
			t.Errorf("%s: ran %v", name, *ran)
		}
	}
}

func TestDiscard(t *testing.T) {
	var told []Runner
	p, ran, release := saturated(t, Discard(func(r Runner) { told = append(told, r) }))
	last := &numbered{3, ran}
	if err := p.Submit(last); err != nil {
		t.Error(err)
	}
	if len(told) != 1 || told[0] != last {
		t.Errorf("told of %v", told)
	}
	if s := p.Stats(); s.Discarded != 1 || s.Exhausted != 1 || s.Rejected != 0 || s.Submitted != 3 {
		t.Errorf("%+v", s)
	}
	release()
	if !slices.Equal(*ran, []int{1, 2}) {
		t.Errorf("ran %v", *ran)
	}
}

func TestDiscardOldest(t *testing.T) {
	var told []int
	p, ran, release := saturated(t, DiscardOldest(func(r Runner) { told = append(told, r.(*numbered).n) }))
	for n := 3; n < 6; n++ {
		if err := p.Submit(&numbered{n, ran}); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(told, []int{1, 2, 3}) {
		t.Errorf("told of %v", told)
	}
	if s := p.Stats(); s.Discarded != 3 || s.Exhausted != 3 || s.Rejected != 0 || s.Queued != 2 {
		t.Errorf("%+v", s)
	}
	release()
	if !slices.Equal(*ran, []int{4, 5}) {
		t.Errorf("ran %v", *ran)
	}
}

// The turns of strands and keys stay, or their items would never run.
func TestDiscardOldestKeepsTurns(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 3, Policy: DiscardOldest(nil)})
	release := occupy(t, p, 1)
	var ran []int
	s := NewStrand(p, 10, func(v int) { ran = append(ran, v) })
	k := NewKeyed[int](p, 10, 10)
	if err := s.Submit(1); err != nil {
		t.Fatal(err)
	}
	if err := k.Submit(1, func() { ran = append(ran, 2) }); err != nil {
		t.Fatal(err)
	}
	for n := 10; n < 13; n++ {
		if err := p.Submit(&numbered{n, &ran}); err != nil {
			t.Fatal(err)
		}
	}
	late := NewStrand(p, 10, func(int) {})
	if err := late.Submit(1); !errors.Is(err, ErrRejected) { // no policy is for turns
		t.Error(err)
	}
	if err := k.Submit(2, func() {}); !errors.Is(err, ErrRejected) {
		t.Error(err)
	}
	release()
	testkit.Eventually(t, "all ran", func() bool { s := p.Stats(); return s.Queued+s.Running == 0 })
	if !slices.Equal(ran, []int{1, 2, 12}) {
		t.Errorf("ran %v", ran)
	}
	if k.Len() != 0 || s.Len() != 0 {
		t.Errorf("left %d and %d", k.Len(), s.Len())
	}
}

func TestDiscardOldestWithoutAnOldest(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: HandOff, Policy: DiscardOldest(nil)})
	defer occupy(t, p, 1)()
	if err := p.SubmitFunc(func() {}); !errors.Is(err, ErrRejected) {
		t.Error(err)
	}
}

// Submissions wait in the order of arrival until there is room, with a queue and without one.
func TestBlock(t *testing.T) {
	for _, queue := range []int{HandOff, 2} {
		synctest.Test(t, func(t *testing.T) {
			p, err := NewFixed(Options{Workers: 1, Queue: queue, Policy: Block(time.Minute, anyone)})
			if err != nil {
				t.Fatal(err)
			}
			gate := make(chan struct{})
			if err := p.SubmitFunc(func() { <-gate }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			var ran []int
			for n := range 2 + max(queue, 0) {
				go func() {
					if err := p.Submit(&numbered{n, &ran}); err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait()
			}
			if s := p.Stats(); s.Waited != 2 || s.Queued != max(queue, 0) {
				t.Errorf("%+v", s)
			}
			time.Sleep(59 * time.Second)
			close(gate)
			synctest.Wait()
			if len(ran) != 2+max(queue, 0) || !slices.IsSorted(ran) {
				t.Errorf("ran %v", ran)
			}
			if s := p.Stats(); s.Rejected+s.Exhausted != 0 || s.Submitted != s.Completed || s.Queued != 0 {
				t.Errorf("%+v", s)
			}
			if _, err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBlockTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewFixed(Options{Workers: 1, Queue: HandOff, Policy: Block(time.Minute, anyone)})
		if err != nil {
			t.Fatal(err)
		}
		gate := make(chan struct{})
		if err := p.SubmitFunc(func() { <-gate }); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := p.SubmitFunc(func() { t.Error("ran") }); !errors.Is(err, ErrRejected) || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if s := p.Stats(); s.Waited != 1 || s.Rejected != 1 || s.Exhausted != 1 {
			t.Errorf("%+v", s)
		}
		go func() {
			if err := p.SubmitFunc(func() {}); !errors.Is(err, ErrClosed) {
				t.Errorf("waiting at the end of the pool: %v", err)
			}
		}()
		synctest.Wait()
		p.Close()
		synctest.Wait()
		close(gate)
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Whatever the policy, a runner runs once, is dropped once or is refused, and the counts say which.
func TestPoliciesUnderStress(t *testing.T) {
	var dropped atomic.Int64
	told := func(Runner) { dropped.Add(1) }
	for name, policy := range map[string]Policy{
		"abort": Abort(), "callerRuns": CallerRuns(anyone), "discard": Discard(told), "discardOldest": DiscardOldest(told),
		"block": Block(time.Microsecond, anyone), "block long": Block(testkit.Patience, anyone),
	} {
		for _, queue := range []int{HandOff, 8} {
			dropped.Store(0)
			p, err := NewFixed(Options{Workers: 3, Queue: queue, KeepAlive: time.Millisecond, Policy: policy})
			if err != nil {
				t.Fatal(err)
			}
			s := NewStrand(p, 8, func(int) { runtime.Gosched() })
			var ran, refused atomic.Int64
			var all sync.WaitGroup
			const producers, each = 6, 1500
			for range producers {
				all.Go(func() {
					for n := range each {
						if n%10 == 0 {
							_ = s.Submit(n)
						}
						if err := p.SubmitFunc(func() { ran.Add(1); runtime.Gosched() }); err != nil {
							refused.Add(1)
						}
					}
				})
			}
			all.Wait()
			if _, err := p.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			st := p.Stats()
			if sum := ran.Load() + refused.Load() + dropped.Load(); sum != producers*each {
				t.Errorf("%s: ran %d, refused %d, dropped %d: %d in all", name, ran.Load(), refused.Load(), dropped.Load(), sum)
			}
			if st.Discarded != uint64(dropped.Load()) || st.Queued != 0 || s.Len() != 0 {
				t.Errorf("%s: %+v, %d dropped", name, st, dropped.Load())
			}
			if name == "block long" && refused.Load() != 0 {
				t.Errorf("%d refused although they may wait", refused.Load())
			}
		}
	}
}

// A submission that waits takes the first place in the queue that becomes free.
func TestBlockGetsTheNextPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewFixed(Options{Workers: 1, Queue: 2, Policy: Block(time.Minute, anyone)})
		if err != nil {
			t.Fatal(err)
		}
		step := make(chan struct{})
		for range 4 {
			go func() {
				if err := p.SubmitFunc(func() { <-step }); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		step <- struct{}{}
		synctest.Wait()
		if s := p.Stats(); s.Queued != 2 || s.Submitted != 4 {
			t.Errorf("one has ended, one waited for its place: %+v", s)
		}
		close(step)
		if _, err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
