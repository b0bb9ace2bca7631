package executor

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/limit"
)

const (
	// DefaultMaxWait is Adaptive.MaxWait if the options do not say. Whoever is refused learns it within 50 ms.
	DefaultMaxWait = 40 * time.Millisecond

	looksPerWait = 4                      // looks for what has waited too long, in a MaxWait
	lasting      = 100 * time.Millisecond // for which something must have waited until the newest comes first
	leastRetry   = 10 * time.Millisecond  // of the advice to come back
	mostRetry    = 10 * time.Second
)

// Adaptive makes a pool find by itself how many runners it should run at once, and refuse what it cannot serve in time. Options.Workers is the upper bound then. The
// zero value is usable.
//
// A Sheddable that ends after its Due, or calls Place.Waste, was of no use to anybody. Where less at once leaves fewer of those, the pool runs less at once.
//
// Runners that are Sheddable wait by class. Of one class the oldest comes first, and the newest while the pool is overloaded: what has waited long is given up by its
// client soonest. Others, such as the turns of strands, are never refused, and their time teaches the pool nothing.
type Adaptive struct {
	Min     int              // runners that may always run; 0 = 1
	MaxWait time.Duration    // that a Sheddable waits for a worker at most; 0 = DefaultMaxWait
	Now     func() time.Time // nil = time.Now
}

// Sheddable is a Runner that an adaptive pool may refuse after it has taken it. The pool calls Run or Shed, once; a pool that is stopped treats it like other runners.
type Sheddable interface {
	Runner
	// Class says how much the runner matters. It does not change.
	Class() limit.Class
	// Due returns until when the runner must have run to be of use; zero = always. A time in the past means that there is nothing to run any more.
	Due() time.Time
	// Shed is called in place of Run. err is a *LimitError. Any goroutine calls Shed; it must not block.
	Shed(err error)
}

// adaptive is what an adaptive pool has besides. Under the pool's lock, but for the atomics.
type adaptive struct {
	o        Adaptive
	c        *limit.Concurrency
	offered  int // runners submitted since the limit was set last
	set      time.Time
	timer    *time.Timer
	timing   bool
	refused  []refusal // to be told without the lock
	waited   error     // answers of the moment
	hopeless error
	floor    limit.Class // least one that is taken
	low      error       // answer to those below
	shed     atomic.Uint64
	wasted   atomic.Uint64
	after    atomic.Int64 // advice of the moment, as a time.Duration
}

type refusal struct {
	r   Sheddable
	err error
}

// newAdaptive checks the options of an adaptive pool.
func newAdaptive(o *Options) (*adaptive, error) {
	a := &adaptive{o: *o.Adaptive, floor: limit.Sheddable}
	if a.o.MaxWait == 0 {
		a.o.MaxWait = DefaultMaxWait
	}
	if a.o.Now == nil {
		a.o.Now = time.Now
	}
	switch {
	case a.o.MaxWait < 0:
		return nil, fmt.Errorf("executor: Options.Adaptive.MaxWait is %v, below 0", a.o.MaxWait)
	case o.Policy.kind != abort:
		return nil, fmt.Errorf("executor: Options.Adaptive: the pool refuses by class and cannot have another Policy")
	}
	var err error
	if a.c, err = limit.NewConcurrency(limit.Options{Min: a.o.Min, Max: o.Workers}); err != nil {
		return nil, fmt.Errorf("executor: Options.Adaptive: Min is %d, with %d Workers: %w", a.o.Min, o.Workers, err)
	}
	return a, nil
}

// RefuseBelow makes an adaptive pool refuse Sheddables of classes below c, whatever room there is. limit.Sheddable ends that. Other pools ignore it. Any goroutine.
func (p *Pool) RefuseBelow(c limit.Class) {
	if p.adaptive == nil {
		return
	}
	p.mu.Lock()
	p.adaptive.floor = c
	p.answers()
	p.mu.Unlock()
}

// RetryAfter returns when a request that the pool has refused may be tried again, as the pool sees it at this moment; 0 if the pool is not adaptive. Any goroutine.
func (p *Pool) RetryAfter() time.Duration {
	if p.adaptive == nil {
		return 0
	}
	return time.Duration(p.adaptive.after.Load())
}

// adapt sets the limit of the moment, and what is told to those who are refused. p.mu is held.
func (p *Pool) adapt(now time.Time) {
	a := p.adaptive
	p.limit(a.c.Limit(), p.o.Queue)
	for _, w := range p.dropIdle(min(p.staff.live-p.o.Workers, len(p.staff.idle))) {
		w.next <- false // has room
	}
	a.after.Store(int64(a.retryAfter(p.queue.len(), now)))
	a.offered, a.set = 0, now
	p.answers()
}

// answers makes what is told to those who are refused, until the next change. p.mu is held.
func (p *Pool) answers() {
	a := p.adaptive
	after := time.Duration(a.after.Load())
	full := *p.full
	full.RetryAfter = after
	p.full = &full
	answer := func(what string, limit int) error {
		return &LimitError{Pool: p.o.Name, What: what, Limit: limit, RetryAfter: after}
	}
	a.waited = answer("the wait for a worker, in milliseconds,", int(a.o.MaxWait.Milliseconds()))
	a.hopeless = answer("the time until the answer would come, in milliseconds,", int(a.c.Mean().Milliseconds()))
	a.low = answer("the least rank of the classes that are taken", a.floor.Rank())
}

