package executor

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/limit"
)

// request is a Sheddable that tells what has become of it.
type request struct {
	n     int
	class limit.Class
	due   time.Time
	run   func()
	told  func(r *request, err error) // once: nil when it ran
}

func (r *request) Class() limit.Class { return r.class }
func (r *request) Due() time.Time     { return r.due }
func (r *request) Shed(err error)     { r.told(r, err) }
func (r *request) Run() {
	if r.run != nil {
		r.run()
	}
	r.told(r, nil)
}

// ends collects what has become of requests.
type ends struct {
	mu  sync.Mutex
	ran []int
	err map[int]error
}

func (e *ends) told(r *request, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.ran = append(e.ran, r.n)
		return
	}
	if e.err == nil {
		e.err = make(map[int]error)
	}
	e.err[r.n] = err
}

func (e *ends) request(n int, class limit.Class) *request {
	return &request{n: n, class: class, told: e.told}
}

// adaptivePool returns an adaptive pool of one worker, which is busy until free is called.
func adaptivePool(t *testing.T, o Options) (p *Pool, free func()) {
	t.Helper()
	o.Workers = max(o.Workers, 1)
	if o.Adaptive == nil {
		o.Adaptive = &Adaptive{}
	}
	p = newPool(t, o)
	return p, occupy(t, p, 1)
}

func submit(t *testing.T, p *Pool, r Runner) {
	t.Helper()
	if err := p.Submit(r); err != nil {
		t.Error(err)
	}
}

// TestClassesInOrder: the highest class runs first, and of one class what came first. What has no class comes right after the highest.
func TestClassesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, free := adaptivePool(t, Options{})
		var e ends
		submit(t, p, e.request(1, limit.Sheddable))
		submit(t, p, e.request(2, limit.Critical))
		submit(t, p, e.request(3, limit.SheddablePlus))
		submit(t, p, runFunc(func() { e.told(&request{n: 4}, nil) }))
		submit(t, p, e.request(5, limit.Critical))
		submit(t, p, e.request(6, limit.CriticalPlus))
		free()
		synctest.Wait()
		if want := []int{6, 4, 2, 5, 3, 1}; !slices.Equal(e.ran, want) {
			t.Errorf("ran %v, want %v", e.ran, want)
		}
	})
}

// TestNewestFirst: while something has waited for a tenth of a second, the newest of a class comes first; after the queue was empty the oldest again.
func TestNewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, free := adaptivePool(t, Options{Adaptive: &Adaptive{MaxWait: time.Hour}})
		var e ends
		for n := range 3 {
			submit(t, p, e.request(n, limit.Critical))
		}
		time.Sleep(lasting)
		free()
		synctest.Wait()
		free = occupy(t, p, 1)
		for n := range 3 {
			submit(t, p, e.request(n, limit.Critical))
		}
		free()
		synctest.Wait()
		if want := []int{2, 1, 0, 0, 1, 2}; !slices.Equal(e.ran, want) {
			t.Errorf("ran %v, want %v", e.ran, want)
		}
	})
}

// TestFullQueueByClass: a full queue gives up the oldest of the lowest class for a higher one, and refuses what is no higher until it is overloaded.
func TestFullQueueByClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, free := adaptivePool(t, Options{Name: "db", Queue: 3, Adaptive: &Adaptive{MaxWait: time.Hour}})
		var e ends
		submit(t, p, e.request(1, limit.Sheddable))
		submit(t, p, e.request(2, limit.SheddablePlus))
		submit(t, p, e.request(3, limit.Sheddable))
		submit(t, p, e.request(4, limit.Critical)) // for 1
		submit(t, p, e.request(5, limit.Critical)) // for 3
		submit(t, p, e.request(6, limit.Critical)) // for 2
		var full *LimitError
		if err := p.Submit(e.request(7, limit.Critical)); !errors.As(err, &full) || full.Limit != 3 || full.RetryAfter != DefaultMaxWait && full.RetryAfter <= 0 {
			t.Errorf("a full queue of the same class: %v", err)
		}
		if err := p.Submit(runFunc(func() {})); !errors.Is(err, ErrRejected) {
			t.Errorf("a full queue and what has no class: %v", err)
		}
		time.Sleep(lasting)
		submit(t, p, e.request(8, limit.Critical)) // for 4, the oldest
		free()
		synctest.Wait()
		if want := []int{8, 6, 5}; !slices.Equal(e.ran, want) {
			t.Errorf("ran %v, want %v", e.ran, want)
		}
		for _, n := range []int{1, 2, 3, 4} {
			if !errors.Is(e.err[n], ErrRejected) {
				t.Errorf("%d was told %v", n, e.err[n])
			}
		}
		if s := p.Stats(); s.Shed != 4 || s.Rejected != 2 || s.Queued != 0 || len(e.err) != 4 {
			t.Errorf("%+v, %v", s, e.err)
		}
	})
}

