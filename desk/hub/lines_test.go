package hub

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// able is on for an agent with skills and languages.
func (r *routeRig) able(login string, capacity int, skills, languages string) *desktest.Client {
	r.t.Helper()
	a := r.staff(login, capacity, perm.Agent)
	a.Skills, a.Languages = skills, languages
	r.ok(r.db.UpdateAgent(r.ctx, a))
	r.settled()
	h := r.theHub()
	r.waitFor("the hub to know what "+login+" can do", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		m := h.queue.roster.members[a.ID]
		return m.Skills == skills && m.Languages == languages
	})
	c := r.agentClient(a)
	r.ok(c.Connected(r.ctx))
	return c
}

// asks opens a conversation of a customer with a language on a page.
func (r *routeRig) asks(locale, page string) string {
	r.t.Helper()
	token := r.visitor()
	c := r.client(func(context.Context) (desktest.Transport, proto.Hello, error) {
		return r.dial(Peer{}).client(), proto.Hello{Token: token, Locale: locale}, nil
	})
	r.ok(c.Connected(r.ctx))
	f, err := c.Do(r.ctx, "conv.open", "", proto.Open{Wants: "human", Page: page})
	r.ok(err)
	return f.C
}

// payloads returns the payloads of the notes of a conversation.
func (r *routeRig) payloads(conv string) string {
	r.t.Helper()
	events, _, err := r.db.Cold().Events(r.ctx, conv, store.StaffSide, 0, 100, 1<<20)
	r.ok(err)
	var all []string
	for _, e := range events {
		if e.Kind == store.KindNote {
			all = append(all, e.Payload)
		}
	}
	return strings.Join(all, " ")
}

func skilled() store.SiteSettings {
	return store.SiteSettings{Rules: []store.RouteRule{{Page: "returns", Skills: "returns"}, {Page: "moon", Skills: "moon"}}}
}

// A conversation waits for an agent with its skills while others are free, and after the time of its group goes to any.
func TestSkillsAreWaitedFor(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Relax: 30_000}, skilled())
	lin, moe := r.able("lin", 1, "cables,returns", ""), r.on("moe", 9)
	first := r.asks("en", "/returns")
	r.belongs(first, lin)
	second := r.asks("en", "/returns")
	plain := r.asks("en", "/")
	r.belongs(plain, moe) // it does not wait behind the other
	r.pass(29 * time.Second)
	r.still(second, store.Queued)
	r.pass(time.Second)
	r.belongs(second, moe)
	if got := r.payloads(second); got != "relaxed:returns" {
		t.Errorf("told %q", got)
	}
	r.ok(lin.EndConv(r.ctx, first, "done"))
	if got := r.payloads(first); got != "" {
		t.Errorf("told %q of one that was not given up", got)
	}
}

// Colleagues read who knows what in the list, and are told when that changes.
func TestSkillsAreTold(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, skilled())
	moe := r.on("moe", 9)
	if a := agentIn(r.listed(moe), "moe"); a.Skills != nil || a.Languages != nil {
		t.Errorf("%+v", a)
	}
	lin := r.able("lin", 9, "moon,returns", "en,zh")
	if a := agentIn(r.listed(moe), "lin"); fmt.Sprint(a.Skills, a.Languages) != "[moon returns] [en zh]" {
		t.Errorf("%+v", a)
	}
	r.other(moe, evAgent(func(a proto.AgentInfo) bool { return a.Name == "lin" && a.Online && len(a.Skills) == 2 }))
	for _, change := range []struct{ skills, languages, want string }{{"returns", "en,zh", "[returns] [en zh]"}, {"returns", "zh", "[returns] [zh]"}, {"", "", "[] []"}} {
		account, err := r.db.Cold().AgentByID(r.ctx, lin.Me().ID)
		r.ok(err)
		account.Skills, account.Languages = change.skills, change.languages
		r.ok(r.db.UpdateAgent(r.ctx, account))
		r.other(moe, evAgent(func(a proto.AgentInfo) bool {
			return a.Name == "lin" && fmt.Sprint(a.Skills, a.Languages) == change.want
		}))
	}
}

