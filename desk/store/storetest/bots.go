package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

func (r *rig) bot(name, kind string) store.BotAccount {
	r.t.Helper()
	b, err := r.CreateBot(r.t.Context(), store.BotAccount{Name: name, Kind: kind, Config: "{}"})
	r.must(err)
	return b
}

func testBots(t *testing.T, r *rig) {
	ctx := t.Context()
	rules, hook := r.bot("Rita", store.BotRules), r.bot("Hal", store.BotWebhook)
	all, err := r.Cold().Bots(ctx)
	if err != nil || !slices.Equal(all, []store.BotAccount{hook, rules}) || hook.ID == "" || hook.Created == 0 {
		t.Fatalf("%+v %v", all, err)
	}
	if _, err := r.CreateBot(ctx, store.BotAccount{Name: "Hal", Kind: store.BotRules, Config: "{}"}); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second Hal: %v", err)
	}
	if _, err := r.CreateBot(ctx, store.BotAccount{Name: "Odd", Kind: "odd", Config: "{}"}); err == nil {
		t.Error("a bot of an unknown kind")
	}
	renamed := rules
	renamed.Name = "Hal"
	if err := r.UpdateBot(ctx, renamed); !errors.Is(err, store.ErrExists) {
		t.Errorf("renamed to one that is there: %v", err)
	}
	rules.Name, rules.Config = "Rosa", `{"a":1}`
	r.must(r.UpdateBot(ctx, rules))
	if b, err := r.Hot().Bot(ctx, rules.ID); err != nil || b != rules {
		t.Errorf("%+v %v", b, err)
	}
	if err := r.UpdateBot(ctx, store.BotAccount{ID: "nobody", Name: "X", Kind: store.BotRules}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("update of nobody: %v", err)
	}
	if _, err := r.CreateSite(ctx, store.Site{Key: "ghost", Name: "x", Bot: "nobody"}); err == nil {
		t.Error("a site with an unknown bot")
	}

	for name, c := range map[string]struct {
		site store.Site
		want store.Actor
	}{
		"chosen, its own name":       {store.Site{Key: "a", Bot: hook.ID}, store.Actor{Kind: store.Bot, ID: hook.ID, Name: "Hal"}},
		"chosen, the site's name":    {store.Site{Key: "b", Bot: rules.ID, BotName: "Eddy"}, store.Actor{Kind: store.Bot, ID: rules.ID, Name: "Eddy"}},
		"none chosen but named":      {store.Site{Key: "c", BotName: "Eddy"}, store.Actor{Kind: store.Bot, ID: store.BuiltInBot, Name: "Eddy"}},
		"neither chosen nor a name:": {store.Site{Key: "d"}, store.Actor{}},
	} {
		c.site.Name = name
		r.site = r.newSite(c.site)
		if conv := r.open(r.visitor(), false); conv.Owner != c.want {
			t.Errorf("%s: owner %+v, want %+v", name, conv.Owner, c.want)
		}
	}
	r.site = r.newSite(store.Site{Key: "e", Name: "e", Bot: hook.ID})
	if out := r.do(store.Open{Contact: r.visitor(), Without: []string{"x", hook.ID}}); out.Conv.State != store.Queued || out.Turn != "" {
		t.Errorf("without its bot: %+v", out)
	}
	if out := r.do(store.Open{Contact: r.visitor(), Without: []string{rules.ID}}); out.Conv.State != store.InBot {
		t.Errorf("without another bot: %+v", out)
	}
	if err := r.DeleteBot(ctx, hook.ID); !errors.Is(err, store.ErrInUse) {
		t.Errorf("a bot that a site has: %v", err)
	}
	unused := r.bot("Unused", store.BotRules)
	r.must(r.DeleteBot(ctx, unused.ID))
	for _, err := range []error{r.DeleteBot(ctx, unused.ID), second(r.Cold().Bot(ctx, unused.ID))} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after the end: %v", err)
		}
	}
}

