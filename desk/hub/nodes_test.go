package hub

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
)

func (r *rig) leads() bool { return r.theHub().router.duty.Load() != nil }

// gone returns when the hub says that an agent went away, 0 = it is there.
func (r *rig) gone(agent string) int64 {
	h := r.theHub()
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.queue.roster.members[agent]; m != nil {
		return m.GoneAt
	}
	return -1
}

// left returns when the hub says that the customer of a conversation went away, 0 = it is there, -1 = the conversation is not known.
func (r *rig) left(conv string) int64 {
	h := r.theHub()
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.queue.dir.open[conv]; e != nil {
		return e.left
	}
	return -1
}

// elsewhere lets somebody be connected to another server, too.
func (r *rig) elsewhere(id string) {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	r.hub.sessions.elsewhere[id] = true
}

// turned waits until no turn of the router of before is under way any more.
func (r *rig) turned() {
	r.t.Helper()
	turns := r.hub.Counters.RouterTurns.Load()
	r.waitFor("turns of the router", func() bool {
		r.hub.router.wake()
		return r.hub.Counters.RouterTurns.Load() >= turns+2
	})
}

func (r *rig) load(agent string) int {
	all, err := r.db.Cold().Loads(r.ctx)
	r.ok(err)
	for _, l := range all {
		if l.Agent == agent {
			return l.Active
		}
	}
	return -1
}

// TestTwoHubsRoute: one of two servers gives chats out, to agents of both, and never more than an agent takes. When it ends, the other one goes on.
func TestTwoHubsRoute(t *testing.T) {
	one, two := twoHubsWith(t, Options{Limits: testLimits(), Routing: store.GroupSettings{Strategy: store.LeastBusy}})
	accounts := map[*rig]store.AgentAccount{one: one.account("lin", 2), two: two.account("moe", 2)}
	clients := make(map[*rig]*desktest.Client)
	for r, a := range accounts {
		clients[r] = r.agentClient(a)
		r.ok(clients[r].Connected(r.ctx))
	}
	customers := make(map[string]*desktest.Client)
	for range 4 {
		for _, r := range []*rig{one, two} {
			c := r.customer()
			customers[r.open(c, "human")] = c
		}
	}
	served := func(want int) bool { return one.load(accounts[one].ID) == want && two.load(accounts[two].ID) == want }
	one.waitFor("both agents to have their chats", func() bool { return served(2) })
	one.waitFor("one of them to lead", func() bool { return one.leads() != two.leads() })
	first, second := one, two
	if two.leads() {
		first, second = two, one
	}
	first.halt()
	second.waitFor("the other one to lead", second.leads)
	second.waitFor("the agent of the first one to be gone", func() bool { return second.gone(accounts[first].ID) > 0 })
	conv := ""
	second.waitFor("a chat of its agent", func() bool {
		all, err := second.db.Cold().OfAgent(second.ctx, accounts[second].ID)
		second.ok(err)
		if len(all) > 0 {
			conv = all[0].ID
		}
		return conv != ""
	})
	if code := second.do(clients[second], "conv.close", conv, proto.Close{}); code != "" {
		t.Fatal(code)
	}
	second.waitFor("the next customer to be served", func() bool {
		c, err := second.db.Cold().Conversation(second.ctx, conv)
		second.ok(err)
		return c.State == store.Closed && second.load(accounts[second].ID) == 2
	})
	if n := second.load(accounts[first].ID); n != 2 {
		t.Errorf("the agent that is away for a moment has %d chats", n)
	}
	first.startHub()
	first.ok(clients[first].Connected(first.ctx))
	second.waitFor("the agent to be back", func() bool { return second.gone(accounts[first].ID) == 0 })
	first.waitFor("the agent to be back", func() bool { return first.gone(accounts[first].ID) == 0 })
	if first.leads() && second.leads() && first.leads() { // on a slow machine the second may have lost it to the first meanwhile
		t.Error("two servers lead")
	}
	if n := one.theHub().Counters.Reconciled.Load() + two.theHub().Counters.Reconciled.Load(); n != 0 {
		t.Errorf("%d counters of agents were wrong", n)
	}
}

