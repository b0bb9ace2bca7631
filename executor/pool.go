package executor

import (
	"context"
	"fmt"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/simhook"
)

// Runner is a unit of work.
type Runner interface {
	// Run does the work on a goroutine of the pool. It may block.
	Run()
}

// Stats are the numbers of a pool. Each is exact, but they are read one after the other.
type Stats struct {
	Workers   int    // goroutines alive, without those of parked runners
	Running   int    // workers that run something
	Queued    int    // runners that no worker has taken yet
	Submitted uint64 // runners taken; each further turn of a strand or key counts again
	Completed uint64 // runners that ended, by panic too
	Rejected  uint64 // submissions refused because a limit of the pool, a strand or a key was reached
	Exhausted uint64 // submissions for which the pool had no room, whatever its policy made of them
	CallerRan uint64 // runners that ran on the goroutine that submitted them
	Discarded uint64 // runners dropped by Discard or DiscardOldest
	Waited    uint64 // submissions that waited for room, of which those that got none are in Rejected too
	Panics    uint64 // panics recovered
	Shed      uint64 // runners that an adaptive pool took and refused before they ran
	Wasted    uint64 // Sheddables that ran in an adaptive pool and were of no use to anybody

	Parked  int    // runners that have begun and wait without a worker's place, see Place
	Left    uint64 // times that a runner left its place
	Crowded uint64 // runners refused because of Options.Parked, or because of their owner's share of it

	MaxWorkers int // this and MaxQueue are the limits of Options or Resize, or what an adaptive pool has found; with a MaxQueue of 0 none waits
	MaxQueue   int
	MaxParked  int // with 0 none parks
}

// state is the phase of a pool. A pool passes through the phases in this order.
type state uint8

const (
	open     state = iota
	draining       // takes no new work, finishes what it has
	stopped        // starts nothing any more
)

// Pool runs runners on at most Options.Workers goroutines and lets at most Options.Queue of them wait, in the order of
// submission. Workers start on demand. NewFixed, NewCached, NewLimited and NewEager make one.
//
// A strand or key that gives its worker to others between two turns waits in the same queue. A full queue does not
// refuse such a turn, because it was admitted before.
//
// Any goroutine may call all methods. None blocks, except Shutdown, and Submit, SubmitFunc and SubmitContext if
// Options.Policy is CallerRuns or Block.
type Pool struct {
	labels   context.Context // the pprof label eddy_pool
	labelSet pprof.LabelSet
	keepsAll bool // Core follows Workers

	mu      sync.Mutex
	o       Options // only the limits in them change
	full    *LimitError
	state   state
	queue   backlog
	waiters fifo[*waiter]
	line    list.List[Room] // that wait for room, first come first told
	staff   staff
	alarm   alarm

	parking  parking
	adaptive *adaptive // nil = the limits are fixed

	held  int             // keys that wait for a done call
	sim   simhook.Workers // nil = workers are goroutines
	ended chan struct{}   // closed when the pool is closed and no worker is left

	closed  atomic.Bool // state != open
	workers atomic.Int64
	resting atomic.Int64
	queued  atomic.Int64
	counts  counts

	maxWorkers, maxQueue atomic.Int64 // copies of the limits
}

// staff are the workers of a pool. Under the pool's lock.
type staff struct {
	ids     map[uint64]struct{} // of the workers' goroutines
	idle    []*worker           // the last one is the warmest
	coming  int                 // workers called to the queue that have not looked at it yet: 0 or 1
	live    int                 // workers not told to end
	started int                 // workers ever started, when they are pinned
	unused  int                 // fewest idle workers since the timer was set
	timer   *time.Timer         // ends idle workers; set while there are any
	timing  bool
}

// alarm is what a pool knows of its reports of exhaustion. Under the pool's lock.
type alarm struct {
	running bool      // a goroutine reports exhaustion
	begun   time.Time // when the last report was
	seen    uint64    // value of counts.exhausted at that time
}

// counts are the numbers of a pool that only grow.
type counts struct {
	submitted, completed, rejected, exhausted, callerRan, discarded, waited, panics atomic.Uint64
}

