package accept

import "cmp"

// LastBatch accepts for a draining server and reports whether it is done. Connections that the kernel has already
// established become the server's, or are refused by a limit; none is reset for having waited. Only the kernel's own time
// lies between the last accept and the close of the listener. Before that, sockets that wait for their first bytes are handed
// over. Loop only.
func (a *Acceptor[T]) LastBatch() (over bool) {
	if a.closed {
		return true
	}
	if a.last == 0 {
		a.last = cmp.Or(a.Set.Listen.Backlog, mostLast)
	}
	if a.placeRest() {
		return false
	}
	more := a.batch()
	if a.last -= a.Set.Batch; more && a.last > 0 {
		return false
	}
	a.stop()
	return true
}

// mostLast bounds the accepts of a draining server whose backlog is not set.
const mostLast = 64 << 10

// stop closes the listener. Refused sockets may still wait for their peer's end.
func (a *Acceptor[T]) stop() {
	if a.closed {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.open {
		if err := a.Loop.Unwatch(a.token); err != nil {
			a.Loop.Log.Error("eddy: deregistering the listener failed", "err", err)
		}
	}
	a.close()
}

// Leave ends the listener, the sockets that wait for their first bytes and the refused ones that wait for their peer's end.
// Loop only.
func (a *Acceptor[T]) Leave() {
	a.stop()
	a.loseRest()
	for len(a.partings) > 0 {
		a.part(a.partings[len(a.partings)-1])
	}
}

// Release closes what a loop that has ended left open.
func (a *Acceptor[T]) Release() {
	if !a.closed {
		a.close()
	}
	for _, p := range a.partings {
		a.discard(p.fd)
	}
	a.partings = nil
}

func (a *Acceptor[T]) close() {
	a.closed = true
	a.discard(a.FD)
	if a.reserve >= 0 {
		a.discard(a.reserve)
		a.reserve = -1
	}
}
