package eddy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/sys"
)

// gateStage is a server whose listener and workers a test steps by hand.
type gateStage struct {
	*stage
	boss    *loop
	workers []*loop
}

func newGateStage(t *testing.T, workers int, srv *Server) *gateStage {
	t.Helper()
	st, first := newStage(t, srv)
	g := &gateStage{stage: st, workers: []*loop{first}}
	for i := 1; i < workers; i++ {
		g.workers = append(g.workers, st.loop(fmt.Sprint("worker-", i)))
	}
	g.boss = st.loop("boss")
	st.listen(g.boss, g.workers...)
	return g
}

// admitting is a server with these limits whose connections do nothing.
func admitting(a Admission) *Server {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Admission = a
	return srv
}

// arrive lets peers connect and returns what became of their sockets, in order.
func (g *gateStage) arrive(peers ...string) (open string) {
	g.t.Helper()
	from := g.lastFD
	for _, p := range peers {
		g.peers = append(g.peers, netip.AddrPortFrom(netip.MustParseAddr(p), 999))
	}
	g.pending += len(peers)
	g.turn()
	for fd := from + 1; fd <= g.lastFD; fd++ {
		if g.socks[fd].closed > 0 {
			open += "x"
		} else {
			open += "o"
		}
	}
	return open
}

// turn runs every loop until each has handled what the others gave it.
func (g *gateStage) turn() {
	for range 3 {
		g.boss.Iterate()
		for _, w := range g.workers {
			w.Iterate()
		}
	}
}

// conns are the connections of all loops, in the order of their descriptors.
func (g *gateStage) conns() []*Conn {
	var all []*Conn
	for _, w := range g.workers {
		all = slices.AppendSeq(all, w.table.All())
	}
	slices.SortFunc(all, func(a, b *Conn) int { return a.fd - b.fd })
	return all
}

func (g *gateStage) listening() bool {
	return g.boss.Poller.(*stagePoller).regs[stageListener].in == sys.Read
}

func (g *gateStage) expect(what, got, want string) {
	g.t.Helper()
	if got != want {
		g.t.Errorf("%s: %s, want %s (o open, x closed)", what, got, want)
	}
}

// expectNothingLeft: no connection, no count of any.
func (g *gateStage) expectNothingLeft() {
	g.t.Helper()
	gate := g.set.accept.Gate
	if n := g.srv.endpoint.tally.Active.Load(); n != 0 || gate.Networks.Len() != 0 || gate.Tenants.Len() != 0 {
		g.t.Errorf("%d connections, %d networks, %d tenants still count", n, gate.Networks.Len(), gate.Tenants.Len())
	}
	for i, w := range g.workers {
		if n := w.assigned.Load(); n != 0 {
			g.t.Errorf("%d connections count for loop %d", n, i)
		}
	}
}

func (g *gateStage) expectRefused(want map[RefuseCause]uint64) {
	g.t.Helper()
	total := uint64(0)
	for _, n := range want {
		total += n
	}
	st := g.srv.Stats()
	if !maps.Equal(st.Refused, want) || st.AdmissionRejected != total || st.Closed[CloseAdmissionRejected] != total {
		g.t.Errorf("refused %v, %d in all, %d closed as admission_rejected; want %v", st.Refused, st.AdmissionRejected, st.Closed[CloseAdmissionRejected], want)
	}
}

// TestPerIPLimit: connections of one client network are limited, those of others are not, and an end makes room.
func TestPerIPLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		adm        Admission
		same, more []string
	}{
		"v4":        {Admission{}, []string{"10.0.0.1", "10.0.0.1"}, []string{"10.0.0.2", "10.0.1.1"}},
		"v4 in v6":  {Admission{}, []string{"10.0.0.1", "::ffff:10.0.0.1"}, []string{"::ffff:10.0.0.2"}},
		"v4 /24":    {Admission{IPv4Prefix: 24}, []string{"10.0.0.1", "10.0.0.9"}, []string{"10.0.1.1"}},
		"v6 /64":    {Admission{}, []string{"2001:db8::1", "2001:db8::2:3"}, []string{"2001:db8:0:1::1"}},
		"v6 zone":   {Admission{}, []string{"fe80::1%eth0", "fe80::2"}, []string{"fe81::1"}},
		"v6 /48":    {Admission{IPv6Prefix: 48}, []string{"2001:db8::1", "2001:db8:0:9::2"}, []string{"2001:db8:1::1"}},
		"v6 single": {Admission{IPv6Prefix: 128}, []string{"2001:db8::1", "2001:db8::1"}, []string{"2001:db8::2"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.adm.MaxPerIP = 2
			g := newGateStage(t, 1, admitting(tc.adm))
			g.expect("two of one network", g.arrive(tc.same...), "oo")
			g.expect("the third", g.arrive(tc.same[0]), "x")
			g.expect("others", g.arrive(tc.more...), strings.Repeat("o", len(tc.more)))
			g.conns()[0].Close(CloseNormal)
			g.turn()
			g.expect("after an end", g.arrive(tc.same[1], tc.same[0]), "ox")
			g.expectRefused(map[RefuseCause]uint64{RefusePerIP: 2})
			for _, c := range g.conns() {
				c.Close(CloseNormal)
			}
			g.turn()
			g.expectNothingLeft()
		})
	}
}

