package eddy

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sample"
)

// TestLabelsAreBounded: closes of the first thousand tenants and networks are told apart, the others count together.
func TestLabelsAreBounded(t *testing.T) {
	var e endpoint
	e.released = make(chan struct{}, 1)
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
		if len(list) != meter.MaxLabels+1 || list[meter.MaxLabels].Label != OtherLabel {
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

// TestRefusalsAreSampled: a storm of refusals leaves a few lines that say who was refused and why, and how many lines
// were held back; every refusal counts.
func TestRefusalsAreSampled(t *testing.T) {
	var log bytes.Buffer
	srv := admitting(Admission{MaxPerIP: 1, Tenant: tenantByLastByte})
	srv.Logger = slog.New(slog.NewTextHandler(&log, nil))
	g := newGateStage(t, 1, srv)
	storm := make([]string, 100)
	for i := range storm {
		storm[i] = "10.0.0.1"
	}
	g.arrive(storm...)
	text := log.String()
	if n := strings.Count(text, "connection refused"); n != sample.PerInterval {
		t.Errorf("%d lines for 99 refusals, want %d: %.300s", n, sample.PerInterval, text)
	}
	for _, want := range []string{"level=WARN", "cause=max_per_ip", "peer=10.0.0.1:999", "tenant=alice"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q: %.300s", want, text)
		}
	}
	if strings.Contains(text, "goroutine") {
		t.Error("the log has a stack")
	}
	log.Reset()
	g.now.Add(int64(2 * time.Second))
	g.arrive("10.0.0.1")
	if want := fmt.Sprint("held_back=", 99-sample.PerInterval); !strings.Contains(log.String(), want) {
		t.Errorf("the next line lacks %q: %s", want, log.String())
	}
	g.expectRefused(map[RefuseCause]uint64{RefusePerIP: 100})
}

// TestRefuseCauseNames: the metric labels are a promise.
func TestRefuseCauseNames(t *testing.T) {
	want := "max_conns max_per_ip max_per_tenant rate max_per_loop memory_budget decide task_queue descriptors unknown"
	var got []string
	for c := RefuseMaxConns; c <= refuseCauses; c++ {
		got = append(got, c.String())
	}
	if s := strings.Join(got, " "); s != want {
		t.Errorf("causes %q, want %q", s, want)
	}
	if all := RefuseCauses(); len(all) != int(refuseCauses)-1 || all[0] != RefuseMaxConns || all[len(all)-1] != RefuseDescriptors {
		t.Errorf("RefuseCauses lists %v", all)
	}
}
