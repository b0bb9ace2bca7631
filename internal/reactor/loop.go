package reactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/goid"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/internal/sys"
)

var (
	// ErrClosed is the error of whatever is asked of a loop that has ended.
	ErrClosed = errors.New("eddy: connection closed")
	// ErrSaturated is the error of a task that finds the queue full.
	ErrSaturated = errors.New("eddy: task queue of the loop is full")
)

// Resident is what lives on a Loop: connections, and the tasks of those who write to them. The loop calls its methods on
// its own goroutine. Only RunTask is called more often than once or twice in an iteration.
type Resident[T any] interface {
	// Begin is the first phase. It also puts in order what a panic or the end of a goroutine has cut short. It reports
	// whether input waits to be handled.
	Begin() (input bool)
	// RunTask carries out one task. It contains the panics of the application.
	RunTask(t T)
	// Events handles readiness, passing events of descriptors on to Loop.Ready. It returns how many registrations it has
	// given up that FinishCloses will remove.
	Events(events []sys.Event) (ended int)
	// FinishCloses closes what has ended in this iteration.
	FinishCloses()
	// Finish does what is left of an iteration: work that needs no event, deadlines, flushes, closes.
	Finish()
	// Waiting reports whether there is work that no event will announce.
	Waiting() bool
	// Deadline returns when the resident has to be called again.
	Deadline() (when int64, ok bool)
	// Publish makes the numbers of the iteration visible and wakes those it has given work to.
	Publish()

	// Leave ends everything that lives on the loop, because the loop is to end.
	Leave()
	// Empty reports whether nothing lives on the loop any more.
	Empty() bool
	// Last is what is left of an iteration for a loop that has ended. It reports whether there is more.
	Last() (more bool)

	// Call calls a function of the application, for the owner of a timer if there is one, and contains its panics.
	Call(o Owner, f func())
	// Panicked notes a panic of the application that the loop has met itself.
	Panicked(v any)
	// Faulted follows a panic of the engine itself that cut an iteration short.
	Faulted()
	// Orphaned follows the end of the loop's goroutine by runtime.Goexit.
	Orphaned()
	// Migrate registers what Events serves with the loop's new poller, and removes it from the old one.
	Migrate(old sys.Poller) (migrated, lost int)
}

// Kernel is what a loop takes from the system.
type Kernel struct {
	Clock sys.Clock
	Open  func() (sys.Poller, error)
	Pause func(d time.Duration, alarm <-chan struct{}) // how a loop without a working poller waits; nil = in real time
	Yield func()                                       // lets other goroutines run; nil = they need no time of the loop's
}

// Settings say how a loop runs.
type Settings struct {
	TaskQueue    int // bound of the task queue
	MaxEvents    int // of one wait
	IORatio      int // percent of a busy loop's time that belongs to I/O
	TaskBudget   int // tasks in an iteration
	MinTasks     int // tasks in an iteration without I/O
	RebuildAfter int // early returns of the poller in a row, 0 = never
	Strategy     Strategy
	Spin         time.Duration // polls without waiting before it blocks; negative = for ever
	Stall        time.Duration // of an iteration; 0 = never
	Pinned       bool          // the loop has a thread of its own
	CPU          int           // that the thread runs on; negative = any
}

// Loop is one reactor: a goroutine and its poller. Everything in it belongs to that goroutine, except for what is atomic,
// the task queue, and the published numbers.
type Loop[T any] struct {
	Name     string
	Set      *Settings
	Kernel   *Kernel
	Clock    sys.Clock
	Poller   sys.Poller
	Log      *slog.Logger
	Now      int64 // monotonic ns, read once per wait
	Tasks    Queue[T]
	Timers   Timers
	Lag      LagMeter
	Dog      *Watchdog // nil without one
	Counters meter.Counters
	Stats    meter.Published
	Vitals   Vitals
	Stopping bool          // ends when nothing lives on it any more
	Done     chan struct{} // closed at the end

	up       Resident[T]
	events   []sys.Event
	budget   ioBudget
	waits    waits
	health   health
	fds      descriptors
	orphaned bool          // its goroutine was ended by a handler
	panics   *sample.Lines // of the log
}

