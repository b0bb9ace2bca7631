package reactor

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/wheel"
)

const (
	// MinRebuildAfter: fewer early returns than that are no reason to replace a poller.
	MinRebuildAfter = 3
	// Pauses of a loop whose poller stays out of order.
	repairPauseMin = time.Millisecond
	repairPauseMax = time.Second
	// unwell is the number of failures in a row from which on a loop gets no new connections.
	unwell = 2
)

// health is how well the loop and its poller are.
type health struct {
	failures int   // of the poller, in a row
	faults   int   // panics of the engine, in a row
	retryAt  int64 // the poller is left alone until then, if it is in the future
	resting  atomic.Bool
	sick     atomic.Bool
	alarm    chan struct{}              // ends a rest
	awakener atomic.Pointer[sys.Poller] // that other goroutines wake
}

// pollFailed follows an error of the poller, which is replaced. If that does not help, the loop lets time pass before it
// tries again, twice as long after each failure, and serves its tasks and deadlines meanwhile. It never ends for it.
func (l *Loop[T]) pollFailed(err error) {
	h := &l.health
	h.failures++
	l.Counters[meter.PollErrors]++
	l.waits.premature = 0
	l.Log.Error("eddy: poller failed", "loop", l.Name, "err", err, "in_a_row", h.failures)
	rebuilt := l.rebuild()
	if rebuilt && h.failures == 1 {
		return
	}
	l.rest(h.failures)
}

// rest keeps the loop away from its poller for a while, after so many failures in a row.
func (l *Loop[T]) rest(failures int) {
	pause := repairPauseMax
	if failures <= 10 {
		pause = min(repairPauseMin<<(failures-1), repairPauseMax)
	}
	l.health.retryAt = wheel.After(l.Now, pause)
	if failures >= unwell {
		l.health.sick.Store(true)
	}
}

// recovered follows an iteration in which the poller was asked and nothing failed.
func (l *Loop[T]) recovered() {
	h := &l.health
	h.failures, h.faults = 0, 0
	if h.sick.Load() {
		h.sick.Store(false)
		l.Log.Info("eddy: a loop is well again", "loop", l.Name)
	}
}

// Healthy reports whether the loop should be given new connections. Any goroutine.
func (l *Loop[T]) Healthy() bool { return !l.health.sick.Load() }

// waitWithoutPoller is the wait of a loop whose poller is out of order: for a task, a deadline or the next attempt.
func (l *Loop[T]) waitWithoutPoller(begin int64, timeout time.Duration) int {
	h := &l.health
	pause := time.Duration(h.retryAt - begin)
	if timeout >= 0 {
		pause = min(pause, timeout)
	}
	if pause > 0 && l.Tasks.sleep(wheel.After(begin, pause)) {
		l.Vitals.BusyFrom.Store(0)
		h.resting.Store(true)
		if l.Tasks.until.Load() != awake { // a wakeup that came before resting was seen by all goes to the poller
			l.Kernel.rest(pause, h.alarm)
		}
		h.resting.Store(false)
	}
	l.Tasks.awaken()
	l.resumed(l.Clock.Now())
	return 0
}

// rest lets the calling goroutine wait for the alarm, and no longer than d.
func (k *Kernel) rest(d time.Duration, alarm <-chan struct{}) {
	if k.Pause != nil {
		k.Pause(d, alarm)
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
func (l *Loop[T]) wakeup() {
	if l.health.resting.Load() {
		select {
		case l.health.alarm <- struct{}{}:
		default: // it has been rung
		}
	}
	poller := *l.health.awakener.Load()
	if err := poller.Wake(); err != nil && !errors.Is(err, sys.ErrPollerClosed) { // closed: replaced, or the loop has ended
		l.Log.Error("eddy: wakeup failed", "loop", l.Name, "err", err)
	}
}

// rebuild replaces the poller by a new one and registers everything there again, with the same interest and tokens. It
// reports false when no new poller can be had; the old one stays then.
func (l *Loop[T]) rebuild() bool {
	fresh, err := l.Kernel.Open()
	if err != nil {
		l.Log.Warn("eddy: opening a new poller failed, keeping the old one", "loop", l.Name, "err", err)
		return false
	}
	old := l.Poller
	l.usePoller(fresh)
	migrated, lost := l.up.Migrate(old)
	m, n := l.migrate(old)
	migrated, lost = migrated+m, lost+n
	if err := old.Close(); err != nil {
		l.Log.Debug("eddy: closing the old poller failed", "loop", l.Name, "err", err)
	}
	l.Counters[meter.Rebuilds]++
	l.Log.Info(fmt.Sprintf("eddy: poller rebuilt, migrated %d", migrated), "loop", l.Name, "lost", lost)
	return true
}

// Adopt registers a descriptor of the resident with the poller, which is a new one, and takes it from the old one.
func (l *Loop[T]) Adopt(old sys.Poller, fd int, in sys.Interest, token uint64) error {
	_ = old.Remove(fd) // the old poller may be unable to
	if err := l.Poller.Add(fd, in, token); err != nil {
		return migrateError(err)
	}
	return nil
}

func migrateError(err error) error { return fmt.Errorf("eddy: registering with a new poller: %w", err) }

// usePoller makes p the loop's poller and the one that other goroutines wake.
func (l *Loop[T]) usePoller(p sys.Poller) {
	l.Poller = p
	l.health.awakener.Store(&p)
}
