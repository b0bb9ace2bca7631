package eddy

import (
	"net/netip"
	"slices"

	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/meter"
)

// acceptor makes an acceptor that lives on l and hands over to the workers.
func (l *loop) acceptor(set *settings, workers []*loop) *accept.Acceptor[task] {
	return &accept.Acceptor[task]{Loop: &l.Loop, Sock: l.kernel.sockets(), Set: &set.accept, Host: accept.Host{
		Take: func(fd int, peer netip.AddrPort, local *netip.AddrPort, tenant string) bool {
			c := &Conn{set: set, fd: fd}
			c.setAddrs(peer, local)
			if tenant != "" {
				c.extend().tenant = tenant
			}
			return workers[0].crew.offer(peer, workers, func(w *loop) bool { return w.take(c, l) })
		},
		Room: func() bool {
			return slices.ContainsFunc(workers, func(w *loop) bool { return !set.accept.Gate.LoopFull(w.assigned.Load() + 1) })
		},
		Refused: func(r *accept.Refusal) { set.owner.countClose(CloseAdmissionRejected, r.Peer, r.Tenant) },
		Ask:     l.ask,
		Post:    l.post,
		Pressed: &set.owner.budget.pressed, Scratch: l.mem.scratch,
		Failures: &l.logs.accepts, Refusals: &l.logs.refusals,
	}}
}

// offer gives a connection to the loop that the Chooser names or, when that one refuses, to the next that takes it.
func (w *crew) offer(peer netip.AddrPort, loops []*loop, take func(*loop) bool) bool {
	n := len(loops)
	first := 0
	if n > 1 {
		first = w.choose(peer, loops)
	}
	for k := range n {
		if take(loops[(first%n+n+k)%n]) {
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
	if n := l.assigned.Add(1); c.set.accept.Gate.LoopFull(n) {
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

// refuse closes a descriptor that never became a connection.
func (l *loop) refuse(c *Conn) {
	_ = l.sock.Close(c.fd) // nobody is told of it; there is nothing to do about an error
	l.assigned.Add(-1)
	c.set.owner.discharge(c)
	l.Counters[meter.Refused]++
}