// TestTwoHubsPresence: who is connected to one server is there for the other one, and not any more when the last connection has ended.
func TestTwoHubsPresence(t *testing.T) {
	one, two := twoHubs(t)
	lin := two.account("lin", 5)
	agent := two.agentClient(lin)
	two.ok(agent.Connected(two.ctx))
	one.waitFor("the agent to be known", func() bool { return one.gone(lin.ID) == 0 && one.theHub().Connected(lin.ID) })

	ann := one.customer()
	conv := one.open(ann, "human")
	contact := ann.Me().ID
	two.waitFor("the customer to be known", func() bool { return two.left(conv) == 0 && two.theHub().Online(contact) })
	two.ok(agent.Take(two.ctx, conv))
	one.event(ann, conv, state(store.Assigned))
	presence := func(c *desktest.Client, r *rig, kind string, want bool) {
		t.Helper()
		r.other(c, func(f desktest.Frame) bool {
			var p proto.Presence
			if f.T != "ev.presence" || f.C != conv {
				return false
			}
			f.Decode(&p)
			return p.Kind == kind && p.Online == want
		})
	}
	agent.Close()
	presence(ann, one, "agent", false)
	one.waitFor("the agent to be gone", func() bool { return one.gone(lin.ID) > 0 && !one.theHub().Connected(lin.ID) })
	agent = two.agentClient(lin)
	two.ok(agent.Connected(two.ctx))
	presence(ann, one, "agent", true)
	agentToo := one.agentClient(lin)
	one.ok(agentToo.Connected(one.ctx))
	two.waitFor("the agent to be at both", func() bool {
		h := two.theHub()
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.sessions.elsewhere[lin.ID]
	})
	agent.Close()
	two.waitFor("the agent to have one connection", func() bool {
		all, err := two.db.Cold().Presences(two.ctx)
		two.ok(err)
		for _, p := range all {
			if p.ID == lin.ID {
				return len(p.Nodes) == 1 && p.Nodes[0] == one.db.Node()
			}
		}
		return false
	})
	if one.gone(lin.ID) != 0 || two.gone(lin.ID) != 0 || !two.theHub().Connected(lin.ID) {
		t.Errorf("an agent with a connection to one server is gone: %d, %d", one.gone(lin.ID), two.gone(lin.ID))
	}

	ann.Close()
	presence(agentToo, one, "customer", false)
	two.waitFor("the customer to be gone", func() bool { return two.left(conv) > 0 && !two.theHub().Online(contact) })
	if code := one.do(agentToo, "status", "", proto.Status{Status: string(store.Busy)}); code != "" {
		t.Fatal(code)
	}
	two.waitFor("the status", func() bool {
		h := two.theHub()
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.queue.roster.members[lin.ID].Status == store.Busy
	})
}

// counting is a bot that counts the questions of each conversation. hold keeps a question from being answered.
type counting struct {
	mu   sync.Mutex
	n    map[string]int
	hold func(ctx context.Context)
}

func (a *counting) Reply(ctx context.Context, q bot.Turn) (bot.Reply, error) {
	a.mu.Lock()
	a.n[q.ID]++
	a.mu.Unlock()
	if a.hold != nil {
		a.hold(ctx)
	}
	return bot.Reply{Say: []store.Say{{Body: "answer to " + q.Text}}}, ctx.Err()
}

func (a *counting) turns() (n, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, times := range a.n {
		n, most = n+1, max(most, times)
	}
	return n, most
}

// TestTwoHubsBot: a bot is counting once for each turn, by one of two servers.
func TestTwoHubsBot(t *testing.T) {
	a := &counting{n: make(map[string]int)}
	one, two := twoHubsWith(t, Options{Limits: testLimits(), Bot: a})
	const each = 5
	var clients []*desktest.Client
	for range each {
		for _, r := range []*rig{one, two} {
			c := r.customer()
			clients = append(clients, c)
			conv := r.open(c, "bot")
			r.event(c, conv, body("answer to "))
			r.say(c, conv, "question")
			r.event(c, conv, body("answer to question"))
		}
	}
	if n, most := a.turns(); n != 2*len(clients) || most != 1 {
		t.Errorf("%d turns were counting, one of them %d times; want %d, once", n, most, 2*len(clients))
	}
}

