package hub

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// without makes a connected member of the group that takes no chats.
func (r *routeRig) without(login string, role perm.Role) *desktest.Client {
	r.t.Helper()
	a := r.staff(login, 5, role)
	a.NoChats = true
	r.ok(r.db.UpdateAgent(r.ctx, a))
	r.settled() // what the store tells of it may come later than any turn of the router
	c := r.agentClient(a)
	r.ok(c.Connected(r.ctx))
	return c
}

// A connection that comes while the accounts are read does not hide what an administrator has set meanwhile; what somebody
// has chosen since stays.
func TestReadingOfAccountsMeetsAConnection(t *testing.T) {
	r := newRoster(new(sessions))
	read := func(noChats bool, began uint64) *member {
		r.update(store.StaffMember{AgentAccount: store.AgentAccount{ID: "ada", NoChats: noChats}}, began)
		return r.members["ada"]
	}
	m := read(false, 0)
	began := r.changes
	m.unsaved = true
	r.change(m)
	if read(true, began); !m.NoChats {
		t.Error("the administrator's setting is not there")
	}
	m.NoChats = false
	r.change(m)
	m.chosen = m.changed
	if read(true, began); m.NoChats {
		t.Error("an older reading has replaced what was chosen")
	}
}

// Nobody is given conversations who takes none, by no strategy. Each may say so of itself.
func TestRouterLeavesOutWhoTakesNoChats(t *testing.T) {
	for _, strategy := range []string{store.LeastBusy, store.RoundRobin, store.Sticky} {
		t.Run(strategy, func(t *testing.T) {
			r := newRouteRig(t, store.GroupSettings{Strategy: strategy}, store.SiteSettings{})
			ada := r.without("ada", perm.Admin)
			r.on("zero", 0)
			if w, _ := ada.Welcome(); w.Status == nil || w.Status.Accepting || w.Status.Status != "online" {
				t.Errorf("its own status is %+v", w.Status)
			}
			_, first := r.waiting()
			r.still(first, store.Queued)
			if l := r.listed(ada); l.Groups[1].Online != 0 || l.Groups[0].Online != 0 || r.hub.Wall().Ready != 0 {
				t.Errorf("counted as there: %+v, %d on the wall", l.Groups, r.hub.Wall().Ready)
			}
			lin := r.on("lin", 2)
			r.belongs(first, lin)
			_, second := r.waiting()
			r.belongs(second, lin)
			_, third := r.waiting()
			r.still(third, store.Queued)
			r.status(ada, store.Online, true)
			r.belongs(third, ada)
			r.status(ada, store.Online, false)
			_, fourth := r.waiting()
			r.still(fourth, store.Queued)
			if c := r.conv(third); c.Owner.ID != ada.Me().ID {
				t.Errorf("a conversation went away with the setting: %+v", c.Owner)
			}
		})
	}
}

// Somebody who takes no chats can be given one on purpose: by hand, by an offer, by a supervisor. A capacity of 0 leaves
// only the supervisor.
func TestOnPurposeWhoTakesNoChats(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	ada, zero, lin := r.without("ada", perm.Agent), r.on("zero", 0), r.on("lin", 9)
	sam := r.agentClient(r.staff("sam", 9, perm.Supervisor))
	_, taken := r.waiting()
	r.ok(ada.Take(r.ctx, taken))
	_, offered := r.waiting()
	r.ok(lin.Take(r.ctx, offered))
	if got := r.do(lin, "transfer", offered, proto.Transfer{Agent: zero.Me().ID}); got != "forbidden" {
		t.Errorf("an offer to a capacity of 0: %q", got)
	}
	if got := r.do(lin, "transfer", offered, proto.Transfer{Agent: ada.Me().ID}); got != "" {
		t.Fatalf("an offer to who takes no chats: %q", got)
	}
	_, err := ada.Other(r.ctx, offerOf(offered))
	r.ok(err)
	if got := r.do(ada, "transfer.accept", offered, proto.Accept{}); got != "" {
		t.Errorf("accepting: %q", got)
	}
	for _, to := range []*desktest.Client{ada, zero} {
		_, conv := r.waiting()
		if got := r.do(sam, "assign", conv, proto.Assign{Agent: to.Me().ID}); got != "" {
			t.Errorf("assigned to %s: %q", to.Me().Name, got)
		}
	}
	_, conv := r.waiting()
	if got := r.do(zero, "take", conv, proto.Take{}); got != "forbidden" {
		t.Errorf("taken with a capacity of 0: %q", got)
	}
}

