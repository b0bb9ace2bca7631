package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// ruled is a site like the rig's own with rules.
func (r *rig) ruled(key string, rules ...store.RouteRule) store.Site {
	r.t.Helper()
	return r.newSite(store.Site{Key: key, Name: key, BotName: "Eddy", Settings: store.SiteSettings{Rules: rules, PreChat: []store.Field{{Name: "plan", Label: "Plan", Type: "text"}}}})
}

// testRules: the first rule that fits decides about group, priority and skills when a conversation enters the queue at
// its end, and not again when it comes back.
func testRules(t *testing.T, r *rig) {
	sales, billing, named := r.group("sales", r.lin, r.moe), r.group("billing", r.lin), r.group("named")
	r.site = r.ruled("ruled",
		store.RouteRule{Page: "/prices", Begins: true, Group: sales.ID},
		store.RouteRule{Attribute: "plan", Value: "gold", Priority: "urgent", Skills: "contracts"},
		store.RouteRule{Answer: "refund", Group: billing.ID, Priority: "low"},
		store.RouteRule{Language: "zh", Skills: "chinese"},
		store.RouteRule{Page: "nowhere", Group: named.ID})
	open := func(change func(*store.Open)) store.Conversation {
		o := store.Open{Contact: r.visitor(), Human: true, Page: "https://shop.example/cart"}
		change(&o)
		return r.do(o).Conv
	}
	is := func(what string, c store.Conversation, group string, p store.Priority, skills string) {
		t.Helper()
		if c != r.head(c.ID) || c.State != store.Queued || c.Group != group || c.Priority != p || c.Skills != skills || c.Relaxed {
			t.Errorf("%s: %+v", what, c)
		}
	}
	is("none fits", open(func(*store.Open) {}), "", store.PriorityNormal, "")
	is("the page", open(func(o *store.Open) { o.Page = "https://shop.example/Prices/x" }), sales.ID, store.PriorityNormal, "")
	gold := open(func(o *store.Open) { o.Fields, o.Contact.Locale = map[string]string{"plan": "Gold"}, "zh-CN" })
	is("an answer before the chat, and the language", gold, "", store.PriorityUrgent, "contracts")
	is("the language", open(func(o *store.Open) { o.Contact.Locale = "zh-CN" }), "", store.PriorityNormal, "chinese")

	bot := r.do(store.Open{Contact: r.visitor()}).Conv
	ann := store.Actor{Kind: store.Customer, ID: bot.Contact}
	pressed := text(bot.ID, ann, "My money back")
	pressed.Payload = "Refund"
	turn := r.do(pressed).Turn
	out := r.do(store.BotTurn{Conv: bot.ID, Turn: turn, Handoff: true, Attributes: map[string]string{"mood": "bad"}})
	is("a button of the bot", out.Conv, billing.ID, store.PriorityLow, "")
	bot = r.do(store.Open{Contact: r.visitor()}).Conv
	turn = r.do(text(bot.ID, store.Actor{Kind: store.Customer, ID: bot.Contact}, "well")).Turn
	out = r.do(store.BotTurn{Conv: bot.ID, Turn: turn, Handoff: true, Attributes: map[string]string{"plan": "gold"}})
	is("what the bot has learnt", out.Conv, "", store.PriorityUrgent, "contracts")

	// An agent has sent it elsewhere: it stays there when it comes back.
	r.do(store.Move{Conv: gold.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	is("sent to another group", r.do(store.Move{Conv: gold.ID, Trigger: store.TransferGroup, By: r.lin.Actor(), Group: sales.ID}).Conv, sales.ID, store.PriorityUrgent, "contracts")
	r.do(store.Move{Conv: gold.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	r.do(store.Move{Conv: gold.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	is("reopened", r.do(store.Move{Conv: gold.ID, Trigger: store.ReopenToQueue, By: r.lin.Actor()}).Conv, sales.ID, store.PriorityUrgent, "contracts")
	if err := r.DeleteGroup(t.Context(), named.ID); !errors.Is(err, store.ErrInUse) {
		t.Errorf("a group that a rule names is deleted: %v", err)
	}
}

// testRuleQueueFull: the queue that must have room is the one that a rule names.
func testRuleQueueFull(t *testing.T, r *rig) {
	g, err := r.CreateGroup(t.Context(), store.Group{Name: "small", Settings: store.GroupSettings{MaxQueue: 1}})
	r.must(err)
	r.site = r.ruled("ruled", store.RouteRule{Page: "full", Group: g.ID})
	r.do(store.Open{Contact: r.visitor(), Human: true, Page: "/full"})
	r.refused(store.Open{Contact: r.visitor(), Human: true, Page: "/full"}, store.ErrQueueFull)
	r.do(store.Open{Contact: r.visitor(), Human: true, Page: "/empty"})
}

// testRuleLimits: what breaks a limit of a rule is refused with the field and the limit.
func testRuleLimits(t *testing.T, r *rig) {
	for want, rules := range map[string][]store.RouteRule{
		"store: rule_group_0 is required":                        {{Page: "x"}},
		"store: rule_group_1 is unknown":                         {{Priority: "low"}, {Group: "nobody"}},
		"store: rule_priority_0 is unknown":                      {{Priority: "soon"}},
		"store: rule_page_0 is long (limit 300)":                 {{Page: fmt.Sprint(make([]bool, 60)), Priority: "low"}},
		"store: rule_language_0 is format":                       {{Language: "Chinese", Priority: "low"}},
		"store: rule_attribute_0 is required":                    {{Value: "gold", Priority: "low"}},
		"store: rule_skills_0 is many (limit 5)":                 {{Skills: "a,b,c,d,e,f"}},
		"store: rule_skills_0 is format":                         {{Skills: "b,a"}},
		"store: rules is many (limit 30)":                        slices.Repeat([]store.RouteRule{{Priority: "low"}}, store.MaxRules+1),
		"store: rule_answer_0 is format, rule_value_0 is format": {{Answer: "a\nb", Attribute: "a", Value: "a\nb", Priority: "low"}},
	} {
		site := r.site
		site.Settings.Rules = rules
		if err := r.UpdateSite(t.Context(), site); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	lin := r.lin
	for want, change := range map[string]func(*store.AgentAccount){
		"store: skills is format":          func(a *store.AgentAccount) { a.Skills = "Big" },
		"store: skills is long (limit 40)": func(a *store.AgentAccount) { a.Skills = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" },
		"store: languages is format":       func(a *store.AgentAccount) { a.Languages = "chinese" },
		"store: languages is many (limit 20)": func(a *store.AgentAccount) {
			a.Languages = "aa,ab,ac,ad,ae,af,ag,ah,ai,aj,ak,al,am,an,ao,ap,aq,ar,as,at,au"
		},
	} {
		a := lin
		change(&a)
		if err := r.UpdateAgent(t.Context(), a); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// testSkills: what agents can do and speak is kept with their accounts.
func testSkills(t *testing.T, r *rig) {
	lin := r.lin
	lin.Skills, lin.Languages = store.Skills(" Returns,  big Orders ,returns"), store.Languages("zh-CN, EN,en_GB")
	r.must(r.UpdateAgent(t.Context(), lin))
	a, err := r.Cold().AgentByID(t.Context(), lin.ID)
	if err != nil || a.Skills != "big orders,returns" || a.Languages != "en,zh" {
		t.Errorf("%+v %v", a, err)
	}
	if m := r.member(lin.ID); m.Skills != a.Skills || m.Languages != a.Languages || r.member(r.moe.ID).Skills != "" {
		t.Errorf("%+v", m)
	}
	a.Login, a.Skills = "lin2", "returns"
	a, err = r.CreateAgent(t.Context(), a)
	r.must(err)
	if m := r.member(a.ID); m.Skills != "returns" || m.Languages != "en,zh" {
		t.Errorf("%+v", m)
	}
}

// testPriority: the queue is ordered by priority within bounds: waiting makes up for it.
func testPriority(t *testing.T, r *rig) {
	enter := func(p store.Priority) store.Conversation {
		t.Helper()
		conv := r.open(r.visitor(), true)
		if p == store.PriorityNormal {
			return conv
		}
		out := r.do(store.Arrange{Conv: conv.ID, By: r.lin.Actor(), Priority: p})
		e := out.Events[0]
		if out.Conv != r.head(conv.ID) || out.Conv.Priority != p || out.Conv.Rev != conv.Rev || !out.Touched || e.Kind != store.KindNote || e.PSeq != 0 ||
			e.From.ID != r.lin.ID || e.Payload != store.PayloadPriority+p.Name() {
			t.Fatalf("%+v", out)
		}
		return out.Conv
	}
	low, first, high := enter(store.PriorityLow), enter(store.PriorityNormal), enter(store.PriorityHigh)
	r.later(14 * time.Minute)
	later := enter(store.PriorityHigh) // before first, which has waited less than a quarter of an hour
	r.later(2 * time.Minute)
	lateHigh, lateNormal, urgent := enter(store.PriorityHigh), enter(store.PriorityNormal), enter(store.PriorityUrgent)
	r.later(50 * time.Minute)
	lateUrgent := enter(store.PriorityUrgent)
	want := []store.Conversation{urgent, high, later, first, lateHigh, lateUrgent, low, lateNormal}
	slices.SortStableFunc(want, func(a, b store.Conversation) int { return a.CompareQueue(&b) })
	names := map[string]string{low.ID: "low", first.ID: "first", high.ID: "high", later.ID: "later", lateHigh.ID: "lateHigh", lateNormal.ID: "lateNormal", urgent.ID: "urgent", lateUrgent.ID: "lateUrgent"}
	order := func(all []store.Conversation) (s []string) {
		for _, c := range all {
			s = append(s, names[c.ID])
		}
		return s
	}
	if got := fmt.Sprint(order(want)); got != "[urgent high later first lateHigh lateUrgent low lateNormal]" {
		t.Errorf("by CompareQueue %s", got)
	}
	all, _, err := r.Cold().Queue(t.Context(), 100)
	r.must(err)
	open, err := r.Cold().OpenConversations(t.Context())
	r.must(err)
	if !slices.Equal(all, want) || !slices.Equal(open, want) {
		t.Errorf("the store has %v and %v, want %v", order(all), order(open), order(want))
	}
	if out := r.do(store.Arrange{Conv: low.ID, By: r.lin.Actor(), Priority: store.PriorityLow}); len(out.Events) != 0 || out.Touched {
		t.Errorf("no change: %+v", out)
	}
	r.refused(store.Arrange{Conv: low.ID, By: store.Actor{Kind: store.Customer, ID: low.Contact}, Priority: store.PriorityHigh}, store.ErrForbidden)
	r.refused(store.Arrange{Conv: "nope", By: r.lin.Actor()}, store.ErrNotFound)
	r.do(store.Move{Conv: low.ID, Trigger: store.CustomerClose, By: store.Actor{Kind: store.Customer, ID: low.Contact}})
	r.refused(store.Arrange{Conv: low.ID, By: r.lin.Actor(), Priority: store.PriorityHigh}, store.ErrClosed)
}

// testRelax: a waiting conversation gives up its skills once, and has them again when it enters the queue anew.
func testRelax(t *testing.T, r *rig) {
	r.site = r.ruled("ruled", store.RouteRule{Page: "x", Skills: "returns"})
	conv := r.do(store.Open{Contact: r.visitor(), Human: true, Page: "x"}).Conv
	relax := store.Relax{Conv: conv.ID, Rev: conv.Rev, Missed: []string{"returns", "zh"}}
	r.refused(store.Relax{Conv: conv.ID, Rev: conv.Rev + 1}, store.ErrConflict)
	out := r.do(relax)
	e := out.Events[0]
	if out.Conv != r.head(conv.ID) || !out.Conv.Relaxed || out.Conv.Skills != "returns" || out.Conv.Rev != conv.Rev || !out.Touched ||
		e.Kind != store.KindNote || e.From.Kind != store.System || e.PSeq != 0 || e.Payload != store.PayloadRelaxed+"returns,zh" {
		t.Fatalf("%+v", out)
	}
	r.refused(relax, store.ErrConflict)
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	r.refused(relax, store.ErrConflict)
	if c := r.do(store.Move{Conv: conv.ID, Trigger: store.Return, By: r.lin.Actor()}).Conv; !c.Relaxed {
		t.Errorf("returned: %+v", c)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	c := r.do(store.Move{Conv: conv.ID, Trigger: store.ReopenToQueue, By: r.lin.Actor()}).Conv
	if c.Relaxed || c.Skills != "returns" {
		t.Errorf("reopened: %+v", c)
	}
	if e := r.do(store.Relax{Conv: conv.ID, Rev: c.Rev, Missed: []string{"returns"}, Nobody: true}).Events[0]; e.Payload != store.PayloadNobody+"returns" {
		t.Errorf("%+v", e)
	}
}

// testStatuses: every status is kept, and only Offline ends with a connection.
func testStatuses(t *testing.T, r *rig) {
	for _, s := range store.Statuses() {
		r.must(r.SetStatus(t.Context(), r.lin.ID, s, true))
		if m := r.member(r.lin.ID); m.Status != s {
			t.Errorf("%s is kept as %s", s, m.Status)
		}
		r.must(r.SetGone(t.Context(), r.lin.ID, 0))
		if m := r.member(r.lin.ID); (m.Status == s) == (s == store.Offline) {
			t.Errorf("%s is %s with a connection", s, m.Status)
		}
	}
}
