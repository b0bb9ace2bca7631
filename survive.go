package eddy

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/pprof"

	"github.com/go-eddy/eddy/internal/sys"
)

// start runs the loop on its own goroutine and returns once it runs. Its only error is that the loop cannot be pinned to
// its processor.
func (l *loop) start() error {
	if l.kernel.start != nil {
		l.kernel.start(l)
		return nil
	}
	began := make(chan error, 1)
	go l.run(began)
	return <-began
}

// run is the loop's goroutine. A handler that ends it with runtime.Goexit ends only its connection; the loop continues on
// another goroutine.
func (l *loop) run(began chan<- error) {
	over := false
	defer func() {
		if !over { // runtime.Goexit
			l.orphaned = true
			go l.run(nil)
		}
	}()
	if err := l.settleThread(); err != nil && began != nil {
		over = true
		l.tasks.close()
		_ = l.poller.Close() // the error that led here is the one to report
		close(l.done)
		began <- err
		return
	}
	labels := pprof.Labels("eddy_loop", l.name)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), labels))
	l.goid.Store(goroutineID())
	if began != nil {
		began <- nil
	}
	if l.orphaned {
		l.orphaned = false
		l.afterGoexit()
		l.publish()
	}
	for l.iterate() {
	}
	l.teardown()
	over = true
	close(l.done)
}

// settleThread gives a pinned loop its own thread, on its processor if it has one. The thread ends with the goroutine,
// because its affinity cannot be undone.
func (l *loop) settleThread() error {
	if l.set.wait != WaitPinned {
		return nil
	}
	runtime.LockOSThread()
	if len(l.set.cpus) == 0 {
		return nil
	}
	cpu := l.set.cpus[int(l.index)%len(l.set.cpus)]
	if err := sys.SetAffinity([]int{cpu}); err != nil {
		return &LoopError{Loop: l.name, Op: "pin to its processor", Err: err}
	}
	return nil
}

// LoopError is a failure of one loop of a group.
type LoopError struct {
	Loop string
	Op   string // what the loop could not do
	Err  error
}

// Error names the loop, what it could not do and why.
func (e *LoopError) Error() string {
	return "eddy: loop " + e.Loop + " cannot " + e.Op + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *LoopError) Unwrap() error { return e.Err }

var errGoexit = errors.New("eddy: a handler ended the goroutine of its loop (runtime.Goexit)")

// afterGoexit closes the connection or registration that was being served when a handler ended the previous goroutine.
func (l *loop) afterGoexit() {
	c := l.serving.Load()
	if l.current != nil {
		c = l.current.conn
	}
	l.current = nil
	l.batch = nil
	l.granted = 0
	l.prepaidOver()
	l.counters[countPanics]++
	l.traceOver()
	l.wakePools()
	l.log.Error("eddy: a handler ended the goroutine of its loop, going on", "loop", l.name, "conn", connName(c))
	if c != nil && c.loop == l && !c.shows(gone) {
		c.beginClose(CloseInternalError, errGoexit)
	}
	if r := l.inHandler; r != nil {
		l.inHandler = nil
		r.end(errGoexit)
	}
}

func connName(c *Conn) string {
	if c == nil {
		return "none"
	}
	return c.ID().String()
}

// turn is one iteration. A panic that reaches it came from the engine itself, because those of handlers are contained
// where they are called. The rest of the iteration is skipped. Nothing is lost: readiness is reported anew and the lists
// keep what was not done. The iteration ends as any other, with the check whether to stop.
func (l *loop) turn() {
	defer l.survive()
	l.endBatch() // needed if the turn before was cut short
	n := l.wait()
	l.runTasks(n)
	l.processEvents(n)
	l.resumeReady()
	l.expireDeadlines()
	l.notifyFutures()
	l.flushDirty()
	l.continueDrain()
	l.continueForce()
	l.finishCloses()
	l.notifyFutures()
	l.reuseSpecials()
	l.runTail()
	if l.polled {
		l.recovered()
	}
}

// survive contains a panic of the engine. A loop that panics in each iteration pauses like one whose poller fails.
func (l *loop) survive() {
	v := recover()
	if v == nil {
		return
	}
	l.counters[countFaults]++
	l.faults++
	l.current = nil
	if ok, held := l.logs.panics.Allow(l.clock.Now()); ok {
		l.log.Error("eddy: panic in the loop, going on", "loop", l.name, "panic", v, "held_back", held, "stack", string(debug.Stack()))
	}
	if l.faults > 1 {
		l.rest(l.faults - 1)
	}
}

// contain turns a handler's panic into the close of its connection; the loop goes on.
func (l *loop) contain(c *Conn) {
	v := recover()
	l.traceOver()
	if v == nil {
		return
	}
	stack := debug.Stack()
	l.counters[countPanics]++
	ctx := l.current
	l.current = nil
	l.batch = nil
	l.granted = 0
	l.prepaidOver()
	name := ""
	if ctx != nil {
		name = ctx.node.name
	}
	l.logPanic(name, v, stack)
	if c == nil {
		return
	}
	perr := &PanicError{Value: v, Stack: stack}
	if ctx != nil && ctx.conn == c {
		l.tellPanic(ctx, perr)
	}
	c.closeFlushed(CloseInternalError, perr)
}

// tellPanic tells the ErrorHandlers of a panic; a panic of theirs is only logged.
func (l *loop) tellPanic(ctx *Context, perr *PanicError) {
	defer func() {
		if v := recover(); v != nil {
			l.log.Error("eddy: panic in an error handler", "loop", l.name, "panic", v)
		}
		l.current = nil
	}()
	ctx.fireErrorFrom(ctx, perr, false)
}

// containedLogger returns a logger whose handler may panic, because a loop must not die of its log.
func containedLogger(l *slog.Logger) *slog.Logger {
	return slog.New(containedHandler{orLogger(l).Handler()})
}

type containedHandler struct{ slog.Handler }

func (h containedHandler) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errLogPanic
		}
	}()
	return h.Handler.Handle(ctx, r)
}

func (h containedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return containedHandler{h.Handler.WithAttrs(attrs)}
}

func (h containedHandler) WithGroup(name string) slog.Handler {
	return containedHandler{h.Handler.WithGroup(name)}
}

var errLogPanic = errors.New("eddy: panic in the handler of the log")
