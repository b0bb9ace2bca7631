package eddy

import (
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/internal/reactor"
)

// crew is what a started Group consists of. Immutable.
type crew struct {
	set     *loopSettings
	kernel  *kernel
	loops   []*loop
	handles []*Loop       // of the loops, for the Chooser
	turn    atomic.Uint32 // next in turn, for servers that take one loop as their boss and for connections whose Chooser panics
	leaks   *buf.Leaks    // nil when leak detection is off
	shared  *buf.SharedPool
	logs    logSamplers

	dog *reactor.Watchdog // nil without one
}

// loopSettings are a Group's fields after validation. Immutable, shared by its loops.
type loopSettings struct {
	name      string
	loops     int
	poller    string
	wait      WaitMode
	taskQueue int
	chooser   Chooser
	log       *slog.Logger
	tuning
}

// run starts the loops and their watchdog. If a loop cannot start, those that run are ended.
func (w *crew) run() error {
	if w.set.stall > 0 && w.kernel.start == nil { // simulated time does not pass while a loop runs
		w.dog = w.newWatchdog()
	}
	for i, l := range w.loops {
		l.Dog = w.dog
		if err := l.start(); err != nil {
			for _, rest := range w.loops[i+1:] {
				rest.Discard()
			}
			w.end(w.loops[:i])
			return err
		}
	}
	if w.dog != nil {
		go w.dog.Run()
	}
	return nil
}

// end ends loops that run and waits for them.
func (w *crew) end(loops []*loop) {
	for _, l := range loops {
		l.do(func() {
			l.Stopping = true
			l.closeAll()
		})
	}
	for _, l := range loops {
		w.kernel.wait(l.Done, nil)
	}
}

// bossName is the name of the group that a server makes for its listener, and of that group's only loop.
const bossName = "boss"

func (w *crew) loopName(i int) string {
	if w.set.name == bossName && w.set.loops == 1 {
		return bossName
	}
	return w.set.name + "-" + strconv.Itoa(i)
}

// name returns the name of the group's readiness backend.
func (w *crew) name() string { return orString(w.set.poller, backend.Default()) }

// nextBoss returns the loop that serves the next listener.
func (w *crew) nextBoss() *loop {
	return w.loops[(w.turn.Add(1)-1)%uint32(len(w.loops))]
}

// post runs f on the loop, beyond the bound of its tasks: each caller must have a bound of its own. A loop that has ended does
// nothing. Any goroutine.
func (l *loop) post(f func()) { _ = l.Tasks.PushControl(task{kind: taskFunc, msg: f}) }

// do runs f on the loop and waits for it, or for the end of the loop. Any goroutine but a loop.
func (l *loop) do(f func()) {
	ran := make(chan struct{})
	err := l.Tasks.PushControl(task{kind: taskFunc, msg: func() {
		defer close(ran)
		f()
	}})
	if err != nil {
		return
	}
	l.kernel.wait(ran, l.Done)
}

// tuning holds a Group's settings for its loops, after validation.
type tuning struct {
	ioRatio, taskBudget, minTasks int
	maxEvents                     int
	rebuildAfter                  int // 0 = never
	strategy                      func(timeout time.Duration, empty int) WaitDecision
	cpus                          []int
	spin                          time.Duration
	stall                         time.Duration // 0 = never
	onStall                       func(Stall)
}

// reactor returns the settings of loop i.
func (s *loopSettings) reactor(i int) *reactor.Settings {
	set := &reactor.Settings{
		TaskQueue: s.taskQueue, MaxEvents: s.maxEvents,
		IORatio: s.ioRatio, TaskBudget: s.taskBudget, MinTasks: s.minTasks,
		RebuildAfter: s.rebuildAfter, Spin: s.spin, Stall: s.stall,
		Pinned: s.wait == WaitPinned, CPU: -1,
	}
	if len(s.cpus) > 0 {
		set.CPU = s.cpus[i%len(s.cpus)]
	}
	if f := s.strategy; f != nil {
		set.Strategy = func(timeout time.Duration, empty int) reactor.Decision { return reactor.Decision(f(timeout, empty)) }
	}
	return set
}

// checkPinned refuses options that need loops in WaitPinned.
func (s *tuning) checkPinned(wait WaitMode) error {
	for _, cpu := range s.cpus {
		if cpu < 0 {
			return fmt.Errorf("eddy: Group.CPUs names processor %d: it must not be negative", cpu)
		}
	}
	if wait == WaitPinned {
		return nil
	}
	if len(s.cpus) > 0 {
		return fmt.Errorf("eddy: Group.CPUs names %d processors: only loops in WaitPinned can be pinned", len(s.cpus))
	}
	if s.spin != 0 {
		return fmt.Errorf("eddy: Group.Spin is %v: only loops in WaitPinned may spin", s.spin)
	}
	return nil
}

// newWatchdog makes the watchdog of the loops, which tells the log and the listener of stalls.
func (w *crew) newWatchdog() *reactor.Watchdog {
	vitals := make([]*reactor.Vitals, len(w.loops))
	for i, l := range w.loops {
		vitals[i] = &l.Vitals
	}
	return reactor.NewWatchdog(w.kernel.clock, w.set.stall, vitals, func(i int, took time.Duration) { w.reportStall(w.loops[i], took) })
}

// reportStall tells the log and the listener.
func (w *crew) reportStall(l *loop, took time.Duration) {
	s := Stall{Loop: l.Name, For: took}
	if c := l.serving.Load(); c != nil {
		s.Conn, s.Peer = c.ID(), c.RemoteAddr()
	}
	ok, held := w.logs.stalls.Allow(w.kernel.clock.Now())
	if ok {
		s.Stack = reactor.StackOf(l.Vitals.Goroutine.Load())
		s.Handler = reactor.HandlerIn(s.Stack)
		s.Starved = s.Handler == "" && reactor.Starved(s.Stack)
		text := "eddy: a handler blocks its loop"
		if s.Starved {
			text = "eddy: a loop gets no processor"
		}
		w.set.log.Warn(text, "loop", s.Loop, "for", s.For, "handler", s.Handler, "conn", s.Conn, "peer", s.Peer, "held_back", held, "stack", s.Stack)
	}
	if w.set.onStall != nil {
		w.tellStall(s)
	}
}

func (w *crew) tellStall(s Stall) {
	defer func() {
		if v := recover(); v != nil {
			w.set.log.Error("eddy: panic in OnStall", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	w.set.onStall(s)
}

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
