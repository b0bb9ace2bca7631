package eddy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/meter"
)

// TestLabelsAreBounded: closes of the first thousand tenants and networks are told apart, the others count together.
func TestLabelsAreBounded(t *testing.T) {
	var e endpoint
	const tenants = meter.MaxLabels + 200
	for i := range tenants {
		peer := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 7}), 1)
		for range 2 {
			e.countClose(CloseNormal, peer, fmt.Sprintf("tenant-%04d", i))
		}
	}
	e.countClose(CloseIOError, netip.MustParseAddrPort("10.0.0.99:1"), "tenant-0000")
	e.countClose(CloseIOError, netip.MustParseAddrPort("[2001:db8:1:2::3]:1"), "")
	e.countClose(CloseIOError, netip.AddrPort{}, "") // a Unix socket
	for name, list := range map[string][]LabelCounts{"tenants": labelCounts(&e.tenants), "networks": labelCounts(&e.networks)} {
		if len(list) != meter.MaxLabels+1 || list[meter.MaxLabels].Label != meter.Other {
			t.Fatalf("%d %s, the last %q", len(list), name, list[len(list)-1].Label)
		}
		if n := list[meter.MaxLabels].Closed[CloseNormal]; n != 2*200 {
			t.Errorf("%s: %d closes of others, want 400", name, n)
		}
		if first := list[0]; first.Closed[CloseNormal] != 2 || first.Closed[CloseIOError] != 1 {
			t.Errorf("%s: the first is %+v", name, first)
		}
	}
	if first := labelCounts(&e.networks)[0].Label; first != "10.0.0.0/24" {
		t.Errorf("the first network is %q", first)
	}
	if n := e.closed[CloseIOError].Load(); n != 3 {
		t.Errorf("%d in all", n)
	}
	var fresh endpoint
	fresh.countClose(CloseNormal, netip.MustParseAddrPort("[2001:db8:1:2::3]:1"), "")
	if list := labelCounts(&fresh.networks); len(list) != 1 || list[0].Label != "2001:db8:1::/48" || len(labelCounts(&fresh.tenants)) != 0 {
		t.Errorf("networks %v, tenants %v", list, labelCounts(&fresh.tenants))
	}
}

// TestRefuseCauseNames: the metric labels are a promise, and every cause has a name of its own.
func TestRefuseCauseNames(t *testing.T) {
	all := []RefuseCause{RefuseMaxConns, RefusePerIP, RefusePerTenant, RefuseRate, RefusePerLoop, RefuseMemory, RefuseDecide, RefuseTaskQueue, RefuseDescriptors}
	if got := RefuseCauses(); !slices.Equal(got, all) {
		t.Errorf("RefuseCauses lists %v", got)
	}
	want := "max_conns max_per_ip max_per_tenant rate max_per_loop memory_budget decide task_queue descriptors unknown"
	var got []string
	for _, c := range append(all, all[len(all)-1]+1) {
		got = append(got, c.String())
	}
	if s := strings.Join(got, " "); s != want {
		t.Errorf("causes %q, want %q", s, want)
	}
}
