package eddy

// This file ends a listener.

// lastBatch accepts for a server that drains and reports whether that is over: connections that the kernel has made already
// become the server's, or are refused by a limit, and none is reset for having waited. Between the last of them and the end of
// the listener is no time but the kernel's own. On the loop.
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

// mostLast bounds the accepts of a server that drains where its backlog does not.
const mostLast = 64 << 10

// stop closes the listener. Those it has refused keep their time. On the loop.
func (a *acceptor) stop() {
	if a.closed {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.open {
		if err := a.loop.removeSpecial(a.fd, a.token); err != nil {
			a.loop.log.Error("eddy: deregistering the listener failed", "err", err)
		}
	}
	a.close()
}

// leave ends what is left: the listener, and those refused that still wait for their peer's end. On the loop.
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
