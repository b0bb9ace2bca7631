package accept

import (
	"net/netip"
	"time"
)

// Gate is the limits of a server, and what its connections count for. The fields without a comment are those of Admission in
// the root package, defaults filled in. The functions run on the loop that accepts; the claims may be made by any goroutine.
type Gate struct {
	MaxConns, MaxPerIP, MaxPerTenant, MaxPerLoop int // open connections; 0 = no limit

	IPv4Prefix, IPv6Prefix int
	SpareDescriptors       int
	OnLimit                Decision // never DecisionAccept
	RetryAfter, Pause      time.Duration

	Tenant func(peer netip.AddrPort) string
	Busy   func(Refusal) []byte
	Decide func(peer netip.AddrPort) Decision

	Rate     Rate              // of accepted connections
	Networks Table[netip.Addr] // open connections by client network, while MaxPerIP is set
	Tenants  Table[string]     // open connections by tenant, while MaxPerTenant is set
}

// Network returns the client network of a peer, the zero Prefix for a Unix socket.
func (g *Gate) Network(peer netip.AddrPort) netip.Prefix {
	return Network(peer.Addr(), g.IPv4Prefix, g.IPv6Prefix)
}

// Network returns the network of an address by the lengths of the prefixes, the zero Prefix for the zero Addr.
func Network(a netip.Addr, v4, v6 int) netip.Prefix {
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

// claim counts a connection for its client network and its tenant, or says which limit forbids it.
func (g *Gate) claim(peer netip.AddrPort, tenant string) Cause {
	if !g.claimNetwork(peer) {
		return CausePerIP
	}
	if !g.ClaimTenant(tenant) {
		g.leaveNetwork(peer)
		return CausePerTenant
	}
	return causeNone
}

// Leave undoes what an admitted connection counts for.
func (g *Gate) Leave(peer netip.AddrPort, tenant string) {
	g.leaveNetwork(peer)
	g.LeaveTenant(tenant)
}

// LoopFull reports whether n connections are too many for a loop. A Dialer has no gate.
func (g *Gate) LoopFull(n int64) bool {
	return g != nil && g.MaxPerLoop > 0 && n > int64(g.MaxPerLoop)
}

func (g *Gate) claimNetwork(peer netip.AddrPort) bool {
	return g.MaxPerIP == 0 || !peer.IsValid() || g.Networks.Add(g.Network(peer).Addr(), g.MaxPerIP)
}

func (g *Gate) leaveNetwork(peer netip.AddrPort) {
	if g.MaxPerIP > 0 && peer.IsValid() {
		g.Networks.Remove(g.Network(peer).Addr())
	}
}

// ClaimTenant counts a connection for a tenant, unless that would pass the limit. Nobody's connections have no limit.
func (g *Gate) ClaimTenant(name string) bool {
	return g.MaxPerTenant == 0 || name == "" || g.Tenants.Add(name, g.MaxPerTenant)
}

// LeaveTenant undoes one ClaimTenant.
func (g *Gate) LeaveTenant(name string) {
	if g.MaxPerTenant > 0 && name != "" {
		g.Tenants.Remove(name)
	}
}