// Init makes the loop ready for Start, with up living on it. It opens the poller.
func (l *Loop[T]) Init(up Resident[T], name string, set *Settings, k *Kernel, log *slog.Logger, panics *sample.Lines) error {
	poller, err := k.Open()
	if err != nil {
		return fmt.Errorf("eddy: poller of loop %s: %w", name, err)
	}
	l.up, l.Name, l.Set, l.Kernel, l.Clock, l.Log, l.panics = up, name, set, k, k.Clock, log, panics
	l.events = make([]sys.Event, min(minEvents, set.MaxEvents))
	l.Done = make(chan struct{})
	l.health.alarm = make(chan struct{}, 1)
	l.waits.strategy = set.Strategy
	l.usePoller(poller)
	l.Now = l.Clock.Now()
	l.Lag.start(l.Now)
	l.Vitals.stats = &l.Stats
	l.Tasks.Limit = set.TaskQueue
	l.Tasks.wake = l.wakeup
	return nil
}

// turn is one iteration. A panic that reaches it came from the engine itself, because those of handlers are contained where
// they are called. The rest of the iteration is left out then. Nothing is lost: readiness is reported anew, and the lists
// keep what was not done.
func (l *Loop[T]) turn() {
	defer l.survive()
	l.budget.input = l.up.Begin()
	n := l.Wait()
	l.RunTasks(n)
	l.Serve(n)
	l.up.Finish()
	l.reuseDescriptors()
	l.runTail()
	if l.waits.polled {
		l.recovered()
	}
}

// Iterate runs one iteration and reports whether there will be another. That is decided after each iteration, also after
// one that a panic has cut short.
func (l *Loop[T]) Iterate() bool {
	l.turn()
	if l.Stopping {
		l.leave()
	}
	l.up.Publish()
	l.Stats.Publish(&l.Counters)
	return !l.Stopping || !l.up.Empty()
}

// leave ends what lives on a loop that is to end, whatever became of the iteration.
func (l *Loop[T]) leave() {
	defer l.survive()
	l.up.Leave()
}

// RepollAfter is the number of registrations that may end while events are handled before the poller is asked again in
// the same iteration.
const RepollAfter = 256

// Serve handles the n events that Wait reported. When many registrations have ended meanwhile, it closes their descriptors
// and asks the poller once more without waiting, for a fresh view.
func (l *Loop[T]) Serve(n int) {
	ended := l.up.Events(l.events[:n])
	l.growEvents(n)
	ended += l.fds.removed
	if l.fds.removed = 0; ended <= RepollAfter {
		return
	}
	l.up.FinishCloses()
	l.Counters[meter.Repolls]++
	n, err := l.Poller.Wait(l.events, 0)
	if err != nil {
		l.pollFailed(err)
		return
	}
	l.Counters[meter.Events] += uint64(n)
	l.up.Events(l.events[:n])
}

// survive contains a panic of the engine. A loop that meets one in each iteration pauses like one whose poller fails.
func (l *Loop[T]) survive() {
	v := recover()
	if v == nil {
		return
	}
	l.Counters[meter.Faults]++
	l.health.faults++
	l.up.Faulted()
	if ok, held := l.panics.Allow(l.Clock.Now()); ok {
		l.Log.Error("eddy: panic in the loop, going on", "loop", l.Name, "panic", v, "held_back", held, "stack", string(debug.Stack()))
	}
	if l.health.faults > 1 {
		l.rest(l.health.faults - 1)
	}
}

// Start runs the loop on a goroutine of its own and returns when it runs. The error is that of pinning it to its processor.
func (l *Loop[T]) Start() error {
	began := make(chan error, 1)
	go l.Run(began)
	return <-began
}

// Run runs the loop on the calling goroutine until it ends. began may be nil.
func (l *Loop[T]) Run(began chan<- error) { goroutine(func() { l.run(began) }) }

