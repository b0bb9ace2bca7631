package eddy

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/transport"
)

var errPeerGone = errors.New("the peer reset the connection")

// closeRequest is a close that another goroutine asked for.
type closeRequest struct {
	reason CloseReason
	err    error
	flush  bool
	reset  bool
}

// closeRequested returns what was asked for, nil for nothing. Any goroutine.
func (c *Conn) closeRequested() *closeRequest {
	if x := c.ext.Load(); x != nil {
		return x.closeReq.Load()
	}
	return nil
}

// requestClose records the first request, or the first immediate one after a flushing one, and tells the loop.
func (c *Conn) requestClose(r closeRequest) {
	r.reason = r.reason.orInternal()
	x := c.extend()
	for {
		old := x.closeReq.Load()
		if old != nil && (!old.flush || r.flush) {
			return
		}
		if x.closeReq.CompareAndSwap(old, &r) {
			break
		}
	}
	_ = c.loop.Tasks.PushControl(task{kind: taskClose, conn: c}) // a stopped loop has closed everything
}

// runCloseRequest carries out the recorded request.
func (c *Conn) runCloseRequest() {
	r := c.closeRequested()
	if r.flush {
		c.closeFlushed(r.reason, r.err)
		return
	}
	if r.reset && !c.has(listedClose) {
		c.raise(aborts)
	}
	c.beginClose(r.reason, r.err)
}

// settleEnd fixes why the connection ends. The first reason stays.
func (c *Conn) settleEnd(reason CloseReason, err error) {
	if c.phase >= PhaseClosing {
		return
	}
	c.clear(handshaking)
	if c.paused&pauseEnd == 0 {
		c.clock = 0
	}
	if reason == CloseServerShutdown && c.has(relieved) && c.set.owner.phase.Load() == int32(serverRunning) {
		reason = CloseOverload // a protocol ends the connection as at the end of the server
	}
	c.ended.Store(&CloseError{Reason: reason, Err: err})
	c.phase = PhaseClosing
	c.dropParked()
	if x := c.ext.Load(); x != nil {
		x.values.release()
		x.cancelRequests(contextError(reason))
	}
}

// beginClose ends the connection in this iteration; what is queued is lost.
func (c *Conn) beginClose(reason CloseReason, err error) {
	c.settleEnd(reason.orInternal(), err)
	c.kill()
}

// kill puts the connection on the list of those that are closed at the end of the iteration.
func (c *Conn) kill() {
	if !c.has(listedClose) {
		c.raise(listedClose)
		c.loop.lists.closing = append(c.loop.lists.closing, c)
	}
}

// closeFlushed ends the connection after what is queued was sent: no more reads, flush, FIN, linger.
func (c *Conn) closeFlushed(reason CloseReason, err error) {
	reason = reason.orInternal()
	if c.phase >= PhaseClosing || c.awaitEncoding(reason, err) {
		return
	}
	if c.sayFarewell(reason) {
		c.gatheredOut(nil)
	}
	if c.phase >= PhaseClosing {
		return
	}
	c.settleEnd(reason, err)
	c.raise(finishing)
	if c.clock == 0 {
		c.finishWithin(c.set.flushTimeout)
	}
	c.flush()
	c.account()
}

// finishWithin bounds the rest of the connection's life by limit.
func (c *Conn) finishWithin(limit time.Duration) {
	c.clock = transport.Until(c.loop.timeout(limit))
	c.armDeadline()
}

// awaitEncoding puts off an orderly end while earlier writes are on their way through a pool, and reports whether it did.
func (c *Conn) awaitEncoding(reason CloseReason, err error) bool {
	if c.paused&pauseEnd != 0 {
		return c.counts.encoding.Load() > 0
	}
	c.mark(watchIdle) // before the count is read, so that its fall to zero is told
	if c.counts.encoding.Load() == 0 {
		return false
	}
	c.extend().late = &CloseError{Reason: reason, Err: err}
	c.paused |= pauseEnd
	c.clear(handshaking)
	c.finishWithin(c.set.flushTimeout)
	return true
}

