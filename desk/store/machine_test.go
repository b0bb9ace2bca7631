package store

import (
	"math/rand/v2"
	"testing"
)

// Random triggers never leave the table, never give two owners and always raise epoch with the owner.
func TestMachineRandomWalks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	triggers := []Trigger{OpenWithBot, OpenForHuman, Handoff, TakeOver, CustomerClose, AgentClose}
	bot, agent := Actor{Kind: Bot, ID: "rules"}, Actor{Kind: Agent, ID: "a"}
	for range 2000 {
		var c Conversation
		for range 12 {
			trigger := triggers[rng.IntN(len(triggers))]
			before := c
			rule, ok := FindRule(c.State, trigger)
			if !ok {
				continue
			}
			rule.Apply(&c, agent, bot, "", 1)
			if c.Rev != before.Rev+1 {
				t.Fatalf("%s from %q: revision %d after %d", trigger, before.State, c.Rev, before.Rev)
			}
			if changed := !c.Owner.Is(before.Owner) || before.State == None; changed != (c.Epoch == before.Epoch+1) {
				t.Fatalf("%s from %q: owner %v → %v, epoch %d → %d", trigger, before.State, before.Owner, c.Owner, before.Epoch, c.Epoch)
			}
			want := map[State]ActorKind{InBot: Bot, Queued: "", Assigned: Agent, Closed: ""}
			if kind, known := want[c.State]; !known || kind != c.Owner.Kind {
				t.Fatalf("%s from %q: state %q with owner %v", trigger, before.State, c.State, c.Owner)
			}
		}
	}
}

func TestMachineHasNoWayOutOfClosed(t *testing.T) {
	for _, trigger := range []Trigger{OpenWithBot, OpenForHuman, Handoff, TakeOver, CustomerClose, AgentClose, "nonsense"} {
		if r, ok := FindRule(Closed, trigger); ok {
			t.Errorf("%s leads from closed to %s", trigger, r.To)
		}
	}
}
