package reactor

import (
	"math"
	"sync"
	"sync/atomic"
)

// The published wake state of a loop: awake, or the time on the loop's clock until which the loop sleeps.
const (
	awake        = 0
	SleepForever = math.MaxInt64
)

// Queue is a loop's bounded multi-producer queue. Producers append under a short lock, and the loop takes the whole batch by
// swapping slices. A published wake state lets producers make at most one wakeup between two waits.
type Queue[T any] struct {
	Limit int // bound of the tasks, and of the functions for the end of an iteration

	mu     sync.Mutex
	in     []T
	closed bool
	over   bool // nobody will take what is added

	out  []T // the loop's batch
	next int // first unrun task of out

	pending atomic.Int64 // submitted, not yet run
	until   atomic.Int64 // the published wake state
	wake    func()
	tail    tail
}

// Push appends t and wakes the loop if it sleeps. Errors: ErrSaturated, ErrClosed. Any goroutine.
func (q *Queue[T]) Push(t T) error { return q.push(t, q.Limit, awake) }

// PushControl is Push for tasks that ignore the limit. Each kind of them exists at most once per connection, which is bound
// enough. Losing one would lose a close or a resume.
func (q *Queue[T]) PushControl(t T) error { return q.push(t, math.MaxInt, awake) }

// PushTimed is Push for a task that has to be seen by the given time only. A loop that sleeps no longer than that is left
// asleep.
func (q *Queue[T]) PushTimed(t T, when int64) error { return q.push(t, q.Limit, when) }

func (q *Queue[T]) push(t T, limit int, when int64) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
	}
	if q.pending.Load() >= int64(limit) {
		q.mu.Unlock()
		return ErrSaturated
	}
	q.add(t)
	q.mu.Unlock()
	q.rouse(when)
	return nil
}

// PushLast is PushControl for tasks that a queue takes after its close, too, until its loop has ended.
func (q *Queue[T]) PushLast(t T) error {
	q.mu.Lock()
	if q.over {
		q.mu.Unlock()
		return ErrClosed
	}
	q.add(t)
	q.mu.Unlock()
	q.rouse(awake)
	return nil
}

func (q *Queue[T]) add(t T) {
	q.in = append(q.in, t)
	q.pending.Add(1)
}

// rouse wakes a loop that sleeps beyond when. Of the producers that find the loop asleep one makes the wakeup.
func (q *Queue[T]) rouse(when int64) {
	if until := q.until.Load(); until > when && q.until.CompareAndSwap(until, awake) {
		q.wake()
	}
}

// sleep publishes that the loop is going to wait until the given time and reports whether it may. A task that came before
// the publication is seen here, and one that comes after it wakes the loop.
func (q *Queue[T]) sleep(until int64) bool {
	q.until.Store(max(until, awake+1))
	if !q.Waiting() {
		return true
	}
	q.until.Store(awake)
	return false
}

// awaken publishes that the loop is running and reports whether a producer has done so already. It writes only when none
// has.
func (q *Queue[T]) awaken() (woken bool) {
	if q.until.Load() == awake {
		return true
	}
	q.until.Store(awake)
	return false
}

// Waiting reports whether the loop has tasks or functions to run. Any goroutine.
func (q *Queue[T]) Waiting() bool { return q.pending.Load() > 0 || q.tail.pending.Load() > 0 }

// Depth returns how many tasks wait. Any goroutine.
func (q *Queue[T]) Depth() int { return int(q.pending.Load()) }

// take returns the next task of the batch, swapping in a new batch when the old one is used up.
func (q *Queue[T]) take() (t T, ok bool) {
	if q.next == len(q.out) && (q.pending.Load() == 0 || !q.swap()) {
		return t, false
	}
	var none T
	t, q.out[q.next] = q.out[q.next], none
	q.next++
	q.pending.Add(-1)
	return t, true
}

// MaxIdleBatch is the capacity above which an emptied batch slice is given back to the collector.
const MaxIdleBatch = 4096

func (q *Queue[T]) swap() bool {
	empty := q.out[:0]
	if cap(empty) > MaxIdleBatch {
		empty = nil
	}
	q.mu.Lock()
	q.out, q.in = q.in, empty
	q.mu.Unlock()
	q.next = 0
	return len(q.out) > 0
}

// Close refuses every later task but those of PushLast. The loop still runs what was accepted.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}

// finish ends the queue for good, unless there is something in it.
func (q *Queue[T]) finish() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = !q.Waiting()
	return q.over
}

// Inspect calls f for every task that waits and returns how many functions wait for the end of the iteration. It holds the
// lock of the queue meanwhile. Loop only, for checks.
func (q *Queue[T]) Inspect(f func(T)) (tail int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, batch := range [][]T{q.out[q.next:], q.in} {
		for _, t := range batch {
			f(t)
		}
	}
	return len(q.tail.in) + len(q.tail.out) - q.tail.next
}

// tail holds the functions that run at the end of an iteration. They share the mutex, the bound and the wake state of the
// task queue.
type tail struct {
	in, out []func()
	next    int // first of out that has not run
	pending atomic.Int64
}

// PushTail takes f for the end of the iteration. Errors: ErrSaturated, ErrClosed. Any goroutine.
func (q *Queue[T]) PushTail(f func()) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
	}
	if q.tail.pending.Load() >= int64(q.Limit) {
		q.mu.Unlock()
		return ErrSaturated
	}
	q.tail.in = append(q.tail.in, f)
	q.tail.pending.Add(1)
	q.mu.Unlock()
	q.rouse(awake)
	return nil
}

// swapTail makes what was submitted so far the batch to run and returns how much that is.
func (q *Queue[T]) swapTail() int {
	t := &q.tail
	if t.next < len(t.out) { // a batch was cut short
		return len(t.out) - t.next
	}
	if t.pending.Load() == 0 {
		return 0
	}
	empty := t.out[:0]
	if cap(empty) > MaxIdleBatch {
		empty = nil
	}
	q.mu.Lock()
	t.out, t.in = t.in, empty
	q.mu.Unlock()
	t.next = 0
	return len(t.out)
}
