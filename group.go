package eddy

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/reactor"
)

// Group is a fixed set of loops. Servers and Dialers share a Group by naming it; each one without a Group makes its own.
// Fill the fields before the first use; the zero Group is ready. The first Listen or Dial starts the Group, or Start does.
// Close ends it, after the servers and dialers that use it.
type Group struct {
	Name      string       // the loops are called Name-0, Name-1, …; "" = "worker"
	Loops     int          // 0 = GOMAXPROCS
	Poller    string       // readiness backend; "" = $EDDY_POLLER, else the platform's best
	WaitMode  WaitMode     // how the loops wait
	TaskQueue int          // bound of each loop's task queue; 0 = 65536
	Chooser   Chooser      // which loop gets a new connection; nil = RoundRobin()
	Logger    *slog.Logger // nil = slog.Default()

	// LeakDetection reports segments of the loops and buffers of Buffers that are dropped without their release
	// (docs/buffers.md); buf.LeakDefault = $EDDY_LEAKS, else off. OnLeak is told what Logger is told; it must not block.
	LeakDetection buf.LeakLevel
	OnLeak        func(buf.Leak)

	// IORatio is the share of a busy loop's time that belongs to I/O, in percent, 1 to 100; 0 = 50. Tasks get the rest: as
	// long as the I/O took, times (100 - IORatio) / IORatio. At 100 a loop does all I/O and then all tasks that were queued
	// by then, without a bound in time.
	IORatio int
	// TaskBudget is the most tasks a loop runs in one iteration, below IORatio 100; 0 = 1024.
	TaskBudget int
	// MinTasks is the most tasks of an iteration in which no I/O was ready; 0 = 64, or TaskBudget if that is less. It may not
	// exceed TaskBudget.
	MinTasks int
	// MaxEvents bounds the readiness events that one wait reports; 0 = 4096. In one iteration as many connections with frames
	// in hand go on, and as many send what others queued for them. The array for the events starts at 128 and grows to
	// MaxEvents when one wait fills it; up to 128 it never grows.
	MaxEvents int
	// RebuildAfter is how many waits in a row return early for no reason before a loop replaces its poller; 0 = 512.
	// Any other value below 3 switches that off.
	RebuildAfter int
	// Strategy chooses what a loop does next; nil = Block. The loop calls it before each wait in which the loop has nothing
	// left to run; otherwise the loop polls without waiting. timeout is the time until the next deadline, negative when there
	// is none; empty is how many polls in a row brought nothing. Strategy must not block. After a panic it is not asked again,
	// and the loop always waits.
	Strategy func(timeout time.Duration, empty int) WaitDecision
	// CPUs pins the loops to processors, which needs WaitPinned: loop i runs on CPUs[i % len(CPUs)] only.
	CPUs []int
	// Spin is how long a loop polls without waiting before it blocks, which needs WaitPinned; 0 = not at all, negative =
	// for ever: the loop then keeps its processor busy. Work that comes while a loop spins costs no wakeup.
	Spin time.Duration
	// StallThreshold is the length from which on an iteration is reported as a stall; 0 = 100 ms, negative = never.
	StallThreshold time.Duration
	// OnStall is told of each stall while the stall lasts; nil = nobody is told. It runs on the watchdog's goroutine, so no
	// further stall is noticed until it returns. It must not close its own Group, which waits for OnStall. A panic in OnStall is
	// contained.
	OnStall func(Stall)

	mu       sync.Mutex
	crew     atomic.Pointer[crew] // nil until started
	closed   bool
	platform *kernel // nil = the real one
}

var errGroupClosed = errors.New("eddy: the Group is closed")

// Start builds the loops and starts them, unless that has happened before. If a loop cannot be built, those built before are
// closed and the error names the loop. Any goroutine.
func (g *Group) Start() error {
	_, err := g.start()
	return err
}

func (g *Group) start() (*crew, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errGroupClosed
	}
	if w := g.crew.Load(); w != nil {
		return w, nil
	}
	w, err := g.build()
	if err != nil {
		return nil, err
	}
	if err := w.run(); err != nil {
		return nil, err
	}
	g.crew.Store(w)
	return w, nil
}

// build makes the loops without running them.
func (g *Group) build() (*crew, error) {
	w, err := g.prepare()
	if err != nil {
		return nil, err
	}
	for i := range w.set.loops {
		l, err := newLoop(w, i, w.loopName(i))
		if err != nil {
			for _, built := range w.loops {
				built.Discard()
			}
			return nil, err
		}
		w.loops = append(w.loops, l)
	}
	w.handles = w.handlesOf(w.loops)
	return w, nil
}

