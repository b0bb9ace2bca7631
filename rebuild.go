package eddy

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/wheel"
)

const (
	// minRebuildAfter is the least number of early returns in a row that justifies a new poller.
	minRebuildAfter = 3
	// Pauses of a loop whose poller keeps failing.
	repairPauseMin = time.Millisecond
	repairPauseMax = time.Second
	// unwell is the number of failures in a row from which a loop gets no new connections.
	unwell = 2
)

// pollFailed replaces the poller after an error. If that does not help, the loop pauses before it tries again, twice as
// long after each failure. Meanwhile the loop serves its tasks and deadlines; a failing poller never ends it.
func (l *loop) pollFailed(err error) {
	l.failures++
	l.counters[countPollErrors]++
	l.premature = 0
	l.log.Error("eddy: poller failed", "loop", l.name, "err", err, "in_a_row", l.failures)
	rebuilt := l.rebuild()
	if rebuilt && l.failures == 1 {
		return
	}
	l.rest(l.failures)
}

// rest keeps the loop away from its poller for a time that grows with the number of failures in a row.
func (l *loop) rest(failures int) {
	pause := repairPauseMax
	if failures <= 10 {
		pause = min(repairPauseMin<<(failures-1), repairPauseMax)
	}
	l.retryAt = l.timeout(pause)
	if failures >= unwell {
		l.sick.Store(true)
	}
}

// recovered follows an iteration in which the poller was asked and did not fail.
func (l *loop) recovered() {
	l.failures, l.faults = 0, 0
	if l.sick.Load() {
		l.sick.Store(false)
		l.log.Info("eddy: a loop is well again", "loop", l.name)
	}
}

// healthy reports whether the loop may be given new connections. Any goroutine.
func (l *loop) healthy() bool { return !l.sick.Load() }

// waitWithoutPoller waits for a task, a deadline or the next attempt while the poller is out of order.
func (l *loop) waitWithoutPoller(begin int64, timeout time.Duration) int {
	pause := time.Duration(l.retryAt - begin)
	if timeout >= 0 {
		pause = min(pause, timeout)
	}
	if pause > 0 && l.tasks.sleep(wheel.After(begin, pause)) {
		l.busyFrom.Store(0)
		l.resting.Store(true)
		if l.tasks.until.Load() != loopAwake { // an earlier wakeup, which did not see resting, went to the poller
			l.kernel.rest(pause, l.alarm)
		}
		l.resting.Store(false)
	}
	l.tasks.awake()
	l.resumed(l.clock.Now())
	return 0
}

// rest blocks the calling goroutine until the alarm, at most for d.
func (k *kernel) rest(d time.Duration, alarm <-chan struct{}) {
	if k.pause != nil {
		k.pause(d, alarm)
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-alarm:
	case <-t.C:
	}
}

// wakeup ends the loop's wait. Any goroutine.
func (l *loop) wakeup() {
	if l.resting.Load() {
		select {
		case l.alarm <- struct{}{}:
		default: // the alarm has been rung
		}
	}
	if err := l.waker().Wake(); err != nil && !isPollerClosed(err) { // closed: replaced, or the loop has ended
		l.log.Error("eddy: wakeup failed", "loop", l.name, "err", err)
	}
}

// rebuild replaces the poller by a new one and registers everything there with the same interest and tokens. If no new
// poller can be opened, the old one stays and rebuild returns false.
func (l *loop) rebuild() bool {
	fresh, err := l.kernel.poller(l.set.poller, l.set.wait)
	if err != nil {
		l.log.Warn("eddy: opening a new poller failed, keeping the old one", "loop", l.name, "err", err)
		return false
	}
	old := l.poller
	l.usePoller(fresh)
	migrated, lost := l.migrateConns(old)
	m, n := l.migrateSpecials(old)
	migrated, lost = migrated+m, lost+n
	if err := old.Close(); err != nil {
		l.log.Debug("eddy: closing the old poller failed", "loop", l.name, "err", err)
	}
	l.counters[countRebuilds]++
	l.log.Info(fmt.Sprintf("eddy: poller rebuilt, migrated %d", migrated), "loop", l.name, "lost", lost)
	return true
}

// usePoller makes p the loop's poller and the one that other goroutines wake.
func (l *loop) usePoller(p sys.Poller) {
	l.poller = p
	l.awakener.Store(&p)
}

func (l *loop) waker() sys.Poller { return *l.awakener.Load() }

// migrateConns registers the connections with the new poller and closes those that it refuses.
func (l *loop) migrateConns(old sys.Poller) (migrated, lost int) {
	for _, c := range l.slots {
		if c == nil || !c.has(registered) {
			continue
		}
		_ = old.Remove(c.fd) // the old poller may be unable to
		if err := l.poller.Add(c.fd, c.interest, c.token()); err != nil {
			c.clear(registered)
			c.beginClose(CloseInternalError, fmt.Errorf("eddy: registering with a new poller: %w", err))
			lost++
			continue
		}
		migrated++
	}
	return migrated, lost
}

// migrateSpecials registers the descriptors that are no connections with the new poller.
func (l *loop) migrateSpecials(old sys.Poller) (migrated, lost int) {
	for token, s := range slices.Clone(l.special) { // a function told of a loss may register another one meanwhile
		if s == nil || !s.registered || l.special[token] != s {
			continue
		}
		_ = old.Remove(s.fd)
		if err := l.poller.Add(s.fd, s.in, uint64(token)); err != nil {
			s.registered = false
			l.loseSpecial(uint64(token), fmt.Errorf("eddy: registering with a new poller: %w", err))
			lost++
			continue
		}
		migrated++
	}
	return migrated, lost
}
