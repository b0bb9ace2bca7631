package eddy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxLabels bounds the tenants, and the networks, that closes are counted for. Later ones count as OtherLabel,
	// because a metric must not grow with the number of strangers.
	maxLabels = 1000
	// The prefix lengths that tell networks apart.
	labelIPv4Bits, labelIPv6Bits = 24, 48
)

// OtherLabel is the label for the closes of tenants and networks beyond the first thousand.
const OtherLabel = "other"

// closeCounts are closes by reason.
type closeCounts [closeReasons]atomic.Uint64

func (n *closeCounts) asMap() map[CloseReason]uint64 {
	m := make(map[CloseReason]uint64)
	for r := range n {
		if v := n[r].Load(); v > 0 {
			m[CloseReason(r)] = v
		}
	}
	return m
}

// labels counts closes by a label of bounded cardinality. Any goroutine; a lock is taken only for a label's first close.
type labels[K comparable] struct {
	known sync.Map // K → *closeCounts
	mu    sync.Mutex
	size  int
	other closeCounts
}

// of returns the counts of a label.
func (t *labels[K]) of(label K) *closeCounts {
	if n, ok := t.known.Load(label); ok {
		return n.(*closeCounts)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.known.Load(label); ok {
		return n.(*closeCounts)
	}
	if t.size == maxLabels {
		return &t.other
	}
	t.size++
	n := new(closeCounts)
	t.known.Store(label, n)
	return n
}

// LabelCounts are the closes of one tenant or of one network.
type LabelCounts struct {
	Label  string // the tenant's name or the network's prefix
	Closed map[CloseReason]uint64
}

// list returns the counts sorted by label, the others last.
func (t *labels[K]) list() []LabelCounts {
	var all []LabelCounts
	t.known.Range(func(k, n any) bool {
		all = append(all, LabelCounts{Label: fmt.Sprint(k), Closed: n.(*closeCounts).asMap()})
		return true
	})
	slices.SortFunc(all, func(a, b LabelCounts) int { return strings.Compare(a.Label, b.Label) })
	if m := t.other.asMap(); len(m) > 0 {
		all = append(all, LabelCounts{Label: OtherLabel, Closed: m})
	}
	return all
}

// countClose counts one end for its reason, its network and its tenant.
func (e *endpoint) countClose(reason CloseReason, peer netip.AddrPort, tenant string) {
	e.closed[reason].Add(1)
	if peer.IsValid() {
		e.networks.of(maskAddr(peer.Addr(), labelIPv4Bits, labelIPv6Bits))[reason].Add(1)
	}
	if tenant != "" {
		e.tenants.of(tenant)[reason].Add(1)
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
	if g := c.set.gate; g != nil {
		if !g.claimTenant(name) {
			return WithReason(CloseAdmissionRejected, fmt.Errorf("%w: tenant %q, limit %d", ErrTenantLimit, name, g.MaxPerTenant))
		}
		g.leaveTenant(old)
	}
	c.extend().tenant = name
	return nil
}