// TestTwoHubsDeath: a server dies with an agent, a customer and a question for a bot. The other one lets them be gone, asks the bot, and gives what the
// agent does not answer to somebody else.
func TestTwoHubsDeath(t *testing.T) {
	hang := make(chan struct{})
	dead := &counting{n: make(map[string]int), hold: func(context.Context) { <-hang }}
	alive := &counting{n: make(map[string]int)}
	c := newAlarmClock()
	one, two := twoHubsWith(t, Options{Limits: testLimits(), Bot: alive, Now: c.now, After: c.after, Routing: store.GroupSettings{Strategy: store.LeastBusy}})
	t.Cleanup(func() { close(hang) }) // before the hubs end
	two.halt()
	two.o.Bot = dead
	two.startHub()

	moe := two.account("moe", 5)
	agent := two.agentClient(moe)
	two.ok(agent.Connected(two.ctx))
	bob := two.customer()
	conv := two.open(bob, "human")
	one.waitFor("the chat to be given to the agent", func() bool { return one.load(moe.ID) == 1 })
	one.waitFor("the customer to be there", func() bool { return one.left(conv) == 0 })
	two.say(bob, conv, "hello?")
	eve := two.customer()
	asking := two.open(eve, "bot")
	two.waitFor("the bot to be counting", func() bool { n, _ := dead.turns(); return n == 1 })
	one.waitFor("the question to be known", func() bool { return one.left(asking) == 0 })

	two.ok(two.db.Close())
	one.fault.failTurns(1)
	pass := func(what string, cond func() bool) {
		t.Helper()
		one.waitFor(what, func() bool {
			c.advance(beatEvery / 5)
			return cond()
		})
	}
	pass("the agent to be gone", func() bool { return one.gone(moe.ID) > 0 })
	pass("the customer to be gone", func() bool { return one.left(conv) > 0 })
	pass("the bot to be counting once more", func() bool { n, most := alive.turns(); return n == 1 && most == 1 })
	one.waitFor("the answer", func() bool {
		events, _, err := one.db.Cold().Events(one.ctx, asking, store.StaffSide, 0, 100, 1<<20)
		one.ok(err)
		return len(events) > 0 && events[len(events)-1].From.Kind == store.Bot
	})
	lin := one.account("lin", 5)
	other := one.agentClient(lin)
	one.ok(other.Connected(one.ctx))
	pass("the chat to be given to somebody else", func() bool { return one.load(lin.ID) == 1 })
}

// TestTwoHubsOffer: a chat is offered to an agent of another server, which accepts, declines, or lets the time pass.
func TestTwoHubsOffer(t *testing.T) {
	c, l := newAlarmClock(), testLimits()
	l.OfferLife = beatEvery - time.Second // servers that no time passes for must not die of it
	one, two := twoHubsWith(t, Options{Limits: l, Now: c.now, After: c.after})
	moe := two.account("moe", 5)
	lin, other := one.agent("lin"), two.agentClient(moe)
	one.ok(lin.Connected(one.ctx))
	two.ok(other.Connected(two.ctx))
	one.waitFor("the agent to be known", func() bool {
		one.hub.mu.Lock()
		defer one.hub.mu.Unlock()
		return one.hub.queue.roster.members[moe.ID] != nil && one.hub.sessions.agentThere(moe.ID)
	})
	conv := one.open(one.customer(), "human")
	one.ok(lin.Take(one.ctx, conv))
	told := 0
	offer := func() {
		t.Helper()
		told++
		if got := one.do(lin, "transfer", conv, proto.Transfer{Agent: moe.ID, Note: "please"}); got != "" {
			t.Fatal(got)
		}
		two.waitFor("the offer", func() bool { return two.count(other, offerOf(conv)) == told })
	}
	offer()
	if got := two.do(other, "transfer.decline", conv, proto.Decline{}); got != "" {
		t.Fatal(got)
	}
	one.other(lin, offerEnd(conv, proto.OfferDeclined))
	two.other(other, offerEnd(conv, proto.OfferDeclined))
	offer()
	one.waitFor("one server to lead", func() bool { return one.leads() || two.leads() })
	c.advance(l.OfferLife)
	one.other(lin, offerEnd(conv, proto.OfferExpired))
	two.other(other, offerEnd(conv, proto.OfferExpired))
	offer()
	if got := two.do(other, "transfer.accept", conv, proto.Accept{}); got != "" {
		t.Fatal(got)
	}
	one.other(lin, offerEnd(conv, proto.OfferAccepted))
	two.event(other, conv, body("please"))
	one.waitFor("the books", func() bool {
		one.hub.mu.Lock()
		defer one.hub.mu.Unlock()
		return len(one.hub.queue.offers) == 0 && one.hub.queue.dir.open[conv].conv.Owner.ID == moe.ID
	})
}

