package executor

import (
	"context"
	"math"
	"runtime"
	"runtime/pprof"
)

const (
	// HandOff as Options.Queue means no queue: a runner is taken only if a worker is free, or may be started, for it.
	HandOff = -1

	// DefaultCached is the largest number of workers of a cached or eager pool whose Options.Workers is 0. The pools it
	// is modelled on have no such limit. A pool of this size takes about 100 MB when all its workers wait at the same
	// time.
	DefaultCached = 10000

	// DefaultLimited is the largest number of workers of a limited pool whose Options.Workers is 0.
	DefaultLimited = 200
)

// Every kind uses an idle worker if there is one, else starts one if it may, and only then lets a runner wait. So no kind runs a
// full queue on a single worker while it could grow, and an eager pool needs no queue that pretends to be full. The kinds
// differ in their defaults and in whether workers end.

// NewFixed returns a pool for a steady load. It has as many workers as processors and a queue of DefaultQueue, unless
// the options say otherwise. The error names the field of the options that is wrong.
func NewFixed(o Options) (*Pool, error) {
	return newPoolOf(o, Options{Workers: runtime.GOMAXPROCS(0), Queue: DefaultQueue})
}

// NewCached returns a pool for bursts of short work that waits: up to DefaultCached workers and no queue.
func NewCached(o Options) (*Pool, error) {
	return newPoolOf(o, Options{Workers: DefaultCached, Queue: HandOff})
}

// NewLimited returns a pool that grows to DefaultLimited workers, with no queue, and never shrinks. Options.Core is
// checked but has no effect.
func NewLimited(o Options) (*Pool, error) {
	p, err := newPoolOf(o, Options{Workers: DefaultLimited, Queue: HandOff})
	if err == nil {
		p.o.Core, p.keepsAll = p.o.Workers, true
	}
	return p, err
}

// NewEager returns a pool for work that is better started late than refused. The pool grows to DefaultCached workers
// before anything waits, and has a queue of DefaultQueue besides.
func NewEager(o Options) (*Pool, error) {
	return newPoolOf(o, Options{Workers: DefaultCached, Queue: DefaultQueue})
}

func newPoolOf(o, defaults Options) (*Pool, error) {
	if err := o.complete(defaults); err != nil {
		return nil, err
	}
	labels := pprof.Labels("eddy_pool", o.Name)
	p := &Pool{
		o:        o,
		labels:   pprof.WithLabels(context.Background(), labels),
		labelSet: labels,
		ended:    make(chan struct{}),
		staff:    staff{ids: make(map[uint64]struct{})},
	}
	if o.Adaptive == nil {
		p.limit(o.Workers, o.Queue)
		return p, nil
	}
	var err error
	if p.adaptive, err = newAdaptive(&o); err != nil {
		return nil, err
	}
	p.queue.ranks = new(ranks)
	p.adapt(p.adaptive.o.Now())
	return p, nil
}

// limit sets the limits of the pool. p.mu is held, or the pool is new.
func (p *Pool) limit(workers, queue int) {
	p.o.Workers, p.o.Queue = workers, queue
	p.maxWorkers.Store(int64(workers))
	p.maxQueue.Store(int64(queue))
	p.full = &LimitError{Pool: p.o.Name, What: "the queue of runners", Limit: queue}
	if queue == 0 {
		p.full = &LimitError{Pool: p.o.Name, What: "the number of workers", Limit: workers}
	}
	if p.keepsAll {
		p.o.Core = workers
	}
}

// orDefault replaces 0 by the kind's default, and HandOff by the 0 that the pool uses for no queue.
func orDefault(queue, kind int) int {
	if queue == 0 {
		queue = kind
	}
	return max(queue, 0)
}

// checkLimits reports whether a pool can have these limits. If not, it returns the field that is wrong and its value.
func checkLimits(workers, queue int) (field string, value int, ok bool) {
	switch {
	case workers < 0 || workers > math.MaxInt32:
		return "Workers", workers, false
	case queue < HandOff || queue > math.MaxInt32:
		return "Queue", queue, false
	}
	return "", 0, true
}

// surplus returns how many of n idle workers may end so that the pool keeps its core. p.mu is held.
func (p *Pool) surplus(n int) int { return max(min(n, p.staff.live-p.o.Core), 0) }