// tenantByLastByte calls each odd address's connections alice's and those of 10.0.0.4 nobody's.
func tenantByLastByte(peer netip.AddrPort) string {
	b := peer.Addr().AsSlice()
	switch last := b[len(b)-1]; {
	case last == 4:
		return ""
	case last%2 == 1:
		return "alice"
	}
	return "bob"
}

// TestPerTenantLimit: the tenant follows from the address or from what a handler says later; each has its limit, and
// nobody's connections have none.
func TestPerTenantLimit(t *testing.T) {
	g := newGateStage(t, 2, admitting(Admission{Tenant: tenantByLastByte, MaxPerTenant: 2, MaxPerIP: 100}))
	g.expect("alice's", g.arrive("10.0.0.1", "10.0.0.3", "10.0.0.5"), "oox")
	g.expect("bob's", g.arrive("10.0.0.2"), "o")
	g.expect("nobody's", g.arrive("10.0.0.4", "10.0.0.4", "10.0.0.4"), "ooo")
	conns := g.conns()
	nobody := conns[3]
	if got := conns[0].Tenant(); got != "alice" {
		t.Errorf("the tenant is %q", got)
	}
	if err := nobody.SetTenant("alice"); !errors.Is(err, ErrTenantLimit) || reasonOf(err) != CloseAdmissionRejected || nobody.Tenant() != "" {
		t.Errorf("one too many for alice: %v, tenant %q", err, nobody.Tenant())
	}
	if err := nobody.SetTenant("bob"); err != nil || nobody.Tenant() != "bob" {
		t.Errorf("a second one for bob: %v, tenant %q", err, nobody.Tenant())
	}
	g.expect("bob's third", g.arrive("10.0.0.2"), "x")
	if err := conns[0].SetTenant(""); err != nil {
		t.Error(err)
	}
	g.expect("alice's, after one was given away", g.arrive("10.0.0.1", "10.0.0.1"), "ox")
	g.expectRefused(map[RefuseCause]uint64{RefusePerTenant: 3})
	for _, c := range g.conns() {
		c.Close(CloseNormal)
	}
	g.turn()
	g.expectNothingLeft()
	if err := nobody.SetTenant("carol"); !errors.Is(err, ErrClosed) {
		t.Errorf("SetTenant after the end: %v", err)
	}
	g.expectNothingLeft()
}

// TestMaxPerLoop: a full loop is passed over for the next, and only when all are full a connection is refused.
func TestMaxPerLoop(t *testing.T) {
	srv := admitting(Admission{MaxPerLoop: 2})
	g := newGateStage(t, 2, srv)
	for _, w := range g.workers {
		w.set.chooser = func(netip.AddrPort, []*Loop) int { return 0 }
	}
	g.expect("five connections", g.arrive("::1", "::1", "::1", "::1", "::1"), "oooox")
	if a, b := g.workers[0].table.Active(), g.workers[1].table.Active(); a != 2 || b != 2 {
		t.Errorf("the loops have %d and %d connections, want 2 and 2", a, b)
	}
	g.conns()[0].Close(CloseNormal)
	g.turn()
	g.expect("after an end", g.arrive("::1", "::1"), "ox")
	g.expectRefused(map[RefuseCause]uint64{RefusePerLoop: 2})
}

