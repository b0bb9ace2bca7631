package eddy

import (
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/wheel"
)

// Stall is an iteration of a loop that has lasted for Group.StallThreshold: some handler, task or timer blocks the loop
// and everything on it.
type Stall struct {
	Loop    string
	For     time.Duration  // so far
	Handler string         // function of the application that the engine or a protocol has called, "" for none
	Starved bool           // no handler runs; the loop itself waits for a processor
	Conn    ConnID         // the connection being served, zero when there is none
	Peer    netip.AddrPort // of Conn
	Stack   string         // stack of the loop's goroutine; "" after too many recent stalls
}

// watchdog notices the stuck loops of a group. Its goroutine looks at a loop when its iteration would be too long, so a
// busy group costs about one look per StallThreshold. While no loop runs it sleeps: a group that goes idle costs one more
// look, an idle one nothing. The first loop to run again wakes it.
type watchdog struct {
	clock     sys.Clock
	threshold time.Duration
	loops     []*loop
	log       *slog.Logger
	listener  func(Stall)
	sampler   sample.Lines

	asleep atomic.Bool
	rouse  chan struct{}
	quit   chan struct{}
	once   sync.Once // for quit
	done   chan struct{}
	goid   atomic.Uint64
	seen   []uint64 // iterations of each loop at the last look
}

func newWatchdog(w *crew) *watchdog {
	return &watchdog{
		clock: w.kernel.clock, threshold: w.set.stall, loops: w.loops, log: w.set.log, listener: w.set.onStall,
		rouse: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		seen: make([]uint64, len(w.loops)),
	}
}

// attend wakes the watchdog if it sleeps. The loops call it.
func (d *watchdog) attend() {
	if d.asleep.Load() && d.asleep.CompareAndSwap(true, false) {
		select {
		case d.rouse <- struct{}{}:
		default:
		}
	}
}

// run is the watchdog's goroutine.
func (d *watchdog) run() {
	defer close(d.done)
	d.goid.Store(goroutineID())
	timer := time.NewTimer(d.threshold)
	defer timer.Stop()
	for {
		next, active := d.look()
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

// stop ends the watchdog and waits for it, unless OnStall calls stop. Several callers may stop it.
func (d *watchdog) stop() {
	d.once.Do(func() { close(d.quit) })
	if goroutineID() != d.goid.Load() {
		<-d.done
	}
}

// settle publishes that the watchdog is going to sleep and reports whether it may.
func (d *watchdog) settle() bool {
	d.asleep.Store(true)
	for _, l := range d.loops {
		if l.busyFrom.Load() != 0 {
			return !d.asleep.CompareAndSwap(true, false) // if a loop was faster, its rouse is on the way
		}
	}
	return true
}

// look reports the stuck loops. The results are when to look again, and whether any loop ran since the last look.
func (d *watchdog) look() (next time.Duration, active bool) {
	now := d.clock.Now()
	first := wheel.After(now, d.threshold)
	for i, l := range d.loops {
		from := l.busyFrom.Load()
		if n := l.stats.counters[countIterations].Load(); n != d.seen[i] {
			d.seen[i], active = n, true
		}
		if from == 0 {
			continue
		}
		active = true
		if due := wheel.After(from, d.threshold); due > now {
			first = min(first, due)
		} else if l.noteStall(from) {
			d.report(l, now-from)
		}
	}
	return time.Duration(first - now), active
}

// noteStall counts a stall once per iteration, which is identified by its begin. The watchdog notices stalls that last,
// the loop itself those that are over before the watchdog has looked.
func (l *loop) noteStall(begin int64) bool {
	last := l.stalledAt.Load()
	if last == begin || !l.stalledAt.CompareAndSwap(last, begin) {
		return false
	}
	l.stalls.Add(1)
	return true
}

// report tells the log and the listener of a stall.
func (d *watchdog) report(l *loop, took int64) {
	s := Stall{Loop: l.name, For: time.Duration(took)}
	if c := l.serving.Load(); c != nil {
		s.Conn, s.Peer = c.ID(), c.RemoteAddr()
	}
	ok, held := d.sampler.Allow(d.clock.Now())
	if ok {
		s.Stack = stackOf(l.goid.Load())
		s.Handler = handlerIn(s.Stack)
		s.Starved = s.Handler == "" && starved(s.Stack)
		text := "eddy: a handler blocks its loop"
		if s.Starved {
			text = "eddy: a loop gets no processor"
		}
		d.log.Warn(text, "loop", s.Loop, "for", s.For, "handler", s.Handler, "conn", s.Conn, "peer", s.Peer, "held_back", held, "stack", s.Stack)
	}
	if d.listener != nil {
		d.tell(s)
	}
}

func (d *watchdog) tell(s Stall) {
	defer func() {
		if v := recover(); v != nil {
			d.log.Error("eddy: panic in OnStall", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	d.listener(s)
}
