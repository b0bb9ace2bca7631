package accept

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/internal/sys"
)

// TestAcceptBatch: one readiness accepts at most Settings.Batch connections, and stops when there are no more.
func TestAcceptBatch(t *testing.T) {
	r := newRig(t, &Gate{}, Settings{Batch: 3, Listen: sys.ListenOptions{Backlog: 77}}).begin()
	if r.opts.Backlog != 77 || r.opts.ReusePort {
		t.Errorf("listens with %+v", r.opts)
	}
	r.pending = 7
	for i, want := range []int{3, 3, 2, 0} { // the third finds the queue empty at its second call
		before := r.accepts
		r.Loop.Iterate()
		if n := r.accepts - before; n != want {
			t.Errorf("iteration %d called Accept %d times, want %d", i, n, want)
		}
	}
	if len(r.conns) != 7 || r.tally.Accepted.Load() != 7 {
		t.Errorf("%d connections handed over, %d counted, want 7", len(r.conns), r.tally.Accepted.Load())
	}
}

// TestAcceptRate: Burst connections at once, then Rate of them per second; what was refused uses nothing up.
func TestAcceptRate(t *testing.T) {
	g := &Gate{MaxPerIP: 5}
	g.Rate.Set(10, 3)
	r := newRig(t, g, Settings{}).begin()
	five := []string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1"}
	r.expect("a burst", r.arrive(five...), "oooxx")
	r.pass(99 * time.Millisecond)
	r.expect("too early", r.arrive(five[0]), "x")
	r.pass(time.Millisecond)
	r.expect("one interval later", r.arrive(five[:2]...), "ox")
	r.pass(100 * time.Millisecond)
	r.expect("the fifth and one too many of the address", r.arrive(five[:2]...), "ox")
	r.pass(200 * time.Millisecond)
	r.expect("refused for its address, then another's two", r.arrive(five[0], "10.0.0.2", "10.0.0.3"), "xoo")
	r.pass(time.Hour)
	r.expect("a burst after a quiet hour", r.arrive("10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"), "ooox")
	r.expectRefused(map[Cause]uint64{CauseRate: 6, CausePerIP: 1})
}

// TestDecide: the application's word on a connection that the limits would take.
func TestDecide(t *testing.T) {
	say := map[byte]Decision{1: DecisionAccept, 2: DecisionReject, 3: DecisionBusy, 4: DecisionPause, 5: DecisionAccept}
	g := &Gate{MaxPerIP: 9, Pause: 200 * time.Millisecond, RetryAfter: 3 * time.Second,
		Busy: func(r Refusal) []byte {
			return fmt.Appendf(nil, "busy %v %v %v", r.Peer.Addr(), r.Cause, r.RetryAfter)
		},
		Decide: func(peer netip.AddrPort) Decision { return say[peer.Addr().As4()[3]] },
	}
	r := newRig(t, g, Settings{}).begin()
	r.expect("accept, reject, busy, pause", r.arrive("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"), "oxox")
	if busy := r.socks[r.lastFD-1]; string(busy.out) != "busy 10.0.0.3 decide 3s" || !busy.shutdown {
		t.Errorf("the busy one was sent %q, shut down %v", busy.out, busy.shutdown)
	}
	if r.listening() || r.pending != 1 {
		t.Error("the listener does not rest")
	}
	r.pass(210 * time.Millisecond)
	if !r.listening() || r.pending != 0 || len(r.conns) != 2 {
		t.Errorf("after the pause: %d wait, %d connections", r.pending, len(r.conns))
	}
	r.expectRefused(map[Cause]uint64{CauseDecide: 3})
	if n := g.Networks.Len(); n != 2 {
		t.Errorf("%d networks count, want those of the two connections", n)
	}
}

