package sqlstore

import (
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// Should the state of a turn ever be wrong, the owner and the epoch of the conversation decide all the same.
func TestTurnWithAWrongState(t *testing.T) {
	r := newRig(t, Options{})
	var err error
	if r.site, err = r.CreateSite(t.Context(), store.Site{Key: "again", Name: "Again", BotName: "Eddy", ReopenToBot: true}); err != nil {
		t.Fatal(err)
	}
	r.contact = r.visitor()
	opened := r.must(store.Open{Contact: r.contact})
	conv := opened.Conv.ID
	late := func(body string) {
		t.Helper()
		execOn(t, r.o.Path, `UPDATE bot_turn SET state = 'asked' WHERE id = '`+opened.Turn+`'`)
		pending, err := r.Cold().BotPending(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pending {
			if p.Turn.ID == opened.Turn {
				t.Errorf("still pending: %+v", p)
			}
		}
		if out := r.must(store.BotTurn{Conv: conv, Turn: opened.Turn, Say: []store.Say{{Body: body}}}); !out.Discarded || out.Events[0].PSeq != 0 {
			t.Errorf("applied: %+v", out)
		}
	}
	r.must(store.Move{Conv: conv, Trigger: store.TakeOver, By: r.agent.Actor()})
	late("one")
	r.must(store.Move{Conv: conv, Trigger: store.AgentClose, By: r.agent.Actor()})
	again := r.must(text(conv, r.contact.Actor(), "me again"))
	if again.Conv.State != store.InBot || again.Turn == "" {
		t.Fatalf("%+v", again)
	}
	execOn(t, r.o.Path, `UPDATE message SET client_id = 'x' WHERE client_id = '`+opened.Turn+`/discarded'`)
	late("two")
}
