package eddy

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy/internal/accept"
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

// Decision is what becomes of a connection that was accepted from the kernel.
type Decision uint8

const (
	// DecisionAccept serves the connection.
	DecisionAccept Decision = iota
	// DecisionReject closes the connection at once.
	DecisionReject
	// DecisionBusy sends what Admission.Busy returns, as far as the socket takes it at once, and then closes in order:
	// FIN, then a short wait for the peer's own end. At most 256 refused connections wait at a time; others are closed
	// right after the message, which a reset may then overtake.
	DecisionBusy
	// DecisionPause closes the connection and accepts nothing for a while. As OnLimit it leaves peers in the kernel's queue.
	DecisionPause
	decisions
)

// Defaults of the zero Admission.
const (
	DefaultIPv4Prefix       = 32
	DefaultIPv6Prefix       = 64
	DefaultSpareDescriptors = 16
	DefaultRetryAfter       = time.Second
	DefaultAcceptPause      = time.Second
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
	case a.OnLimit >= decisions:
		return fmt.Errorf("eddy: Server.Admission.OnLimit is %d: it must be one of the Decisions", a.OnLimit)
	case a.OnLimit == DecisionBusy && a.Busy == nil:
		return errors.New("eddy: Server.Admission.OnLimit is DecisionBusy: Busy must make the message")
	}
	return nil
}

// gate is a Server's admission after validation, with what its connections count for.
type gate struct {
	Admission
	maxConns int
	rate     accept.Rate
	networks *accept.Table[netip.Addr]
	tenants  *accept.Table[string]
}

func (a *Admission) gate(maxConns int) (*gate, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	g := &gate{Admission: *a, maxConns: maxConns, networks: accept.NewTable[netip.Addr](), tenants: accept.NewTable[string]()}
	g.IPv4Prefix = orInt(g.IPv4Prefix, DefaultIPv4Prefix)
	g.IPv6Prefix = orInt(g.IPv6Prefix, DefaultIPv6Prefix)
	g.SpareDescriptors = orInt(g.SpareDescriptors, DefaultSpareDescriptors)
	g.RetryAfter = orDuration(g.RetryAfter, DefaultRetryAfter)
	g.Pause = orDuration(g.Pause, DefaultAcceptPause)
	g.rate.Set(g.Rate, orInt(g.Burst, g.Rate))
	if g.OnLimit == DecisionAccept {
		g.OnLimit = DecisionReject
	}
	return g, nil
}

// network returns the client network of a peer, the zero Addr for a Unix socket.
func (g *gate) network(peer netip.AddrPort) netip.Addr {
	return maskAddr(peer.Addr(), g.IPv4Prefix, g.IPv6Prefix).Addr()
}

// maskAddr returns the network of an address, the zero Prefix for the zero Addr.
func maskAddr(a netip.Addr, v4, v6 int) netip.Prefix {
	if !a.IsValid() {
		return netip.Prefix{}
	}
	a = a.Unmap()
	bits := v6
	if a.Is4() {
		bits = v4
	}
	p, _ := a.Prefix(bits) // the lengths were checked
	return p
}

// claimPeer counts a connection for its client network and its tenant, or says which limit forbids it.
func (g *gate) claimPeer(peer netip.AddrPort, tenant string) RefuseCause {
	if !g.claimNetwork(peer) {
		return RefusePerIP
	}
	if !g.claimTenant(tenant) {
		g.leaveNetwork(peer)
		return RefusePerTenant
	}
	return refuseNot
}

// unclaimPeer undoes claimPeer.
func (g *gate) unclaimPeer(peer netip.AddrPort, tenant string) {
	g.leaveNetwork(peer)
	g.leaveTenant(tenant)
}

// loopFull reports whether n connections are too many for a loop. A Dialer has no gate.
func (g *gate) loopFull(n int64) bool {
	return g != nil && g.MaxPerLoop > 0 && n > int64(g.MaxPerLoop)
}

func (g *gate) claimNetwork(peer netip.AddrPort) bool {
	return g.MaxPerIP == 0 || !peer.IsValid() || g.networks.Add(g.network(peer), g.MaxPerIP)
}

func (g *gate) leaveNetwork(peer netip.AddrPort) {
	if g.MaxPerIP > 0 && peer.IsValid() {
		g.networks.Remove(g.network(peer))
	}
}

func (g *gate) claimTenant(name string) bool {
	return g.MaxPerTenant == 0 || name == "" || g.tenants.Add(name, g.MaxPerTenant)
}

func (g *gate) leaveTenant(name string) {
	if g.MaxPerTenant > 0 && name != "" {
		g.tenants.Remove(name)
	}
}

// admit counts a connection before it exists and undoes that when the limit is passed, so that a burst of accepts
// cannot overshoot. limit 0 means no limit.
func (e *endpoint) admit(limit int) bool {
	n := e.active.Add(1)
	if limit > 0 && n > int64(limit) {
		e.unadmit()
		return false
	}
	return true
}

// unadmit undoes one admit and tells a Shutdown that waits.
func (e *endpoint) unadmit() {
	if e.active.Add(-1) == 0 {
		e.tellIdle()
	}
}

// parted notes the end of a refused socket and tells a Shutdown that waits.
func (e *endpoint) parted() {
	if e.parting.Add(-1) == 0 {
		e.tellIdle()
	}
}

func (e *endpoint) tellIdle() {
	select {
	case e.released <- struct{}{}:
	default:
	}
}

// release is unadmit that also tells acceptors waiting for room.
func (e *endpoint) release() {
	e.unadmit()
	e.roomAgain()
}

// discharge undoes everything that c counts for, exactly once per connection.
func (e *endpoint) discharge(c *Conn) {
	if g := c.set.gate; g != nil {
		g.unclaimPeer(c.RemoteAddr(), c.tenant())
	}
	e.release()
}

// roomAgain makes the acceptors that wait for room look again. Any goroutine.
func (e *endpoint) roomAgain() {
	if !e.waiting.Load() || !e.waiting.CompareAndSwap(true, false) {
		return
	}
	for _, a := range e.acceptors {
		_ = a.loop.Tasks.PushControl(task{kind: taskFunc, msg: a.resume}) // a loop that has ended accepts nothing
	}
}
