package desk

import (
	"fmt"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Ways in which the primary of a database ends for its servers.
const (
	primaryCrashes = iota
	primaryCut     // its connections break
	primarySilent  // as those of a machine without power
	primaryEnds
)

// failOver ends the primary in a way, and lets the standby take over.
func (f *faulty) failOver(way ...int) (what string) {
	how := f.random.IntN(primaryEnds)
	if len(way) > 0 {
		how = way[0]
	}
	old := f.pair.Primary()
	between := func(s cableState) {
		for _, all := range f.data {
			all[old].be(s)
		}
	}
	switch how {
	case primaryCrashes:
		f.pair.Stop(f.t)
		what = "its primary crashed"
	case primaryCut:
		between(cableCut)
		what = "its primary was cut off"
	case primarySilent:
		between(cableSilent)
		what = "its primary went silent"
	}
	f.pair.Promote(f.t)
	return fmt.Sprintf("%s, and machine %d took over", what, f.pair.Primary())
}

// failBack makes the machine that has failed the standby of the other one.
func (f *faulty) failBack() {
	f.pair.Rejoin(f.t)
	for _, all := range f.data {
		all.be(cableWhole)
	}
}

// TestNodesFailover: three servers under load, whose database fails over to its standby: the primary crashes, is cut off, or goes silent. Each server goes on by
// itself, and in the end every message is stored once, as TestKillLosesNothing has it. Commits wait for the standby, so that it has what was acknowledged.
func TestNodesFailover(t *testing.T) {
	t.Parallel()
	const each, taken, open = 2, 1, 4
	random := seeded(t)
	ctx := testkit.Context(t)
	f, account := startPaired(t, 3, random)
	web := desktest.NewWeb(f.base)
	defer web.CloseIdle()
	agent := web.Agent(account[1], account[2])
	defer agent.Close()
	customers, all := f.gather(ctx, agent, each, taken)
	ways := random.Perm(primaryEnds)
	if testing.Short() {
		ways = []int{primaryCrashes}
	}
	fill := func() {
		for _, s := range all {
			s.fill(open)
		}
	}
	for _, way := range ways {
		before := acked(all)
		fill()
		waitAcks(ctx, t, all, before+1+random.IntN(len(all)*open-1))
		fill()
		what := f.failOver(way)
		t.Logf("after %d acknowledgements: %s", acked(all)-before, what)
		for _, here := range customers {
			had := acked(here)
			for _, s := range here {
				s.fill(open)
			}
			waitAcks(ctx, t, here, had+1)
		}
		f.ready(ctx)
		f.failBack()
	}
	for _, s := range all {
		if err := s.client.Flushed(ctx); err != nil {
			t.Fatal(err)
		}
	}
	checkLogs(ctx, t, web, account, all)
	checkTables(ctx, t, f.address())
	for i := range f.all {
		f.end(i).Stop()
	}
}
