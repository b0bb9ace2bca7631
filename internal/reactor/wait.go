package reactor

import (
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
)

// Decision is what a strategy chooses.
type Decision uint8

const (
	// Block waits for an event, a task or the next deadline, whatever comes first.
	Block Decision = iota
	// Continue goes on without asking the poller: tasks and deadlines are served, no I/O is.
	Continue
	// BusyWait asks the poller without waiting.
	BusyWait
)

// Strategy chooses what a loop does next. timeout is the time until the next deadline, negative when there is none; empty is
// how many polls in a row brought nothing.
type Strategy func(timeout time.Duration, empty int) Decision

// waits is what the loop knows of its waits.
type waits struct {
	strategy  Strategy
	empty     int   // polls in a row that brought nothing
	premature int   // waits in a row that returned early
	polled    bool  // the poller was asked in this iteration and answered
	yielded   int64 // when the loop last slept or yielded
	trust     int   // in yields before a sleep: how many may still bring no task
	skips     int   // sleeps without a yield, since there is no trust
	passed    bool  // the poller was not asked before the tasks of the last yield
}

// Polled reports whether the poller was asked in this iteration and answered.
func (l *Loop[T]) Polled() bool { return l.waits.polled }

// Wait is the phase that polls, and sleeps when there is nothing to do until the next deadline, an event or a task. It
// also ends the accounts of the iteration before. It returns the number of events.
func (l *Loop[T]) Wait() int {
	begin := l.Clock.Now()
	l.account(begin)
	timeout, until := l.waitTimeout(begin)
	l.waits.polled = false
	if timeout != 0 {
		switch l.decide(timeout) {
		case Continue:
			l.resumed(l.Clock.Now())
			return 0
		case BusyWait:
			timeout = 0
		}
	}
	if timeout != 0 && l.tasksAfterYield() {
		if !l.waits.passed {
			l.waits.passed = true
			l.resumed(l.Clock.Now())
			return 0
		}
		timeout = 0
	}
	l.waits.passed = false
	if l.health.retryAt > begin {
		return l.waitWithoutPoller(begin, timeout)
	}
	n, err := l.poll(begin, timeout, until)
	if err != nil {
		l.pollFailed(err)
		return 0
	}
	l.waits.polled = true
	l.Counters[meter.Events] += uint64(n)
	if n > 0 {
		l.waits.empty = 0
	} else {
		l.waits.empty++
	}
	return n
}

// poll asks the poller for events and waits for them until the given time, if timeout is not 0.
func (l *Loop[T]) poll(begin int64, timeout time.Duration, until int64) (int, error) {
	if timeout == 0 {
		l.yield(begin)
		n, err := l.Poller.Wait(l.events, 0)
		l.resumed(l.Clock.Now())
		return n, err
	}
	l.Vitals.BusyFrom.Store(0)
	if l.Set.Spin != 0 {
		if n, err, over := l.spin(begin, until); over {
			l.resumed(l.Clock.Now())
			return n, err
		}
	}
	if !l.Tasks.sleep(until) {
		timeout = 0
	}
	n, err := l.Poller.Wait(l.events, timeout)
	woken := l.Tasks.awaken()
	l.resumed(l.Clock.Now())
	l.waits.yielded = l.Now
	if err == nil && timeout != 0 {
		l.judgeWait(n, woken, until)
	}
	return n, err
}

const (
	// maxTrust is how many yields in a row may bring no task before the loop sleeps without one.
	maxTrust = 16
	// trustGained is what a yield that brought a task adds.
	trustGained = 4
	// probeEvery is how many sleeps there are for each yield of a loop without trust. It is a prime number, because a loop
	// that serves one caller hands out work before every second sleep.
	probeEvery = 61
)

// tasksAfterYield lets the goroutines run that this loop has woken, before the loop sleeps, and reports whether they have
// left tasks. A task that is found this way costs neither a sleep nor a wakeup, nor does the poller have to be asked. Loops
// whose yields bring nothing hardly yield. A pinned loop has a processor of its own.
func (l *Loop[T]) tasksAfterYield() bool {
	w := &l.waits
	if l.Kernel.Yield == nil || l.Set.Pinned {
		return false
	}
	if w.trust == 0 {
		if w.skips++; w.skips < probeEvery {
			return false
		}
		w.skips, w.trust = 0, 1
	}
	l.Vitals.BusyFrom.Store(0)
	l.Kernel.Yield()
	w.yielded = l.Clock.Now()
	if l.Tasks.Waiting() {
		w.trust = min(w.trust+trustGained, maxTrust)
		return true
	}
	w.trust--
	return false
}

