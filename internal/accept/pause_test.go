package accept

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

// beScarce leaves the process no descriptor but the reserve.
func (r *rig) beScarce() {
	r.scarce, r.acceptErr = true, syscall.EMFILE
	r.takeReserve()
}

// TestPauseAtALimit: with DecisionPause nobody is refused: the listener rests while there is no room, without spinning,
// and wakes when there is.
func TestPauseAtALimit(t *testing.T) {
	for name, tc := range map[string]struct {
		limit func(*rig)
		room  func(*rig) // makes room for one
	}{
		"total":    {func(r *rig) { r.gate.MaxConns = 2 }, (*rig).end},
		"per loop": {func(r *rig) { r.perLoop = 2 }, (*rig).end},
		"rate":     {func(r *rig) { r.gate.Rate.Set(10, 2) }, func(r *rig) { r.now += int64(110 * time.Millisecond) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, &Gate{OnLimit: DecisionPause}, Settings{})
			tc.limit(r)
			r.begin()
			r.expect("five connections", r.come(5), "oo")
			if r.listening() {
				t.Error("the listener still asks for connections")
			}
			accepts := r.accepts
			for range 50 {
				r.turn()
			}
			if r.accepts != accepts {
				t.Errorf("%d calls of Accept without room", r.accepts-accepts)
			}
			for left := 2; left >= 0; left-- {
				tc.room(r)
				r.turn()
				if r.pending != left {
					t.Errorf("%d wait for room, want %d", r.pending, left)
				}
			}
			tc.room(r)
			r.turn()
			if !r.listening() {
				t.Error("with room and nobody waiting the listener does not ask for connections")
			}
			r.expectRefused(map[Cause]uint64{})
			if n := r.tally.Pauses.Load(); n < 3 {
				t.Errorf("%d pauses counted", n)
			}
		})
	}
}

// TestLooksUseNothingUp: room that was reserved for a connection that did not come is there for the next one.
func TestLooksUseNothingUp(t *testing.T) {
	r := newRig(t, &Gate{OnLimit: DecisionPause, MaxConns: 3}, Settings{})
	r.gate.Rate.Set(10, 3)
	r.begin()
	for range 3 { // each time the acceptor looks for another one, too
		r.expect("within the limits", r.come(1), "o")
	}
	r.expect("beyond", r.come(1), "")
}

// TestPauseSparesOthers: one address or tenant over its limit is refused; it does not keep out the others.
func TestPauseSparesOthers(t *testing.T) {
	tenant := func(peer netip.AddrPort) string {
		if peer.Addr().As4()[3]%2 == 1 {
			return "alice"
		}
		return "bob"
	}
	r := newRig(t, &Gate{MaxPerIP: 1, MaxPerTenant: 1, Tenant: tenant, OnLimit: DecisionPause}, Settings{}).begin()
	r.expect("per address and per tenant", r.arrive("10.0.0.1", "10.0.0.1", "10.0.0.3", "10.0.0.2"), "oxxo")
	if !r.listening() {
		t.Error("the listener rests")
	}
	r.expectRefused(map[Cause]uint64{CausePerIP: 1, CausePerTenant: 1})
}

// TestRoomIsLookedFor: room that nobody tells of, such as memory, is found by the acceptor itself.
func TestRoomIsLookedFor(t *testing.T) {
	r := newRig(t, &Gate{OnLimit: DecisionPause}, Settings{}).begin()
	r.pressed.Store(true)
	r.expect("while memory is short", r.come(2), "")
	r.pass(time.Hour)
	r.pressed.Store(false)
	if r.turn(); r.pending != 2 {
		t.Errorf("%d wait before the next look, want 2", r.pending)
	}
	if r.pass(roomCheck); r.pending != 0 || len(r.conns) != 2 {
		t.Errorf("%d wait and %d are connections after the next look", r.pending, len(r.conns))
	}
}

