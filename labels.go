package eddy

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/meter"
)

// The lengths of the prefixes that networks are told apart by.
const labelIPv4Bits, labelIPv6Bits = 24, 48

// closes returns the counts of closes by reason.
func closes(n *meter.Counts) map[CloseReason]uint64 {
	m := make(map[CloseReason]uint64)
	n.Each(func(reason int, times uint64) { m[CloseReason(reason)] = times })
	return m
}

// labelCounts returns the counts by label. A label that is called as the rest counts together with it.
func labelCounts[K comparable](t *meter.Labels[K]) map[string]map[CloseReason]uint64 {
	all := make(map[string]map[CloseReason]uint64)
	for _, n := range t.List() {
		of := closes(n.Counts)
		for reason, times := range all[n.Label] {
			of[reason] += times
		}
		all[n.Label] = of
	}
	return all
}

// countClose counts one end for its reason, its network and its tenant.
func (e *endpoint) countClose(reason CloseReason, peer netip.AddrPort, tenant string) {
	e.closed[reason].Add(1)
	if peer.IsValid() {
		e.networks.Of(accept.Network(peer.Addr(), labelIPv4Bits, labelIPv6Bits))[reason].Add(1)
	}
	if tenant != "" {
		e.tenants.Of(tenant)[reason].Add(1)
	}
}

// ErrTenantLimit is the error of SetTenant when the tenant has as many connections as allowed.
var ErrTenantLimit = errors.New("eddy: the tenant has too many connections")

// Tenant returns the tenant of the connection, as set by Admission.Tenant or SetTenant; "" means none. Loop only.
func (c *Conn) Tenant() string { return c.tenant() }

func (c *Conn) tenant() string {
	if x := c.ext.Load(); x != nil {
		return x.tenant
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
	c.extend().tenant = name
	return nil
}
