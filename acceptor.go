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

// acceptor is the boss loop's part: it owns the listening socket, admits, and hands over to the workers.
type acceptor struct {
	loop    *loop
	set     *settings
	workers []*loop
	next    int // round robin

	fd      int
	addr    net.Addr
	local   netip.AddrPort // zero when each connection has to be asked
	token   uint64
	reserve int // spare descriptor, -1 when there is none
	backoff time.Duration
	closed  bool
}

// open binds the address and registers with the boss loop, which is not running yet.
func (a *acceptor) open(network, address string) error {
	ln, err := a.loop.sock.Listen(network, address, sys.ListenOptions{Backlog: a.set.backlog})
	if err != nil {
		return fmt.Errorf("eddy: listen %s %s: %w", network, address, err)
	}
	a.fd, a.addr = ln.FD, ln.Addr
	if t, ok := ln.Addr.(*net.TCPAddr); ok && !t.IP.IsUnspecified() {
		a.local = t.AddrPort()
	}
	if a.reserve, err = a.loop.sock.OpenReserve(); err != nil {
		a.reserve = -1
	}
	a.token, err = a.loop.addSpecial(a.fd, sys.Read, a.ready)
	if err != nil {
		a.close()
		return fmt.Errorf("eddy: registering the listener: %w", err)
	}
	return nil
}

// ready accepts a batch.
func (a *acceptor) ready(sys.Ready) {
	for range a.set.acceptBatch {
		fd, peer, err := a.loop.sock.Accept(a.fd)
		switch {
		case err == nil:
			a.backoff = 0
			a.accepted(fd, peer)
		case err == sys.ErrAgain: //nolint:errorlint // pre-allocated sentinel of the hot path
			return
		case sys.IsTransientAccept(err):
			a.loop.counters[countAcceptErrors]++
		default:
			a.failed(err)
			return
		}
	}
}

// accepted admits one socket and hands it over.
func (a *acceptor) accepted(fd int, peer netip.AddrPort) {
	l := a.loop
	l.counters[countAccepted]++
	if !l.owner.admit(a.set) {
		l.counters[countAdmissionRejected]++
		a.discard(fd)
		return
	}
	local := a.local
	if !local.IsValid() {
		local, _ = l.sock.LocalAddr(fd) // unknown stays the zero address
	}
	if err := l.sock.SetNoDelay(fd, true); err != nil {
		l.counters[countAcceptErrors]++ // the peer is gone already; the worker will find out
	}
	w := a.workers[a.next%len(a.workers)]
	a.next++
	c := &Conn{loop: w, set: a.set, fd: fd, remote: peer, local: local}
	if err := w.tasks.push(task{kind: taskRegister, conn: c}, false); err != nil {
		l.counters[countRefused]++
		a.discard(fd)
		l.owner.release()
	}
}

func (a *acceptor) discard(fd int) {
	_ = a.loop.sock.Close(fd) // never became a connection; nobody to tell
}

// failed handles an accept error. Out of descriptors, the reserve is given up to accept and close what waits, so that
// peers get an answer; then accepting pauses, longer each time, and the engine lives on.
func (a *acceptor) failed(err error) {
	l := a.loop
	l.counters[countAcceptErrors]++
	if sys.IsDescriptorLimit(err) {
		a.shed()
	}
	a.backoff = min(max(2*a.backoff, acceptBackoffMin), acceptBackoffMax)
	if ok, held := l.owner.logs.accepts.allow(l.now); ok {
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
	l := a.loop
	for range a.set.acceptBatch {
		if a.reserve < 0 {
			break
		}
		a.discard(a.reserve)
		a.reserve = -1
		fd, _, err := l.sock.Accept(a.fd)
		if err == nil {
			l.counters[countShed]++
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

// stop closes the listener. On the boss loop.
func (a *acceptor) stop() {
	if a.closed {
		return
	}
	a.loop.special[uint32(a.token)] = nil
	if err := a.loop.poller.Remove(a.fd); err != nil {
		a.loop.log.Error("eddy: deregistering the listener failed", "err", err)
	}
	a.close()
}

// release closes what a boss loop that failed has left open. After its end.
func (a *acceptor) release() {
	if !a.closed {
		a.close()
	}
}

func (a *acceptor) close() {
	a.closed = true
	a.discard(a.fd)
	if a.reserve >= 0 {
		a.discard(a.reserve)
		a.reserve = -1
	}
}