// yieldEvery is how long a loop runs before it yields. Handlers that compute take 10 ms each until the loop runs again, so
// it must not be gone after each short iteration.
const yieldEvery = 500 * time.Microsecond

// yield lets other goroutines have the processor before a loop that has input in hand goes on. A loop that always has some
// never sleeps, and a worker that waits for its processor would get it when the scheduler takes it away, after 10 ms. A
// pinned loop has a processor of its own.
func (l *Loop[T]) yield(now int64) {
	if l.budget.input && l.Kernel.Yield != nil && !l.Set.Pinned && now-l.waits.yielded >= int64(yieldEvery) {
		l.waits.yielded = now
		l.Kernel.Yield()
	}
}

// resumed notes that the loop runs again.
func (l *Loop[T]) resumed(now int64) {
	l.Counters[meter.Iterations]++
	l.Now = now
	l.Vitals.BusyFrom.Store(now)
	l.Lag.idle(now)
	if l.Dog != nil {
		l.Dog.attend()
	}
}

// judgeWait counts a wait that returned although nothing was ready, nobody woke the loop and the time was not over. Such
// waits in a row mean a poller that is out of order and would keep the loop spinning.
func (l *Loop[T]) judgeWait(n int, woken bool, until int64) {
	w := &l.waits
	switch {
	case n == 0 && !woken && l.Now < until && !l.Tasks.Waiting():
		l.Counters[meter.Premature]++
		w.premature++
		if l.Set.RebuildAfter > 0 && w.premature >= l.Set.RebuildAfter {
			l.Log.Warn("eddy: the poller returns early", "loop", l.Name, "in_a_row", w.premature)
			w.premature = 0
			l.rebuild()
		}
		return
	case w.premature > prematureNoise:
		l.Log.Debug("eddy: the poller returned early", "loop", l.Name, "in_a_row", w.premature)
	}
	w.premature = 0
	if n == 0 && !woken && until != SleepForever {
		l.Lag.late(l.Now, l.Now-until)
	}
}

// prematureNoise is the number of early returns in a row that is not worth a line: signals cause them, too, and the
// parked poller returns once for a deadline that was moved.
const prematureNoise = 3

// spin polls without sleeping until something comes, the deadline passes or the time for spinning is over. Only in the last
// case over is false. Nobody has to wake a loop that spins.
func (l *Loop[T]) spin(begin, until int64) (n int, err error, over bool) {
	for {
		n, err := l.Poller.Wait(l.events, 0)
		if n > 0 || err != nil || l.Tasks.Waiting() {
			return n, err, true
		}
		now := l.Clock.Now()
		if now >= until {
			return 0, nil, true
		}
		if l.Set.Spin > 0 && now-begin >= int64(l.Set.Spin) {
			return 0, nil, false
		}
	}
}

// decide asks the strategy. One that panics is not asked again.
func (l *Loop[T]) decide(timeout time.Duration) (d Decision) {
	strategy := l.waits.strategy
	if strategy == nil {
		return Block
	}
	l.waits.strategy = nil
	defer func() {
		if v := recover(); v != nil {
			l.up.Panicked(v)
		}
	}()
	d = strategy(timeout, l.waits.empty)
	l.waits.strategy = strategy
	return d
}

// waitTimeout is 0 while work is pending, negative when only an event or a task can bring more. until is the same as a
// time.
func (l *Loop[T]) waitTimeout(now int64) (timeout time.Duration, until int64) {
	if l.Tasks.Waiting() || l.Stopping || l.up.Waiting() {
		return 0, now
	}
	until = l.NextDeadline()
	if until == SleepForever {
		return -1, until
	}
	return max(0, time.Duration(until-now)), until
}

// NextDeadline returns when the resident or a timer is due, SleepForever when nothing is armed.
func (l *Loop[T]) NextDeadline() int64 {
	next := int64(SleepForever)
	if when, ok := l.up.Deadline(); ok {
		next = when
	}
	if when, ok := l.Timers.Next(); ok {
		next = min(next, when)
	}
	return next
}

// minEvents is the size that the array of events begins with.
const minEvents = 128

// growEvents doubles the array that a wait has filled.
func (l *Loop[T]) growEvents(n int) {
	if n == len(l.events) && n < l.Set.MaxEvents {
		l.events = make([]sys.Event, min(2*n, l.Set.MaxEvents))
	}
}
