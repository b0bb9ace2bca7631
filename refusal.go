package eddy

import (
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
)

// RefuseCause says why a connection was refused.
type RefuseCause uint8

// The causes. Their String form is the metric label.
const (
	refuseNot         RefuseCause = iota
	RefuseMaxConns                // Server.MaxConns
	RefusePerIP                   // Admission.MaxPerIP
	RefusePerTenant               // Admission.MaxPerTenant
	RefuseRate                    // Admission.Rate
	RefusePerLoop                 // Admission.MaxPerLoop: every loop is full
	RefuseMemory                  // Server.MemoryBudget
	RefuseDecide                  // Admission.Decide said so, or a function of Admission panicked
	RefuseTaskQueue               // the task queue of every loop is full
	RefuseDescriptors             // the process has no descriptor left but Admission.SpareDescriptors
	refuseCauses
)

var refuseCauseNames = [refuseCauses]string{
	"none", "max_conns", "max_per_ip", "max_per_tenant", "rate", "max_per_loop", "memory_budget", "decide", "task_queue", "descriptors",
}

// String returns the cause's snake_case name, the one metrics use.
func (c RefuseCause) String() string {
	if c >= refuseCauses {
		return "unknown"
	}
	return refuseCauseNames[c]
}

// RefuseCauses lists every cause, in order.
func RefuseCauses() []RefuseCause {
	all := make([]RefuseCause, 0, refuseCauses-1)
	for c := RefuseMaxConns; c < refuseCauses; c++ {
		all = append(all, c)
	}
	return all
}

// Refusal describes a refused connection, for Admission.Busy.
type Refusal struct {
	Peer       netip.AddrPort // zero for a Unix socket
	Tenant     string
	Cause      RefuseCause
	RetryAfter time.Duration // how long the peer should wait before it tries again
}

// turnAway is a refusal that is being carried out.
type turnAway struct {
	Refusal
	fd       int
	decision Decision
}

// refuse ends a socket that does not become a connection, according to the decision, counts the refusal and logs a
// sample.
func (a *acceptor) refuse(t turnAway) {
	a.owner.reject(&t.Refusal)
	a.logRefusal(&t)
	if t.decision == DecisionBusy && a.sayBusy(&t) {
		return
	}
	a.discard(t.fd)
}

// reject counts a connection that was refused before it existed.
func (e *endpoint) reject(r *Refusal) {
	e.refused[r.Cause].Add(1)
	e.countClose(CloseAdmissionRejected, r.Peer, r.Tenant)
}

func (a *acceptor) logRefusal(t *turnAway) {
	if ok, held := a.loop.logs.refusals.Allow(a.loop.Now); ok {
		a.loop.Log.Warn("eddy: connection refused", "addr", a.addr, "peer", t.Peer, "tenant", t.Tenant, "cause", t.Cause.String(), "held_back", held)
	}
}

// sayBusy sends the message, if there is one, and reports whether the socket now waits for its peer's end.
func (a *acceptor) sayBusy(t *turnAway) bool {
	l := a.loop
	var msg []byte
	if busy := a.set.gate.Busy; busy != nil && !l.ask("Admission.Busy", func() { msg = busy(t.Refusal) }) {
		return false
	}
	if n, err := l.sock.Write(t.fd, msg); n < len(msg) || err != nil {
		return false // a new socket has room for any such message, so the peer has gone
	}
	if len(a.partings) >= maxPartings || l.sock.ShutdownWrite(t.fd) != nil {
		return false
	}
	return a.waitForEnd(t.fd)
}

// maxPartings bounds the refused sockets of a listener that wait for their peer's end.
const maxPartings = 256

// parting is a refused socket that was sent a message and waits for its peer's end. Closing it with unread input would
// make the kernel send a reset, which can overtake the message.
type parting struct {
	from  *acceptor
	fd    int
	token uint64
	timer *reactor.Timer
	place int
}

func (p *parting) seat() *int { return &p.place }

// waitForEnd keeps a socket until its peer ends or LingerTimeout has passed.
func (a *acceptor) waitForEnd(fd int) bool {
	p := &parting{from: a, fd: fd}
	var err error
	if p.token, err = a.loop.Watch(&reactor.Descriptor{FD: fd, In: sys.Read, Ready: p.ready}); err != nil {
		return false
	}
	a.owner.parting.Add(1)
	if p.timer, err = a.loop.After(nil, a.set.lingerTimeout, p.end); err != nil {
		p.end()
		return true
	}
	a.partings.join(p)
	return true
}

// ready drops what the peer sends.
func (p *parting) ready(sys.Ready) {
	l := p.from.loop
	for range readCallBudget {
		n, err := l.sock.Read(p.fd, l.mem.scratch)
		if err == sys.ErrAgain { //nolint:errorlint // pre-allocated sentinel of the hot path
			return
		}
		if n <= 0 || err != nil {
			p.end()
			return
		}
	}
}

func (p *parting) end() {
	l := p.from.loop
	if p.timer != nil {
		p.timer.Stop()
	}
	p.from.partings.leave(p)
	if err := l.Unwatch(p.token); err != nil {
		l.Log.Error("eddy: deregistering a refused connection failed", "err", err)
	}
	p.from.discard(p.fd)
	p.from.owner.parted()
}

// ask calls a function of the application that belongs to no connection, and returns false if it panicked.
func (l *loop) ask(name string, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			l.Counters[meter.Panics]++
			l.logPanic(name, v, debug.Stack())
		}
	}()
	l.serving.Store(nil)
	f()
	return true
}