// What a bot has used adds up by day, and goes with the bot.
func testBotUsage(t *testing.T, r *rig) {
	ctx := t.Context()
	model, other := r.bot("Ada", store.BotAssistant), r.bot("Bob", store.BotAssistant)
	add := func(id, day string, u store.BotUsage) { t.Helper(); r.must(r.AddBotUsage(ctx, id, day, u)) }
	want := func(id, day string, u store.BotUsage) {
		t.Helper()
		if got, err := r.Hot().BotUsage(ctx, id, day); err != nil || got != u {
			t.Errorf("%s on %s: %+v %v, want %+v", id, day, got, err, u)
		}
	}
	add(model.ID, "2026-11-23", store.BotUsage{Calls: 1, Prompt: 100, Completion: 20, Estimated: 120})
	add(model.ID, "2026-11-23", store.BotUsage{Calls: 2, Prompt: 10, Completion: 5})
	add(model.ID, "2026-11-24", store.BotUsage{Calls: 1})
	add(other.ID, "2026-11-23", store.BotUsage{Calls: 7})
	want(model.ID, "2026-11-23", store.BotUsage{Calls: 3, Prompt: 110, Completion: 25, Estimated: 120})
	want(model.ID, "2026-11-24", store.BotUsage{Calls: 1})
	want(model.ID, "2026-11-25", store.BotUsage{})
	if err := r.AddBotUsage(ctx, "nobody", "2026-11-23", store.BotUsage{Calls: 1}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of nobody: %v", err)
	}
	r.must(r.DeleteBot(ctx, model.ID))
	want(model.ID, "2026-11-23", store.BotUsage{})
	want(other.ID, "2026-11-23", store.BotUsage{Calls: 7})
}

func second(_ store.BotAccount, err error) error { return err }

func (r *rig) pending() (turns []store.PendingTurn) {
	r.t.Helper()
	turns, err := r.Cold().BotPending(r.t.Context())
	r.must(err)
	return turns
}

func (r *rig) turn(id string) store.Turn {
	r.t.Helper()
	turn, err := r.Hot().BotTurn(r.t.Context(), id)
	r.must(err)
	return turn
}