// TestWaitsTooLong: what no worker takes is told within 50 ms, although none comes to the queue.
func TestWaitsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, free := adaptivePool(t, Options{Name: "db"})
		defer free()
		var e ends
		from := time.Now()
		var told time.Duration
		r := e.request(1, limit.CriticalPlus)
		r.told = func(r *request, err error) {
			told = time.Since(from)
			e.told(r, err)
		}
		submit(t, p, r)
		time.Sleep(time.Minute)
		synctest.Wait()
		if told < DefaultMaxWait || told > 50*time.Millisecond {
			t.Errorf("told after %v", told)
		}
		if err := e.err[1]; err == nil || !strings.Contains(err.Error(), `pool "db": the wait for a worker, in milliseconds, is at its limit of 40`) {
			t.Error(err)
		}
		if s := p.Stats(); s.Shed != 1 || s.Queued != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestHopeless: what cannot be done before it is due is refused when a worker comes to it, and the next one runs.
func TestHopeless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Options{Workers: 1, Adaptive: &Adaptive{MaxWait: time.Hour}})
		var e ends
		slow := func() { time.Sleep(100 * time.Millisecond) }
		for n := range 3 { // it learns how long they take
			r := e.request(n, limit.Critical)
			r.run = slow
			submit(t, p, r)
			time.Sleep(time.Second)
		}
		free := occupy(t, p, 1)
		late, soon := e.request(3, limit.Critical), e.request(4, limit.Critical)
		late.due, soon.due = time.Now().Add(99*time.Millisecond), time.Now().Add(101*time.Millisecond)
		submit(t, p, late)
		submit(t, p, soon)
		free()
		synctest.Wait()
		if want := []int{0, 1, 2, 4}; !slices.Equal(e.ran, want) || !errors.Is(e.err[3], ErrRejected) {
			t.Errorf("ran %v, want %v; 3 was told %v", e.ran, want, e.err[3])
		}
	})
}

// TestRefuseBelow: classes below the least one are refused whatever room there is; what has no class is not.
func TestRefuseBelow(t *testing.T) {
	p := newPool(t, Options{Workers: 4, Adaptive: &Adaptive{}})
	p.RefuseBelow(limit.Critical)
	var e ends
	if err := p.Submit(e.request(1, limit.SheddablePlus)); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "the least rank of the classes that are taken is at its limit of 2") {
		t.Error(err)
	}
	submit(t, p, e.request(2, limit.Critical))
	submit(t, p, runFunc(func() {}))
	p.RefuseBelow(limit.Sheddable)
	submit(t, p, e.request(3, limit.Sheddable))
	submit(t, p, e.request(5, limit.Class(99))) // is none, and as good as the highest
	if _, err := p.Shutdown(context.Background()); err != nil || len(e.ran) != 3 {
		t.Errorf("%v, ran %v", err, e.ran)
	}
	fixed := newPool(t, Options{Workers: 1})
	fixed.RefuseBelow(limit.CriticalPlus)
	submit(t, fixed, e.request(4, limit.Sheddable))
}

