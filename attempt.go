package eddy

import (
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
)

// attempt is one outbound connection until it is open or has failed. Owned by its loop.
type attempt struct {
	set    *settings
	dial   *dialSettings
	loop   *loop
	remote net.Addr
	peer   netip.AddrPort // remote, zero for a Unix socket
	done   func(*Conn, error)

	fd      int
	token   uint64
	watched bool // registered with the poller
	timer   *reactor.Timer
	over    bool
	place   list.Place[attempt]
}

// begin gives the attempt to one of the loops, which are of w.
func (a *attempt) begin(w *crew, loops []*loop) bool {
	return w.offer(a.peer, loops, func(l *loop) bool {
		a.loop = l
		return l.Healthy() && l.Tasks.Push(task{kind: taskFunc, msg: a.connect}) == nil
	})
}

// connect begins the connection. On the loop, as all that follows.
func (a *attempt) connect() {
	l := a.loop
	if l.Stopping || l.drains(a.owner()) || a.owner().phase.Load() != int32(serverRunning) {
		a.fail(ErrDialerClosed)
		return
	}
	o := a.dial
	fd, connected, err := l.sock.Connect(a.remote.Network(), a.remote, o.socket)
	if err != nil {
		a.fail(err)
		return
	}
	a.fd = fd
	if connected {
		a.succeed()
		return
	}
	if a.token, err = l.Watch(&reactor.Descriptor{FD: fd, In: sys.Write, Ready: a.ready}); err == nil {
		a.watched = true
		a.timer, err = l.After(nil, o.timeout, func() { a.timer = nil; a.fail(os.ErrDeadlineExceeded) })
	}
	if err != nil {
		a.fail(err)
		return
	}
	l.attempts.Push(&a.place, a)
}

func (a *attempt) owner() *endpoint { return a.set.owner }

// ready takes the outcome when the poller reports one.
func (a *attempt) ready(sys.Ready) {
	switch err := a.loop.sock.ConnectError(a.fd); err {
	case nil:
		a.succeed()
	case sys.ErrAgain:
	default:
		a.fail(err)
	}
}

// settle ends the attempt and leaves nothing of it on the loop; false means that the attempt had ended before.
func (a *attempt) settle() bool {
	if a.over {
		return false
	}
	a.over = true
	l := a.loop
	l.attempts.Remove(&a.place)
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.watched {
		if err := l.Unwatch(a.token); err != nil {
			l.Log.Error("eddy: deregistering an attempt to connect failed", "loop", l.Name, "err", err)
		}
	}
	return true
}

// succeed makes a connection of the descriptor.
func (a *attempt) succeed() {
	if !a.settle() {
		return
	}
	l := a.loop
	a.owner().tally.Accepted.Add(1)
	c := &Conn{set: a.set, fd: a.fd}
	var local netip.AddrPort
	if a.peer.IsValid() {
		local, _ = l.sock.LocalAddr(a.fd) // unknown stays the zero address
	}
	c.setAddrs(a.peer, &local)
	l.take(c, l)
	if err := c.closedError(); err != nil {
		a.tell(nil, a.opError(err))
		return
	}
	a.tell(c, nil)
}

// fail gives the attempt up.
func (a *attempt) fail(err error) {
	if !a.settle() {
		return
	}
	if a.fd >= 0 {
		_ = a.loop.sock.Close(a.fd) // never became a connection; nobody to tell
	}
	a.dial.failed.Add(1)
	a.owner().tally.Release()
	a.tell(nil, a.opError(err))
}

// tell gives the caller the outcome. A panic of its function is contained.
func (a *attempt) tell(c *Conn, err error) {
	defer a.loop.contain(nil)
	a.done(c, err)
}

func (a *attempt) opError(err error) error {
	return &net.OpError{Op: "dial", Net: a.remote.Network(), Addr: a.remote, Err: err}
}

// cancel abandons the attempt. Any goroutine. A loop that has ended has abandoned it already.
func (a *attempt) cancel(err error) {
	a.loop.post(func() { a.fail(err) })
}

// abandon gives up the owner's attempts, or all attempts if owner is nil.
func (l *loop) abandon(owner *endpoint) {
	for a := range l.attempts.All() {
		if owner == nil || a.owner() == owner {
			a.fail(ErrDialerClosed)
		}
	}
}

type dialSettings struct {
	maxConns int
	timeout  time.Duration
	socket   sys.ConnectOptions
	failed   *atomic.Uint64 // attempts, of the Dialer
}
