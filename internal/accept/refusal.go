package accept

import (
	"net/netip"
	"slices"

	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
)

// turnAway is a refusal that is being carried out.
type turnAway struct {
	Refusal
	fd       int
	decision Decision
}

// onLimit returns the decision for a limit that does not leave connections in the kernel's queue.
func (a *Acceptor[T]) onLimit() Decision {
	if d := a.Set.Gate.OnLimit; d != DecisionPause {
		return d
	}
	return DecisionBusy
}

// verdict returns the decision for a socket that was accepted although it cannot be kept.
func (a *Acceptor[T]) verdict(cause Cause) Decision {
	if !a.waits() {
		return a.onLimit()
	}
	switch cause {
	case CausePerLoop:
		a.awaitRoom()
	case CauseTaskQueue:
		a.pause(roomCheck)
	}
	return DecisionReject
}

// spare refuses a socket, so that the last descriptors of the process stay for others; left is how many can still be
// opened. Half of them may hold refused sockets that wait for their peer's end.
func (a *Acceptor[T]) spare(fd int, peer netip.AddrPort, left int) {
	a.returnRoom()
	a.Set.Tally.Shed.Add(1)
	g := a.Set.Gate
	t := turnAway{Refusal: Refusal{Peer: peer, Cause: CauseDescriptors, RetryAfter: g.RetryAfter}, fd: fd, decision: DecisionReject}
	if left >= g.SpareDescriptors/2 {
		t.decision = a.verdict(t.Cause)
	}
	a.refuse(t)
}

// refuse ends a socket that does not become a connection, according to the decision, counts the refusal and logs a
// sample.
func (a *Acceptor[T]) refuse(t turnAway) {
	a.Set.Tally.refused[t.Cause].Add(1)
	a.Host.Refused(&t.Refusal)
	if ok, held := a.Host.Refusals.Allow(a.Loop.Now); ok {
		a.Loop.Log.Warn("eddy: connection refused", "addr", a.Addr, "peer", t.Peer, "tenant", t.Tenant, "cause", t.Cause.String(), "held_back", held)
	}
	if t.decision == DecisionBusy && a.sayBusy(&t) {
		return
	}
	a.discard(t.fd)
}

func (a *Acceptor[T]) discard(fd int) {
	_ = a.Sock.Close(fd) // never became a connection; nobody to tell
}

// sayBusy sends the message, if there is one, and reports whether the socket now waits for its peer's end.
func (a *Acceptor[T]) sayBusy(t *turnAway) bool {
	var msg []byte
	if busy := a.Set.Gate.Busy; busy != nil && !a.Host.Ask("Admission.Busy", func() { msg = busy(t.Refusal) }) {
		return false
	}
	if n, err := a.Sock.Write(t.fd, msg); n < len(msg) || err != nil {
		return false // a new socket has room for any such message, so the peer has gone
	}
	if len(a.partings) >= maxPartings || a.Sock.ShutdownWrite(t.fd) != nil {
		return false
	}
	return a.waitForEnd(t.fd)
}

// maxPartings bounds the refused sockets of a listener that wait for their peer's end.
const maxPartings = 256

// parting is a refused socket that was sent a message and waits for its peer's end. Closing it with unread input would
// make the kernel send a reset, which can overtake the message.
type parting struct {
	fd    int
	token uint64
	timer *reactor.Timer
}

// waitForEnd keeps a socket until its peer ends or Settings.Linger has passed.
func (a *Acceptor[T]) waitForEnd(fd int) bool {
	p := &parting{fd: fd}
	var err error
	if p.token, err = a.Loop.Watch(&reactor.Descriptor{FD: fd, In: sys.Read, Ready: func(sys.Ready) { a.drop(p) }}); err != nil {
		return false
	}
	a.Set.Tally.parting.Add(1)
	a.partings = append(a.partings, p)
	if p.timer, err = a.Loop.After(nil, a.Set.Linger, func() { a.part(p) }); err != nil {
		a.part(p)
	}
	return true
}

// dropReads bounds the reads of a refused socket in an iteration.
const dropReads = 16

// drop reads what a refused peer sends, for nobody.
func (a *Acceptor[T]) drop(p *parting) {
	for range dropReads {
		n, err := a.Sock.Read(p.fd, a.Host.Scratch)
		if err == sys.ErrAgain { //nolint:errorlint // pre-allocated sentinel of the hot path
			return
		}
		if n <= 0 || err != nil {
			a.part(p)
			return
		}
	}
}

// part ends the wait for a refused peer.
func (a *Acceptor[T]) part(p *parting) {
	if p.timer != nil {
		p.timer.Stop()
	}
	i := slices.Index(a.partings, p)
	a.partings = slices.Delete(a.partings, i, i+1)
	if err := a.Loop.Unwatch(p.token); err != nil {
		a.Loop.Log.Error("eddy: deregistering a refused connection failed", "err", err)
	}
	a.discard(p.fd)
	a.Set.Tally.less(&a.Set.Tally.parting)
}
