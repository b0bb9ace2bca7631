package executor

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/limit"
)

// TestClientsGiveUp: a pool has found that it can run many. Then there is a bottleneck that can do half of what is asked for, and every request that waits for it ends when
// its client gives up. The pool finds how many to run all the same: by the time at which a request is due, or because the runner says that its client has left.
func TestClientsGiveUp(t *testing.T) {
	for _, says := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const places, takes, patience, run = 20, 20 * time.Millisecond, 250 * time.Millisecond, 10 * time.Second
			p := newPool(t, Options{Workers: 200, Queue: 1000, Adaptive: &Adaptive{}})
			b := make(chan struct{}, places) // of the bottleneck
			random := rand.New(rand.NewPCG(1, 2))
			var done atomic.Int64
			var slow atomic.Bool // and without the bottleneck
			slow.Store(true)
			offer := func(long time.Duration, capacity float64) float64 {
				done.Store(0)
				const gap = takes / places
				for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(gap) {
					due := time.Now().Add(patience)
					d := takes/2 + time.Duration(random.Int64N(int64(takes)))
					r := &parkedRequest{request: &request{class: limit.Sheddable}, place: new(Place)}
					if !says {
						r.due = due
					}
					r.run = func() {
						if slow.Load() {
							time.Sleep(patience * 3 / 4)
							return
						}
						gone := time.NewTimer(time.Until(due))
						defer gone.Stop()
						select {
						case b <- struct{}{}:
							time.Sleep(d)
							<-b
						case <-gone.C:
						}
						switch {
						case time.Now().Before(due):
							done.Add(1)
						case says:
							r.place.Waste()
						}
					}
					r.told = func(*request, error) {}
					_ = p.Submit(r) // or it is refused
				}
				return float64(done.Load()) / (long.Seconds() * capacity)
			}
			const capacity = places / 0.02
			phase := func(what string, capacity float64) {
				offer(run/2, capacity)
				if good := offer(run, capacity); good < 0.9 {
					t.Errorf("says %v, %s: %.2f of what is possible, with a limit of %d", says, what, good, p.Stats().MaxWorkers)
				}
			}
			offer(run, capacity)
			if n := p.Stats().MaxWorkers; n < 150 {
				t.Fatalf("the pool runs %d", n)
			}
			slow.Store(false)
			for range places / 2 {
				b <- struct{}{}
			}
			phase("half the places", capacity/2)
			if p.Stats().Wasted == 0 {
				t.Errorf("says %v: nothing is counted", says)
			}
			for range places / 2 {
				<-b
			}
			phase("all places", capacity)
		})
	}
}

// TestMostAreHopeless: what most requests wait for is gone, so that all of them end when they are due. The others are served as before, for a lower limit would be no help
// to anybody.
func TestMostAreHopeless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience, served, hopeless = 100 * time.Millisecond, 100, 1800 // per second
		p := newPool(t, Options{Workers: 400, Queue: 1000, Adaptive: &Adaptive{}})
		var done atomic.Int64
		ask := func(long time.Duration, each time.Duration, run func(r *request)) {
			for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(each) {
				r := &request{class: limit.Sheddable, due: time.Now().Add(patience), told: func(*request, error) {}}
				r.run = func() { run(r) }
				_ = p.Submit(r) // or it is refused
			}
		}
		const settles, long = 15 * time.Second, 20 * time.Second
		go ask(settles+long, time.Second/hopeless, func(r *request) { time.Sleep(time.Until(r.due)) })
		serve := func(long time.Duration) float64 {
			done.Store(0)
			ask(long, time.Second/served, func(*request) { done.Add(1) })
			return float64(done.Load()) / (long.Seconds() * served)
		}
		serve(settles)
		if good := serve(long); good < 0.85 {
			t.Errorf("%.2f of what can be served, with a limit of %d", good, p.Stats().MaxWorkers)
		}
		time.Sleep(patience)
	})
}
