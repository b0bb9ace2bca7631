package deskload

import (
	"context"
	"strings"
	"testing"
)

// TestTooFewPlaces: agents who have no place for each customer are an error at once, and so is a refusal on the way. Places that are
// there are found, whoever has them.
func TestTooFewPlaces(t *testing.T) {
	_, _, first, accounts := stormDesk(t, 2, 2)
	ctx, cancel := context.WithTimeout(t.Context(), stormPatience)
	defer cancel()
	crowd := func(customers int) *Fleet {
		t.Helper()
		f := New("demo", first.bases...)
		t.Cleanup(func() {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
		for _, err := range []error{f.AddAgents(ctx, accounts), f.Rest(ctx), f.AddCustomers(ctx, customers), f.Open(ctx)} {
			if err != nil {
				t.Fatalf("%v; %+v", err, f.Faults())
			}
		}
		return f
	}
	for _, customers := range []int{1, 3} { // the second time one agent has one place, the other has two
		if err := crowd(customers).Serve(ctx); err != nil {
			t.Fatalf("%d customers: %v", customers, err)
		}
	}
	f := crowd(2)
	fails := func(want string) {
		t.Helper()
		if err := f.Serve(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v, want %q", err, want)
		}
	}
	fails("2 customers need a place each, and the 2 agents have 0 free")
	f.mu.Lock()
	f.agents[0].room, f.agents[1].room = 1, 1 // as if they did not know
	f.mu.Unlock()
	fails("2 conversations have no agent: a client was refused; the first error of a client was: forbidden: the agent has as many conversations as its capacity allows")
}
