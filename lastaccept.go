package eddy

// This file ends a listener.

// lastBatch accepts for a draining server and reports whether it is done. Connections that the kernel has already
// established become the server's, or are refused by a limit; none is reset for having waited. Only the kernel's own time
// lies between the last accept and the close of the listener. Loop only.
func (a *acceptor) lastBatch() (over bool) {
	if a.closed {
		return true
	}
	if a.last == 0 {
		a.last = orInt(a.set.listen.Backlog, mostLast)
	}
	more := a.batch()
	if a.last -= a.set.acceptBatch; more && a.last > 0 {
		return false
	}
	a.stop()
	return true
}

// mostLast bounds the accepts of a draining server whose backlog is not set.
const mostLast = 64 << 10

// stop closes the listener. Refused sockets may still wait for their peer's end. Loop only.
func (a *acceptor) stop() {
	if a.closed {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.open {
		if err := a.loop.Unwatch(a.token); err != nil {
			a.loop.Log.Error("eddy: deregistering the listener failed", "err", err)
		}
	}
	a.close()
}

// leave ends the listener and the refused sockets that still wait for their peer's end. Loop only.
func (a *acceptor) leave() {
	a.stop()
	a.partings.each((*parting).end)
}

// release closes what a loop that has ended left open.
func (a *acceptor) release() {
	if !a.closed {
		a.close()
	}
	a.partings.each(func(p *parting) {
		a.partings.leave(p)
		a.discard(p.fd)
	})
}

func (a *acceptor) close() {
	a.closed = true
	_ = a.sock.Close(a.fd) // nobody to tell
	if a.reserve >= 0 {
		a.discard(a.reserve)
		a.reserve = -1
	}
}
