package eddy

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
)

// Back-off of accepting after the process ran out of descriptors.
const (
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = time.Second
)

// acceptor owns one listening socket of a server, admits what comes and hands it over to the workers. An acceptor lives on
// one loop.
type acceptor struct {
	loop    *loop
	set     *settings
	owner   *endpoint
	workers []*loop
	sock    sys.Sockets // made the listener, and closes it
	shared  bool        // other loops listen on the same address

	fd      int
	addr    net.Addr
	local   netip.AddrPort                     // zero when each connection has to be asked
	ask     bool                               // each connection is asked for its local address
	locals  map[netip.AddrPort]*netip.AddrPort // local addresses that connections share
	token   uint64
	open    bool // registered
	reserve int  // spare descriptor, -1 when there is none
	backoff time.Duration
	closed  bool
	last    int // accepts left to a server that drains, 0 while it does not; see lastBatch

	paused   bool           // accepts nothing
	timer    *reactor.Timer // ends the pause
	partings roster[*parting]
}

// bind opens the listening socket. Looking up the name of a host may block; any goroutine.
func (a *acceptor) bind(network, address string) error {
	a.sock = a.loop.kernel.sockets()
	ln, err := a.sock.Listen(network, address, a.set.socketOptions(a.shared))
	if err != nil {
		return fmt.Errorf("eddy: listen %s %s: %w", network, address, err)
	}
	a.fd, a.addr, a.reserve = ln.FD, ln.Addr, -1
	if t, ok := ln.Addr.(*net.TCPAddr); ok {
		if a.ask = t.IP.IsUnspecified(); !a.ask {
			a.local = t.AddrPort()
		}
	}
	return nil
}

// register begins to accept. On the loop.
func (a *acceptor) register() error {
	a.takeReserve()
	var err error
	if a.token, err = a.loop.Watch(&reactor.Descriptor{FD: a.fd, In: sys.Read, Ready: a.ready}); err != nil {
		return fmt.Errorf("eddy: registering the listener %v: %w", a.addr, err)
	}
	a.open = true
	return nil
}

// ready accepts a batch.
func (a *acceptor) ready(sys.Ready) { a.batch() }

// batch accepts as many connections as an iteration may take, and reports whether there may be more.
func (a *acceptor) batch() (more bool) {
	for range a.set.acceptBatch {
		if a.waits() && !a.reserveRoom() {
			return false
		}
		fd, peer, err := a.next()
		if err != nil {
			a.returnRoom()
		}
		switch {
		case err == nil:
			a.backoff = 0
			if left := a.sock.Left(fd); left < a.set.gate.SpareDescriptors {
				a.spare(fd, peer, left)
			} else {
				a.accepted(fd, peer)
			}
			if a.paused && a.last == 0 {
				return false
			}
		case err == sys.ErrAgain: //nolint:errorlint // pre-allocated sentinel of the hot path
			return false
		case sys.IsTransientAccept(err):
			a.owner.acceptErrors.Add(1)
		default:
			return a.failed(err)
		}
	}
	return true
}

// spare refuses a socket, so that the last descriptors of the process stay for others; left is how many can still be
// opened. Half of them may hold refused sockets that wait for their peer's end.
func (a *acceptor) spare(fd int, peer netip.AddrPort, left int) {
	a.returnRoom()
	a.owner.shed.Add(1)
	g := a.set.gate
	t := turnAway{Refusal: Refusal{Peer: peer, Cause: RefuseDescriptors, RetryAfter: g.RetryAfter}, fd: fd, decision: DecisionReject}
	if left >= g.SpareDescriptors/2 {
		t.decision = a.verdict(t.Cause)
	}
	a.refuse(t)
}

// next takes one connection from the kernel.
func (a *acceptor) next() (fd int, peer netip.AddrPort, err error) {
	if a.last > 0 {
		return a.sock.AcceptLast(a.fd)
	}
	return a.sock.Accept(a.fd)
}

// waits reports whether connections beyond a limit are left in the kernel's queue. A server that drains leaves none there.
func (a *acceptor) waits() bool { return a.set.gate.OnLimit == DecisionPause && a.last == 0 }

// onLimit returns the decision for a limit that does not leave connections in the kernel's queue.
func (a *acceptor) onLimit() Decision {
	if d := a.set.gate.OnLimit; d != DecisionPause {
		return d
	}
	return DecisionBusy
}

