package eddy

import (
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// WaitDecision is the choice of a WaitStrategy.
type WaitDecision uint8

const (
	// Block waits for an event, a task or the next deadline, whichever comes first.
	Block WaitDecision = iota
	// Continue does not ask the poller: tasks and deadlines are served, I/O is not.
	Continue
	// BusyWait asks the poller without waiting.
	BusyWait
)

// LoopState describes a loop for its WaitStrategy.
type LoopState struct {
	Name    string        // of the loop
	Timeout time.Duration // until the next deadline; negative when there is none
	Empty   int           // polls in a row that brought nothing
}

// WaitStrategy chooses what a loop does next. The loop calls it before each wait in which the loop has nothing left to
// run; otherwise the loop polls without waiting. The function must not block. A strategy that panics is reported and not
// asked again: from then on the loop always waits.
type WaitStrategy func(LoopState) WaitDecision

// wait is the phase that asks the poller and closes the books of the previous iteration. With nothing to do the loop
// sleeps until the next deadline, event or task.
func (l *loop) wait() int {
	begin := l.clock.Now()
	l.account(begin)
	timeout, until := l.waitTimeout(begin)
	l.polled = false
	if timeout != 0 {
		switch l.decide(timeout) {
		case Continue:
			l.resumed(l.clock.Now())
			return 0
		case BusyWait:
			timeout = 0
		}
	}
	if l.retryAt > begin {
		return l.waitWithoutPoller(begin, timeout)
	}
	n, err := l.poll(begin, timeout, until)
	if err != nil {
		l.pollFailed(err)
		return 0
	}
	l.polled = true
	l.counters[countEvents] += uint64(n)
	if n > 0 {
		l.empty = 0
	} else {
		l.empty++
	}
	return n
}

// poll asks the poller for events and waits for them until the given time, if timeout is not 0.
func (l *loop) poll(begin int64, timeout time.Duration, until int64) (int, error) {
	if timeout == 0 {
		n, err := l.poller.Wait(l.events, 0)
		l.resumed(l.clock.Now())
		return n, err
	}
	l.busyFrom.Store(0)
	if l.set.spin != 0 {
		if n, err, over := l.spin(begin, until); over {
			l.resumed(l.clock.Now())
			return n, err
		}
	}
	if !l.tasks.sleep(until) {
		timeout = 0
	}
	n, err := l.poller.Wait(l.events, timeout)
	woken := l.tasks.awake()
	l.resumed(l.clock.Now())
	if err == nil && timeout != 0 {
		l.judgeWait(n, woken, until)
	}
	return n, err
}

// resumed notes that the loop runs again.
func (l *loop) resumed(now int64) {
	l.counters[countIterations]++
	l.now = now
	l.busyFrom.Store(now)
	l.lag.idle(now)
	if l.dog != nil {
		l.dog.attend()
	}
}

// judgeWait counts a wait that returned early: no event, no wakeup, time left. Such waits in a row mean that the poller
// is out of order and would keep the loop spinning.
func (l *loop) judgeWait(n int, woken bool, until int64) {
	switch {
	case n == 0 && !woken && l.now < until && !l.tasks.waiting():
		l.counters[countPremature]++
		l.premature++
		if l.set.rebuildAfter > 0 && l.premature >= l.set.rebuildAfter {
			l.log.Warn("eddy: the poller returns early", "loop", l.name, "in_a_row", l.premature)
			l.premature = 0
			l.rebuild()
		}
		return
	case l.premature > prematureNoise:
		l.log.Debug("eddy: the poller returned early", "loop", l.name, "in_a_row", l.premature)
	}
	l.premature = 0
	if n == 0 && !woken && until != sleepForever {
		l.lag.late(l.now, l.now-until)
	}
}

// prematureNoise is the number of early returns in a row that is not logged. Signals cause some, and the parked poller
// returns once for a deadline that was moved.
const prematureNoise = 3

// spin polls without sleeping until something comes, the deadline passes or the spinning time is over; over is false only
// in the last case. Nobody has to wake a loop that spins.
func (l *loop) spin(begin, until int64) (n int, err error, over bool) {
	for {
		n, err := l.poller.Wait(l.events, 0)
		if n > 0 || err != nil || l.tasks.waiting() {
			return n, err, true
		}
		now := l.clock.Now()
		if now >= until {
			return 0, nil, true
		}
		if l.set.spin > 0 && now-begin >= int64(l.set.spin) {
			return 0, nil, false
		}
	}
}

// decide asks the strategy, if there is one.
func (l *loop) decide(timeout time.Duration) (d WaitDecision) {
	if l.strategy == nil {
		return Block
	}
	strategy := l.strategy
	l.strategy = nil // stays away if it panics
	defer l.contain(nil)
	d = strategy(LoopState{Name: l.name, Timeout: timeout, Empty: l.empty})
	l.strategy = strategy
	return d
}

// waitTimeout returns 0 while work is pending, and a negative timeout when only an event or a task can bring more. until
// is the same limit as a time on the loop's clock.
func (l *loop) waitTimeout(now int64) (timeout time.Duration, until int64) {
	if len(l.ready) > 0 || len(l.dirty) > 0 || len(l.closing) > 0 || len(l.notices) > 0 || l.tasks.waiting() || l.stopping || l.walking() {
		return 0, now
	}
	until = l.nextDeadline()
	if until == sleepForever {
		return -1, until
	}
	return max(0, time.Duration(until-now)), until
}

// nextDeadline returns when the wheel or a timer is due, sleepForever when nothing is armed.
func (l *loop) nextDeadline() int64 {
	next := int64(sleepForever)
	if when, ok := l.wheel.Next(); ok {
		next = when
	}
	if when, ok := l.timers.next(); ok {
		next = min(next, when)
	}
	return next
}

// minEvents is the initial size of the array of events.
const minEvents = 128

// growEvents doubles the array of events after a wait has filled it.
func (l *loop) growEvents(n int) {
	if n == len(l.events) && n < l.set.maxEvents {
		l.events = make([]sys.Event, min(2*n, l.set.maxEvents))
	}
}
