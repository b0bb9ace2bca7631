package executor

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

// countedJob notes what became of it.
type countedJob struct{ ran, dropped *atomic.Int32 }

func (j countedJob) Run()  { j.ran.Add(1) }
func (j countedJob) Drop() { j.dropped.Add(1) }

func always() bool { return true }

// TestJobsUnderEveryPolicy: whatever the policy of a full pool, a job is refused with ErrRejected at once, and the one that
// waits is not dropped for others.
func TestJobsUnderEveryPolicy(t *testing.T) {
	for name, policy := range map[string]Policy{
		"abort": Abort(), "caller runs": CallerRuns(always), "discard": Discard(nil), "discard oldest": DiscardOldest(nil),
		"block": Block(time.Hour, always),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, Options{Name: "small", Workers: 1, Queue: 1, Policy: policy})
			release := occupy(t, p, 1)
			j := countedJob{new(atomic.Int32), new(atomic.Int32)}
			if err := p.Enqueue(j); err != nil {
				t.Fatal(err)
			}
			err := p.Enqueue(j)
			var le *LimitError
			if !errors.Is(err, ErrRejected) || !errors.As(err, &le) || le.Pool != "small" || le.Limit != 1 || le.Key {
				t.Errorf("a job beyond the queue: %v", err)
			}
			if name == "discard oldest" {
				if err := p.SubmitFunc(func() {}); !errors.Is(err, ErrRejected) {
					t.Errorf("a runner for which only a job could go: %v", err)
				}
			}
			release()
			p.Wake()
			testkit.Eventually(t, "the job that was taken runs", func() bool { return j.ran.Load() == 1 })
			if n := j.dropped.Load(); n != 0 {
				t.Errorf("%d jobs dropped", n)
			}
		})
	}
}

// TestJobsOfAStoppedPool: a job that waits when its pool is stopped is dropped, once; its panic harms no other; none is
// given back; later ones are refused.
func TestJobsOfAStoppedPool(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 4, OnPanic: func(any, []byte) {}})
	release := occupy(t, p, 1)
	defer release()
	j := countedJob{new(atomic.Int32), new(atomic.Int32)}
	for _, job := range []Job{j, wildJob{}, j} {
		if err := p.Enqueue(job); err != nil {
			t.Fatal(err)
		}
	}
	if left := p.Close(); len(left) != 0 {
		t.Errorf("%d runners left", len(left))
	}
	if j.dropped.Load() != 2 || j.ran.Load() != 0 || p.Stats().Panics != 1 {
		t.Errorf("dropped %d, ran %d, panics %d", j.dropped.Load(), j.ran.Load(), p.Stats().Panics)
	}
	if err := p.Enqueue(j); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

type wildJob struct{}

func (wildJob) Run()  {}
func (wildJob) Drop() { panic("as asked") }

// TestTaskDoesNotAwaitItsPool: a task that shuts its own pool down is refused at once, and the pool goes on; another
// goroutine and a worker of another pool may, also one that replaces a worker whose task ended its goroutine.
func TestTaskDoesNotAwaitItsPool(t *testing.T) {
	p, other := newPool(t, Options{Workers: 1}), newPool(t, Options{Workers: 1})
	got := make(chan error)
	ask := func() {
		_, err := p.Shutdown(context.Background())
		got <- err
	}
	for _, before := range []func(){func() {}, func() { goexit(t, p) }} {
		before()
		if err := p.SubmitFunc(ask); err != nil {
			t.Fatal(err)
		}
		if err := testkit.Receive(t, "what was got", got); !errors.Is(err, ErrOnWorker) {
			t.Errorf("on a worker: %v", err)
		}
	}
	if p.OnWorker() {
		t.Error("the test is no worker")
	}
	if err := other.SubmitFunc(ask); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "what was got", got); err != nil {
		t.Errorf("on a worker of another pool: %v", err)
	}
	testkit.Eventually(t, "the worker is forgotten", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.staff.ids) == 0
	})
}

// goexit runs a task that ends its goroutine and waits until another one stands in for it.
func goexit(t *testing.T, p *Pool) {
	t.Helper()
	before := p.Stats().Completed
	if err := p.SubmitFunc(runtime.Goexit); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the worker was replaced", func() bool { return p.Stats().Completed > before })
}
