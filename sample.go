package eddy

import "github.com/go-eddy/eddy/internal/sample"

// logSamplers are the samplers of a group, one per kind of line that a peer or a faulty handler can cause at will.
type logSamplers struct {
	panics, resets, accepts, refusals, failed  sample.Lines
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