// run is the loop's goroutine. A handler that ends it with runtime.Goexit ends its connection only, because the loop goes
// on on another goroutine. began may be nil.
func (l *Loop[T]) run(began chan<- error) {
	over := false
	defer func() {
		if !over { // runtime.Goexit
			l.orphaned = true
			go l.Run(nil)
		}
	}()
	if err := l.settleThread(); err != nil && began != nil {
		over = true
		l.Tasks.Close()
		l.Discard()
		close(l.Done)
		began <- err
		return
	}
	labels := pprof.Labels("eddy_loop", l.Name)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), labels))
	l.Vitals.Goroutine.Store(goid.Current())
	if began != nil {
		began <- nil
	}
	if l.orphaned {
		l.orphaned = false
		l.up.Orphaned()
		l.Stats.Publish(&l.Counters)
	}
	for l.Iterate() {
	}
	l.Teardown()
	over = true
	close(l.Done)
}

// settleThread gives a pinned loop a thread of its own, on its processor if it has one. The thread ends with the
// goroutine, since its affinity cannot be taken back.
func (l *Loop[T]) settleThread() error {
	if !l.Set.Pinned {
		return nil
	}
	runtime.LockOSThread()
	if l.Set.CPU < 0 {
		return nil
	}
	return sys.SetAffinity([]int{l.Set.CPU})
}

// Discard gives back the poller of a loop that was not started.
func (l *Loop[T]) Discard() { _ = l.Poller.Close() } // the error that led here is the one to report

// Teardown follows the last iteration. It runs what was accepted before the queue closed, ends the registrations and gives the poller back.
func (l *Loop[T]) Teardown() {
	l.Tasks.Close()
	for l.Tasks.Waiting() {
		l.last()
	}
	l.loseDescriptors()
	for l.last() || !l.Tasks.finish() {
		continue
	}
	l.Vitals.BusyFrom.Store(0)
	l.up.Publish()
	l.Stats.Publish(&l.Counters)
	if err := l.Poller.Close(); err != nil && !errors.Is(err, sys.ErrPollerClosed) {
		l.Log.Error("eddy: closing the poller failed", "loop", l.Name, "err", err)
	}
}

// last is what is left of an iteration for a loop that has ended. It reports whether there is more.
func (l *Loop[T]) last() (more bool) {
	l.RunTasks(0)
	l.runTail()
	return l.up.Last()
}

// In reports whether the caller runs on the loop. It costs about a microsecond. Any goroutine.
func (l *Loop[T]) In() bool { return l.Vitals.Goroutine.Load() == goid.Current() }

// goroutine is in the stack of every loop's goroutine. OnLoop knows them by it.
//
//go:noinline
func goroutine(run func()) { run() }

var entry = reflect.ValueOf(goroutine).Pointer()

// OnLoop reports whether the caller runs on a loop, of any group of the process. The caller's stack tells, so that no register
// of loops is needed. Reading it takes microseconds, so OnLoop is for calls that block anyway.
func OnLoop() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for i := n; i > 0; i-- { // run is near the bottom
			if f := runtime.FuncForPC(pcs[i-1] - 1); f != nil && f.Entry() == entry {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// Vitals are signs of life of a loop, which any goroutine may read.
type Vitals struct {
	BusyFrom  atomic.Int64  // begin of the iteration, 0 while the loop sleeps
	Stalls    atomic.Uint64 // iterations that lasted for Settings.Stall
	Goroutine atomic.Uint64 // number of the loop's goroutine

	stalledAt atomic.Int64 // begin of the last iteration that was a stall
	stats     *meter.Published
}

// noteStall counts a stall once per iteration, which is known by its begin. The watchdog notices stalls that last, the loop
// itself those that are over before anybody looked.
func (v *Vitals) noteStall(begin int64) bool {
	last := v.stalledAt.Load()
	if last == begin || !v.stalledAt.CompareAndSwap(last, begin) {
		return false
	}
	v.Stalls.Add(1)
	return true
}