// TestAdmissionCountsAreUndone: whatever becomes of a connection, its counts go with it, once.
func TestAdmissionCountsAreUndone(t *testing.T) {
	full := Admission{MaxPerIP: 9, MaxPerTenant: 9, Tenant: tenantByLastByte}
	boom := func() { panic("boom") }
	for name, tc := range map[string]struct {
		change func(*Server)
		open   string
	}{
		"Init fails":     {func(s *Server) { s.Init = func(*Pipeline) error { return errors.New("no") } }, "xx"},
		"Init panics":    {func(s *Server) { s.Init = func(*Pipeline) error { boom(); return nil } }, "xx"},
		"no queue space": {func(s *Server) { s.TaskQueue = 1 }, "ox"},
		"Tenant panics":  {func(s *Server) { s.Admission.Tenant = func(netip.AddrPort) string { boom(); return "" } }, "xx"},
		"Decide panics":  {func(s *Server) { s.Admission.Decide = func(netip.AddrPort) Decision { boom(); return 0 } }, "xx"},
		"Busy panics": {func(s *Server) {
			s.MaxConns = 1
			s.Admission.OnLimit = DecisionBusy
			s.Admission.Busy = func(Refusal) []byte { boom(); return nil }
		}, "ox"},
		"peers go": {func(s *Server) {}, "oo"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := admitting(full)
			tc.change(srv)
			g := newGateStage(t, 1, srv)
			g.expect("two connections", g.arrive("10.0.0.1", "10.0.0.2"), tc.open)
			for _, c := range g.conns() {
				g.socks[c.fd].eof = true
			}
			g.turn()
			g.expectNothingLeft()
			for fd, s := range g.socks {
				if s.closed != 1 {
					t.Errorf("descriptor %d was closed %d times", fd, s.closed)
				}
			}
		})
	}
}

// TestAdmissionOptions: what makes no sense is refused by name.
func TestAdmissionOptions(t *testing.T) {
	for want, a := range map[string]Admission{
		"Admission.MaxPerIP is -1":     {MaxPerIP: -1},
		"Admission.MaxPerTenant is -1": {MaxPerTenant: -1},
		"Admission.IPv4Prefix is 33":   {IPv4Prefix: 33},
		"Admission.IPv6Prefix is 129":  {IPv6Prefix: 129},
		"Admission.Rate is -1":         {Rate: -1},
		"Admission.Burst is 5":         {Burst: 5},
		"Admission.MaxPerLoop is -1":   {MaxPerLoop: -1},
		"Admission.OnLimit is 4":       {OnLimit: 4},
		"Busy must make the message":   {OnLimit: DecisionBusy},
		"Admission.Pause is -1":        {Pause: -1},
	} {
		if _, err := admitting(a).settings(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("settings() = %v, want an error with %q", err, want)
		}
	}
}

// TestAdmissionBecomesAGate: every field of a Server that concerns accepting arrives where the acceptor looks, and those that
// are not set have their defaults.
func TestAdmissionBecomesAGate(t *testing.T) {
	peer := netip.MustParseAddrPort("192.0.2.1:5")
	var asked []string
	srv := admitting(Admission{
		MaxPerIP: 2, IPv4Prefix: 3, IPv6Prefix: 4, MaxPerTenant: 5, Rate: 10, Burst: 3, MaxPerLoop: 6, SpareDescriptors: 7,
		OnLimit: DecisionPause, RetryAfter: 8, Pause: 9,
		Tenant: func(netip.AddrPort) string { asked = append(asked, "Tenant"); return "" },
		Busy:   func(r Refusal) []byte { asked = append(asked, fmt.Sprint(r)); return nil },
		Decide: func(netip.AddrPort) Decision { asked = append(asked, "Decide"); return DecisionAccept },
	})
	srv.MaxConns, srv.AcceptBatch, srv.Backlog, srv.LingerTimeout = 1, 12, 13, 14
	set, err := srv.settings()
	if err != nil {
		t.Fatal(err)
	}
	g := set.accept.Gate
	g.Tenant(peer)
	g.Busy(accept.Refusal{Peer: peer, Tenant: "alice", Cause: RefuseRate, RetryAfter: time.Second})
	g.Decide(peer)
	if s := strings.Join(asked, ", "); s != "Tenant, {192.0.2.1:5 alice rate 1s}, Decide" {
		t.Errorf("asked %s", s)
	}
	burst := 0
	for g.Rate.Take(0) == 0 {
		burst++
	}
	numbers := func(set *settings) string {
		g, a := set.accept.Gate, set.accept
		return fmt.Sprint(g.MaxConns, g.MaxPerIP, g.IPv4Prefix, g.IPv6Prefix, g.MaxPerTenant, g.MaxPerLoop, g.SpareDescriptors,
			" ", g.OnLimit == DecisionReject, g.RetryAfter, g.Pause, " ", a.Batch, a.Listen.Backlog, a.Linger)
	}
	if s, want := numbers(set), "1 2 3 4 5 6 7 false 8ns 9ns 12 13 14ns"; s != want || burst != 3 {
		t.Errorf("the gate has %s, burst %d; want %s", s, burst, want)
	}
	if set, err = admitting(Admission{}).settings(); err != nil {
		t.Fatal(err)
	}
	g = set.accept.Gate
	if s, want := numbers(set), "0 0 32 64 0 0 16 true 1s 1s 256 0 2s"; s != want || g.Tenant != nil || g.Busy != nil || g.Decide != nil || g.Rate.Take(0) != 0 {
		t.Errorf("by default the gate has %s, want %s", s, want)
	}
}
