package balance

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/wheel"
)

// The defaults of Trip.
const (
	DefaultMinCalls = 20
	DefaultWindow   = 10 * time.Second
	DefaultProbes   = 3
	DefaultOpen     = 5 * time.Second
	DefaultMaxOpen  = 5 * time.Minute
)

// Trip says when a Breaker opens, and for how long. The zero value never opens.
type Trip struct {
	Failures int     // in a row that open it; 0 = any number
	Ratio    float64 // of failed calls in a window that opens it, up to 1; 0 = any

	MinCalls int           // in a window, below which Ratio says nothing; 0 = 20
	Window   time.Duration // 0 = 10 s

	Open    time.Duration // how long it stays open; twice as long each time that its probes fail. 0 = 5 s
	MaxOpen time.Duration // 0 = 5 min
	Probes  int           // calls that it then lets through, all of which must succeed; 0 = 3
}

func (t *Trip) complete(name string) error {
	switch {
	case t.Failures < 0, t.MinCalls < 0, t.Probes < 0:
		return fmt.Errorf("balance: %s.Failures is %d, MinCalls %d, Probes %d: they must not be negative", name, t.Failures, t.MinCalls, t.Probes)
	case !(t.Ratio >= 0 && t.Ratio <= 1):
		return fmt.Errorf("balance: %s.Ratio is %v: it must be from 0 to 1", name, t.Ratio)
	case t.Window < 0, t.Open < 0, t.MaxOpen < 0:
		return fmt.Errorf("balance: %s.Window is %v, Open %v, MaxOpen %v: they must not be negative", name, t.Window, t.Open, t.MaxOpen)
	}
	t.MinCalls, t.Window, t.Probes = cmp.Or(t.MinCalls, DefaultMinCalls), cmp.Or(t.Window, DefaultWindow), cmp.Or(t.Probes, DefaultProbes)
	t.Open = cmp.Or(t.Open, DefaultOpen)
	t.MaxOpen = max(cmp.Or(t.MaxOpen, DefaultMaxOpen), t.Open)
	return nil
}

// on reports whether anything opens the breaker.
func (t *Trip) on() bool { return t.Failures > 0 || t.Ratio > 0 }

// The states of a Breaker.
const (
	breakerClosed uint32 = iota
	breakerOpen
	breakerHalf
)

// Breaker refuses calls while most of them fail: closed, open for a while, then half open for a few probes. All methods may be called by any goroutine;
// while it is closed they take no lock.
type Breaker struct {
	trip  *Trip
	state atomic.Uint32
	row   atomic.Int32 // failures in a row
	win   window

	mu     sync.Mutex   // guards what follows, and changes of state
	until  atomic.Int64 // open until, or half open until
	given  atomic.Int32 // probes let through
	passed int          // probes that have succeeded
	times  int          // in a row that it has opened
}

// NewBreaker returns a closed Breaker. The error names the field of t that makes no sense.
func NewBreaker(t Trip) (*Breaker, error) {
	if err := t.complete("Trip"); err != nil {
		return nil, err
	}
	return &Breaker{trip: &t}, nil
}

// Closed reports whether all calls pass.
func (b *Breaker) Closed() bool { return b.state.Load() == breakerClosed }

// may reports, without a promise, whether Allow would let a call through.
func (b *Breaker) may(now int64) bool {
	switch b.state.Load() {
	case breakerOpen:
		return now >= b.until.Load()
	case breakerHalf:
		return int(b.given.Load()) < b.trip.Probes || now >= b.until.Load()
	}
	return true
}

// Allow reports whether a call may be made. Tell how it ended with Done.
func (b *Breaker) Allow(now int64) bool { return b.state.Load() == breakerClosed || b.probe(now) }

// probe is Allow while the breaker is not closed.
func (b *Breaker) probe(now int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state.Load() {
	case breakerClosed:
		return true
	case breakerOpen:
		if now < b.until.Load() {
			return false
		}
		b.halfOpen(now)
	case breakerHalf:
		if now >= b.until.Load() { // some probes have told nothing: others may
			b.halfOpen(now)
		}
	}
	if int(b.given.Load()) >= b.trip.Probes {
		return false
	}
	b.given.Add(1)
	return true
}