// retryAfter is how long it takes to serve what waits, longer by as much as more comes than is served.
func (a *adaptive) retryAfter(waiting int, now time.Time) time.Duration {
	rate, passed := a.c.Rate(), now.Sub(a.set).Seconds()
	if rate == 0 || passed <= 0 {
		return min(a.o.MaxWait, mostRetry)
	}
	over := max(float64(a.offered)/passed/rate, 1)
	after := time.Duration((float64(waiting)/rate + a.o.MaxWait.Seconds()) * over * float64(time.Second))
	return min(max(after, leastRetry), mostRetry)
}

// admits decides on a runner that is submitted, and makes room for it where something else matters less. p.mu is held.
func (p *Pool) admits(r Runner) error {
	a := p.adaptive
	a.offered++
	s, ok := r.(Sheddable)
	switch {
	case ok && s.Class() < a.floor:
		p.counts.rejected.Add(1)
		return a.low
	case p.room():
		return nil
	case ok && p.makeRoom(s.Class().Rank()):
		return nil
	}
	p.exhaust()
	return p.refuse()
}

// makeRoom refuses something that waits: the oldest of the lowest class below rank, or of the same while the newest comes first. p.mu is held.
func (p *Pool) makeRoom(rank int) bool {
	a, k := p.adaptive, p.queue.ranks
	low := k.lowest()
	if low > rank || low == rank && !a.overloaded(k, a.o.Now()) {
		return false
	}
	w, _ := k.take(low, false)
	p.queued.Add(-1)
	a.refuse(w.r, p.full)
	return true
}

// overloaded reports whether something has always waited for so long that it is no burst.
func (a *adaptive) overloaded(k *ranks, now time.Time) bool {
	return k.n > 0 && now.Sub(k.since) >= lasting
}

func (a *adaptive) refuse(r Sheddable, err error) {
	a.shed.Add(1)
	a.refused = append(a.refused, refusal{r, err})
}

// next takes what should run next, and refuses what cannot be of use any more. p.mu is held.
func (p *Pool) next() (Runner, bool) {
	a := p.adaptive
	if a == nil {
		return p.queue.pop()
	}
	now := a.o.Now()
	p.refuseOld(now)
	for {
		r, ok := p.queue.popRanked(a.overloaded(p.queue.ranks, now))
		s, may := r.(Sheddable)
		if !may {
			return r, ok
		}
		if due := s.Due(); due.IsZero() || due.Sub(now) >= a.c.Mean() {
			return r, true
		}
		p.queued.Add(-1)
		a.refuse(s, a.hopeless)
	}
}

// sheddable returns r as what an adaptive pool may refuse.
func (p *Pool) sheddable(r Runner) (Sheddable, bool) {
	if p.adaptive == nil {
		return nil, false
	}
	s, ok := r.(Sheddable)
	return s, ok
}

// refuseOld refuses what has waited too long. p.mu is held.
func (p *Pool) refuseOld(now time.Time) {
	a, k := p.adaptive, p.queue.ranks
	for rank := range k.waiting {
		for {
			w, ok := k.waiting[rank].peek()
			if !ok || now.Sub(w.from) < a.o.MaxWait {
				break
			}
			k.take(rank, false)
			p.queued.Add(-1)
			a.refuse(w.r, a.waited)
		}
	}
}

// wait puts a Sheddable in the backlog, and sees to it that it does not wait too long. p.mu is held.
func (p *Pool) wait(s Sheddable) {
	a := p.adaptive
	p.queue.ranks.push(s, a.o.Now())
	if a.timing || p.sim != nil {
		return
	}
	a.timing = true
	if a.timer == nil {
		a.timer = time.AfterFunc(a.o.MaxWait/looksPerWait, p.look)
		return
	}
	a.timer.Reset(a.o.MaxWait / looksPerWait)
}

// look refuses what has waited too long, also while no worker comes to the queue.
func (p *Pool) look() {
	p.mu.Lock()
	if a := p.adaptive; a.timing {
		p.refuseOld(a.o.Now())
		if a.timing = p.queue.ranks.n > 0; a.timing {
			a.timer.Reset(a.o.MaxWait / looksPerWait)
		}
	}
	p.endIfDone()
	p.unlock()
}

// rest ends the looks of a stopped pool. p.mu is held.
func (a *adaptive) rest() {
	if a.timing {
		a.timing = false
		a.timer.Stop()
	}
}

// unlock ends the time under the lock, and tells those that were refused in it.
func (p *Pool) unlock() {
	var refused []refusal
	if a := p.adaptive; a != nil && a.refused != nil {
		refused, a.refused = a.refused, nil
	}
	p.mu.Unlock()
	for _, f := range refused {
		p.tellShed(f)
	}
}

func (p *Pool) tellShed(f refusal) {
	defer p.contain()
	f.r.Shed(f.err)
}

// began notes that a worker begins with r. p.mu is held.
func (a *adaptive) began(w *worker, r Runner) {
	w.begun, w.due, w.vain = a.o.Now(), time.Time{}, false
	s, ok := r.(Sheddable)
	if w.timed = ok; ok {
		w.due = s.Due()
		w.timed = w.due.IsZero() || !w.due.Before(w.begun) // else it was given up after next has asked, and runs nothing
	}
	a.c.Begin(w.begun)
}

// finished notes that a worker has come to the end of a runner. p.mu is held.
func (p *Pool) finished(w *worker) {
	a := p.adaptive
	now := a.o.Now()
	if !w.timed {
		a.c.Leave(now)
		return
	}
	vain := w.vain || !w.due.IsZero() && !now.Before(w.due)
	if vain {
		a.wasted.Add(1)
	}
	if a.c.End(now, now.Sub(w.begun), !vain) {
		p.adapt(now)
	}
}
