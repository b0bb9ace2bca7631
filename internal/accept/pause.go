package accept

import (
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// Back-off of accepting after the process ran out of descriptors.
const (
	backoffMin = 5 * time.Millisecond
	backoffMax = time.Second
)

// failed handles an accept error. Out of descriptors, it gives up the reserve to accept and close what waits, so that peers
// get an answer. Then accepting pauses, longer each time, and the engine lives on. It reports whether more may wait.
func (a *Acceptor[T]) failed(err error) (more bool) {
	l := a.Loop
	a.Set.Tally.Errors.Add(1)
	if sys.IsDescriptorLimit(err) {
		more = a.shed()
	}
	a.backoff = min(max(2*a.backoff, backoffMin), backoffMax)
	if ok, held := a.Host.Failures.Allow(l.Now); ok {
		l.Log.Warn("eddy: accept failed, pausing", "addr", a.Addr, "err", err, "pause", a.backoff, "held_back", held)
	}
	a.pause(a.backoff)
	return more
}

// pause stops accepting for a time, unless resume is called before.
func (a *Acceptor[T]) pause(d time.Duration) {
	if a.paused || a.closed || a.last > 0 {
		return
	}
	l := a.Loop
	a.paused = true
	a.Set.Tally.Pauses.Add(1)
	if err := l.Rewatch(a.token, sys.None); err != nil {
		l.Log.Error("eddy: pausing the listener failed", "err", err)
	}
	var err error
	if a.timer, err = l.After(nil, d, a.resume); err != nil {
		a.resume()
	}
}

// roomCheck is how often an acceptor that waits for room looks for itself. Room may also come from others that share its
// loops, or from the memory budget.
const roomCheck = 100 * time.Millisecond

// awaitRoom pauses until a connection has ended.
func (a *Acceptor[T]) awaitRoom() {
	if !a.paused {
		a.pause(roomCheck)
		a.forRoom = a.paused
	}
	a.Set.Tally.waiting.Store(true)
	if cause, _ := a.claimRoom(); cause == causeNone { // room came before waiting was set
		a.returnRoom()
	}
}

// Wake ends a pause for want of room, because there may be some. Pauses for other causes, such as an accept that failed, last
// their time. Any goroutine.
func (a *Acceptor[T]) Wake() {
	a.Host.Post(func() {
		if a.forRoom {
			a.resume()
		}
	})
}

// resume accepts again after a pause.
func (a *Acceptor[T]) resume() {
	if a.closed || !a.paused {
		return
	}
	a.paused, a.forRoom = false, false
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.reserve < 0 {
		a.takeReserve()
	}
	if err := a.Loop.Rewatch(a.token, sys.Read); err != nil {
		a.Loop.Log.Error("eddy: resuming the listener failed, trying again", "err", err)
		a.pause(max(a.backoff, backoffMin))
	}
}

// shed accepts and closes what waits, with the reserve descriptor, and reports whether more may wait.
func (a *Acceptor[T]) shed() (more bool) {
	for range a.Set.Batch {
		if a.reserve < 0 {
			return false
		}
		a.discard(a.reserve)
		a.reserve = -1
		fd, peer, err := a.next()
		if err == nil {
			a.Set.Tally.Shed.Add(1)
			a.refuse(turnAway{Refusal: Refusal{Peer: peer, Cause: CauseDescriptors}, fd: fd})
		}
		a.takeReserve()
		if err != nil {
			return false
		}
	}
	return true
}

func (a *Acceptor[T]) takeReserve() {
	fd, err := a.Sock.OpenReserve()
	if err != nil {
		fd = -1
	}
	a.reserve = fd
}