func (b *Breaker) halfOpen(now int64) {
	b.state.Store(breakerHalf)
	b.passed = 0
	b.given.Store(0)
	b.until.Store(wheel.After(now, b.openFor()))
}

// openFor returns how long the breaker stays open this time.
func (b *Breaker) openFor() time.Duration {
	d := b.trip.Open
	for n := b.times; n > 1 && d < b.trip.MaxOpen; n-- {
		d += min(d, b.trip.MaxOpen-d)
	}
	return d
}

// Done tells how a call ended. It reports whether the breaker must open: the caller may open it with Open.
func (b *Breaker) Done(now int64, o Outcome) (trip bool) {
	if b.state.Load() != breakerClosed {
		return b.probed(o)
	}
	switch o {
	case Succeeded:
		if b.row.Load() != 0 {
			b.row.Store(0)
		}
	case Failed:
		row := b.row.Add(1)
		trip = b.trip.Failures > 0 && int(row) >= b.trip.Failures
	case Refused, Unknown:
		return false // a full server is not a broken one
	}
	if b.trip.Ratio > 0 {
		calls, failures := b.win.add(now, b.trip.Window, o == Failed)
		trip = trip || o == Failed && calls >= int64(b.trip.MinCalls) && float64(failures) >= b.trip.Ratio*float64(calls)
	}
	return trip
}

// probed is Done while the breaker is not closed.
func (b *Breaker) probed(o Outcome) (trip bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state.Load() != breakerHalf { // a call that was made before it opened
		return false
	}
	switch o {
	case Failed:
		return true
	case Refused, Unknown:
		if b.given.Load() > 0 {
			b.given.Add(-1)
		}
		return false
	case Succeeded:
	}
	if b.passed++; b.passed >= b.trip.Probes {
		b.row.Store(0)
		b.win.clear()
		b.times = max(0, b.times-1)
		b.state.Store(breakerClosed)
	}
	return false
}

// Open opens the breaker, unless it is open, and reports whether it was closed.
func (b *Breaker) Open(now int64) (wasClosed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.state.Load()
	if was == breakerOpen {
		return false
	}
	b.times++
	b.until.Store(wheel.After(now, b.openFor()))
	b.state.Store(breakerOpen)
	return was == breakerClosed
}

// inherit takes over the state of another breaker, of an instance that has come back.
func (b *Breaker) inherit(from *Breaker) {
	from.mu.Lock()
	defer from.mu.Unlock()
	b.times = from.times
	b.until.Store(from.until.Load())
	b.row.Store(from.row.Load())
	b.state.Store(from.state.Load())
}

// window counts calls and failures of the time that has just passed: of the current half of it, and the half before.
type window struct {
	start atomic.Int64
	cells [2]struct{ calls, failures atomic.Int64 }
	at    atomic.Uint32 // the current cell
}

// add counts a call and returns the numbers of the window.
func (w *window) add(now int64, length time.Duration, failed bool) (calls, failures int64) {
	if start := w.start.Load(); now-start >= int64(length)/2 && w.start.CompareAndSwap(start, now) {
		next := w.at.Load() ^ 1
		w.cells[next].calls.Store(0)
		w.cells[next].failures.Store(0)
		if now-start >= int64(length) {
			w.cells[next^1].calls.Store(0)
			w.cells[next^1].failures.Store(0)
		}
		w.at.Store(next)
	}
	c := &w.cells[w.at.Load()&1]
	c.calls.Add(1)
	if failed {
		c.failures.Add(1)
	}
	return w.cells[0].calls.Load() + w.cells[1].calls.Load(), w.cells[0].failures.Load() + w.cells[1].failures.Load()
}

func (w *window) clear() {
	for i := range w.cells {
		w.cells[i].calls.Store(0)
		w.cells[i].failures.Store(0)
	}
}