// TestElsewhereIsThere: the last connection to this server has ended, but there is one to another. Nobody is gone, and nobody is told so.
func TestElsewhereIsThere(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, account := r.customer(), r.account("lin", 5)
	agent, second := r.agentClient(account), r.agent("moe")
	r.ok(agent.Connected(r.ctx))
	r.ok(second.Connected(r.ctx))
	conv := r.open(ann, "human")
	r.ok(agent.Take(r.ctx, conv))
	r.event(ann, conv, state(store.Assigned))
	contact := ann.Me().ID
	r.elsewhere(account.ID)
	r.elsewhere(contact)
	offline := func(f desktest.Frame) bool {
		var p proto.Presence
		if f.T != "ev.presence" {
			return false
		}
		f.Decode(&p)
		return !p.Online
	}
	before := r.count(ann, offline)
	// The store knows of no other server: what a reading of the staff that begins behind the end finds there counts.
	r.waitFor("the staff to be read", func() bool { return !r.hub.router.stale.Load() })
	r.turned()
	agent.Close()
	r.waitFor("the agent's session to end", func() bool {
		r.hub.mu.Lock()
		defer r.hub.mu.Unlock()
		return len(r.hub.sessions.agents[account.ID]) == 0 && !r.hub.queue.roster.members[account.ID].unsaved
	})
	if at := r.gone(account.ID); at != 0 {
		t.Errorf("the agent is gone at %d", at)
	}
	if n := r.count(ann, offline) - before; n != 0 {
		t.Errorf("the customer was told %d times that the agent is gone", n)
	}
	ann.Close()
	r.waitFor("the customer's session to end", func() bool {
		r.hub.mu.Lock()
		defer r.hub.mu.Unlock()
		return len(r.hub.sessions.contacts[contact]) == 0
	})
	if at := r.left(conv); at != 0 {
		t.Errorf("the customer left at %d", at)
	}
	if !r.hub.Connected(account.ID) || !r.hub.Online(contact) {
		t.Error("somebody with a connection to another server has none")
	}
}

// TestRoutesOnlyWhileItLeads: a server gives chats out only while it holds the lease for that.
func TestRoutesOnlyWhileItLeads(t *testing.T) {
	begin, ended := make(chan context.Context), make(chan struct{}, 1)
	path := filepath.Join(t.TempDir(), "desk.db")
	sqlitetest.Prepare(t, path)
	r := beginRig(&rig{t: t, path: path, many: true, o: Options{
		Limits: testLimits(), Routing: store.GroupSettings{Strategy: store.LeastBusy},
		Hold: holdTurns(begin, ended),
	}})
	account := r.account("lin", 10)
	r.ok(r.agentClient(account).Connected(r.ctx))
	waits := func(want int) {
		t.Helper()
		r.open(r.customer(), "human")
		r.turned()
		if got := r.load(account.ID); got != want {
			t.Errorf("the agent has %d chats, want %d", got, want)
		}
	}
	for waiting := range 3 {
		waits(2 * waiting)
		waits(2 * waiting)
		turn, end := context.WithCancel(t.Context())
		begin <- turn
		r.waitFor("the customers to be served", func() bool { return r.load(account.ID) == 2*(waiting+1) })
		end()
		<-ended
		r.turned()
	}
}
