package reactor

import (
	"container/heap"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/wheel"
)

// timerState says who may touch a timer's function.
type timerState = int32

const (
	timerArmed   timerState = iota // whoever changes this state, to fire the timer or to stop it
	timerFiring                    // the loop
	timerStopped                   // nobody: the timer will not run again
	timerSpent                     // nobody: the timer has run
)

// Owner is whose timers end with it, a connection. It keeps them in a list, which the loop maintains.
type Owner interface {
	TimerList() *list.List[Timer]
}

// Timer is a function that runs on a loop at a later time, once or again and again. Timers of a loop run in the order of
// their deadlines, and those with equal deadlines in the order of the calls that made them.
type Timer struct {
	queue *Timers
	owner Owner // nil for the loop's own
	f     func()
	when  int64
	seq   uint64
	state atomic.Int32

	period time.Duration // 0 = once
	drift  bool          // the period begins at the end of a run

	place list.Place[Timer] // among the owner's
}

// Stop prevents the timer from running (again) and reports whether it did. False means that a timer that runs once has run
// or is running, or that the timer was stopped before. A run that has begun is not waited for. The function is let go at
// once, and the loop forgets the timer itself some time later. Any goroutine.
func (t *Timer) Stop() bool {
	for {
		s := t.state.Load()
		switch {
		case s == timerArmed && t.state.CompareAndSwap(s, timerStopped):
			t.f = nil
			t.queue.stopped.Add(1)
			return true
		case s == timerFiring && t.period > 0 && t.state.CompareAndSwap(s, timerStopped):
			return true
		case s == timerStopped || s == timerSpent || s == timerFiring && t.period == 0:
			return false
		}
	}
}

// When returns the time at which the timer is due.
func (t *Timer) When() int64 { return t.when }

// Owner returns whose timer it is, nil for the loop's own and for one that has been let go. Loop only.
func (t *Timer) Owner() Owner { return t.owner }

// After schedules f for its owner, or for the loop itself when o is nil. Loop only.
func (l *Loop[T]) After(o Owner, d time.Duration, f func()) (*Timer, error) {
	t, err := l.NewTimer("After", d, f)
	if err != nil {
		return nil, err
	}
	t.owner = o
	l.AddTimer(t)
	return t, nil
}

// NewTimer makes a timer that is not armed yet. Any goroutine.
func (l *Loop[T]) NewTimer(call string, d time.Duration, f func()) (*Timer, error) {
	if d < 0 || f == nil {
		return nil, fmt.Errorf("eddy: %s(%v): the time must not be negative and the function not nil", call, d)
	}
	q := &l.Timers
	return &Timer{queue: q, f: f, when: wheel.After(l.Clock.Now(), d), seq: q.sequence.Add(1)}, nil
}

// Repeat makes a timer that is not armed yet a periodic one. With drift the period begins at the end of a run.
func (t *Timer) Repeat(period time.Duration, drift bool) { t.period, t.drift = period, drift }

// AddTimer arms t. Loop only.
func (l *Loop[T]) AddTimer(t *Timer) {
	if t.state.Load() != timerArmed { // stopped on its way here
		l.Timers.stopped.Add(-1)
		return
	}
	heap.Push(&l.Timers, t)
	if t.owner != nil {
		t.owner.TimerList().Push(&t.place, t)
	}
}

// RunTimers runs what is due, at most so many timers. Part of the resident's deadline phase.
func (l *Loop[T]) RunTimers(limit int) {
	q := &l.Timers
	if len(q.heap) == 0 {
		return
	}
	q.prune()
	for ; limit > 0 && len(q.heap) > 0 && q.heap[0].when <= l.Now; limit-- {
		l.fire(heap.Pop(q).(*Timer))
	}
}

func (l *Loop[T]) fire(t *Timer) {
	o := t.owner
	if o != nil {
		t.unlink()
	}
	if !t.state.CompareAndSwap(timerArmed, timerFiring) {
		l.Timers.stopped.Add(-1)
		return
	}
	l.Counters[meter.Timers]++
	f := t.f
	if t.period == 0 {
		t.f = nil
		t.state.Store(timerSpent)
	} else {
		defer l.rearm(t)
	}
	l.up.Call(o, f)
}

// rearm schedules the next run of a periodic timer. At a fixed rate the deadlines that passed in the meantime are left
// out, so that a stall is not followed by a burst, and the later ones keep their places in the grid.
func (l *Loop[T]) rearm(t *Timer) {
	now := l.Clock.Now()
	switch missed := now - t.when; {
	case t.drift:
		t.when = wheel.After(now, t.period)
	default:
		missed = max(missed, 0)
		t.when = wheel.After(t.when+missed-missed%int64(t.period), t.period)
	}
	t.seq = l.Timers.sequence.Add(1)
	if l.Stopping || !t.state.CompareAndSwap(timerFiring, timerArmed) {
		t.f = nil
		return
	}
	heap.Push(&l.Timers, t)
}

// Timers is a loop's heap of timers. Stopped ones stay in it until they come up or are too many.
type Timers struct {
	heap     []*Timer
	sequence atomic.Uint64 // any goroutine
	stopped  atomic.Int64  // in the heap or on their way to it; any goroutine
}

// Next returns the deadline of the first timer that was not stopped. Loop only.
func (q *Timers) Next() (when int64, ok bool) {
	for len(q.heap) > 0 {
		first := q.heap[0]
		if first.state.Load() == timerArmed {
			return first.when, true
		}
		q.forget(heap.Pop(q).(*Timer))
	}
	return 0, false
}

// All returns the timers that are armed, and those that were stopped not long ago. Loop only, for checks.
func (q *Timers) All() []*Timer { return q.heap }

// prune removes stopped timers when they are most of the heap, which makes it one step per timer.
func (q *Timers) prune() {
	const worthwhile = 64
	if n := q.stopped.Load(); n < worthwhile || int(n) <= len(q.heap)/2 {
		return
	}
	live := q.heap[:0]
	for _, t := range q.heap {
		if t.state.Load() == timerArmed {
			live = append(live, t)
		} else {
			q.forget(t)
		}
	}
	clear(q.heap[len(live):])
	q.heap = live
	heap.Init(q)
}

// forget lets go of a stopped timer that has left the heap.
func (q *Timers) forget(t *Timer) {
	q.stopped.Add(-1)
	if t.owner != nil {
		t.unlink()
	}
}

// Len, Less, Swap, Push and Pop make the queue a heap.Interface.
func (q *Timers) Len() int { return len(q.heap) }

// Less puts the earlier timer first, and of two with one deadline the older.
func (q *Timers) Less(i, j int) bool {
	a, b := q.heap[i], q.heap[j]
	return a.when < b.when || a.when == b.when && a.seq < b.seq
}

// Swap is heap.Interface's.
func (q *Timers) Swap(i, j int) { q.heap[i], q.heap[j] = q.heap[j], q.heap[i] }

// Push is heap.Interface's.
func (q *Timers) Push(t any) { q.heap = append(q.heap, t.(*Timer)) }

// Pop is heap.Interface's.
func (q *Timers) Pop() any {
	last := len(q.heap) - 1
	t := q.heap[last]
	q.heap[last] = nil
	q.heap = q.heap[:last]
	return t
}

func (t *Timer) unlink() {
	t.owner.TimerList().Remove(&t.place)
	t.owner = nil
}

// StopAll ends the timers of a list, whose owner has ended. A timer that is far off must not keep its owner in memory.
func StopAll(timers *list.List[Timer]) {
	for t := range timers.All() {
		t.unlink()
		t.Stop()
	}
}
