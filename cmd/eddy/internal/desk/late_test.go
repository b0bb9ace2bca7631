package desk

import (
	"context"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestNodesLate: one of three servers is cut from the database and the bus without any connection breaking, while people at the others write, to its customers, too. It says that
// it is not ready. When it hears again, its customers have everything once, as TestKillLosesNothing has it. With -faults it is cut for that long.
func TestNodesLate(t *testing.T) {
	t.Parallel()
	const each, taken, open = 3, 2, 4
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience+2*(*faultTime))
	defer cancel()
	end, stop := context.WithTimeout(ctx, *faultTime)
	defer stop()
	f, account := startFaulty(t, 3, nil)
	var at [3]*desktest.Web
	for i := range at {
		at[i] = f.at(i)
		defer at[i].CloseIdle()
	}
	agent := at[1].Agent(account[1], account[2])
	defer agent.Close()
	late := gatherSenders(ctx, t, at[0], agent, each, taken)
	others := gatherSenders(ctx, t, at[2], agent, each, taken)
	for _, s := range late { // what the agent sends to those that hear nothing is stored, too
		if s.client == agent {
			others = append(others, s)
		}
	}
	fill := func(senders []*sender) {
		for _, s := range senders {
			s.fill(open)
		}
	}
	fill(late)
	fill(others)
	waitAcks(ctx, t, late, 1)
	f.data[0].be(cableSilent)
	f.buses[0].be(cableSilent)
	for round := 0; round < rounds || end.Err() == nil; round++ {
		fill(others)
		waitAcks(ctx, t, others, acked(others)+len(others)*open/2)
	}
	why := ""
	testkit.Eventually(t, "the server that hears nothing to say so", func() bool {
		ready, said := isReady(ctx, at[0])
		why = said
		return !ready
	})
	if !strings.Contains(why, "commit") && !strings.Contains(why, "read failed") {
		t.Errorf("it says: %s", why)
	}
	t.Logf("%d acknowledgements; it says: %s", acked(others), why)
	for _, web := range at[1:] {
		if ready, why := isReady(ctx, web); !ready {
			t.Errorf("another server says: %s", why)
		}
	}
	f.data[0].be(cableWhole)
	f.buses[0].be(cableWhole)
	f.ready(ctx)
	all := append(late, others[:len(others)-taken]...)
	for _, s := range all {
		if err := s.client.Flushed(ctx); err != nil {
			t.Fatal(err)
		}
	}
	checkTables(ctx, t, f.address())
	checkLogs(ctx, t, at[0], account, all)
	for i := range f.all {
		f.end(i).Stop()
	}
}
