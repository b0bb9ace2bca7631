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
	for first, all := range map[string]map[string]map[CloseReason]uint64{"tenant-0000": labelCounts(&e.tenants), "10.0.0.0/24": labelCounts(&e.networks)} {
		if len(all) != meter.MaxLabels+1 {
			t.Errorf("%d labels like %s", len(all), first)
		}
		if n := all[meter.Other][CloseNormal]; n != 2*200 {
			t.Errorf("%s: %d closes of others, want 400", first, n)
		}
		if n := all[first]; n[CloseNormal] != 2 || n[CloseIOError] != 1 {
			t.Errorf("%s: %v", first, n)
		}
	}
	if n := e.closed[CloseIOError].Load(); n != 3 {
		t.Errorf("%d in all", n)
	}
	var fresh endpoint
	fresh.countClose(CloseNormal, netip.MustParseAddrPort("[2001:db8:1:2::3]:1"), "")
	if all := labelCounts(&fresh.networks); len(all) != 1 || len(all["2001:db8:1::/48"]) != 1 || len(labelCounts(&fresh.tenants)) != 0 {
		t.Errorf("networks %v, tenants %v", all, labelCounts(&fresh.tenants))
	}
	fresh.countClose(CloseNormal, netip.AddrPort{}, meter.Other) // a tenant that is called as the rest
	for i := range meter.MaxLabels {
		fresh.countClose(CloseNormal, netip.AddrPort{}, fmt.Sprint(i))
	}
	if n := labelCounts(&fresh.tenants)[meter.Other][CloseNormal]; n != 2 {
		t.Errorf("a tenant called %q and the rest count %d, want 2", meter.Other, n)
	}
}

// TestRefuseCauseNames: the metric labels are a promise, and every cause has a name of its own.
func TestRefuseCauseNames(t *testing.T) {
	all := []RefuseCause{RefuseMaxConns, RefusePerIP, RefusePerTenant, RefuseRate, RefusePerLoop, RefuseMemory, RefuseDecide, RefuseTaskQueue, RefuseDescriptors, RefuseOverload}
	if got := RefuseCauses(); !slices.Equal(got, all) {
		t.Errorf("RefuseCauses lists %v", got)
	}
	want := "max_conns max_per_ip max_per_tenant rate max_per_loop memory_budget decide task_queue descriptors overload unknown"
	var got []string
	for _, c := range append(all, all[len(all)-1]+1) {
		got = append(got, c.String())
	}
	if s := strings.Join(got, " "); s != want {
		t.Errorf("causes %q, want %q", s, want)
	}
}
