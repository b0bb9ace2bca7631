package eddy

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/meter"
)

// Admission says which connections a Server takes, besides MaxConns, and what becomes of the others (docs/overload.md). The
// zero value has no limit but SpareDescriptors. Its functions run on the loop that accepts and must not block; a function
// that panics refuses the connection.
type Admission struct {
	MaxPerIP   int // open connections of one client network; 0 = no limit
	IPv4Prefix int // bits of an IPv4 address that make a client network; 0 = 32
	IPv6Prefix int // bits of an IPv6 address; 0 = 64

	Tenant       func(peer netip.AddrPort) string // names the connection's tenant; "" and nil = nobody's. See Conn.SetTenant
	MaxPerTenant int                              // open connections of one tenant; 0 = no limit

	Rate       int // accepted connections per second; 0 = no limit
	Burst      int // how many may come at once before Rate counts; 0 = as many as in a second
	MaxPerLoop int // open connections of one loop, those of others that share it included; 0 = no limit

	// SpareDescriptors is how many of the process's last descriptors new connections leave to everything else: files,
	// logs, databases, the operator's server. 0 = 16, negative = none. With the poller "net" they cannot be counted, and
	// none are kept.
	SpareDescriptors int

	// OnLimit is what happens at a limit; the zero value means DecisionReject. DecisionPause refuses nobody for MaxConns,
	// Rate, MaxPerLoop and MemoryBudget: nothing is accepted until there is room, and peers wait in the kernel's queue.
	// A limit of one peer alone must not keep out the others, so DecisionPause rejects there. Connections that still wait
	// when the server drains are refused as with DecisionBusy.
	OnLimit Decision

	// Busy makes the message for a refused peer: raw bytes, below any TLS. OnLimit or Decide ask for it.
	Busy       func(Refusal) []byte
	RetryAfter time.Duration // told to Busy unless the limit itself knows better; 0 = 1 s

	// Decide has the last word on connections within the limits.
	Decide func(peer netip.AddrPort) Decision
	Pause  time.Duration // how long DecisionPause of Decide lasts; 0 = 1 s
}

// RefuseCause says why a connection was refused. Its String form is the metric label.
type RefuseCause = accept.Cause

// The causes.
const (
	RefuseMaxConns    RefuseCause = accept.CauseMaxConns    // Server.MaxConns
	RefusePerIP       RefuseCause = accept.CausePerIP       // Admission.MaxPerIP
	RefusePerTenant   RefuseCause = accept.CausePerTenant   // Admission.MaxPerTenant
	RefuseRate        RefuseCause = accept.CauseRate        // Admission.Rate
	RefusePerLoop     RefuseCause = accept.CausePerLoop     // Admission.MaxPerLoop: every loop is full
	RefuseMemory      RefuseCause = accept.CauseMemory      // Server.MemoryBudget
	RefuseDecide      RefuseCause = accept.CauseDecide      // Admission.Decide said so, or a function of Admission panicked
	RefuseTaskQueue   RefuseCause = accept.CauseTaskQueue   // the task queue of every loop is full
	RefuseDescriptors RefuseCause = accept.CauseDescriptors // the process has no descriptor left but Admission.SpareDescriptors
	RefuseOverload    RefuseCause = accept.CauseOverload    // Server.RefuseConns
)

// RefuseCauses lists every cause, in order.
func RefuseCauses() []RefuseCause { return accept.Causes() }

// Refusal describes a refused connection, for Admission.Busy.
type Refusal struct {
	Peer       netip.AddrPort // zero for a Unix socket
	Tenant     string
	Cause      RefuseCause
	RetryAfter time.Duration // how long the peer should wait before it tries again
}

// Decision is what becomes of a connection that was accepted from the kernel.
type Decision = accept.Decision

const (
	// DecisionAccept serves the connection.
	DecisionAccept Decision = accept.DecisionAccept
	// DecisionReject closes the connection at once.
	DecisionReject Decision = accept.DecisionReject
	// DecisionBusy sends what Admission.Busy returns, as far as the socket takes it at once, and then closes in order:
	// FIN, then a short wait for the peer's own end. At most 256 refused connections wait at a time; others are closed
	// right after the message, which a reset may then overtake.
	DecisionBusy Decision = accept.DecisionBusy
	// DecisionPause closes the connection and accepts nothing for a while. As OnLimit it leaves peers in the kernel's queue.
	DecisionPause Decision = accept.DecisionPause
)

// Defaults of the zero Admission.
const (
	defaultIPv4Prefix       = 32
	defaultIPv6Prefix       = 64
	defaultSpareDescriptors = 16
	defaultRetryAfter       = time.Second
	defaultAcceptPause      = time.Second
)

// check validates the fields.
func (a *Admission) check() error {
	err := notNegative("Server", []field{
		{"Admission.MaxPerIP", int64(a.MaxPerIP)}, {"Admission.IPv4Prefix", int64(a.IPv4Prefix)},
		{"Admission.IPv6Prefix", int64(a.IPv6Prefix)}, {"Admission.MaxPerTenant", int64(a.MaxPerTenant)},
		{"Admission.Rate", int64(a.Rate)}, {"Admission.Burst", int64(a.Burst)},
		{"Admission.MaxPerLoop", int64(a.MaxPerLoop)}, {"Admission.RetryAfter", int64(a.RetryAfter)},
		{"Admission.Pause", int64(a.Pause)},
	})
	switch {
	case err != nil:
		return err
	case a.IPv4Prefix > 32:
		return fmt.Errorf("eddy: Server.Admission.IPv4Prefix is %d: an IPv4 address has 32 bits", a.IPv4Prefix)
	case a.IPv6Prefix > 128:
		return fmt.Errorf("eddy: Server.Admission.IPv6Prefix is %d: an IPv6 address has 128 bits", a.IPv6Prefix)
	case a.Burst > 0 && a.Rate == 0:
		return fmt.Errorf("eddy: Server.Admission.Burst is %d: it needs Rate", a.Burst)
	case a.OnLimit > DecisionPause:
		return fmt.Errorf("eddy: Server.Admission.OnLimit is %d: it must be one of the Decisions", a.OnLimit)
	case a.OnLimit == DecisionBusy && a.Busy == nil:
		return errors.New("eddy: Server.Admission.OnLimit is DecisionBusy: Busy must make the message")
	}
	return nil
}

