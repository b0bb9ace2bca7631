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

	"github.com/go-eddy/eddy/internal/sys"
)

// gateStage is a server whose listener and workers a test steps by hand.
type gateStage struct {
	*stage
	boss    *loop
	workers []*loop
	door    *acceptor
}

func newGateStage(t *testing.T, workers int, srv *Server) *gateStage {
	t.Helper()
	st, first := newStage(t, srv)
	g := &gateStage{stage: st, workers: []*loop{first}}
	for i := 1; i < workers; i++ {
		g.workers = append(g.workers, st.loop(fmt.Sprint("worker-", i)))
	}
	g.boss = st.loop("boss")
	g.door = st.listen(g.boss, g.workers...)
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
		for _, c := range w.table.slots {
			if c != nil {
				all = append(all, c)
			}
		}
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
	gate := g.set.gate
	if n := g.srv.endpoint.active.Load(); n != 0 || gate.networks.Len() != 0 || gate.tenants.Len() != 0 {
		g.t.Errorf("%d connections, %d networks, %d tenants still count", n, gate.networks.Len(), gate.tenants.Len())
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

// TestAcceptRate: Burst connections at once, then Rate of them per second; what was refused uses nothing up.
func TestAcceptRate(t *testing.T) {
	g := newGateStage(t, 1, admitting(Admission{Rate: 10, Burst: 3, MaxPerIP: 5}))
	five := []string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1"}
	g.expect("a burst", g.arrive(five...), "oooxx")
	g.now.Add(int64(99 * time.Millisecond))
	g.expect("too early", g.arrive(five[0]), "x")
	g.now.Add(int64(time.Millisecond))
	g.expect("one interval later", g.arrive(five[:2]...), "ox")
	g.now.Add(int64(100 * time.Millisecond))
	g.expect("the fifth and one too many of the address", g.arrive(five[:2]...), "ox")
	g.now.Add(int64(200 * time.Millisecond))
	g.expect("refused for its address, then another's two", g.arrive(five[0], "10.0.0.2", "10.0.0.3"), "xoo")
	g.now.Add(int64(time.Hour))
	g.expect("a burst after a quiet hour", g.arrive("10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"), "ooox")
	g.expectRefused(map[RefuseCause]uint64{RefuseRate: 6, RefusePerIP: 1})
}

// TestMaxPerLoop: a full loop is passed over for the next, and only when all are full a connection is refused.
func TestMaxPerLoop(t *testing.T) {
	srv := admitting(Admission{MaxPerLoop: 2})
	g := newGateStage(t, 2, srv)
	for _, w := range g.workers {
		w.set.chooser = ChooserFunc(func(netip.AddrPort, Loads) int { return 0 })
	}
	g.expect("five connections", g.arrive("::1", "::1", "::1", "::1", "::1"), "oooox")
	if a, b := g.workers[0].table.active, g.workers[1].table.active; a != 2 || b != 2 {
		t.Errorf("the loops have %d and %d connections, want 2 and 2", a, b)
	}
	g.conns()[0].Close(CloseNormal)
	g.turn()
	g.expect("after an end", g.arrive("::1", "::1"), "ox")
	g.expectRefused(map[RefuseCause]uint64{RefusePerLoop: 2})
}

// TestPauseAtALimit: with DecisionPause nobody is refused: the listener rests while there is no room, without spinning,
// and wakes when there is.
func TestPauseAtALimit(t *testing.T) {
	for name, tc := range map[string]struct {
		adm  Admission
		max  int
		room func(*gateStage) // makes room for one
	}{
		"total":    {Admission{}, 2, func(g *gateStage) { g.conns()[0].Close(CloseNormal) }},
		"per loop": {Admission{MaxPerLoop: 2}, 0, func(g *gateStage) { g.conns()[0].Close(CloseNormal) }},
		"rate":     {Admission{Rate: 10, Burst: 2}, 0, func(g *gateStage) { g.now.Add(int64(110 * time.Millisecond)) }},
	} {
		t.Run(name, func(t *testing.T) {
			tc.adm.OnLimit = DecisionPause
			srv := admitting(tc.adm)
			srv.MaxConns = tc.max
			g := newGateStage(t, 1, srv)
			g.expect("five connections", g.arrive("::1", "::1", "::1", "::1", "::1"), "oo")
			if g.listening() {
				t.Error("the listener still asks for connections")
			}
			accepts := g.accepts
			for range 50 {
				g.turn()
			}
			if g.accepts != accepts {
				t.Errorf("%d calls of Accept without room", g.accepts-accepts)
			}
			for left := 2; left >= 0; left-- {
				tc.room(g)
				g.turn()
				if g.pending != left {
					t.Errorf("%d wait for room, want %d", g.pending, left)
				}
			}
			tc.room(g)
			g.turn()
			if !g.listening() {
				t.Error("with room and nobody waiting the listener does not ask for connections")
			}
			g.expectRefused(map[RefuseCause]uint64{})
			if n := srv.Stats().AcceptPauses; n < 3 {
				t.Errorf("%d pauses counted", n)
			}
		})
	}
}

// TestPauseSparesOthers: one address or tenant over its limit is refused; it does not keep out the others.
func TestPauseSparesOthers(t *testing.T) {
	g := newGateStage(t, 1, admitting(Admission{MaxPerIP: 1, MaxPerTenant: 1, Tenant: tenantByLastByte, OnLimit: DecisionPause}))
	g.expect("per address and per tenant", g.arrive("10.0.0.1", "10.0.0.1", "10.0.0.3", "10.0.0.2"), "oxxo")
	if !g.listening() {
		t.Error("the listener rests")
	}
	g.expectRefused(map[RefuseCause]uint64{RefusePerIP: 1, RefusePerTenant: 1})
}

// TestDecide: the application's word on a connection that the limits would take.
func TestDecide(t *testing.T) {
	say := map[byte]Decision{1: DecisionAccept, 2: DecisionReject, 3: DecisionBusy, 4: DecisionPause, 5: DecisionAccept}
	g := newGateStage(t, 1, admitting(Admission{MaxPerIP: 9, Pause: 200 * time.Millisecond,
		Busy: func(r Refusal) []byte {
			return fmt.Appendf(nil, "busy %v %v %v", r.Peer.Addr(), r.Cause, r.RetryAfter)
		},
		RetryAfter: 3 * time.Second,
		Decide:     func(peer netip.AddrPort) Decision { return say[peer.Addr().As4()[3]] },
	}))
	g.expect("accept, reject, busy, pause", g.arrive("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"), "oxox")
	if busy := g.socks[g.lastFD-1]; string(busy.out) != "busy 10.0.0.3 decide 3s" || !busy.shutdown {
		t.Errorf("the busy one was sent %q, shut down %v", busy.out, busy.shutdown)
	}
	if g.listening() || g.pending != 1 {
		t.Error("the listener does not rest")
	}
	g.now.Add(int64(210 * time.Millisecond))
	g.turn()
	if !g.listening() || g.pending != 0 || len(g.conns()) != 2 {
		t.Errorf("after the pause: %d wait, %d connections", g.pending, len(g.conns()))
	}
	g.expectRefused(map[RefuseCause]uint64{RefuseDecide: 3})
	if n := g.set.gate.networks.Len(); n != 2 {
		t.Errorf("%d networks count, want those of the two connections", n)
	}
}

// TestBusyWaitsForThePeersEnd: a refused socket that was told busy is closed when its peer ends or when the time is up,
// what the peer sends is dropped meanwhile, and only so many may wait.
func TestBusyWaitsForThePeersEnd(t *testing.T) {
	srv := admitting(Admission{OnLimit: DecisionBusy, Busy: func(Refusal) []byte { return []byte("busy") }})
	srv.MaxConns = 1
	srv.LingerTimeout = time.Second
	g := newGateStage(t, 1, srv)
	g.expect("one connection, two told busy", g.arrive("::1", "::1", "::1"), "ooo")
	polite, rude := g.socks[g.lastFD-1], g.socks[g.lastFD]
	polite.send("request")
	polite.eof = true
	rude.endless = true
	g.turn()
	if polite.closed != 1 || rude.closed != 0 || rude.reads == 0 {
		t.Errorf("closed %d and %d times, %d reads of the second; want the first closed, the second read", polite.closed, rude.closed, rude.reads)
	}
	if reads := rude.reads; reads > 3*readCallBudget {
		t.Errorf("%d reads in three iterations", reads)
	}
	g.now.Add(int64(1100 * time.Millisecond))
	g.turn()
	if rude.closed != 1 || string(rude.out) != "busy" || len(g.door.partings) != 0 {
		t.Errorf("after the time: closed %d times, sent %q", rude.closed, rude.out)
	}
	var many []string
	for range maxPartings + 5 {
		many = append(many, "::1")
	}
	open := g.arrive(many...)
	if want := strings.Repeat("o", maxPartings) + "xxxxx"; open != want {
		t.Errorf("%d of %d wait, want %d", strings.Count(open, "o"), len(open), maxPartings)
	}
	if last := g.socks[g.lastFD]; string(last.out) != "busy" {
		t.Errorf("beyond the bound the peer was sent %q", last.out)
	}
	g.door.leave()
	g.turn()
	for fd, s := range g.socks {
		if conns := g.conns(); fd != conns[0].fd && s.closed != 1 {
			t.Fatalf("descriptor %d was closed %d times", fd, s.closed)
		}
	}
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

// TestSpareDescriptors: the last descriptors of the process stay for others: who comes then is told as long as half of them
// are free, and closed at once beyond. What was reserved for them is given back.
func TestSpareDescriptors(t *testing.T) {
	busy := func(r Refusal) []byte { return []byte("busy: " + r.Cause.String()) }
	g := newGateStage(t, 1, admitting(Admission{OnLimit: DecisionBusy, Busy: busy}))
	left := DefaultSpareDescriptors
	g.left = &left
	g.expect("with just enough", g.arrive("192.0.2.1"), "o")
	left--
	g.expect("told and waited for", g.arrive("192.0.2.2"), "o")
	if a := g.socks[g.lastFD]; a.conn != nil || len(a.writes) != 1 {
		t.Errorf("the refused peer: %+v", a)
	}
	left = DefaultSpareDescriptors/2 - 1
	g.expect("when few are left of the spare ones", g.arrive("192.0.2.3"), "x")
	g.expectRefused(map[RefuseCause]uint64{RefuseDescriptors: 2})
	if st := g.srv.Stats(); st.Shed != 2 || st.Active != 1 || st.AcceptPauses != 0 {
		t.Errorf("%d shed, %d active, %d pauses", st.Shed, st.Active, st.AcceptPauses)
	}

	g = newGateStage(t, 1, admitting(Admission{SpareDescriptors: 3, OnLimit: DecisionPause}))
	g.left = &left
	left = 2
	g.expect("where others wait", g.arrive("192.0.2.1", "192.0.2.2"), "xx")
	g.expectNothingLeft()

	g = newGateStage(t, 1, admitting(Admission{SpareDescriptors: -1}))
	g.left = &left
	left = 0
	g.expect("the last one, where none is spared", g.arrive("192.0.2.1"), "o")
}
