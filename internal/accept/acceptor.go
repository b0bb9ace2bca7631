package accept

import (
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/internal/sys"
)

// Settings are what the acceptors of a server have in common.
type Settings struct {
	Gate    *Gate
	Tally   *Tally
	Listen  sys.ListenOptions
	Batch   int           // accepts per readiness
	Linger  time.Duration // time for a refused peer's end after ours
	Placing Placing       // bounds of Host.Place
}

// Host is what an acceptor takes from its server and its loop. The functions are called on the loop, except for Post.
type Host struct {
	// Place says which loop takes a socket by its first bytes: its number, PlaceMore or PlaceAny. nil = none waits for them.
	Place func(peer netip.AddrPort, first []byte) int
	// Lost is told of a socket that ended while it waited for them, see Acceptor.lose.
	Lost func(s Socket, err error)
	// Take makes a connection of an admitted socket and gives it to the loop that Place has named. If no loop takes it, Take
	// reports false and the socket stays with the acceptor.
	Take func(s Socket, loop int) bool
	// Room reports whether the loops take one more beside sockets that wait for their first bytes.
	Room func(waiting int) bool
	// Refused is told of every refused connection, before it is closed.
	Refused func(*Refusal)
	// Ask calls a function of the application and reports false if it panicked.
	Ask func(name string, f func()) bool
	// Post runs f on the loop. Any goroutine.
	Post func(f func())

	Pressed  *atomic.Bool  // memory is short
	Scratch  []byte        // takes input that nobody reads
	Failures *sample.Lines // of the log: accepts that failed
	Refusals *sample.Lines // of the log: refused connections
}

// Acceptor owns one listening socket of a server, admits what comes and hands it over. It lives on one loop, whose tasks
// are of type T. Set the first four fields before Bind.
type Acceptor[T any] struct {
	Loop *reactor.Loop[T]
	Sock sys.Sockets // its own: made the listener, and closes it
	Set  *Settings
	Host Host

	FD   int      // the listening socket, since Bind
	Addr net.Addr // its address

	locals   locals
	token    uint64
	open     bool // registered
	reserve  int  // spare descriptor, -1 when there is none
	backoff  time.Duration
	closed   bool
	last     int            // accepts left to a server that drains, 0 while it does not; see LastBatch
	adopting bool           // see Adopt
	paused   bool           // accepts nothing
	forRoom  bool           // paused until there is room
	timer    *reactor.Timer // ends the pause
	partings []*parting
	waiting  waiting
}

// Bind opens the listening socket. With shared, other loops listen on the same address. Looking up the name of a host may
// block; any goroutine, before Register.
func (a *Acceptor[T]) Bind(network, address string, shared bool) error {
	o := a.Set.Listen
	o.ReusePort = shared
	ln, err := a.Sock.Listen(network, address, o)
	if err != nil {
		return fmt.Errorf("eddy: listen %s %s: %w", network, address, err)
	}
	a.FD, a.Addr, a.reserve = ln.FD, ln.Addr, -1
	a.locals.learn(ln.Addr)
	return nil
}

// Register begins to accept. Loop only.
func (a *Acceptor[T]) Register() error {
	a.takeReserve()
	if a.Host.Place != nil {
		a.waiting.first = make([]byte, a.Set.Placing.Bytes)
	}
	var err error
	if a.token, err = a.Loop.Watch(&reactor.Descriptor{FD: a.FD, In: sys.Read, Ready: a.ready}); err != nil {
		return fmt.Errorf("eddy: registering the listener %v: %w", a.Addr, err)
	}
	a.open = true
	return nil
}

// ready accepts a batch.
func (a *Acceptor[T]) ready(sys.Ready) { a.batch() }

// batch accepts as many connections as an iteration may take, and reports whether there may be more.
func (a *Acceptor[T]) batch() (more bool) {
	for range a.Set.Batch {
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
			if left := a.Sock.Left(fd); left < a.Set.Gate.SpareDescriptors {
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
			a.Set.Tally.Errors.Add(1)
		default:
			return a.failed(err)
		}
	}
	return true
}

// next takes one connection from the kernel.
func (a *Acceptor[T]) next() (fd int, peer netip.AddrPort, err error) {
	if a.last > 0 {
		return a.Sock.AcceptLast(a.FD)
	}
	return a.Sock.Accept(a.FD)
}

// waits reports whether connections beyond a limit are left in the kernel's queue. A server that drains leaves none there,
// and an adopted one is in no queue.
func (a *Acceptor[T]) waits() bool {
	return a.Set.Gate.OnLimit == DecisionPause && a.last == 0 && !a.adopting
}

// Adopt admits a connection that was made elsewhere as if it had been accepted. Loop only.
func (a *Acceptor[T]) Adopt(fd int, peer netip.AddrPort) {
	if a.closed {
		a.discard(fd)
		return
	}
	if err := a.Sock.SetKeepAlive(fd, a.Set.Listen.KeepAlive); err != nil {
		a.Set.Tally.Errors.Add(1) // the peer is gone already; the worker will find out
	}
	a.adopting = true
	defer func() { a.adopting = false }()
	a.accepted(fd, peer)
}