// TestFailedAcceptsPauseLonger: pauses after accepts that fail double up to a second, and begin anew when one has succeeded.
// Errors of a single connection cause none.
func TestFailedAcceptsPauseLonger(t *testing.T) {
	r := newRig(t, &Gate{}, Settings{Batch: 4}).begin()
	r.acceptErr, r.pending = syscall.ENOMEM, 1
	pauses := func(n int, first time.Duration) {
		t.Helper()
		r.turn()
		for want := first; n > 0; n-- {
			if r.pass(want - 1); r.listening() {
				t.Fatalf("the listener rests for less than %v", want)
			}
			accepts := r.accepts
			if r.pass(1); r.accepts != accepts+1 {
				t.Fatalf("%d accepts after %v, want one", r.accepts-accepts, want)
			}
			want = min(2*want, time.Second)
		}
	}
	pauses(10, 5*time.Millisecond)
	if n := r.tally.Errors.Load(); n != 11 || r.tally.Pauses.Load() != 11 || !strings.Contains(r.log.String(), "accept failed, pausing") {
		t.Errorf("%d errors and %d pauses counted; logged %q", n, r.tally.Pauses.Load(), r.log.String())
	}
	r.acceptErr = nil
	if r.pass(time.Second); len(r.conns) != 1 || !r.listening() {
		t.Errorf("%d connections when accepting succeeds again", len(r.conns))
	}
	r.acceptErr, r.pending = syscall.ENOMEM, 1
	pauses(1, 5*time.Millisecond)
	r.acceptErr = syscall.ECONNABORTED
	r.pass(time.Second)
	if n := r.tally.Errors.Load(); n != 13+2*4 || !r.listening() { // two batches
		t.Errorf("%d errors, listening %v", n, r.listening())
	}
}

// TestShed: without a descriptor left, those who wait are accepted with the reserve and closed, a batch at a time. A reserve
// that was lost is taken again after the pause.
func TestShed(t *testing.T) {
	r := newRig(t, &Gate{}, Settings{Batch: 4}).begin()
	r.beScarce()
	r.pending = 6
	r.turn()
	if r.pending != 2 || r.tally.Shed.Load() != 4 || r.reserve < 0 || r.listening() {
		t.Errorf("%d wait, %d shed, reserve %d, listening %v", r.pending, r.tally.Shed.Load(), r.reserve, r.listening())
	}
	r.expectRefused(map[Cause]uint64{CauseDescriptors: 4})
	r.acceptErr = nil
	r.discard(r.reserve)
	r.reserve = -1
	if r.pass(time.Second); len(r.conns) != 2 || r.reserve < 0 {
		t.Errorf("when there are descriptors again %d connections, want 2; reserve %d", len(r.conns), r.reserve)
	}
}

// TestListenerIsResumed: a listener whose poller does not take it back is offered again.
func TestListenerIsResumed(t *testing.T) {
	r := newRig(t, &Gate{}, Settings{}).begin()
	r.pause(time.Second)
	r.poller.modifyErr = errors.New("unwell")
	if r.pass(time.Second); !strings.Contains(r.log.String(), "resuming the listener failed, trying again") {
		t.Errorf("logged %q", r.log.String())
	}
	r.poller.modifyErr = nil
	if r.pass(backoffMin); !r.listening() {
		t.Error("the listener was not taken up again")
	}
}

