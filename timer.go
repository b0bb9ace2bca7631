package eddy

import (
	"container/heap"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/wheel"
)

// timerState says which goroutine may touch a timer's function.
type timerState = int32

const (
	timerArmed   timerState = iota // the goroutine that changes this state, to fire or to stop
	timerFiring                    // the loop
	timerStopped                   // nobody; the timer will not run again
	timerSpent                     // nobody; the timer has run
)

// Timer is a function that runs on a loop at a later time, once or periodically. Context.After and Loop.After make one.
// Timers of a loop run in the order of their deadlines; equal deadlines run in the order of the calls that made them.
type Timer struct {
	loop  *loop
	conn  *Conn // nil for a timer of the loop itself
	f     func()
	when  int64
	seq   uint64
	state atomic.Int32

	period time.Duration // 0 = once
	drift  bool          // the period begins at the end of each run

	next, prev *Timer // the connection's other timers
}

// Stop prevents the timer from running (again) and reports whether it did. False means that a one-shot timer has run or
// is running, or that the timer was stopped before. Stop does not wait for a run that has begun. Any goroutine. An armed
// timer's function is released at once, the timer itself some time later.
func (t *Timer) Stop() bool {
	for {
		s := t.state.Load()
		switch {
		case s == timerArmed && t.state.CompareAndSwap(s, timerStopped):
			t.f = nil
			t.loop.timers.stopped.Add(1)
			return true
		case s == timerFiring && t.period > 0 && t.state.CompareAndSwap(s, timerStopped):
			return true
		case s == timerStopped || s == timerSpent || s == timerFiring && t.period == 0:
			return false
		}
	}
}

// after schedules f on the loop, for c, or for the loop itself when c is nil. Loop only.
func (l *loop) after(c *Conn, d time.Duration, f func()) (*Timer, error) {
	if c != nil && c.phase == PhaseClosed {
		return nil, c.closedError()
	}
	t, err := l.newTimer("After", d, f)
	if err != nil {
		return nil, err
	}
	t.conn = c
	l.addTimer(t)
	return t, nil
}

// newTimer makes a timer that is not armed yet. Any goroutine.
func (l *loop) newTimer(call string, d time.Duration, f func()) (*Timer, error) {
	if d < 0 || f == nil {
		return nil, fmt.Errorf("eddy: %s(%v): the time must not be negative and the function not nil", call, d)
	}
	return &Timer{loop: l, f: f, when: wheel.After(l.clock.Now(), d), seq: l.timers.sequence.Add(1)}, nil
}

// addTimer arms t.
func (l *loop) addTimer(t *Timer) {
	if t.state.Load() != timerArmed { // stopped on its way here
		l.timers.stopped.Add(-1)
		return
	}
	heap.Push(&l.timers, t)
	if t.conn != nil {
		t.conn.linkTimer(t)
	}
}

// runTimers runs the timers that are due, at most limit of them. Part of the deadline phase.
func (l *loop) runTimers(limit int) {
	q := &l.timers
	if len(q.heap) == 0 {
		return
	}
	q.prune()
	for ; limit > 0 && len(q.heap) > 0 && q.heap[0].when <= l.now; limit-- {
		l.fireTimer(heap.Pop(q).(*Timer))
	}
}

func (l *loop) fireTimer(t *Timer) {
	c := t.conn
	if c != nil {
		c.unlinkTimer(t)
	}
	if !t.state.CompareAndSwap(timerArmed, timerFiring) {
		l.timers.stopped.Add(-1)
		return
	}
	l.counters[countTimers]++
	f := t.f
	if t.period == 0 {
		t.f, t.conn = nil, nil
		t.state.Store(timerSpent)
	} else {
		defer l.rearm(t)
	}
	defer l.contain(c)
	l.serving.Store(c)
	f()
	if c != nil {
		l.afterActivity(c)
	}
}

// rearm schedules the next run of a periodic timer. At a fixed rate, missed deadlines are skipped, so that no burst
// follows a stall; later ones keep their places in the grid.
func (l *loop) rearm(t *Timer) {
	now := l.clock.Now()
	switch missed := now - t.when; {
	case t.drift:
		t.when = wheel.After(now, t.period)
	default:
		missed = max(missed, 0)
		t.when = wheel.After(t.when+missed-missed%int64(t.period), t.period)
	}
	t.seq = l.timers.sequence.Add(1)
	if l.stopping || !t.state.CompareAndSwap(timerFiring, timerArmed) {
		t.f = nil
		return
	}
	heap.Push(&l.timers, t)
}

// timerQueue is a loop's heap of timers. Stopped timers stay in it until they come up or are too many.
type timerQueue struct {
	heap     []*Timer
	sequence atomic.Uint64 // any goroutine
	stopped  atomic.Int64  // in the heap or on their way to it; any goroutine
}

// next returns the deadline of the first timer that was not stopped.
func (q *timerQueue) next() (when int64, ok bool) {
	for len(q.heap) > 0 {
		first := q.heap[0]
		if first.state.Load() == timerArmed {
			return first.when, true
		}
		q.forget(heap.Pop(q).(*Timer))
	}
	return 0, false
}

// prune removes stopped timers when they are most of the heap, which keeps the cost at one step per timer.
func (q *timerQueue) prune() {
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
func (q *timerQueue) forget(t *Timer) {
	q.stopped.Add(-1)
	if t.conn != nil {
		t.conn.unlinkTimer(t)
	}
}

// Len, Less, Swap, Push and Pop make the queue a heap.Interface.
func (q *timerQueue) Len() int { return len(q.heap) }
func (q *timerQueue) Less(i, j int) bool {
	a, b := q.heap[i], q.heap[j]
	return a.when < b.when || a.when == b.when && a.seq < b.seq
}
func (q *timerQueue) Swap(i, j int) { q.heap[i], q.heap[j] = q.heap[j], q.heap[i] }
func (q *timerQueue) Push(t any)    { q.heap = append(q.heap, t.(*Timer)) }
func (q *timerQueue) Pop() any {
	last := len(q.heap) - 1
	t := q.heap[last]
	q.heap[last] = nil
	q.heap = q.heap[:last]
	return t
}

func (c *Conn) linkTimer(t *Timer) {
	x := c.extend()
	t.next = x.timers
	if t.next != nil {
		t.next.prev = t
	}
	x.timers = t
}

func (c *Conn) unlinkTimer(t *Timer) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		c.ext.Load().timers = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.next, t.prev, t.conn = nil, nil, nil
}

// stopTimers stops the timers of a closed connection, because a timer that is far off must not keep it in memory.
func (c *Conn) stopTimers() {
	x := c.ext.Load()
	for x != nil && x.timers != nil {
		t := x.timers
		c.unlinkTimer(t)
		t.Stop()
	}
}
