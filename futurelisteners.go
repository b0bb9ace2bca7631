package eddy

// CloseFuture returns the Future of the connection's end: it succeeds when the descriptor is closed and the handlers on the
// loop have been told. Conn.CloseError says why. There is one per connection; it cannot be cancelled. Any goroutine.
func (c *Conn) CloseFuture() *Future {
	x := c.extend()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closing == nil {
		x.closing = &Future{loop: c.loop, conn: c, fixed: true}
		if x.over {
			x.closing.state = FutureSucceeded
		}
	}
	return x.closing
}

// AllOf returns a Future that completes when all of fs have: it succeeds when all have succeeded and fails with the error of the
// one that failed first, so that nothing of it goes on any more when it is done. It cannot be cancelled; its parts can, and
// count as failed with ErrCancelled then. Listeners run on the loop of the first of fs; of none, it has succeeded and they run
// at once on the goroutine that adds them. It costs one Future and a word per part, and no goroutine. Any goroutine.
func AllOf(fs ...*Future) *Future {
	all := &Future{fixed: true, patient: true, parts: len(fs) + 1}
	if len(fs) > 0 {
		all.loop = fs[0].loop
	}
	for _, f := range fs {
		f.joinAbove(all)
	}
	all.partEnded(nil, nil)
	return all
}

// joinAbove makes f one of all's parts.
func (f *Future) joinAbove(all *Future) {
	f.mu.Lock()
	if f.state == FuturePending {
		f.above = append(f.above, all)
		f.mu.Unlock()
		return
	}
	err := f.err
	f.mu.Unlock()
	all.partEnded(err, nil)
}

// CloseOnDone is a listener that ends the connection in order when the operation has completed, however that was: what is
// queued is still sent. Of a Future without a connection it does nothing.
func CloseOnDone(f *Future) {
	if c := f.Conn(); c != nil {
		c.CloseAfterFlush(CloseNormal)
	}
}

// CloseOnFailure is a listener that ends the connection at once when the operation failed or was cancelled, for the reason that
// the error classifies to (see WithReason). Of a Future without a connection it does nothing.
func CloseOnFailure(f *Future) {
	if c, err := f.Conn(), f.Err(); c != nil && err != nil {
		c.CloseWith(reasonOf(err), err)
	}
}

// FireErrorOnFailure is a listener that offers the error of an operation that failed or was cancelled to the connection's
// ErrorHandlers, head to tail; what none of them handles closes the connection. One that has ended is told nothing. Of a Future
// without a connection it does nothing. It is to be used with OnDone, and is called on the loop then.
func FireErrorOnFailure(f *Future) {
	c, err := f.Conn(), f.Err()
	if c == nil || err == nil || c.phase == PhaseClosed {
		return
	}
	if rest, last := c.head.offerError(err); rest != nil {
		c.closeFlushed(reasonOf(last), last)
	}
}
