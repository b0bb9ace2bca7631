package eddy

import "github.com/go-eddy/eddy/internal/sys"

// This file ends our side of a connection while the peer's goes on.

// CloseWrite ends our side of the stream: what was written before is sent, then the peer reads the end. Through TLS a
// close_notify comes first. Reads go on. The connection ends with ClosePeerClosed as soon as the peer's side has ended as
// well, whatever is in flight. A second call does nothing. Later writes fail with ErrWriteClosed; a write that another
// goroutine makes at the same time may close the connection with that error. Any goroutine. Errors: ErrClosed.
func (c *Conn) CloseWrite() error {
	if err := c.closedError(); err != nil {
		return err
	}
	if c.mark(writeClosed) {
		_ = c.loop.Tasks.PushControl(task{kind: taskFunc, conn: c, msg: c.closeWrite}) // a stopped loop has closed everything
	}
	return nil
}

// Reset ends the connection now with a reset, so that the peer cannot take what it has received for the whole.
// CloseHandlers are given reason and err; what is queued is lost. Reset also cuts short an end that is in order.
// Any goroutine.
func (c *Conn) Reset(reason CloseReason, err error) {
	c.requestClose(closeRequest{reason: reason, err: err, reset: true})
}

// ResetOnCut makes the connection end with a reset whenever the end cuts what our side sends: a forced close, a deadline, an
// error. Use it for streams whose end alone tells the peer that they are whole, such as relayed ones. Ends by CloseWrite and
// CloseAfterFlush stay in order, and so does an end that follows the peer's own. Loop only.
func (c *Conn) ResetOnCut() { c.raise(cutResets) }

// resets reports whether the connection must end with a reset. An orderly end would make a cut stream look whole. A reset
// also frees what the peer does not take; otherwise the kernel keeps those bytes and offers them for minutes.
func (c *Conn) resets() bool {
	sent := c.has(outputEnded|lingering) || c.has(finishing) && c.out.Head == nil
	cut := c.has(cutResets) && !sent && c.ended.Load().Reason != ClosePeerClosed
	return c.has(aborts) || cut || c.stuck()
}

// closeWrite carries CloseWrite out, behind what was submitted before.
func (c *Conn) closeWrite() {
	if c.phase >= PhaseClosing {
		return
	}
	c.raise(outputEnds)
	c.mark(watchIdle) // writes on their way through a pool come before the end
	c.endOutput()
}

// endOutput ends our side as soon as nothing that was written before is left.
func (c *Conn) endOutput() {
	if c.phase >= PhaseClosing || c.counts.encoding.Load() > 0 || c.later() != 0 {
		return
	}
	if c.sayFarewell(CloseNormal) {
		c.gatheredOut(nil)
	}
	if c.phase >= PhaseClosing || c.out.Head != nil {
		return // checkDrain comes back when it is sent
	}
	c.clear(outputEnds)
	c.raise(outputEnded)
	if err := c.loop.sock.ShutdownWrite(c.fd); err != nil {
		c.ioFailed("shutdown", err)
		return
	}
	if c.has(inputEnded) {
		c.peerEnded()
	}
}

// admitLate is admitOnLoop after CloseWrite: only what was written before is taken.
func (c *Conn) admitLate(n int) error {
	if !c.has(outputEnded) && n <= c.loop.inHand.granted {
		c.loop.inHand.granted -= n
		return nil
	}
	c.refused(ErrWriteClosed)
	return ErrWriteClosed
}

// writesClosed returns why a goroutine may not write, nil if it may.
func (c *Conn) writesClosed() error {
	if err := c.closedError(); err != nil {
		return err
	}
	if c.shows(writeClosed) {
		return ErrWriteClosed
	}
	return nil
}

// hungUp reports whether the poller's report says only that both sides have ended. Bytes that the peer sent before are still
// to be read then.
func (c *Conn) hungUp(ready sys.Ready) bool { return c.has(outputEnded) && ready&sys.Failed == 0 }
