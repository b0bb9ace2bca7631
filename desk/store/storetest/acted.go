package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// A conversation whose customer does nothing stands in no report and in no history, whatever bots, timers and agents do to it.
func testSilent(t *testing.T, r *rig) {
	demo := r.site
	bare := r.newSite(store.Site{Key: "bare", Name: "Bare"})
	idle, closed := r.visitor(), r.visitor()
	r.do(store.Move{Conv: r.open(idle, false).ID, Trigger: store.Idle, By: system})
	conv := r.open(closed, false).ID
	r.do(store.Move{Conv: conv, Trigger: store.CustomerClose, By: closed.Actor()})
	r.do(store.Rate{Conv: conv, By: closed.Actor(), Score: 1})

	r.site = bare
	left, taken := r.visitor(), r.visitor()
	r.do(store.Move{Conv: r.open(left, false).ID, Trigger: store.Abandon, By: system})
	conv = r.do(store.Move{Conv: r.open(taken, false).ID, Trigger: store.TakeOver, By: r.lin.Actor()}).Conv.ID
	r.do(text(conv, r.lin.Actor(), "Can I help you?"))
	r.do(store.Move{Conv: conv, Trigger: store.AgentClose, By: r.lin.Actor()})

	r.site = demo
	failed := r.visitor()
	opened := r.do(store.Open{Contact: failed})
	r.do(store.BotTurn{Conv: opened.Conv.ID, Turn: opened.Turn, Failed: true, Handoff: true, Say: []store.Say{{Body: "sorry"}}})
	r.do(store.Move{Conv: opened.Conv.ID, Trigger: store.Abandon, By: system})

	if rows := r.report(store.ReportQuery{By: store.ByAgent}); len(rows) != 0 {
		t.Errorf("the report has %+v", rows)
	}
	if minutes, err := r.Background().Minutes(t.Context(), 0); err != nil || len(minutes) != 0 {
		t.Errorf("the minutes have %+v %v", minutes, err)
	}
	for name, c := range map[string]struct {
		contact store.Contact
		listed  int
	}{"silent": {idle, 0}, "closed by the customer": {closed, 0}, "left": {left, 0}, "the bot failed": {failed, 0}, "an agent had it": {taken, 1}} {
		past, _, err := r.Cold().History(t.Context(), store.Scope{Agent: r.lin.ID, All: true}, store.Filter{Contact: c.contact.ID}, "", 10)
		r.must(err)
		all, _, err := r.Cold().History(t.Context(), store.Scope{Agent: r.lin.ID, All: true}, store.Filter{}, "", 50)
		r.must(err)
		all = slices.DeleteFunc(all, func(p store.Past) bool { return p.Contact != c.contact.ID })
		own, err := r.Hot().OfContact(t.Context(), c.contact.ID)
		r.must(err)
		if len(past) != c.listed || len(all) != c.listed || len(own) != c.listed {
			t.Errorf("%s: %d in the history, %d in the list of all, %d for the customer, want %d", name, len(past), len(all), len(own), c.listed)
		}
	}
}