// gate validates the fields and fills in the defaults. maxConns is Server.MaxConns.
func (a *Admission) gate(maxConns int) (*accept.Gate, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	g := &accept.Gate{
		MaxConns: maxConns, MaxPerIP: a.MaxPerIP, MaxPerTenant: a.MaxPerTenant, MaxPerLoop: a.MaxPerLoop,
		IPv4Prefix: orInt(a.IPv4Prefix, defaultIPv4Prefix), IPv6Prefix: orInt(a.IPv6Prefix, defaultIPv6Prefix),
		SpareDescriptors: orInt(a.SpareDescriptors, defaultSpareDescriptors),
		OnLimit:          a.OnLimit,
		RetryAfter:       orDuration(a.RetryAfter, defaultRetryAfter), Pause: orDuration(a.Pause, defaultAcceptPause),
		Tenant: a.Tenant, Decide: a.Decide,
	}
	if g.OnLimit == DecisionAccept {
		g.OnLimit = DecisionReject
	}
	if busy := a.Busy; busy != nil {
		g.Busy = func(r accept.Refusal) []byte { return busy(Refusal(r)) }
	}
	g.Rate.Set(a.Rate, orInt(a.Burst, a.Rate))
	return g, nil
}

// acceptor makes an acceptor that lives on l and hands over to the workers.
func (l *loop) acceptor(set *settings, workers []*loop) *accept.Acceptor[task] {
	crew := workers[0].crew
	return &accept.Acceptor[task]{Loop: &l.Loop, Sock: l.kernel.sockets(), Set: &set.accept, Host: accept.Host{
		Place: l.placer(set.place, crew),
		Lost:  func(s accept.Socket, err error) { l.loseSocket(set.owner, s, err) },
		Take: func(s accept.Socket, at int) bool {
			c := &Conn{set: set, fd: s.FD}
			c.setAddrs(s.Peer, s.Local)
			if s.Tenant != "" {
				c.rarely().tenant = s.Tenant
			}
			take := func(w *loop) bool { return w.take(c, l) }
			if at >= 0 {
				return offerFrom(at, crew.loops, take)
			}
			return crew.offer(s.Peer, workers, take)
		},
		Room:    func(waiting int) bool { return roomOn(set.accept.Gate.MaxPerLoop, workers) > waiting },
		Refused: func(r *accept.Refusal) { set.owner.countClose(CloseAdmissionRejected, r.Peer, r.Tenant) },
		Ask:     l.ask,
		Post:    l.post,
		Pressed: &set.owner.budget.pressed, Scratch: l.mem.scratch,
		Failures: &l.logs.accepts, Refusals: &l.logs.refusals,
	}}
}

// roomOn returns how many more connections the loops take, by the limit of each; 0 is no limit.
func roomOn(limit int, loops []*loop) (n int) {
	if limit == 0 {
		return math.MaxInt
	}
	for _, w := range loops {
		n += max(0, limit-int(w.assigned.Load()))
	}
	return n
}

// offer gives a connection to the loop that the Chooser names or, when that one refuses, to the next that takes it.
func (w *crew) offer(peer netip.AddrPort, loops []*loop, take func(*loop) bool) bool {
	first := 0
	if len(loops) > 1 {
		first = w.choose(peer, loops)
	}
	return offerFrom(first, loops, take)
}

// offerFrom gives a connection to a loop or, when that one refuses, to the next that takes it.
func offerFrom(first int, loops []*loop, take func(*loop) bool) bool {
	n := len(loops)
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

// ErrTenantLimit is the error of SetTenant when the tenant has as many connections as allowed.
var ErrTenantLimit = errors.New("eddy: the tenant has too many connections")

// Tenant returns the tenant of the connection, as set by Admission.Tenant or SetTenant; "" means none. Loop only.
func (c *Conn) Tenant() string { return c.tenant() }

func (c *Conn) tenant() string {
	if r := c.rare(); r != nil {
		return r.tenant
	}
	return ""
}

// SetTenant assigns the connection to a tenant, for instance when its client has signed in. The connection and its close
// then count for that tenant and no longer for the one before. If that would pass Admission.MaxPerTenant, nothing changes
// and the error is ErrTenantLimit; a handler that returns it closes the connection with CloseAdmissionRejected. Loop
// only.
func (c *Conn) SetTenant(name string) error {
	old := c.tenant()
	if name == old {
		return nil
	}
	if c.phase == PhaseClosed {
		return c.closedError()
	}
	if g := c.set.accept.Gate; g != nil {
		if !g.ClaimTenant(name) {
			return WithReason(CloseAdmissionRejected, fmt.Errorf("%w: tenant %q, limit %d", ErrTenantLimit, name, g.MaxPerTenant))
		}
		g.LeaveTenant(old)
	}
	c.rarely().tenant = name
	return nil
}
