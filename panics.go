package eddy

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sample"
)

// LoopError reports what one loop of a group could not do, such as watch a descriptor.
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

// Orphaned closes the connection or registration that was being served when a handler ended the previous goroutine.
func (l *loop) Orphaned() {
	c := l.serving.Load()
	if l.inHand.ctx != nil {
		c = l.inHand.ctx.conn
	}
	l.inHand.ctx = nil
	l.batch = nil
	l.inHand.granted = 0
	l.prepaidOver()
	l.Counters[meter.Panics]++
	l.traceOver()
	l.wakePools()
	l.Log.Error("eddy: a handler ended the goroutine of its loop, going on", "loop", l.Name, "conn", connName(c))
	if c != nil && c.loop == l && !c.shows(gone) {
		c.beginClose(CloseInternalError, errGoexit)
	}
	if r := l.inHand.descriptor; r != nil {
		l.inHand.descriptor = nil
		r.end(errGoexit)
	}
}

func connName(c *Conn) string {
	if c == nil {
		return "none"
	}
	return c.ID().String()
}

// Faulted follows a panic of the engine itself: no handler runs any more.
func (l *loop) Faulted() { l.inHand.ctx = nil }

// Panicked notes a panic of the application that belongs to no connection.
func (l *loop) Panicked(v any) {
	l.Counters[meter.Panics]++
	l.logPanic("", v, debug.Stack())
}

// ask calls a function of the application that belongs to no connection, and returns false if it panicked.
func (l *loop) ask(name string, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			l.Counters[meter.Panics]++
			l.logPanic(name, v, debug.Stack())
		}
	}()
	l.serving.Store(nil)
	f()
	return true
}

// contain turns a handler's panic into the close of its connection; the loop goes on.
func (l *loop) contain(c *Conn) {
	v := recover()
	l.traceOver()
	if v == nil {
		return
	}
	stack := debug.Stack()
	l.Counters[meter.Panics]++
	ctx := l.inHand.ctx
	l.inHand.ctx = nil
	l.batch = nil
	l.inHand.granted = 0
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
			l.Log.Error("eddy: panic in an error handler", "loop", l.Name, "panic", v)
		}
		l.inHand.ctx = nil
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

// logSamplers are the samplers of a group, one per kind of line that a peer or a faulty handler can cause at will.
type logSamplers struct {
	panics, resets, accepts, refusals, failed  sample.Lines
	places                                     sample.Lines
	slow, stalls                               sample.Lines
	unhandled, unencoded, tail, still, offLoop sample.Lines
}

// logPanic reports a handler's panic with its stack.
func (l *loop) logPanic(handler string, v any, stack []byte) {
	if ok, held := l.logs.panics.Allow(l.Clock.Now()); ok {
		l.Log.Error("eddy: panic in a handler", "loop", l.Name, "handler", handler, "panic", v, "held_back", held, "stack", string(stack))
	}
}

// logReset reports a reset connection in one line, never with a stack.
func (l *loop) logReset(c *Conn, op string, err error) {
	if ok, held := l.logs.resets.Allow(l.Now); ok {
		l.Log.Info("eddy: connection reset", "peer", c.RemoteAddr(), "op", op, "phase", c.phase, "err", err, "held_back", held)
	}
}

// logSlow reports a connection that was closed because too much waited for its peer or for a pool, with the bound and the
// amount.
func (l *loop) logSlow(c *Conn, end *CloseError) {
	if end.Reason == CloseBackpressureLimit || end.Reason == CloseWriteTimeout {
		l.warn(&l.logs.slow, "eddy: closed a connection that met a bound of what may wait", "peer", c.RemoteAddr(), "reason", end.Reason, "queued", c.queued.Load(), "err", end.Err)
	}
}

// logFailed reports a connection that ends because a system call failed, for want of memory or because its descriptor is
// out of order.
func (l *loop) logFailed(c *Conn, op string, err error) {
	l.warn(&l.logs.failed, "eddy: a connection ends because a system call failed", "peer", c.RemoteAddr(), "op", op, "err", err)
}