// The first action of a customer makes the conversation count, once, and where it is at that time.
func testFirstAction(t *testing.T, r *rig) {
	demo := r.site
	want := store.ReportRow{}
	check := func(what string, conv string) {
		t.Helper()
		if got := r.total(); got.Opened != want.Opened || got.Arrived != want.Arrived || got.Handoff != want.Handoff {
			t.Errorf("%s: %d opened, %d arrived, %d passed on, want %d, %d, %d", what, got.Opened, got.Arrived, got.Handoff, want.Opened, want.Arrived, want.Handoff)
		}
		if c := r.head(conv); c.ActedAt == 0 {
			t.Errorf("%s: %+v", what, c)
		}
	}
	ann := r.visitor()
	conv := r.open(ann, false).ID
	if c := r.head(conv); c.ActedAt != 0 {
		t.Errorf("opened: %+v", c)
	}
	r.do(text(conv, ann.Actor(), "hello"))
	first := r.head(conv).ActedAt
	r.later(time.Minute)
	r.do(text(conv, ann.Actor(), "hello?"))
	want.Opened++
	check("a message", conv)
	if c := r.head(conv); c.ActedAt != first {
		t.Errorf("the second message: %+v", c)
	}

	ben := r.visitor()
	conv = r.open(ben, false).ID
	r.do(store.Move{Conv: conv, Trigger: store.Handoff, By: ben.Actor()})
	want.Opened, want.Arrived, want.Handoff = want.Opened+1, want.Arrived+1, want.Handoff+1
	check("asking for a person", conv)

	conv = r.open(r.visitor(), true).ID
	want.Opened, want.Arrived = want.Opened+1, want.Arrived+1
	check("opening for a person", conv)

	r.site = r.newSite(store.Site{Key: "asks", Name: "Asks", BotName: "Eddy", Settings: store.SiteSettings{PreChat: []store.Field{{Name: "order", Label: "Order", Type: "text"}}}})
	conv = r.do(store.Open{Contact: r.visitor(), Fields: map[string]string{"order": "17"}}).Conv.ID
	want.Opened++
	check("the answers", conv)
	conv = r.do(store.Open{Contact: r.visitor(), Fields: map[string]string{"nobody": "asked"}, Consent: true}).Conv.ID
	if c := r.head(conv); c.ActedAt != 0 {
		t.Errorf("answers that nobody asked for: %+v", c)
	}

	r.site = r.newSite(store.Site{Key: "bare", Name: "Bare"})
	cat := r.visitor()
	conv = r.open(cat, false).ID
	r.do(text(conv, cat.Actor(), "hello"))
	want.Opened, want.Arrived = want.Opened+1, want.Arrived+1
	check("a message in the queue", conv)

	r.site = demo
	dan := r.visitor()
	conv = r.open(dan, false).ID
	r.do(store.Move{Conv: conv, Trigger: store.Idle, By: system})
	r.do(text(conv, dan.Actor(), "here I am"))
	want.Opened, want.Arrived = want.Opened+1, want.Arrived+1
	check("a message after the end", conv)
}

// What the bot has said before there was a conversation stands at its beginning, and the bot is not asked for it; the
// greeting of another bot than the site's is not taken.
func testGreeting(t *testing.T, r *rig) {
	say := []store.Say{{Body: "Hello!", Buttons: []store.Button{{Label: "A person", Value: "human"}}}, {Body: "Ask me."}}
	out := r.do(store.Open{Contact: r.visitor(), Greeter: store.BuiltInBot, Greeting: say})
	if len(out.Events) != 3 || out.Turn != "" || out.Conv.ActedAt != 0 {
		t.Fatalf("%+v", out)
	}
	events := r.events(out.Conv.ID, store.CustomerSide)
	if len(events) != 3 || events[1].Body != "Hello!" || len(events[1].Buttons) != 1 || events[2].Body != "Ask me." || !events[2].From.Is(out.Conv.Owner) {
		t.Errorf("%+v", events)
	}
	if sent := r.do(text(out.Conv.ID, store.Actor{Kind: store.Customer, ID: out.Conv.Contact}, "hello")); sent.Turn == "" || sent.Events[0].PSeq != 4 {
		t.Errorf("the first message: %+v", sent)
	}
	for name, c := range map[string]store.Open{
		"another bot": {Greeter: "another", Greeting: say}, "nothing said": {Greeter: store.BuiltInBot},
	} {
		c.Contact = r.visitor()
		if out := r.do(c); len(out.Events) != 1 || out.Turn != out.Events[0].ID {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if out := r.do(store.Open{Contact: r.visitor(), Human: true, Greeter: store.BuiltInBot, Greeting: say}); len(out.Events) != 1 || out.Conv.State != store.Queued {
		t.Errorf("for a person: %+v", out)
	}
}