// TestSpareDescriptors: the last descriptors of the process stay for others: who comes then is told as long as half of them
// are free, and closed at once beyond. What was reserved for them is given back.
func TestSpareDescriptors(t *testing.T) {
	busy := func(r Refusal) []byte { return []byte("busy: " + r.Cause.String()) }
	const spare = 16
	r := newRig(t, &Gate{SpareDescriptors: spare, OnLimit: DecisionBusy, Busy: busy}, Settings{}).begin()
	r.left = spare
	r.expect("with just enough", r.arrive("192.0.2.1"), "o")
	r.left--
	r.expect("told and waited for", r.arrive("192.0.2.2"), "o")
	if s := r.newest(); len(r.conns) != 1 || string(s.out) != "busy: descriptors" {
		t.Errorf("%d connections; the refused peer was told %q", len(r.conns), s.out)
	}
	r.left = spare/2 - 1
	r.expect("when few are left of the spare ones", r.arrive("192.0.2.3"), "x")
	r.expectRefused(map[Cause]uint64{CauseDescriptors: 2})
	if r.tally.Shed.Load() != 2 || r.tally.Active.Load() != 1 || r.tally.Pauses.Load() != 0 {
		t.Errorf("%d shed, %d active, %d pauses", r.tally.Shed.Load(), r.tally.Active.Load(), r.tally.Pauses.Load())
	}

	r = newRig(t, &Gate{SpareDescriptors: 3, OnLimit: DecisionPause}, Settings{}).begin()
	r.left = 2
	r.expect("where others wait", r.arrive("192.0.2.1", "192.0.2.2"), "xx")
	if n := r.tally.Active.Load(); n != 0 {
		t.Errorf("%d still count", n)
	}

	r = newRig(t, &Gate{SpareDescriptors: -1}, Settings{}).begin()
	r.left = 0
	r.expect("the last one, where none is spared", r.arrive("192.0.2.1"), "o")
}

// TestOverload: while the server says that it is overloaded, new connections meet OnLimit, and those that are left in the kernel's
// queue come in when it is over. The last batch of a drain leaves nobody there.
func TestOverload(t *testing.T) {
	r := newRig(t, &Gate{}, Settings{}).begin()
	r.tally.SetOverloaded(true)
	r.expect("refused", r.come(2), "xx")
	r.expectRefused(map[Cause]uint64{CauseOverload: 2})
	r.tally.SetOverloaded(false)
	r.expect("afterwards", r.come(1), "o")

	r = newRig(t, &Gate{OnLimit: DecisionPause}, Settings{}).begin()
	r.tally.SetOverloaded(true)
	r.expect("left in the queue", r.come(2), "")
	r.pass(time.Hour)
	if r.pending != 2 || r.tally.Active.Load() != 0 {
		t.Errorf("%d wait, %d count", r.pending, r.tally.Active.Load())
	}
	r.tally.SetOverloaded(false)
	if r.turn(); r.pending != 0 || len(r.conns) != 2 {
		t.Errorf("%d wait and %d are connections when it is over", r.pending, len(r.conns))
	}
	r.tally.SetOverloaded(true)
	r.come(3)
	for range 2 {
		r.LastBatch()
	}
	if r.pending != 0 || len(r.conns) != 2 || !r.closed {
		t.Errorf("at the end of the drain %d wait, %d are connections, the listener is closed: %v", r.pending, len(r.conns), r.closed)
	}
	r.expectRefused(map[Cause]uint64{CauseOverload: 3})
	r.tally.SetOverloaded(false) // wakes a listener that is closed
	r.turn()
}

// TestRoomEndsNoOtherPause: the end of an overload, or room of another listener, does not cut short the pause after an accept
// that failed; nor does the end of that pause let anybody in while there is an overload.
func TestRoomEndsNoOtherPause(t *testing.T) {
	r := newRig(t, &Gate{OnLimit: DecisionPause}, Settings{}).begin()
	r.acceptErr, r.pending = syscall.EMFILE, 1
	r.turn()
	accepts := r.accepts
	r.tally.SetOverloaded(true)
	r.tally.waiting.Store(true) // another listener of the server waits
	r.tally.SetOverloaded(false)
	if r.turn(); r.accepts != accepts || r.listening() {
		t.Errorf("%d accepts within the pause, listening %v", r.accepts-accepts, r.listening())
	}
	r.tally.SetOverloaded(true)
	r.acceptErr = nil
	if r.pass(time.Second); len(r.conns) != 0 || r.pending != 1 {
		t.Errorf("%d connections during the overload", len(r.conns))
	}
	r.tally.SetOverloaded(false)
	if r.turn(); len(r.conns) != 1 {
		t.Errorf("%d connections when both are over", len(r.conns))
	}
}
