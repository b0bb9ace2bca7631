package accept

import (
	"strings"
	"testing"
	"time"
)

// TestBusyWaitsForThePeersEnd: a refused socket that was told busy is closed when its peer ends or when the time is up,
// what the peer sends is dropped meanwhile, and only so many may wait. The server waits for them.
func TestBusyWaitsForThePeersEnd(t *testing.T) {
	r := newRig(t, &Gate{MaxConns: 1, OnLimit: DecisionBusy, Busy: func(Refusal) []byte { return []byte("busy") }}, Settings{Linger: time.Second}).begin()
	r.expect("one connection, two told busy", r.come(3), "ooo")
	polite, rude := r.socks[r.lastFD-1], r.newest()
	polite.in, polite.eof = []byte("request"), true
	rude.endless = true
	r.turn()
	if polite.closed != 1 || rude.closed != 0 || rude.reads == 0 {
		t.Errorf("closed %d and %d times, %d reads of the second; want the first closed, the second read", polite.closed, rude.closed, rude.reads)
	}
	if reads := rude.reads; reads > 3*dropReads {
		t.Errorf("%d reads in three iterations", reads)
	}
	r.end()
	if len(r.tally.Idle) != 1 || r.tally.Empty() {
		t.Fatal("with no connection left, nobody looks, or nobody is waited for")
	}
	<-r.tally.Idle
	r.pass(1100 * time.Millisecond)
	if rude.closed != 1 || string(rude.out) != "busy" || len(r.partings) != 0 || !r.tally.Empty() || len(r.tally.Idle) != 1 {
		t.Errorf("after the time: closed %d times, sent %q", rude.closed, rude.out)
	}
	r.expect("one connection", r.come(1), "o")
	open := r.come(maxPartings + 5)
	if want := strings.Repeat("o", maxPartings) + "xxxxx"; open != want {
		t.Errorf("%d of %d wait, want %d", strings.Count(open, "o"), len(open), maxPartings)
	}
	if last := r.newest(); string(last.out) != "busy" {
		t.Errorf("beyond the bound the peer was sent %q", last.out)
	}
	r.Leave()
	r.turn()
	r.end()
	for fd, s := range r.socks {
		if s.closed != 1 {
			t.Fatalf("descriptor %d was closed %d times", fd, s.closed)
		}
	}
	if !r.tally.Empty() {
		t.Error("somebody is still waited for")
	}
}