// Loop returns a handle to loop i, nil before the start and for an i that is not in the group. Any goroutine.
func (g *Group) Loop(i int) *Loop {
	w := g.crew.Load()
	if w == nil || i < 0 || i >= len(w.loops) {
		return nil
	}
	return &w.loops[i].handle
}

// prepare validates the fields and makes a crew that has no loops yet.
func (g *Group) prepare() (*crew, error) {
	err := notNegative("Group", []field{{"Loops", int64(g.Loops)}, {"TaskQueue", int64(g.TaskQueue)}})
	if err != nil {
		return nil, err
	}
	tuning, err := g.tuning()
	if err != nil {
		return nil, err
	}
	set := &loopSettings{
		tuning:    tuning,
		name:      orString(g.Name, "worker"),
		loops:     orInt(g.Loops, runtime.GOMAXPROCS(0)),
		poller:    orString(g.Poller, os.Getenv("EDDY_POLLER")),
		wait:      g.WaitMode,
		taskQueue: orInt(g.TaskQueue, defaultTaskQueue),
		chooser:   g.Chooser,
		log:       containedLogger(g.Logger),
	}
	if set.chooser == nil {
		set.chooser = RoundRobin()
	}
	k := g.platform
	if k == nil {
		k = realKernel(set.poller)
	}
	leaks, err := g.leaks(set.log)
	if err != nil {
		return nil, err
	}
	return &crew{set: set, kernel: k, leaks: leaks, shared: buf.NewSharedPool(retainedBuffers*set.loops, leaks)}, nil
}

// leaks makes the detector of the configured level, nil when that is off.
func (g *Group) leaks(log *slog.Logger) (*buf.Leaks, error) {
	level := g.LeakDetection
	if level == buf.LeakDefault {
		var err error
		if level, err = buf.ParseLeakLevel(os.Getenv("EDDY_LEAKS")); err != nil {
			return nil, fmt.Errorf("eddy: $EDDY_LEAKS: %w", err)
		}
	}
	leaks, err := buf.NewLeaks(level, log, g.OnLeak)
	if err != nil {
		return nil, fmt.Errorf("eddy: Group.LeakDetection: %w", err)
	}
	return leaks, nil
}

// Buffers returns the pool of counted buffers for messages that several connections share, nil before the start. Any
// goroutine.
func (g *Group) Buffers() *buf.SharedPool {
	w := g.crew.Load()
	if w == nil {
		return nil
	}
	return w.shared
}

// In reports whether the caller runs on one of the group's loops. Code that blocks must refuse to run there. A function that
// returns !g.In() is what executor.Block, executor.CallerRuns and ring.NewBlocker take. It costs about a
// microsecond. Any goroutine.
func (g *Group) In() bool {
	w := g.crew.Load()
	if w == nil {
		return false
	}
	id := goroutineID()
	return slices.ContainsFunc(w.loops, func(l *loop) bool { return l.Vitals.Goroutine.Load() == id })
}

// OnLoop reports whether the caller runs on a loop of any group, where code must not block. It takes some microseconds. Any
// goroutine.
func OnLoop() bool { return reactor.OnLoop() }

// Stats returns the numbers of each loop, nil before the start. Any goroutine.
func (g *Group) Stats() []LoopStats {
	w := g.crew.Load()
	if w == nil {
		return nil
	}
	return w.stats()
}

// Close ends the loops and waits for them. Connections that are still open close with CloseServerShutdown, so close or
// shut down the servers and dialers first. Close returns nil, also when the Group was closed before or never started.
// Any goroutine but a loop of any group, where Close returns ErrOnLoop.
func (g *Group) Close() error {
	if g.crew.Load() != nil && reactor.OnLoop() {
		return ErrOnLoop
	}
	g.mu.Lock()
	g.closed = true
	w := g.crew.Load()
	g.mu.Unlock()
	if w == nil {
		return nil
	}
	w.end(w.loops)
	if w.dog != nil {
		w.dog.Stop()
	}
	return nil
}

// tuneBoss gives the group of a server's boss the settings of its workers, except CPUs and Spin, which take up a
// processor.
func (s *tuning) tuneBoss(g *Group) {
	const off = -1
	g.IORatio, g.TaskBudget, g.MinTasks, g.MaxEvents = s.ioRatio, s.taskBudget, s.minTasks, s.maxEvents
	g.RebuildAfter = s.rebuildAfter
	if s.rebuildAfter == 0 {
		g.RebuildAfter = off
	}
	g.StallThreshold, g.OnStall = s.stall, s.onStall
	if s.stall == 0 {
		g.StallThreshold = off
	}
}

func (w *crew) stats() []LoopStats {
	all := make([]LoopStats, len(w.loops))
	for i, l := range w.loops {
		all[i] = l.snapshot()
	}
	return all
}
