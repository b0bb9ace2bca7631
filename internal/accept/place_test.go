package accept

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

const placeTimeout = time.Second

// placed makes an acceptor whose sockets wait for a first line, which is the number of their loop. "any" leaves the choice open.
func placed(t testing.TB, g *Gate, set Settings) *rig {
	t.Helper()
	if set.Placing == (Placing{}) {
		set.Placing = Placing{Bytes: 16, Timeout: placeTimeout, Waiting: 8}
	}
	r := newRig(t, g, set)
	r.Host.Place = func(_ netip.AddrPort, first []byte) int {
		r.asked = append(r.asked, string(first))
		line, _, whole := bytes.Cut(first, []byte("\n"))
		switch {
		case !whole:
			return PlaceMore
		case string(line) == "any":
			return PlaceAny
		}
		return int(line[0] - '0')
	}
	return r.begin()
}

// expectPlaced checks how many sockets wait, were placed and were not, and that no others count.
func (r *rig) expectPlaced(what string, waiting, placed, unplaced int) {
	r.t.Helper()
	n := &r.tally
	if w, p, u := int(n.Placing.Load()), int(n.Placed.Load()), int(n.Unplaced.Load()); w != waiting || p != placed || u != unplaced {
		r.t.Errorf("%s: %d wait, %d placed, %d unplaced, want %d, %d, %d", what, w, p, u, waiting, placed, unplaced)
	}
	if n := int(n.Active.Load()); n != waiting+len(r.conns) {
		r.t.Errorf("%s: %d count as active, want %d that wait and %d connections", what, n, waiting, len(r.conns))
	}
	if regs := len(r.poller.regs); !r.Acceptor.closed && regs != waiting+1 {
		r.t.Errorf("%s: %d descriptors are watched, want the listener and %d", what, regs, waiting)
	}
}

// TestPlaced: a socket waits for its first line, and then goes to the loop that the line names with all its bytes unread.
func TestPlaced(t *testing.T) {
	r := placed(t, &Gate{MaxPerIP: 5}, Settings{})
	r.expect("two that say nothing", r.arrive("10.0.0.1", "10.0.0.2"), "oo")
	r.expectPlaced("before the first byte", 2, 0, 0)
	a, b := r.socks[101], r.socks[102]
	a.in = []byte("7\nrest")
	r.turn()
	r.expectPlaced("after one line", 1, 1, 0)
	b.in = []byte("any\n")
	r.turn()
	r.expectPlaced("after the other", 0, 1, 1)
	if a.loop != 7 || b.loop != PlaceAny || string(a.in) != "7\nrest" || a.reads+b.reads != 0 {
		t.Errorf("loops %d and %d, %q is left, %d reads", a.loop, b.loop, a.in, a.reads+b.reads)
	}
	if a.peer.Addr().String() != "10.0.0.1" || a.local == nil {
		t.Errorf("peer %v, local %v", a.peer, a.local)
	}
	if got := strings.Join(r.asked, "|"); got != "7\nrest|any\n" {
		t.Errorf("asked about %q", got)
	}
	r.pass(2 * placeTimeout)
	r.expectPlaced("after the time", 0, 1, 1)
}

// TestPlacedAtOnce: bytes that are there with the connection need no wait.
func TestPlacedAtOnce(t *testing.T) {
	r := placed(t, &Gate{}, Settings{})
	r.brings = "3\n"
	r.expect("one with a line", r.arrive("10.0.0.1"), "o")
	r.expectPlaced("at once", 0, 1, 0)
	if r.newest().loop != 3 || r.newest().peeks != 1 {
		t.Errorf("loop %d after %d looks", r.newest().loop, r.newest().peeks)
	}
}

// TestPlacedInPieces: bytes that are not enough do not keep the loop busy. It looks again after 1 ms, 2 ms and so on, and asks
// only when more have come.
func TestPlacedInPieces(t *testing.T) {
	r := placed(t, &Gate{}, Settings{})
	r.arrive("10.0.0.1")
	s := r.newest()
	s.in = []byte("2")
	for range 50 {
		r.turn()
	}
	if s.peeks != 2 || len(r.asked) != 1 {
		t.Fatalf("%d looks, %d questions while no time passes, want 2 and 1", s.peeks, len(r.asked))
	}
	for i, pause := range []time.Duration{1, 2, 4, 8} {
		r.pass(pause*time.Millisecond - 1)
		if s.peeks != i+2 {
			t.Fatalf("look %d comes too early", s.peeks)
		}
		r.pass(1)
		if s.peeks != i+3 || len(r.asked) != 1 {
			t.Fatalf("%d looks and %d questions after pause %d, want %d and 1", s.peeks, len(r.asked), i, i+3)
		}
	}
	s.in = []byte("2\n")
	r.pass(16 * time.Millisecond)
	r.expectPlaced("when the line is whole", 0, 1, 0)
	if s.loop != 2 || strings.Join(r.asked, "|") != "2|2\n" {
		t.Errorf("loop %d, asked about %q", s.loop, r.asked)
	}
}