// Submit hands r to a worker or lets it wait. When there is no room Options.Policy says
// what happens; by default it returns ErrRejected. It returns ErrClosed after Shutdown or
// Close. r must not be nil.
func (p *Pool) Submit(r Runner) error {
	if r == nil {
		panic("executor: Submit of a nil Runner")
	}
	p.mu.Lock()
	if p.o.Policy.kind != abort && p.state == open && !p.room() {
		p.mu.Unlock()
		return p.overflow(r)
	}
	return p.submit(r)
}

// submit takes or refuses r. p.mu is held when it is called, and not when it returns.
func (p *Pool) submit(r Runner) error {
	err := p.enqueue(r)
	w := p.call()
	p.unlock()
	w.look()
	return err
}

// submitTurn is Submit for the turn of a key, to which no policy applies.
func (p *Pool) submitTurn(r Runner) error {
	p.mu.Lock()
	return p.submit(r)
}

// enqueueQuietly is Submit without calling a worker, see Wake.
func (p *Pool) enqueueQuietly(r Runner) error {
	p.mu.Lock()
	defer p.unlock()
	return p.enqueue(r)
}

// Wake lets a worker look at what Strand.Enqueue and Pool.Enqueue have queued. It is cheap when there is nothing to do.
func (p *Pool) Wake() {
	if p.queued.Load() == 0 {
		return
	}
	p.mu.Lock()
	w := p.call()
	p.mu.Unlock()
	w.look()
}

// SubmitFunc is Submit for a function.
func (p *Pool) SubmitFunc(f func()) error {
	if f == nil {
		panic("executor: SubmitFunc of a nil function")
	}
	return p.Submit(runFunc(f))
}

type runFunc func()

func (f runFunc) Run() { f() }

// Adaptive reports whether the pool finds its limits by itself, see Options.Adaptive. Any goroutine.
func (p *Pool) Adaptive() bool { return p.adaptive != nil }

// Name returns Options.Name.
func (p *Pool) Name() string { return p.o.Name }

// Limits returns how many runners may run at once and how many may wait.
func (p *Pool) Limits() (workers, queue int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.o.Workers, p.o.Queue
}

// Stats returns the numbers of the pool without locking it.
func (p *Pool) Stats() Stats {
	workers := p.workers.Load()
	var shed, wasted uint64
	if p.adaptive != nil {
		shed, wasted = p.adaptive.shed.Load(), p.adaptive.wasted.Load()
	}
	return Stats{
		Workers:   int(workers),
		Running:   int(max(workers-p.resting.Load(), 0)),
		Queued:    int(p.queued.Load()),
		Submitted: p.counts.submitted.Load(),
		Completed: p.counts.completed.Load(),
		Rejected:  p.counts.rejected.Load(),
		Exhausted: p.counts.exhausted.Load(),
		CallerRan: p.counts.callerRan.Load(),
		Discarded: p.counts.discarded.Load(),
		Waited:    p.counts.waited.Load(),
		Panics:    p.counts.panics.Load(),
		Shed:      shed,
		Wasted:    wasted,

		Parked:  int(p.parking.now.Load()),
		Left:    p.parking.left.Load(),
		Crowded: p.parking.crowded.Load(),

		MaxWorkers: int(p.maxWorkers.Load()),
		MaxQueue:   int(p.maxQueue.Load()),
		MaxParked:  p.o.Parked,
	}
}

// Shutdown takes no more work, runs what waits and returns when the last worker has ended. Waiting items of strands and
// keys run too. Shutdown also waits for a key whose task has not called done. If ctx ends first, nothing further is
// started. Shutdown then returns the runners that never ran, as Close does, with an error that wraps the context's. A
// strand that is running finishes its items. Shutdown may be called again to wait for the rest.
//
// A task of the pool would wait for itself. Shutdown therefore returns ErrOnWorker to it and changes nothing.
func (p *Pool) Shutdown(ctx context.Context) (left []Runner, err error) {
	if p.OnWorker() {
		return nil, ErrOnWorker
	}
	p.stop(draining)
	if p.awaitEnd(ctx) {
		return nil, nil
	}
	left = p.stop(stopped)
	return left, fmt.Errorf("executor: shutdown of pool %q: %d workers busy, %d runners left, %d parked: %w",
		p.o.Name, p.workers.Load(), len(left), p.parking.now.Load(), ctx.Err())
}