// startLinger runs when the last byte is flushed: it sends FIN and waits shortly for the peer's, discarding what the peer
// still sends. Closing with unread input would make the kernel send a reset, which can overtake the response.
func (c *Conn) startLinger() {
	if c.has(lingering) {
		return
	}
	if c.has(inputEnded) || !c.has(outputEnded) && c.loop.sock.ShutdownWrite(c.fd) != nil {
		c.kill()
		return
	}
	c.raise(lingering)
	c.frames = lingerPieces
	c.finishWithin(c.set.lingerTimeout)
	c.setInterest(sys.Read)
}

// finishLate handles the deadline of a connection that is finishing: the peer did not take the last bytes, or did not
// end its side.
func (c *Conn) finishLate() {
	if c.phase < PhaseClosing {
		late := c.ext.Load().late
		c.settleEnd(late.Reason, late.Err)
	}
	if !c.has(lingering) && c.ended.Load().Reason == CloseNormal {
		c.ended.Store(&CloseError{Reason: CloseWriteTimeout, Err: errFlush})
	}
	c.kill()
}

// ioFailed counts and logs a failed system call and ends the connection.
func (c *Conn) ioFailed(op string, err error) {
	if err == errPeerGone || sys.IsReset(err) { //nolint:errorlint // our own sentinel, passed bare
		c.loop.Counters[meter.Resets]++
		c.loop.logReset(c, op, err)
	} else {
		c.loop.logFailed(c, op, err)
	}
	c.beginClose(CloseIOError, fmt.Errorf("eddy: %s: %w", op, err))
}

// FinishCloses is the phase that really closes. This phase comes last, so that no handler of the iteration can meet a
// descriptor that was reused.
func (l *loop) FinishCloses() {
	for i := 0; i < len(l.lists.closing); i++ {
		if c := l.lists.closing[i]; c != nil { // nil after a panic that cut this phase short
			l.lists.closing[i] = nil
			l.finishClose(c)
		}
	}
	l.lists.closing = l.lists.closing[:0]
}

// stuck reports whether the connection ended because its peer does not take what was written.
func (c *Conn) stuck() bool {
	end := c.ended.Load()
	_, late := end.Err.(*DeadlineError) //nolint:errorlint // our own, passed bare
	return end.Reason == CloseWriteTimeout || late && end.Reason == CloseBackpressureLimit
}

// finishClose releases everything the connection holds and tells its handlers, exactly once.
func (l *loop) finishClose(c *Conn) {
	c.setPhase(PhaseClosed)
	if c.has(registered) {
		l.LogDeregister("a connection", l.Poller.Remove(c.fd))
	}
	if c.resets() {
		_ = l.sock.Abort(c.fd) // without it the close is an orderly one
	}
	if err := l.sock.Close(c.fd); err != nil {
		l.Log.Error("eddy: closing the descriptor failed", "conn", c.ID(), "err", err)
	}
	l.writeInterest -= int64(c.interest >> 1 & 1)
	l.deadlines.wheel.Cancel(c.timer)
	c.timer = 0
	c.stopTimers()
	l.table.Release(c.slot)
	l.logSlow(c, c.ended.Load())
	c.releaseBuffers()
	c.failFutures()
	c.recount(0, 0)
	l.assigned.Add(-1)
	c.set.owner.countClose(c.ended.Load().Reason, c.RemoteAddr(), c.tenant())
	c.set.owner.noteClose(l.Now, c)
	c.set.owner.ended.Add(1)
	c.set.owner.discharge(c)
	l.serving.Store(c)
	defer func() {
		c.mark(gone)
		if x := c.ext.Load(); x != nil {
			x.finish()
		}
	}()
	l.tellEnd(c)
}

func (c *Conn) releaseBuffers() {
	c.dropInput()
	if c.has(marked) {
		c.endMarks()
	}
	for c.out.Head != nil {
		s := c.out.Pop()
		c.queued.Add(-int64(s.Len()))
		c.giveBack(s)
	}
}

// closeAll ends every connection now, because the loop ends.
func (l *loop) closeAll() {
	l.abandon(nil)
	for c := range l.table.All() {
		c.beginClose(CloseServerShutdown, nil)
	}
}

// What follows ends our side of a connection while the peer's goes on.

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