// TestPlacedByteByByte: a peer that sends a byte at a time is looked at a few times, however many bytes come.
func TestPlacedByteByByte(t *testing.T) {
	r := placed(t, &Gate{}, Settings{Placing: Placing{Bytes: 4096, Timeout: placeTimeout, Waiting: 8}})
	r.arrive("10.0.0.1")
	s := r.newest()
	for range int(placeTimeout / time.Millisecond) {
		s.in = append(s.in, 'x')
		r.pass(time.Millisecond)
	}
	r.turn()
	r.expectPlaced("at its time", 0, 0, 1)
	if most := 20; s.peeks > most {
		t.Errorf("%d looks, want at most %d", s.peeks, most)
	}
}

// TestUnplaced: what ends the wait without an answer leaves the choice to the Chooser, at once or when the time is over.
func TestUnplaced(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*rig, *socket)
		wait time.Duration
	}{
		"silence":                         {func(*rig, *socket) {}, placeTimeout},
		"too little":                      {func(_ *rig, s *socket) { s.in = []byte("4") }, placeTimeout},
		"too much":                        {func(_ *rig, s *socket) { s.in = []byte("no line in 16 bytes") }, 0},
		"the end at once":                 {func(_ *rig, s *socket) { s.eof = true }, 0},
		"the end after too little":        {func(_ *rig, s *socket) { s.in, s.eof = []byte("4"), true }, placeTimeout},
		"a poller that does not go quiet": {func(r *rig, s *socket) { s.in, r.poller.modifyErr = []byte("4"), syscall.ENOMEM }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := placed(t, &Gate{MaxPerIP: 1}, Settings{})
			r.arrive("10.0.0.1")
			s := r.newest()
			c.do(r, s)
			r.turn()
			if c.wait > 0 {
				r.pass(c.wait - 1)
				r.expectPlaced("before the time", 1, 0, 0)
				r.pass(1)
			}
			r.expectPlaced("in the end", 0, 0, 1)
			if s.loop != PlaceAny || s.closed != 0 || len(r.lost) != 0 {
				t.Errorf("loop %d, closed %d times, lost %v", s.loop, s.closed, r.lost)
			}
			r.expect("another of the address", r.arrive("10.0.0.1"), "x")
			r.end()
			if n := r.gate.Networks.Len(); n != 0 {
				t.Errorf("%d networks left", n)
			}
		})
	}
}

// TestPollerRefusesToWatch: a socket that cannot wait is handed over at once.
func TestPollerRefusesToWatch(t *testing.T) {
	r := placed(t, &Gate{}, Settings{})
	r.poller.addErr = syscall.ENOSPC
	r.expect("one", r.arrive("10.0.0.1"), "o")
	r.expectPlaced("at once", 0, 0, 1)
}

// TestBrokenWhileWaiting: a socket that fails is closed once, and counts for nothing any more.
func TestBrokenWhileWaiting(t *testing.T) {
	for _, late := range []bool{false, true} {
		r := placed(t, &Gate{MaxPerIP: 1, MaxPerTenant: 1, Tenant: func(netip.AddrPort) string { return "acme" }}, Settings{})
		if r.breaks = syscall.ECONNRESET; late {
			r.breaks = nil
			r.arrive("10.0.0.1")
			r.newest().failure = syscall.ECONNRESET
			r.turn()
		} else {
			r.arrive("10.0.0.1")
		}
		r.expectPlaced("after the reset", 0, 0, 0)
		if len(r.lost) != 1 || !errors.Is(r.lost[0], syscall.ECONNRESET) || r.newest().closed != 1 {
			t.Errorf("lost %v, closed %d times", r.lost, r.newest().closed)
		}
		if r.gate.Networks.Len()+r.gate.Tenants.Len() != 0 {
			t.Error("it still counts for a limit")
		}
		r.breaks = nil
		r.expect("another of the address", r.arrive("10.0.0.1"), "o")
	}
}

// TestWaitingCounts: sockets that wait count for the limits as connections do.
func TestWaitingCounts(t *testing.T) {
	r := placed(t, &Gate{MaxConns: 3, MaxPerIP: 1}, Settings{})
	r.expect("twice the same address", r.arrive("10.0.0.1", "10.0.0.1"), "ox")
	r.expect("one more than MaxConns", r.arrive("10.0.0.2", "10.0.0.3", "10.0.0.4"), "oox")
	r.expectRefused(map[Cause]uint64{CausePerIP: 1, CauseMaxConns: 1})
	r.expectPlaced("all wait", 3, 0, 0)
	r.tally.SetOverloaded(true)
	r.socks[101].in = []byte("1\n")
	r.turn()
	r.expectPlaced("one that was admitted before the overload", 2, 1, 0)
	r.end()
	r.expect("one during the overload", r.arrive("10.0.0.5"), "x")
	r.tally.SetOverloaded(false)
	r.perLoop = 2
	r.expect("one for whose loop two wait already", r.arrive("10.0.0.6"), "x")
	r.expectRefused(map[Cause]uint64{CausePerIP: 1, CauseMaxConns: 1, CauseOverload: 1, CausePerLoop: 1})
}

