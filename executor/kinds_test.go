package executor

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestKindsDefaults(t *testing.T) {
	for _, c := range []struct {
		name                 string
		make                 func(Options) (*Pool, error)
		workers, core, queue int
	}{
		{"fixed", NewFixed, runtime.GOMAXPROCS(0), 0, 1024},
		{"cached", NewCached, 10000, 0, 0},
		{"limited", NewLimited, 200, 200, 0},
		{"eager", NewEager, 10000, 0, 1024},
	} {
		p, err := c.make(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if o := p.o; o.Workers != c.workers || o.Core != c.core || o.Queue != c.queue || o.KeepAlive != time.Minute {
			t.Errorf("%s: %+v", c.name, o)
		}
		p, err = c.make(Options{Workers: 7, Queue: 5})
		if err != nil || p.o.Workers != 7 || p.o.Queue != 5 {
			t.Errorf("%s: options are not followed: %+v, %v", c.name, p.o, err)
		}
		if _, err = c.make(Options{Workers: 1, Core: 2}); err == nil {
			t.Errorf("%s takes a core above its workers", c.name)
		}
	}
}

// Every kind grows to its limit before a runner waits, and refuses when the queue is full too. A submission that makes
// the pool grow is no exhaustion, however many there are at once.
func TestKindsGrowBeforeTheyQueue(t *testing.T) {
	const workers = 4
	for name, kind := range map[string]func(Options) (*Pool, error){
		"fixed": NewFixed, "cached": NewCached, "limited": NewLimited, "eager": NewEager,
	} {
		for _, queue := range []int{HandOff, 1, 3} {
			synctest.Test(t, func(t *testing.T) {
				p, err := kind(Options{Name: name, Workers: workers, Queue: queue})
				if err != nil {
					t.Fatal(err)
				}
				gate := make(chan struct{})
				wait := func() { <-gate }
				var all sync.WaitGroup
				for range workers {
					all.Go(func() {
						if err := p.SubmitFunc(wait); err != nil {
							t.Errorf("%s, queue %d: %v while it can grow", name, queue, err)
						}
					})
				}
				all.Wait()
				synctest.Wait()
				if s := p.Stats(); s.Running != workers || s.Queued != 0 || s.Rejected != 0 {
					t.Errorf("%s, queue %d: %+v", name, queue, s)
				}
				room := max(queue, 0)
				for range room {
					if err := p.SubmitFunc(wait); err != nil {
						t.Errorf("%s: %v with room in the queue", name, err)
					}
				}
				want := "the queue of runners is at its limit"
				if room == 0 {
					want = "the number of workers is at its limit of 4"
				}
				if err := p.SubmitFunc(wait); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s, queue %d: full pool answers %v", name, queue, err)
				}
				if s := p.Stats(); s.Queued != room || s.Rejected != 1 {
					t.Errorf("%s, queue %d: %+v", name, queue, s)
				}
				close(gate)
				synctest.Wait()
				if err := p.SubmitFunc(wait); err != nil { // an idle worker takes it
					t.Errorf("%s, queue %d: %v from an idle pool", name, queue, err)
				}
				if _, err := p.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A cached pool shrinks to nothing, a limited one not at all, and Options.Core stays.
func TestKindsShrink(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(Options) (*Pool, error)
		o    Options
		left int
	}{
		{"cached", NewCached, Options{}, 0},
		{"eager", NewEager, Options{}, 0},
		{"fixed", NewFixed, Options{Workers: 20}, 0},
		{"fixed with a core", NewFixed, Options{Workers: 20, Core: 4}, 4},
		{"limited", NewLimited, Options{}, 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := c.make(c.o)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				gate := make(chan struct{})
				for range 10 {
					if err := p.SubmitFunc(func() { <-gate }); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				close(gate)
				time.Sleep(59 * time.Second)
				if s := p.Stats(); s.Workers != 10 {
					t.Errorf("%s: %d workers before the time", c.name, s.Workers)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if s := p.Stats(); s.Workers != c.left {
					t.Errorf("%s: %d workers after ten idle minutes, want %d", c.name, s.Workers, c.left)
				}
			}
			if _, err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
