package eddy

// admit counts a connection before it exists and undoes that when the limit is passed, so that a burst of accepts
// cannot overshoot. limit 0 is none.
func (e *endpoint) admit(limit int) bool {
	n := e.active.Add(1)
	if limit > 0 && n > int64(limit) {
		e.active.Add(-1)
		return false
	}
	return true
}

// reject counts a connection that was refused before it existed.
func (e *endpoint) reject() {
	e.rejected.Add(1)
	e.closed[CloseAdmissionRejected].Add(1)
}

// release undoes one admit, exactly once per connection, and tells a Shutdown that waits.
func (e *endpoint) release() {
	if e.active.Add(-1) == 0 {
		select {
		case e.released <- struct{}{}:
		default:
		}
	}
}