func testBotTurn(t *testing.T, r *rig) {
	ann := r.visitor()
	opened := r.do(store.Open{Contact: ann})
	conv := opened.Conv
	if again := r.do(store.Open{Contact: ann}); again.Turn != "" {
		t.Errorf("a second opening began turn %s", again.Turn)
	}
	asked := r.do(text(conv.ID, ann.Actor(), "help"))
	want := store.Turn{ID: opened.Events[0].ID, Conv: conv.ID, Seq: 1, Epoch: conv.Epoch, Bot: conv.Owner, State: store.TurnAsked}
	if got := r.turn(opened.Turn); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if p := r.pending(); len(p) != 2 || p[0].Turn.ID != opened.Turn || p[1].Turn.ID != asked.Turn || p[1].Event.Body != "help" || p[1].Conv.ID != conv.ID {
		t.Fatalf("pending: %+v", p)
	}
	answer := store.BotTurn{
		Conv: conv.ID, Turn: opened.Turn, Attributes: map[string]string{"email": "ann@example.com"},
		Say: []store.Say{{Body: "hi", Buttons: []store.Button{{Label: "Person", Value: "human"}}, Payload: store.PayloadGenerated}, {Body: "ask", Memo: "remember"}},
	}
	if out := r.do(answer); len(out.Events) != 2 || out.Events[0].From.Name != "Eddy" {
		t.Fatalf("%+v", out)
	}
	if e := r.events(conv.ID, store.CustomerSide)[2]; e.Body != "hi" || e.Payload != store.PayloadGenerated {
		t.Errorf("%+v", e)
	}
	if e := r.events(conv.ID, store.StaffSide)[3]; e.Memo != "remember" || e.Body != "ask" {
		t.Errorf("%+v", e)
	}
	if c, err := r.Hot().Contact(t.Context(), ann.ID); err != nil || c.Attributes["email"] != "ann@example.com" {
		t.Errorf("%+v %v", c, err)
	}
	if out := r.do(answer); !out.Dup || len(out.Events) != 0 {
		t.Fatalf("the same turn again: %+v", out)
	}
	const until = 1_700_000_000_000
	r.do(store.AcceptTurn{Turn: asked.Turn, Until: until})
	if u := r.turn(asked.Turn); u.State != store.TurnAccepted || u.Until != until {
		t.Errorf("%+v", u)
	}
	if p := r.pending(); len(p) != 1 || p[0].Turn.State != store.TurnAccepted {
		t.Errorf("pending: %+v", p)
	}
	r.refused(store.AcceptTurn{Turn: opened.Turn, Until: until}, store.ErrConflict)
	r.refused(store.AcceptTurn{Turn: "nothing", Until: until}, store.ErrNotFound)
	other := r.do(store.Open{Contact: r.visitor()})
	r.refused(store.BotTurn{Conv: other.Conv.ID, Turn: asked.Turn, Say: []store.Say{{Body: "x"}}}, store.ErrNotFound)
	third := r.do(text(conv.ID, ann.Actor(), "hello?"))
	out := r.do(store.BotTurn{Conv: conv.ID, Turn: asked.Turn, Say: []store.Say{{Body: "bye"}}, Handoff: true, Reason: "asked", Note: "she asked"})
	if e := out.Events; out.Conv.State != store.Queued || len(e) != 3 || e[1].Change.Reason != "asked" || e[2].Kind != store.KindNote || e[2].Body != "she asked" || e[2].From.Name != "Eddy" {
		t.Fatalf("%+v", out)
	}
	if a, b := r.turn(asked.Turn).State, r.turn(third.Turn).State; a != store.TurnAnswered || b != store.TurnFailed {
		t.Errorf("after the hand-off: %s and %s", a, b)
	}
	for _, p := range r.pending() {
		if p.Conv.ID == conv.ID {
			t.Errorf("still pending: %+v", p)
		}
	}
	late := store.BotTurn{Conv: conv.ID, Turn: third.Turn, Say: []store.Say{{Body: "one"}, {Body: "two"}}, Handoff: true, Attributes: map[string]string{"late": "x"}}
	out = r.do(late)
	if e := out.Events; !out.Discarded || len(e) != 1 || e[0].Kind != store.KindNote || e[0].Payload != store.PayloadDiscarded || e[0].Body != "one\n\ntwo" || e[0].From.ID != conv.Owner.ID {
		t.Fatalf("late: %+v", out)
	}
	if out = r.do(late); !out.Dup || len(out.Events) != 0 || r.turn(third.Turn).State != store.TurnLate {
		t.Fatalf("late again: %+v", out)
	}
	if c, err := r.Hot().Contact(t.Context(), ann.ID); err != nil || len(c.Attributes) != 1 {
		t.Errorf("a late answer taught %+v %v", c, err)
	}
	// What fails is over, too; an answer that comes after all is discarded, and nobody is left to read it.
	failed := store.BotTurn{Conv: other.Conv.ID, Turn: other.Turn, Say: []store.Say{{Body: "sorry"}}, Handoff: true, Failed: true, Reason: "no answer"}
	if out := r.do(failed); out.Conv.State != store.Queued || r.turn(other.Turn).State != store.TurnFailed {
		t.Fatalf("%+v", out)
	}
	if out := r.do(failed); !out.Dup {
		t.Fatalf("failed again: %+v", out)
	}
	r.do(store.Move{Conv: other.Conv.ID, Trigger: store.CustomerClose, By: store.Actor{Kind: store.Customer, ID: other.Conv.Contact}})
	failed.Failed = false
	if out := r.do(failed); !out.Discarded || len(out.Events) != 0 || r.turn(other.Turn).State != store.TurnLate {
		t.Fatalf("after the close: %+v", out)
	}
	if _, err := r.Hot().BotTurn(t.Context(), "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// The attributes of a contact are bounded in number and length.
func testAttributes(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.do(store.Open{Contact: ann})
	long := strings.Repeat("长", store.MaxAttributeChars+1)
	if out := r.try(store.BotTurn{Conv: conv.Conv.ID, Turn: conv.Turn, Attributes: map[string]string{"a": long}}); out.Err == nil {
		t.Error("an attribute over its length")
	}
	many := make(map[string]string)
	for i := range store.MaxAttributes + 7 {
		many[fmt.Sprint("k", i)] = long[:3]
	}
	r.do(store.BotTurn{Conv: conv.Conv.ID, Turn: conv.Turn, Attributes: many})
	next := r.do(text(conv.Conv.ID, ann.Actor(), "x"))
	c, err := r.Hot().Contact(t.Context(), ann.ID)
	if err != nil || len(c.Attributes) != store.MaxAttributes {
		t.Fatalf("%d attributes (%v)", len(c.Attributes), err)
	}
	for k := range c.Attributes {
		many = map[string]string{k: "changed", "one more": "x"}
		break
	}
	r.do(store.BotTurn{Conv: conv.Conv.ID, Turn: next.Turn, Attributes: many})
	c, err = r.Hot().Contact(t.Context(), ann.ID)
	if err != nil || len(c.Attributes) != store.MaxAttributes || c.Attributes["one more"] != "" {
		t.Fatalf("%+v (%v)", c.Attributes, err)
	}
	for k, v := range many {
		if k != "one more" && c.Attributes[k] != v {
			t.Errorf("%s is %q", k, c.Attributes[k])
		}
	}
}

// testLateBot: the bot's answer races the hand-off and the take-over. It is there before the change, or as a note after
// it.
func testLateBot(t *testing.T, r *rig) {
	for i := range r.b.Rounds {
		ann := r.visitor()
		conv := r.do(store.Open{Contact: ann})
		move := store.Move{Conv: conv.Conv.ID, Trigger: store.Handoff, By: ann.Actor()}
		if i%2 == 0 {
			move = store.Move{Conv: conv.Conv.ID, Trigger: store.TakeOver, By: r.moe.Actor(), Force: true}
		}
		said := make(chan store.Outcome, 1)
		go func() {
			said <- r.try(store.BotTurn{Conv: conv.Conv.ID, Turn: conv.Turn, Say: []store.Say{{Body: "hi"}}})
		}()
		changed := r.do(move)
		out := <-said
		r.must(out.Err)
		events := r.events(conv.Conv.ID, store.StaffSide)
		if len(events) != 3 || len(r.events(conv.Conv.ID, store.CustomerSide)) != 3-btoi(out.Discarded) {
			t.Fatalf("round %d: discarded %v, events %+v", i, out.Discarded, events)
		}
		if first := events[1].ID == changed.Events[0].ID; first != out.Discarded || (events[2].Kind == store.KindNote) != out.Discarded {
			t.Fatalf("round %d: discarded %v, events %+v", i, out.Discarded, events)
		}
	}
	// The bot that owns it again is another owner than before.
	r.site = r.newSite(store.Site{Key: "bot", Name: "Bot", BotName: "Eddy", ReopenToBot: true})
	ann := r.visitor()
	conv := r.do(store.Open{Contact: ann})
	r.do(store.Move{Conv: conv.Conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	again := r.do(text(conv.Conv.ID, ann.Actor(), "me again"))
	if out := r.do(store.BotTurn{Conv: conv.Conv.ID, Turn: conv.Turn, Say: []store.Say{{Body: "late"}}}); !out.Discarded {
		t.Fatalf("%+v", out)
	}
	if out := r.do(store.BotTurn{Conv: conv.Conv.ID, Turn: again.Turn, Say: []store.Say{{Body: "welcome back"}}}); out.Discarded || out.Events[0].PSeq == 0 {
		t.Fatalf("%+v", out)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
