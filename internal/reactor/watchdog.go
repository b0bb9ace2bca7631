package reactor

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/goid"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/wheel"
)

// Watchdog notices loops that are stuck. It is one goroutine that looks at a loop when its iteration would be too long, so
// busy loops cost about one look per threshold. While no loop runs the watchdog sleeps: loops that go idle cost one more
// look, idle ones nothing. The first loop to run again wakes it.
type Watchdog struct {
	clock     sys.Clock
	threshold time.Duration
	loops     []*Vitals
	report    func(loop int, took time.Duration)

	asleep atomic.Bool
	rouse  chan struct{}
	quit   chan struct{}
	once   sync.Once // for quit
	done   chan struct{}
	goid   atomic.Uint64
	seen   []uint64 // iterations of each loop at the last look
}

// NewWatchdog makes the watchdog of some loops. It calls report on its own goroutine, once for each iteration that has
// lasted for the threshold. Loops of simulated time have none.
func NewWatchdog(clock sys.Clock, threshold time.Duration, loops []*Vitals, report func(loop int, took time.Duration)) *Watchdog {
	return &Watchdog{
		clock: clock, threshold: threshold, loops: loops, report: report,
		rouse: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		seen: make([]uint64, len(loops)),
	}
}

// attend keeps the watchdog awake while loops run. Called by the loops.
func (d *Watchdog) attend() {
	if d.asleep.Load() && d.asleep.CompareAndSwap(true, false) {
		select {
		case d.rouse <- struct{}{}:
		default:
		}
	}
}

// Run is the watchdog's goroutine.
func (d *Watchdog) Run() {
	defer close(d.done)
	d.goid.Store(goid.Current())
	timer := time.NewTimer(d.threshold)
	defer timer.Stop()
	for {
		next, active := d.Look()
		if !active && d.settle() {
			select {
			case <-d.rouse:
			case <-d.quit:
				return
			}
			continue
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-d.quit:
			return
		}
	}
}

// Stop ends the watchdog and waits for it, unless report calls Stop. Several callers.
func (d *Watchdog) Stop() {
	d.once.Do(func() { close(d.quit) })
	if goid.Current() != d.goid.Load() {
		<-d.done
	}
}

// settle publishes that the watchdog is going to sleep and reports whether it may.
func (d *Watchdog) settle() bool {
	d.asleep.Store(true)
	for _, v := range d.loops {
		if v.BusyFrom.Load() != 0 {
			return !d.asleep.CompareAndSwap(true, false) // somebody was faster: the rouse is on its way
		}
	}
	return true
}

// Look reports the loops that are stuck. It returns when to look again, and whether any loop ran since the last look. For tests that need no goroutine.
func (d *Watchdog) Look() (next time.Duration, active bool) {
	now := d.clock.Now()
	first := wheel.After(now, d.threshold)
	for i, v := range d.loops {
		from := v.BusyFrom.Load()
		if n := v.stats.Count(meter.Iterations); n != d.seen[i] {
			d.seen[i], active = n, true
		}
		if from == 0 {
			continue
		}
		active = true
		if due := wheel.After(from, d.threshold); due > now {
			first = min(first, due)
		} else if v.noteStall(from) {
			d.report(i, time.Duration(now-from))
		}
	}
	return time.Duration(first - now), active
}
