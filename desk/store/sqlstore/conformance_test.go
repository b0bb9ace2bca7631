package sqlstore

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/storetest"
)

// moreRounds makes a long run of the races: go test -run TestConformance/LateBot -rounds 10000.
var moreRounds = flag.Int("rounds", 0, "how many times each race of the conformance suite is run; 0 = as many as suit a test")

func TestConformance(t *testing.T) {
	rounds := takeRounds
	if testing.Short() {
		rounds = 100
	}
	if *moreRounds > 0 {
		rounds = *moreRounds
	}
	storetest.Run(t, storetest.Backend{
		New: fresh,
		Open: func(ctx context.Context, place string, now func() time.Time) (store.Store, error) {
			return Open(ctx, Options{Path: place, Mail: true, Now: now})
		},
		Settle:    func(ctx context.Context, s store.Store) error { return s.(*DB).PackDays(ctx) },
		Rounds:    rounds,
		Customers: burstCustomers,
		Quick:     raceEnabled,
	})
}

// A counter that differs from the rows, for whatever reason, is set right; a place too few is not a reason to refuse a close.
func TestReconcile(t *testing.T) {
	r := newRig(t, Options{})
	conv := r.open(true)
	r.must(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.agent.Actor()})
	for active, wrong := range map[int]int{0: 1, 1: 0, 5: 1} {
		execOn(t, r.o.Path, `UPDATE agent_state SET active = `+string(rune('0'+active)))
		if n, err := r.Reconcile(t.Context()); n != wrong || err != nil {
			t.Errorf("active %d: %d counters were wrong, want %d (%v)", active, n, wrong, err)
		}
		if loads, err := r.Cold().Loads(t.Context()); err != nil || loads[0].Active != 1 {
			t.Errorf("active %d: %+v %v", active, loads, err)
		}
	}
	execOn(t, r.o.Path, `UPDATE agent_state SET active = 0`)
	r.must(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.agent.Actor()})
}
