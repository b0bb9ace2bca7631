package eddy

// CloseFuture returns the Future of the connection's end, which succeeds when the descriptor is closed and the handlers on the
// loop have been told. Its Done is a channel for select; Conn.CloseError says why. There is one per connection; it cannot be
// cancelled. Any goroutine.
func (c *Conn) CloseFuture() *Future {
	x := c.extend()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closing == nil {
		x.closing = &Future{loop: c.loop, conn: c, fixed: true}
		if x.over {
			x.closing.state = futureSucceeded
		}
	}
	return x.closing
}

// AllOf returns a Future that completes when all of fs have, so that nothing of it goes on any more when it is done. The
// Future succeeds when all have succeeded, and fails with the error of the part that failed first. AllOf cannot be cancelled.
// Its parts can, and then count as failed with ErrCanceled. Listeners run on the loop of the first of fs. Without parts
// AllOf has succeeded, and listeners run at once on the goroutine that adds them. AllOf costs one Future and a word per part,
// and no goroutine. Any goroutine.
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

// joinAbove makes f a part of all.
func (f *Future) joinAbove(all *Future) {
	f.mu.Lock()
	if f.state == futurePending {
		f.above = append(f.above, all)
		f.mu.Unlock()
		return
	}
	err := f.err
	f.mu.Unlock()
	all.partEnded(err, nil)
}
