package eddy

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// Back-off of accepting after the process ran out of descriptors.
const (
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = time.Second
)

// acceptor owns one listening socket of a server: it admits what comes and hands it over to the workers. It lives on one
// loop.
type acceptor struct {
	loop    *loop
	set     *settings
	owner   *endpoint
	workers []*loop
	sock    sys.Sockets // of the listener: what made it closes it
	shared  bool        // other loops listen on the same address

	fd      int
	addr    net.Addr
	local   netip.AddrPort // zero when each connection has to be asked
	ask     bool           // ask it
	token   uint64
	open    bool // registered
	reserve int  // spare descriptor, -1 when there is none
	backoff time.Duration
	closed  bool
}

// bind opens the listening socket. It may block, for the name of a host; any goroutine.
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
	if a.token, err = a.loop.addSpecial(a.fd, sys.Read, a.ready); err != nil {
		return fmt.Errorf("eddy: registering the listener %v: %w", a.addr, err)
	}
	a.open = true
	return nil
}

// ready accepts a batch.
func (a *acceptor) ready(sys.Ready) {
	for range a.set.acceptBatch {
		fd, peer, err := a.sock.Accept(a.fd)
		switch {
		case err == nil:
			a.backoff = 0
			a.accepted(fd, peer)
		case err == sys.ErrAgain: //nolint:errorlint // pre-allocated sentinel of the hot path
			return
		case sys.IsTransientAccept(err):
			a.owner.acceptErrors.Add(1)
		default:
			a.failed(err)
			return
		}
	}
}

// accepted admits one socket and hands it over.
func (a *acceptor) accepted(fd int, peer netip.AddrPort) {
	l := a.loop
	a.owner.accepted.Add(1)
	if !a.owner.admit(a.set.maxConns) {
		a.owner.reject()
		a.discard(fd)
		return
	}
	local := a.local
	if a.ask {
		local, _ = l.sock.LocalAddr(fd) // unknown stays the zero address
	}
	if err := l.sock.SetNoDelay(fd, true); err != nil {
		a.owner.acceptErrors.Add(1) // the peer is gone already; the worker will find out
	}
	if !a.handOver(&Conn{set: a.set, fd: fd, remote: peer, local: local}) {
		l.counters[countRefused]++
		a.discard(fd)
		a.owner.release()
	}
}

// handOver gives a connection to the loop that the chooser names or, when that one's queue is full, to the next that
// takes it.
func (a *acceptor) handOver(c *Conn) bool {
	n := len(a.workers)
	first := 0
	if n > 1 {
		first = a.workers[0].set.chooser.Choose(c.remote, Loads{a.workers})
	}
	for k := range n {
		if a.workers[(first%n+n+k)%n].take(c, a.loop) {
			return true
		}
	}
	return false
}

// take makes l the owner of a new connection, and reports false when it cannot. from is the calling loop, nil for a
// goroutine that is none.
func (l *loop) take(c *Conn, from *loop) bool {
	c.loop = l
	l.assigned.Add(1)
	t := task{kind: taskRegister, conn: c}
	if l == from {
		l.runTask(t)
		return true
	}
	if l.tasks.push(t, false) != nil {
		l.assigned.Add(-1)
		return false
	}
	return true
}

func (a *acceptor) discard(fd int) {
	_ = a.loop.sock.Close(fd) // never became a connection; nobody to tell
}

// failed handles an accept error. Out of descriptors, the reserve is given up to accept and close what waits, so that
// peers get an answer; then accepting pauses, longer each time, and the engine lives on.
func (a *acceptor) failed(err error) {
	l := a.loop
	a.owner.acceptErrors.Add(1)
	if sys.IsDescriptorLimit(err) {
		a.shed()
	}
	a.backoff = min(max(2*a.backoff, acceptBackoffMin), acceptBackoffMax)
	if ok, held := l.logs.accepts.allow(l.now); ok {
		l.log.Warn("eddy: accept failed, pausing", "addr", a.addr, "err", err, "pause", a.backoff, "held_back", held)
	}
	if merr := l.poller.Modify(a.fd, sys.None, a.token); merr != nil {
		l.log.Error("eddy: pausing the listener failed", "err", merr)
	}
	if _, terr := l.after(nil, a.backoff, a.resume); terr != nil {
		a.resume()
	}
}

// shed accepts and closes with the reserve descriptor.
func (a *acceptor) shed() {
	for range a.set.acceptBatch {
		if a.reserve < 0 {
			break
		}
		a.discard(a.reserve)
		a.reserve = -1
		fd, _, err := a.sock.Accept(a.fd)
		if err == nil {
			a.owner.shed.Add(1)
			a.discard(fd)
		}
		a.takeReserve()
		if err != nil {
			return
		}
	}
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
	if a.closed {
		return
	}
	if a.reserve < 0 {
		a.takeReserve()
	}
	if err := a.loop.poller.Modify(a.fd, sys.Read, a.token); err != nil {
		a.loop.log.Error("eddy: resuming the listener failed", "err", err)
	}
}

// stop closes the listener. On the loop.
func (a *acceptor) stop() {
	if a.closed {
		return
	}
	if a.open {
		if err := a.loop.removeSpecial(a.fd, a.token); err != nil {
			a.loop.log.Error("eddy: deregistering the listener failed", "err", err)
		}
	}
	a.close()
}

// release closes what a loop that has ended left open.
func (a *acceptor) release() {
	if !a.closed {
		a.close()
	}
}

func (a *acceptor) close() {
	a.closed = true
	_ = a.sock.Close(a.fd) // nobody to tell
	if a.reserve >= 0 {
		a.discard(a.reserve)
		a.reserve = -1
	}
}