// A customer does not wait for the agent from last time if that takes no chats any more.
func TestStickyPassesOverWhoTakesNoChats(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Sticky, StickyDays: 1, StickyWait: 60_000}, store.SiteSettings{})
	lin := r.on("lin", 9)
	ann, conv := r.waiting()
	r.belongs(conv, lin)
	r.ok(lin.EndConv(r.ctx, conv, "done"))
	r.clock.advance(time.Minute)
	r.status(lin, store.Online, false)
	moe := r.on("moe", 9)
	r.belongs(r.open(ann, "human"), moe)
}

// The answer of the first connection already says whether an account takes chats, even one that the hub has not read yet.
func TestNewAccountTakesNoChats(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	a, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: "ada", Name: "Ada", Password: "x", Capacity: 5, NoChats: true})
	r.ok(err)
	c := r.agentClient(a)
	r.ok(c.Connected(r.ctx))
	if w, _ := c.Welcome(); w.Status == nil || w.Status.Accepting {
		t.Errorf("%+v", w.Status)
	}
}

// newSettleRig is newRouteRig with the time for which the router leaves new connections alone.
func newSettleRig(t *testing.T, g store.GroupSettings, s store.SiteSettings) *routeRig {
	t.Helper()
	return routeRigOf(func(t *testing.T, o Options) *rig {
		o.Limits.AgentSettle = 0 // the default
		return newRig(t, o)
	}, t, g, s)
}

// Whoever opens the console for a moment gets no customer. An agent that stays does, without any other trigger.
func TestRouterWaitsForAgentsToSettle(t *testing.T) {
	r := newSettleRig(t, store.GroupSettings{}, store.SiteSettings{})
	account := r.staff("lin", 1, perm.Agent)
	_, conv := r.waiting()
	glance := func() {
		c := r.agentClient(account)
		r.ok(c.Connected(r.ctx))
		r.pass(2 * time.Second)
		r.still(conv, store.Queued)
		c.Close()
		r.waitFor("the connection to end", func() bool { return len(r.sessionsOf(account.ID)) == 0 })
		r.pass(2 * time.Second)
		r.still(conv, store.Queued)
	}
	glance()
	glance() // the first one does not count
	lin := r.agentClient(account)
	r.ok(lin.Connected(r.ctx))
	r.pass(2999 * time.Millisecond)
	r.still(conv, store.Queued)
	r.clock.advance(time.Millisecond)
	r.belongs(conv, lin)
	_, next := r.waiting()
	r.still(next, store.Queued)
	second := r.agentClient(account) // one more page of an agent that is there
	r.ok(second.Connected(r.ctx))
	r.ok(lin.EndConv(r.ctx, conv, "done"))
	r.belongs(next, lin)
}

// A customer whom an agent did not answer is not given back to it because a colleague has only just come.
func TestExcludedWhileAColleagueSettles(t *testing.T) {
	r := newSettleRig(t, store.GroupSettings{Accept: 10_000}, store.SiteSettings{})
	lin := r.on("lin", 5)
	r.pass(time.Minute) // no timer of a conversation is due before
	_, conv := r.waiting()
	r.belongs(conv, lin)
	r.clock.advance(9 * time.Second)
	moe := r.on("moe", 5)
	r.clock.advance(time.Second)
	r.became(conv, store.Queued)
	r.still(conv, store.Queued)
	r.clock.advance(2 * time.Second)
	r.belongs(conv, moe)
}

// sessionsOf returns the connections of an agent.
func (r *rig) sessionsOf(agent string) []*Session {
	h := r.theHub()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions.agents[agent]
}