// What nobody of the group has is not waited for; what one gets who is away is.
func TestSkillsOfNobody(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, skilled())
	moe := r.on("moe", 9)
	conv := r.asks("en", "/moon")
	r.belongs(conv, moe)
	if got := r.payloads(conv); got != "relaxed_nobody:moon" {
		t.Errorf("told %q", got)
	}
	lin := r.able("lin", 9, "moon", "")
	r.status(lin, store.Away, true)
	conv = r.asks("en", "/moon")
	r.still(conv, store.Queued)
	r.status(lin, store.Online, false) // takes no chats: nobody has it any more
	r.belongs(conv, moe)
	if got := r.payloads(conv); got != "relaxed_nobody:moon" {
		t.Errorf("told %q", got)
	}
}

// A language counts where an agent of the group names it. Who names none gets customers of every language.
func TestLanguages(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, skilled())
	lin := r.able("lin", 1, "", "en,zh")
	moe := r.able("moe", 9, "", "en")
	r.belongs(r.asks("zh-CN", "/"), lin)
	second := r.asks("zh_TW", "/")
	r.belongs(r.asks("en-GB", "/"), moe)
	r.belongs(r.asks("fr", "/"), moe) // that nobody names is nobody's, so it is everybody's
	r.still(second, store.Queued)
	r.pass(time.Minute)
	r.belongs(second, moe)
	if got := r.payloads(second); got != "relaxed:zh" {
		t.Errorf("told %q", got)
	}
	r.status(moe, store.Busy, true)
	kim := r.on("kim", 9)
	r.belongs(r.asks("zh-CN", "/"), kim)
}

// Agents pick from a manual queue, so nothing is given up there.
func TestSkillsInManualQueue(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, skilled())
	lin := r.on("lin", 1)
	conv := r.asks("en", "/returns")
	r.pass(time.Hour - time.Minute)
	r.still(conv, store.Queued)
	if got := r.payloads(conv); got != "" {
		t.Errorf("told %q", got)
	}
	r.ok(lin.Take(r.ctx, conv)) // by hand, whatever it asks for
}

// The last agent of a customer is not waited for if it lacks what the conversation asks for.
func TestStickyWithoutTheSkill(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Sticky, StickyWait: 600_000}, skilled())
	lin := r.on("lin", 1)
	ann, conv := r.waiting()
	r.belongs(conv, lin)
	r.ok(lin.EndConv(r.ctx, conv, "done"))
	r.belongs(r.asks("en", "/"), lin) // full now
	moe := r.able("moe", 9, "returns", "")
	f, err := ann.Do(r.ctx, "conv.open", "", proto.Open{Wants: "human", Page: "/returns"})
	r.ok(err)
	r.belongs(f.C, moe)
}

// The order of the queue, what is waited for and what was given up are the same after a restart.
func TestQueueAfterRestart(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, skilled())
	lin := r.able("lin", 1, "returns", "")
	r.status(lin, store.Away, true)
	convs := map[string]string{}
	for _, name := range []string{"first", "returns", "second", "high"} {
		page := "/"
		if name == "returns" {
			page = "/returns"
		}
		convs[name] = r.asks("en", page)
		r.clock.advance(time.Second)
	}
	if got := r.do(lin, "priority", convs["high"], proto.Priority{Priority: "high"}); got != "" {
		t.Fatal(got)
	}
	lines := func() string {
		h := r.theHub()
		h.mu.Lock()
		defer h.mu.Unlock()
		names := make(map[string]string)
		for name, conv := range convs {
			names[conv] = name
		}
		var s []string
		for _, e := range h.queue.dir.queue {
			s = append(s, names[e.conv.ID]+" "+e.line.skills)
		}
		for l, all := range h.queue.dir.lines {
			if len(all) != map[string]int{"": 3, "returns": 1}[l.skills] {
				s = append(s, fmt.Sprintf("%d in line %+v", len(all), l))
			}
		}
		return strings.Join(s, ", ")
	}
	const want = "high , first , returns returns, second "
	r.waitFor("the queue to be in order", func() bool { return lines() == want })
	r.stopHub()
	r.startHub()
	if got := lines(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.ok(lin.Connected(r.ctx))
	r.status(lin, store.Online, true)
	for _, name := range []string{"high", "first", "returns", "second"} {
		r.belongs(convs[name], lin)
		r.ok(lin.EndConv(r.ctx, convs[name], "done"))
	}
}