// awaitEnd reports whether the last worker has ended before ctx.
func (p *Pool) awaitEnd(ctx context.Context) bool {
	if p.sim != nil {
		return p.sim.Await(p.ended, ctx.Done())
	}
	select {
	case <-p.ended:
		return true
	case <-ctx.Done():
	}
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Close takes no more work, starts nothing any more and returns the runners that waited. Jobs, and strands that have
// dropped their items, are not among them; see Job.Drop and Strand.DropWith. Tasks that run go on, and Shutdown waits
// for them. A later Close returns nil.
func (p *Pool) Close() []Runner { return p.stop(stopped) }

// room reports whether the queue can take a runner. The queue takes Options.Queue of them, besides those that a free
// worker can take at once. p.mu is held.
func (p *Pool) room() bool { return p.places() > 0 }

// places is how many more runners there is room for. p.mu is held.
func (p *Pool) places() int {
	return p.o.Queue + len(p.staff.idle) + p.staff.coming + max(p.o.Workers-p.staff.live, 0) - p.queue.len()
}

// enqueue takes r if there is room. p.mu is held.
func (p *Pool) enqueue(r Runner) error {
	if p.state != open {
		return ErrClosed
	}
	if p.adaptive == nil && !p.room() {
		p.exhaust()
		return p.refuse()
	}
	if !p.spacious() {
		if err := p.refuseCrowd(r); err != nil {
			return err
		}
	}
	if p.adaptive != nil {
		if err := p.admits(r); err != nil {
			return err
		}
	}
	p.push(r)
	return nil
}

func (p *Pool) push(r Runner) {
	if s, ok := p.sheddable(r); ok {
		p.wait(s)
	} else {
		p.queue.plain.push(r)
	}
	p.queued.Add(1)
	p.counts.submitted.Add(1)
}

// resume queues the next turn of work that was admitted before, whatever the length
// of the queue. It returns false when the pool is stopped.
func (p *Pool) resume(r Runner) bool {
	p.mu.Lock()
	if p.state == stopped {
		p.mu.Unlock()
		return false
	}
	p.push(r)
	w := p.call()
	p.mu.Unlock()
	w.look()
	return true
}

// yield queues r, the runner that the caller's worker is about to leave, behind those that wait. It returns false when
// the worker may as well go on with r, because nobody waits or the pool is stopped.
func (p *Pool) yield(r Runner) bool {
	if p.queued.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == stopped || p.queue.len() == 0 {
		return false
	}
	p.push(r)
	return true
}

// hold keeps a draining pool from ending until unhold is called.
func (p *Pool) hold() {
	p.mu.Lock()
	p.held++
	p.mu.Unlock()
}

// unhold undoes hold.
func (p *Pool) unhold() {
	p.mu.Lock()
	p.held--
	p.endIfDone()
	p.mu.Unlock()
}

// stop moves the pool to the state to, if that is a later one, and tells idle workers to end. In the state stopped it
// takes the queue and returns the runners that nobody else is told about.
func (p *Pool) stop(to state) (left []Runner) {
	p.mu.Lock()
	p.state = max(p.state, to)
	p.closed.Store(true)
	p.dismiss()
	if p.state == stopped {
		for r, ok := p.queue.pop(); ok; r, ok = p.queue.pop() {
			left = append(left, r)
		}
		p.queued.Store(0)
		if p.adaptive != nil {
			p.adaptive.rest()
		}
	}
	last := p.call() // for runners that were queued without waking a worker
	ending := p.staff.idle
	p.staff.idle = nil
	p.leave(len(ending))
	p.resting.Store(0)
	if p.staff.timing {
		p.staff.timer.Stop()
		p.staff.timing = false
	}
	told := p.offer()
	p.endIfDone()
	p.mu.Unlock()
	last.look()
	for _, w := range ending {
		w.next <- false
	}
	tellAll(told)
	return p.dropKept(left)
}

// endIfDone closes p.ended once the closed pool has no runner, no worker and no report left. p.mu is held.
func (p *Pool) endIfDone() {
	if p.state == open || p.staff.live > 0 || p.parking.now.Load() > 0 || p.alarm.running || p.queue.len() > 0 || p.state == draining && p.held > 0 {
		return
	}
	p.state = stopped
	select {
	case <-p.ended:
	default:
		close(p.ended)
	}
}