// TestNobodyTakes: a socket that no loop takes is closed, counted for the limit that was in the way, and counts for nothing
// else. Where peers wait in the kernel's queue, the others then do.
func TestNobodyTakes(t *testing.T) {
	for _, c := range []struct {
		onLimit   Decision
		saturated bool // else the loop fills up between the claim and the hand-over
		open      string
		cause     Cause
	}{
		{DecisionReject, true, "xx", CauseTaskQueue},
		{DecisionPause, true, "x", CauseTaskQueue},
		{DecisionReject, false, "xx", CausePerLoop},
		{DecisionPause, false, "x", CausePerLoop},
	} {
		t.Run(fmt.Sprint(c.onLimit, c.cause), func(t *testing.T) {
			g := &Gate{OnLimit: c.onLimit, MaxPerIP: 9}
			r := newRig(t, g, Settings{Batch: 1}).begin()
			r.saturated = c.saturated
			if !c.saturated {
				g.Decide = func(netip.AddrPort) Decision { r.perLoop = -1; return DecisionAccept }
			}
			r.peers = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.1:2")}
			r.pending = 2
			for range c.open {
				r.perLoop = 0
				r.Loop.Iterate()
			}
			if r.lastFD-100 != len(c.open) || r.newest().closed != 1 {
				t.Errorf("%d came, the last was closed %d times", r.lastFD-100, r.newest().closed)
			}
			r.expectRefused(map[Cause]uint64{c.cause: uint64(len(c.open))})
			if n := r.Loop.Counters[meter.Refused]; n != uint64(len(c.open)) || r.tally.Active.Load() != 0 || g.Networks.Len() != 0 {
				t.Errorf("%d counted by the loop; %d active, %d networks left", n, r.tally.Active.Load(), g.Networks.Len())
			}
			if r.listening() != (c.onLimit != DecisionPause) {
				t.Errorf("the listener listens: %v", r.listening())
			}
		})
	}
}

// TestRefusalsAreSampled: a storm of refusals leaves a few lines that say who was refused and why, and how many lines
// were held back; every refusal counts.
func TestRefusalsAreSampled(t *testing.T) {
	r := newRig(t, &Gate{MaxPerIP: 1, Tenant: func(netip.AddrPort) string { return "alice" }}, Settings{}).begin()
	var told []Refusal
	r.Host.Refused = func(why *Refusal) { told = append(told, *why) }
	r.arrive(slices.Repeat([]string{"10.0.0.1"}, 100)...)
	text := r.log.String()
	if n := strings.Count(text, "connection refused"); n != sample.PerInterval {
		t.Errorf("%d lines for 99 refusals, want %d: %.300s", n, sample.PerInterval, text)
	}
	for _, want := range []string{"level=WARN", "addr=192.0.2.1:1", "cause=max_per_ip", "peer=10.0.0.1:999", "tenant=alice"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q: %.300s", want, text)
		}
	}
	if strings.Contains(text, "goroutine") {
		t.Error("the log has a stack")
	}
	r.log.Reset()
	r.pass(2 * time.Second)
	r.arrive("10.0.0.1")
	if want := fmt.Sprint("held_back=", 99-sample.PerInterval); !strings.Contains(r.log.String(), want) {
		t.Errorf("the next line lacks %q: %s", want, r.log.String())
	}
	r.expectRefused(map[Cause]uint64{CausePerIP: 100})
	if len(told) != 100 || told[99].Tenant != "alice" || told[99].Cause != CausePerIP {
		t.Errorf("the server was told of %d refusals", len(told))
	}
}

// TestLocalAddresses: connections of a listener share their local addresses, which are asked for only where they can differ,
// and are remembered up to a bound.
func TestLocalAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		bound net.Addr
		want  []string // of two sockets, without a repetition
	}{
		"one address": {net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.9:5")), []string{"192.0.2.9:5"}},
		"any address": {&net.TCPAddr{IP: net.IPv6unspecified, Port: 5}, []string{"192.0.2.0:1", "192.0.2.1:1"}},
		"unix":        {&net.UnixAddr{Name: "/x", Net: "unix"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &Gate{}, Settings{})
			r.bound = c.bound
			r.begin().come(10)
			got := map[*netip.AddrPort]bool{}
			var texts []string
			for _, s := range r.conns {
				if s.local != nil && !got[s.local] {
					got[s.local] = true
					texts = append(texts, s.local.String())
				}
			}
			if slices.Sort(texts); !slices.Equal(texts, c.want) {
				t.Errorf("the addresses are %v, want %v", texts, c.want)
			}
		})
	}
	var s locals
	for port := range 2 * maxLocals { // a peer cannot make the table grow
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), uint16(port))
		if p := s.share(addr); *p != addr || port < maxLocals && s.share(addr) != p {
			t.Fatalf("%v is shared as %v", addr, *p)
		}
	}
	if len(s.known) != maxLocals {
		t.Errorf("%d addresses remembered, limit %d", len(s.known), maxLocals)
	}
}