// TestMostWait: beyond the bound, the socket that has waited longest makes room. If its line has come meanwhile, it is placed.
func TestMostWait(t *testing.T) {
	r := placed(t, &Gate{}, Settings{Placing: Placing{Bytes: 16, Timeout: placeTimeout, Waiting: 2}})
	r.arrive("10.0.0.1", "10.0.0.2", "10.0.0.3")
	r.expectPlaced("the first one makes room", 2, 0, 1)
	if len(r.conns) != 1 || r.conns[0] != r.socks[101] {
		t.Errorf("%d connections", len(r.conns))
	}
	s := r.socks[102]
	s.in = []byte("5")
	r.turn()
	s.in = []byte("5\n") // nobody looks before its pause is over
	r.arrive("10.0.0.4")
	r.expectPlaced("the second one, with a line", 2, 1, 1)
	if s.loop != 5 {
		t.Errorf("loop %d", s.loop)
	}
}

// TestNobodyTakesThePlaced: a socket that no loop takes after its wait is refused as one that did not wait.
func TestNobodyTakesThePlaced(t *testing.T) {
	r := placed(t, &Gate{MaxPerIP: 1, OnLimit: DecisionBusy, Busy: func(f Refusal) []byte { return []byte(f.Cause.String()) }}, Settings{})
	r.arrive("10.0.0.1")
	r.saturated = true
	s := r.newest()
	s.in = []byte("1\n")
	r.Loop.Iterate()
	r.Loop.Iterate()
	r.expectRefused(map[Cause]uint64{CauseTaskQueue: 1})
	if string(s.out) != "task_queue" || !s.shutdown || r.gate.Networks.Len() != 0 || r.tally.Placed.Load() != 0 {
		t.Errorf("it was sent %q, %d networks, %d placed", s.out, r.gate.Networks.Len(), r.tally.Placed.Load())
	}
}

// TestDrainWhileWaiting: a server that drains hands over what waits, a batch in each round, before it closes the listener. What
// comes meanwhile does not wait.
func TestDrainWhileWaiting(t *testing.T) {
	r := placed(t, &Gate{}, Settings{Batch: 2})
	r.arrive("10.0.0.1", "10.0.0.2", "10.0.0.3")
	r.expectPlaced("before the drain", 3, 0, 0)
	r.socks[103].in = []byte("6\n")
	r.pending = 1
	for rounds := 1; !r.LastBatch(); rounds++ {
		if rounds > 5 {
			t.Fatal("the drain does not end")
		}
	}
	r.expectPlaced("after it", 0, 1, 3)
	if r.socks[103].loop != 6 || r.socks[listenerFD].closed != 1 || len(r.conns) != 4 {
		t.Errorf("loop %d, the listener was closed %d times, %d connections", r.socks[103].loop, r.socks[listenerFD].closed, len(r.conns))
	}
}

// TestLeaveWhileWaiting: a server that ends at once closes what waits, each once, and nothing of it is left.
func TestLeaveWhileWaiting(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"the server": func(r *rig) { r.Leave() },
		"the loop":   func(r *rig) { r.Loop.Stopping = true; r.Loop.Teardown(); r.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			r := placed(t, &Gate{MaxPerIP: 9}, Settings{})
			r.arrive("10.0.0.1", "10.0.0.2")
			r.socks[102].in = []byte("1")
			r.turn()
			end(r)
			r.expectPlaced("after the end", 0, 0, 0)
			for fd := 101; fd <= 102; fd++ {
				if n := r.socks[fd].closed; n != 1 {
					t.Errorf("descriptor %d was closed %d times", fd, n)
				}
			}
			if len(r.lost) != 2 || r.lost[0] != nil || r.gate.Networks.Len() != 0 || len(r.poller.regs) > 1 {
				t.Errorf("lost %v, %d networks, %d watched", r.lost, r.gate.Networks.Len(), len(r.poller.regs))
			}
			r.now += int64(2 * placeTimeout)
			r.Loop.RunTimers(100) // none of theirs is left
		})
	}
}

// TestWaitingMovesToNewPoller: a socket that a new poller does not take is handed over.
func TestWaitingMovesToNewPoller(t *testing.T) {
	r := placed(t, &Gate{}, Settings{})
	r.arrive("10.0.0.1")
	n := r.waiting.list.First()
	_ = r.poller.Remove(n.FD) // as the loop does
	r.unwatched(n, errors.New("no room"))
	r.turn()
	r.expectPlaced("after the loss", 0, 0, 1)
	if r.newest().closed != 0 {
		t.Error("it was closed")
	}
}