// reserveRoom claims room for one connection before it is accepted. Without any, accepting pauses until there is some.
func (a *acceptor) reserveRoom() bool {
	cause, wait := a.claimRoom()
	if cause == refuseNot {
		return true
	}
	if cause == RefuseRate {
		a.pause(wait)
	} else {
		a.awaitRoom()
	}
	return false
}

// returnRoom gives back what was reserved for a connection that did not come.
func (a *acceptor) returnRoom() {
	if a.waits() {
		a.set.gate.rate.GiveBack()
		a.owner.release()
	}
}

// claimRoom counts a connection for the limits that are the same for all peers. Otherwise it returns the limit that forbids
// the connection and, if that is known, how long until the limit may allow it.
func (a *acceptor) claimRoom() (cause RefuseCause, wait time.Duration) {
	g := a.set.gate
	if a.owner.budget.pressed.Load() {
		return RefuseMemory, 0
	}
	if !a.owner.admit(g.maxConns) {
		return RefuseMaxConns, 0
	}
	if !a.loopHasRoom() {
		a.owner.unadmit()
		return RefusePerLoop, 0
	}
	if wait = g.rate.Take(a.loop.Now); wait > 0 {
		a.owner.unadmit()
		return RefuseRate, wait
	}
	return refuseNot, 0
}

// loopHasRoom reports whether a connection can be given to any loop.
func (a *acceptor) loopHasRoom() bool {
	limit := a.set.gate.MaxPerLoop
	if limit == 0 {
		return true
	}
	for _, l := range a.workers {
		if l.assigned.Load() < int64(limit) {
			return true
		}
	}
	return false
}

// accepted admits one socket and hands it over.
func (a *acceptor) accepted(fd int, peer netip.AddrPort) {
	a.owner.accepted.Add(1)
	t := turnAway{Refusal: Refusal{Peer: peer}, fd: fd}
	if !a.admitted(&t) {
		a.refuse(t)
		return
	}
	c := a.newConn(fd, peer, t.Tenant)
	if a.handOver(c) {
		return
	}
	a.loop.Counters[meter.Refused]++
	a.owner.discharge(c)
	t.Cause = RefuseTaskQueue
	if !a.loopHasRoom() {
		t.Cause = RefusePerLoop
	}
	t.decision = a.verdict(t.Cause)
	a.refuse(t)
}

// admitted counts a socket for every limit, or leaves in t the limit that forbids it and the decision.
func (a *acceptor) admitted(t *turnAway) bool {
	g := a.set.gate
	t.RetryAfter = g.RetryAfter
	if !a.waits() { // otherwise the room is reserved
		cause, wait := a.claimRoom()
		if cause != refuseNot {
			t.Cause, t.decision = cause, a.onLimit()
			if wait > 0 {
				t.RetryAfter = wait
			}
			return false
		}
	}
	if t.Cause, t.decision = a.admitPeer(t); t.Cause == refuseNot {
		return true
	}
	g.rate.GiveBack()
	a.owner.unadmit()
	return false
}

// admitPeer applies the limits of one peer and then asks Admission.Decide.
func (a *acceptor) admitPeer(t *turnAway) (RefuseCause, Decision) {
	g := a.set.gate
	if g.Tenant != nil && !a.loop.ask("Admission.Tenant", func() { t.Tenant = g.Tenant(t.Peer) }) {
		return RefuseDecide, DecisionReject
	}
	if cause := g.claimPeer(t.Peer, t.Tenant); cause != refuseNot {
		return cause, a.verdict(cause)
	}
	if g.Decide == nil {
		return refuseNot, DecisionAccept
	}
	d := DecisionReject
	a.loop.ask("Admission.Decide", func() { d = g.Decide(t.Peer) })
	if d == DecisionAccept {
		return refuseNot, d
	}
	g.unclaimPeer(t.Peer, t.Tenant)
	if d == DecisionPause {
		a.pause(g.Pause)
	}
	return RefuseDecide, d
}

// verdict returns the decision for a socket that was accepted although it cannot be kept.
func (a *acceptor) verdict(cause RefuseCause) Decision {
	if !a.waits() {
		return a.onLimit()
	}
	switch cause {
	case RefusePerLoop:
		a.awaitRoom()
	case RefuseTaskQueue:
		a.pause(roomCheck)
	}
	return DecisionReject
}