// reserveRoom claims room for one connection before it is accepted. Without any, accepting pauses until there is some.
func (a *Acceptor[T]) reserveRoom() bool {
	cause, wait := a.claimRoom()
	switch cause {
	case causeNone:
		return true
	case CauseRate:
		a.pause(wait)
	default:
		a.awaitRoom()
	}
	return false
}

// returnRoom gives back what was reserved for a connection that did not come.
func (a *Acceptor[T]) returnRoom() {
	if a.waits() {
		a.Set.Gate.Rate.GiveBack()
		a.Set.Tally.Release()
	}
}

// claimRoom counts a connection for the limits that are the same for all peers. Otherwise it returns the limit that forbids
// the connection and, if that is known, how long until the limit may allow it.
func (a *Acceptor[T]) claimRoom() (cause Cause, wait time.Duration) {
	g, tally := a.Set.Gate, a.Set.Tally
	if a.Host.Pressed.Load() {
		return CauseMemory, 0
	}
	if tally.Overloaded.Load() {
		return CauseOverload, 0
	}
	if !tally.Admit(g.MaxConns) {
		return CauseMaxConns, 0
	}
	if !a.Host.Room(a.waiting.count) {
		tally.unadmit()
		return CausePerLoop, 0
	}
	if wait = g.Rate.Take(a.Loop.Now); wait > 0 {
		tally.unadmit()
		return CauseRate, wait
	}
	return causeNone, 0
}

// accepted admits one socket and hands it over.
func (a *Acceptor[T]) accepted(fd int, peer netip.AddrPort) {
	tally := a.Set.Tally
	tally.Accepted.Add(1)
	t := turnAway{Refusal: Refusal{Peer: peer}, fd: fd}
	if !a.admitted(&t) {
		a.refuse(t)
		return
	}
	s := Socket{fd, peer, a.locals.of(a.Sock, fd, a.adopting), t.Tenant}
	if a.Host.Place != nil {
		a.await(s)
		return
	}
	a.give(s, PlaceAny)
}

// give hands a socket over, or refuses it.
func (a *Acceptor[T]) give(s Socket, loop int) bool {
	if a.Host.Take(s, loop) {
		return true
	}
	a.Loop.Counters[meter.Refused]++
	a.Set.Gate.Leave(s.Peer, s.Tenant)
	a.Set.Tally.Release()
	t := turnAway{Refusal: Refusal{Peer: s.Peer, Tenant: s.Tenant, Cause: CauseTaskQueue, RetryAfter: a.Set.Gate.RetryAfter}, fd: s.FD}
	if !a.Host.Room(0) {
		t.Cause = CausePerLoop
	}
	t.decision = a.verdict(t.Cause)
	a.refuse(t)
	return false
}

// admitted counts a socket for every limit, or leaves in t the limit that forbids it and the decision.
func (a *Acceptor[T]) admitted(t *turnAway) bool {
	g := a.Set.Gate
	t.RetryAfter = g.RetryAfter
	if !a.waits() { // otherwise the room is reserved
		cause, wait := a.claimRoom()
		if cause != causeNone {
			t.Cause, t.decision = cause, a.onLimit()
			if wait > 0 {
				t.RetryAfter = wait
			}
			return false
		}
	}
	if t.Cause, t.decision = a.admitPeer(t); t.Cause == causeNone {
		return true
	}
	g.Rate.GiveBack()
	a.Set.Tally.unadmit()
	return false
}

// tenant asks Gate.Tenant, and reports whether there is an answer. What a closure holds is memory of its own, so that only
// connections that are asked about make some.
func (a *Acceptor[T]) tenant(t *turnAway) bool {
	name, peer := "", t.Peer
	if !a.Host.Ask("Admission.Tenant", func() { name = a.Set.Gate.Tenant(peer) }) {
		return false
	}
	t.Tenant = name
	return true
}

// decision asks Gate.Decide.
func (a *Acceptor[T]) decision(peer netip.AddrPort) Decision {
	d := DecisionReject
	a.Host.Ask("Admission.Decide", func() { d = a.Set.Gate.Decide(peer) })
	return d
}

// admitPeer applies the limits of one peer and then asks Gate.Decide.
func (a *Acceptor[T]) admitPeer(t *turnAway) (Cause, Decision) {
	g := a.Set.Gate
	if g.Tenant != nil && !a.tenant(t) {
		return CauseDecide, DecisionReject
	}
	if cause := g.claim(t.Peer, t.Tenant); cause != causeNone {
		return cause, a.verdict(cause)
	}
	if g.Decide == nil {
		return causeNone, DecisionAccept
	}
	d := a.decision(t.Peer)
	if d == DecisionAccept {
		return causeNone, d
	}
	g.Leave(t.Peer, t.Tenant)
	if d == DecisionPause {
		a.pause(g.Pause)
	}
	return CauseDecide, d
}