// lastBatches lets the listener take its last connections and returns how many turns of its loop that took.
func (r *rig) lastBatches(waiting int) (turns int) {
	r.t.Helper()
	r.pending = waiting
	for over := false; !over; turns++ {
		if turns > 100 {
			r.t.Fatal("the listener comes to no end")
		}
		over = r.LastBatch()
	}
	return turns
}

// TestLastAccepts: a listener that ends accepts what its queue holds, a bounded number at a time and in all.
func TestLastAccepts(t *testing.T) {
	for _, c := range []struct{ waiting, backlog, taken, turns int }{
		{0, 0, 0, 1}, {3, 0, 3, 1}, {4, 0, 4, 2}, {30, 0, 30, 8}, {1 << 30, 10, 12, 3}, {5, 10, 5, 2},
	} {
		r := newRig(t, &Gate{}, Settings{Batch: 4, Listen: sys.ListenOptions{Backlog: c.backlog}}).begin()
		turns := r.lastBatches(c.waiting)
		if n := len(r.conns); n != c.taken || turns != c.turns || r.socks[listenerFD].closed != 1 {
			t.Errorf("%d waiting, backlog %d: %d taken in %d turns, want %d in %d", c.waiting, c.backlog, n, turns, c.taken, c.turns)
		}
		accepts := r.accepts
		if !r.LastBatch() || r.accepts != accepts {
			t.Error("a closed listener accepts")
		}
	}
}

// TestLastAcceptsUnderPressure: those that waited because memory is short, or because there is no descriptor left, are
// refused for that.
func TestLastAcceptsUnderPressure(t *testing.T) {
	const waiting = 30
	busy := func(r Refusal) []byte { return []byte(r.Cause.String()) }
	for cause, press := range map[Cause]func(*rig){
		CauseMemory:      func(r *rig) { r.pressed.Store(true) },
		CauseDescriptors: func(r *rig) { r.beScarce() },
	} {
		t.Run(cause.String(), func(t *testing.T) {
			r := newRig(t, &Gate{OnLimit: DecisionPause, Busy: busy}, Settings{Batch: 4}).begin()
			press(r)
			before := r.lastFD
			if cause == CauseMemory {
				r.expect("one more", r.arrive("::1"), "")
			}
			r.lastBatches(waiting)
			r.expectRefused(map[Cause]uint64{cause: waiting})
			if r.pending != 0 || len(r.conns) != 0 {
				t.Errorf("%d wait, %d are connections", r.pending, len(r.conns))
			}
			for fd := before + 1; cause == CauseMemory && fd <= r.lastFD; fd++ {
				if s := r.socks[fd]; string(s.out) != "memory_budget" || !s.shutdown {
					t.Errorf("one was told %q, with an end in order: %v", s.out, s.shutdown)
				}
			}
		})
	}
}

// TestRelease: what a loop that has ended left open is closed, once.
func TestRelease(t *testing.T) {
	r := newRig(t, &Gate{MaxConns: 1, OnLimit: DecisionBusy}, Settings{}).begin()
	r.beScarce()
	r.acceptErr = nil
	r.expect("one connection, two told busy", r.come(3), "ooo")
	r.end()
	r.Release()
	r.Release()
	for _, fd := range slices.Sorted(maps.Keys(r.socks)) {
		if n := r.socks[fd].closed; n != 1 {
			t.Errorf("descriptor %d was closed %d times", fd, n)
		}
	}
}