// TestAdaptiveOptions: what cannot be is refused by its name and value.
func TestAdaptiveOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"MaxWait is -1s":         {Adaptive: &Adaptive{MaxWait: -time.Second}},
		"another Policy":         {Adaptive: &Adaptive{}, Policy: Discard(nil)},
		"Min is 9, with 4":       {Workers: 4, Adaptive: &Adaptive{Min: 9}},
		"Options.Min is -1: it ": {Workers: 4, Adaptive: &Adaptive{Min: -1}},
	} {
		if _, err := NewFixed(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
	p := newPool(t, Options{Name: "db", Workers: 4, Adaptive: &Adaptive{}})
	if err := p.Resize(8, 0); err == nil || !strings.Contains(err.Error(), `Workers is 8, but pool "db" is adaptive`) {
		t.Error(err)
	}
	if err := p.Resize(0, 7); err != nil || p.Stats().MaxQueue != 7 {
		t.Error(err, p.Stats().MaxQueue)
	}
}

// TestAdaptiveStops: what waits when the pool is stopped is returned, and nothing is told of it later.
func TestAdaptiveStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, free := adaptivePool(t, Options{})
		var e ends
		for n, class := range []limit.Class{limit.Sheddable, limit.Critical} {
			submit(t, p, e.request(n, class))
		}
		left := p.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		free()
		synctest.Wait()
		if len(left) != 2 || len(e.err)+len(e.ran) != 0 || p.Stats().Shed != 0 {
			t.Errorf("%d left, %v %v", len(left), e.err, e.ran)
		}
	})
}

// TestDrainSheds: a pool that drains refuses what waits too long, and ends.
func TestDrainSheds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, free := adaptivePool(t, Options{})
		var e ends
		submit(t, p, e.request(1, limit.Critical))
		go func() {
			time.Sleep(time.Minute)
			free()
		}()
		if left, err := p.Shutdown(context.Background()); err != nil || len(left) != 0 {
			t.Errorf("%d left, %v", len(left), err)
		}
		synctest.Wait()
		if e.err[1] == nil {
			t.Error("nobody was told")
		}
	})
}

// TestFindsItsLimit: under twice and ten times the load that its handlers can do, a pool finds how many of them to run. It does nearly what is possible, before and
// after the bottleneck has half its places; it tells everyone else soon; and what is critical is hardly held up.
func TestFindsItsLimit(t *testing.T) {
	for _, offered := range []float64{2, 10} {
		synctest.Test(t, func(t *testing.T) {
			const places, takes, most, run = 20, 10 * time.Millisecond, 200, 8 * time.Second
			p := newPool(t, Options{Workers: most, Queue: 1000, Adaptive: &Adaptive{}})
			b := make(chan struct{}, places) // of the bottleneck, which does one thing after the other in each
			random := rand.New(rand.NewPCG(1, 2))
			var done, told, late atomic.Int64
			var mu sync.Mutex
			var critical []time.Duration
			load := offered
			offer := func(long time.Duration, capacity float64) float64 {
				done.Store(0)
				mu.Lock()
				critical = critical[:0]
				mu.Unlock()
				gap := time.Duration(float64(time.Second) / (load * capacity))
				for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(gap) {
					came, class := time.Now(), limit.Sheddable
					if random.Float64()*load < 0.05 { // a twentieth of what is possible, whatever the load
						class = limit.CriticalPlus
					}
					d := takes/2 + time.Duration(random.Int64N(int64(takes)))
					r := &request{class: class, run: func() {
						b <- struct{}{}
						time.Sleep(d)
						<-b
					}}
					r.told = func(_ *request, err error) {
						d := time.Since(came)
						switch {
						case err == nil:
							done.Add(1)
							if class == limit.CriticalPlus {
								mu.Lock()
								critical = append(critical, d)
								mu.Unlock()
							}
						case d > 50*time.Millisecond:
							late.Add(1)
						default:
							told.Add(1)
						}
					}
					if p.Submit(r) != nil {
						told.Add(1)
					}
				}
				return float64(done.Load()) / (long.Seconds() * capacity)
			}
			const capacity = places / 0.01
			part := func(of100 int) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				slices.Sort(critical)
				return critical[len(critical)*of100/100]
			}
			load = 0.5
			offer(run, capacity)
			undisturbed := part(99)
			load = offered
			offer(run, capacity)
			if good := offer(run, capacity); good < 0.9 || p.Stats().MaxWorkers > 2*places {
				t.Errorf("load %v: %.2f of what is possible, with a limit of %d", offered, good, p.Stats().MaxWorkers)
			}
			if d := part(99); d > undisturbed*6/5 {
				t.Errorf("load %v: what is critical took %v, p99, and %v undisturbed", offered, d, undisturbed)
			}
			t.Logf("load %v: what is critical took %v, p50, %v, p99, %v undisturbed, limit %d", offered, part(50), part(99), undisturbed, p.Stats().MaxWorkers)
			for range places / 2 {
				b <- struct{}{}
			}
			offer(run, capacity/2)
			if good := offer(run, capacity/2); good < 0.9 || p.Stats().MaxWorkers > places {
				t.Errorf("load %v, half the places: %.2f of what is possible, with a limit of %d", offered, good, p.Stats().MaxWorkers)
			}
			for range places / 2 {
				<-b
			}
			offer(run/2, capacity)
			if good := offer(run, capacity); good < 0.9 {
				t.Errorf("load %v, all places again: %.2f of what is possible, with a limit of %d", offered, good, p.Stats().MaxWorkers)
			}
			if late.Load() > 0 || told.Load() == 0 {
				t.Errorf("load %v: %d were told late, %d in time", offered, late.Load(), told.Load())
			}
		})
	}
}