// newConn makes a connection of an admitted socket.
func (a *acceptor) newConn(fd int, peer netip.AddrPort, tenant string) *Conn {
	l := a.loop
	local := a.local
	if a.ask {
		local, _ = l.sock.LocalAddr(fd) // unknown stays the zero address
	}
	if err := l.sock.SetNoDelay(fd, true); err != nil {
		a.owner.acceptErrors.Add(1) // the peer is gone already; the worker will find out
	}
	c := &Conn{set: a.set, fd: fd}
	c.setAddrs(peer, a.shareLocal(local))
	if tenant != "" {
		c.extend().tenant = tenant
	}
	return c
}

// handOver gives a connection to the loop that the chooser names or, when that one is full, to the next that takes it.
func (a *acceptor) handOver(c *Conn) bool {
	n := len(a.workers)
	first := 0
	if n > 1 {
		first = a.workers[0].crew.choose(c.RemoteAddr(), a.workers)
	}
	for k := range n {
		if a.workers[(first%n+n+k)%n].take(c, a.loop) {
			return true
		}
	}
	return false
}

// take makes l the owner of a new connection. It returns false when l cannot be, because it is full or its poller fails.
// from is the calling loop, nil for a goroutine that is no loop.
func (l *loop) take(c *Conn, from *loop) bool {
	if l != from && !l.Healthy() {
		return false
	}
	c.loop = l
	if n := l.assigned.Add(1); c.set.gate.loopFull(n) {
		l.assigned.Add(-1)
		return false
	}
	t := task{kind: taskRegister, conn: c}
	if l == from {
		l.RunTask(t)
		return true
	}
	if l.Tasks.Push(t) != nil {
		l.assigned.Add(-1)
		return false
	}
	return true
}

func (a *acceptor) discard(fd int) {
	_ = a.loop.sock.Close(fd) // never became a connection; nobody to tell
}

// failed handles an accept error. Out of descriptors, it gives up the reserve to accept and close what waits, so that peers
// get an answer. Then accepting pauses, longer each time, and the engine lives on. It reports whether more may wait.
func (a *acceptor) failed(err error) (more bool) {
	l := a.loop
	a.owner.acceptErrors.Add(1)
	if sys.IsDescriptorLimit(err) {
		more = a.shed()
	}
	a.backoff = min(max(2*a.backoff, acceptBackoffMin), acceptBackoffMax)
	if ok, held := l.logs.accepts.Allow(l.Now); ok {
		l.Log.Warn("eddy: accept failed, pausing", "addr", a.addr, "err", err, "pause", a.backoff, "held_back", held)
	}
	a.pause(a.backoff)
	return more
}

// pause stops accepting for a time, unless resume is called before.
func (a *acceptor) pause(d time.Duration) {
	if a.paused || a.closed || a.last > 0 {
		return
	}
	l := a.loop
	a.paused = true
	a.owner.acceptPauses.Add(1)
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
func (a *acceptor) awaitRoom() {
	a.pause(roomCheck)
	a.owner.waiting.Store(true)
	if cause, _ := a.claimRoom(); cause == refuseNot { // room came before waiting was set
		a.returnRoom()
	}
}

// shed accepts and closes what waits, with the reserve descriptor, and reports whether more may wait.
func (a *acceptor) shed() (more bool) {
	for range a.set.acceptBatch {
		if a.reserve < 0 {
			return false
		}
		a.discard(a.reserve)
		a.reserve = -1
		fd, peer, err := a.next()
		if err == nil {
			a.owner.shed.Add(1)
			a.refuse(turnAway{Refusal: Refusal{Peer: peer, Cause: RefuseDescriptors}, fd: fd})
		}
		a.takeReserve()
		if err != nil {
			return false
		}
	}
	return true
}

func (a *acceptor) takeReserve() {
	fd, err := a.loop.sock.OpenReserve()
	if err != nil {
		fd = -1
	}
	a.reserve = fd
}

// resume accepts again after a pause.
func (a *acceptor) resume() {
	if a.closed || !a.paused {
		return
	}
	a.paused = false
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.reserve < 0 {
		a.takeReserve()
	}
	if err := a.loop.Rewatch(a.token, sys.Read); err != nil {
		a.loop.Log.Error("eddy: resuming the listener failed, trying again", "err", err)
		a.pause(max(a.backoff, acceptBackoffMin))
	}
}
