package accept

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestAdmissionRace: however many goroutines compete, no more are admitted than the limit, and none is lost to a refusal.
func TestAdmissionRace(t *testing.T) {
	n := &Tally{Idle: make(chan struct{}, 1)}
	var inside, admitted atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20_000 {
				if !n.Admit(1) {
					continue
				}
				admitted.Add(1)
				if n := inside.Add(1); n > 1 {
					t.Errorf("%d admitted at once, limit 1", n)
				}
				runtime.Gosched()
				inside.Add(-1)
				n.Release()
			}
		})
	}
	wg.Wait()
	if left := n.Active.Load(); left != 0 || !n.Empty() || admitted.Load() == 0 || len(n.Idle) != 1 {
		t.Errorf("%d still counted after %d admissions", left, admitted.Load())
	}
}

// TestRoomIsToldOnce: acceptors that wait are woken by the first release only, until they wait again.
func TestRoomIsToldOnce(t *testing.T) {
	woken := 0
	n := &Tally{Wake: []func(){func() { woken++ }, func() { woken++ }}}
	for i, want := range []int{0, 2, 2} {
		if i == 1 {
			n.waiting.Store(true)
		}
		n.Admit(0)
		if n.Release(); woken != want {
			t.Errorf("release %d: %d were woken, want %d", i, woken, want)
		}
	}
}