// TestParkedDoNotCount: a runner that waits for its client is not in progress, and its time says nothing of the pool.
func TestParkedDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Options{Workers: 2, Adaptive: &Adaptive{}})
		var e ends
		var pl Place
		r := &parkedRequest{request: e.request(1, limit.Critical), place: &pl}
		r.run = func() {
			pl.Leave()
			time.Sleep(time.Minute)
			pl.Return()
		}
		submit(t, p, r)
		for n := range 5 {
			r := e.request(n+2, limit.Critical)
			r.run = func() { time.Sleep(10 * time.Millisecond) }
			submit(t, p, r)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if mean := p.adaptive.c.Mean(); mean != 10*time.Millisecond || len(e.ran) != 6 {
			t.Errorf("runners take %v, %d ran", mean, len(e.ran))
		}
	})
}

type parkedRequest struct {
	*request
	place *Place
}

func (r *parkedRequest) Place() *Place { return r.place }

// TestShedOrRun: whatever happens to a pool, each request that it took is run, refused or returned, once.
func TestShedOrRun(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 3))
			p := newPool(t, Options{Workers: 3, Queue: 8, Adaptive: &Adaptive{MaxWait: 4 * time.Millisecond}})
			var ended [2000]atomic.Int32
			taken := 0
			for n := range ended {
				r := &request{n: n, class: limit.Sheddable + limit.Class(random.IntN(limit.Classes)), told: func(r *request, _ error) { ended[r.n].Add(1) }}
				d := time.Duration(random.IntN(3)) * time.Millisecond
				r.run = func() { time.Sleep(d) }
				if random.IntN(4) == 0 {
					r.due = time.Now().Add(time.Duration(random.IntN(6)) * time.Millisecond)
				}
				if p.Submit(r) == nil {
					taken++
				} else {
					ended[n].Add(1)
				}
				if random.IntN(3) == 0 {
					time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
				}
			}
			for _, r := range p.Close() {
				ended[r.(*request).n].Add(1)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for n := range ended {
				if k := ended[n].Load(); k != 1 {
					t.Errorf("seed %d: request %d ended %d times", seed, n, k)
				}
			}
			if s := p.Stats(); s.Shed == 0 || s.Queued != 0 || s.Running != 0 || taken == 0 {
				t.Errorf("seed %d: %+v", seed, s)
			}
		})
	}
}
