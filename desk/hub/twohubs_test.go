package hub

import (
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// twoHubs starts two hubs, each on its own store of one database, as two servers would.
func twoHubs(t *testing.T) (one, two *rig) {
	t.Helper()
	return twoHubsWith(t, Options{Limits: testLimits()})
}

func twoHubsWith(t *testing.T, o Options) (one, two *rig) {
	t.Helper()
	return twoHubsOf(t, o, o)
}

func twoHubsOf(t *testing.T, o, oToo Options) (one, two *rig) {
	t.Helper()
	return twoHubsAt(t, o, oToo, nil)
}

// twoHubsAt is twoHubsOf, of which the first one is on a machine with such a clock, and both have that of the store.
func twoHubsAt(t *testing.T, o, oToo Options, machine func() time.Time) (one, two *rig) {
	t.Helper()
	place := pgtest.Database(t, sqlstore.Blank)
	one = beginRig(&rig{t: t, o: o, path: place, many: true, machine: machine})
	two = &rig{t: t, ctx: one.ctx, path: place, o: oToo, site: one.site, many: true}
	if machine != nil {
		two.machine = time.Now
	}
	two.openStore()
	two.startHub()
	t.Cleanup(two.end)
	return one, two
}

// TestTwoHubs: a customer and an agent who are connected to different servers talk, each sees everything once and in order, and what changes at
// one server takes effect at the other.
func TestTwoHubs(t *testing.T) {
	one, two := twoHubs(t)
	ann, lin, conv := chatOfTwo(one, two)
	for range 20 {
		one.say(ann, conv, "hello")
		two.event(lin, conv, body("hello"))
		two.say(lin, conv, "good day")
		one.event(ann, conv, body("good day"))
	}
	one.checkView(ann, conv, store.CustomerSide)
	two.checkView(lin, conv, store.StaffSide)

	site := one.site
	site.Settings.Visits = store.KeepNothing
	one.ok(one.db.UpdateSite(one.ctx, site))
	two.waitFor("the setting of the site", func() bool { return two.hub.visitsKept(site.ID) == store.KeepNothing })

	one.ok(one.db.DeleteAgentSessions(one.ctx, lin.Me().ID, store.Token{}))
	two.waitFor("the session to end with its login", func() bool { return two.hub.Counters.Closes()["4101"] > 0 })
	one.mu.Lock()
	wires := slices.Clone(one.wires)
	one.mu.Unlock()
	_, err := two.hub.Block(two.ctx, ann.Me().ID, true, system, "")
	two.ok(err)
	one.waitFor("the customer to be out", func() bool {
		return slices.ContainsFunc(wires, func(w *wire) bool { return w.closeCode() == proto.CloseBlocked })
	})
	one.waitFor("the chat to be closed", func() bool { return len(one.hub.known()) == 0 })
	if n := one.hub.Counters.Rebuilds.Load() + two.hub.Counters.Rebuilds.Load(); n != 0 {
		t.Errorf("everything was read again %d times", n)
	}
}

// TestTwoHubsMeet: both servers work on one chat at the same time. Nobody sees anything twice, or in another order than the database has it.
func TestTwoHubsMeet(t *testing.T) {
	one, two := twoHubs(t)
	ann, lin, conv := chatOfTwo(one, two)
	const each = 100
	for range each {
		ann.Send(conv, "from one")
		lin.Send(conv, "from two")
	}
	one.ok(ann.Flushed(one.ctx))
	two.ok(lin.Flushed(two.ctx))
	one.checkView(ann, conv, store.CustomerSide)
	two.checkView(lin, conv, store.StaffSide)
}

// TestTwoHubsTicket: a ticket of one server is good at another one, and at none of them twice.
func TestTwoHubsTicket(t *testing.T) {
	one, two := twoHubs(t)
	account := one.account("lin", 100)
	session := one.login(account)
	for first, second := range map[*rig]*rig{one: two, two: one} {
		ticket := one.hub.o.Tickets.Issue(account.ID, session)
		c := first.raw(first.dial(Peer{}))
		c.write("hello", "h", "", proto.Hello{Ticket: ticket})
		c.until(isType("welcome"))
		for _, r := range []*rig{second, first} {
			again := r.raw(r.dial(Peer{}))
			again.write("hello", "h", "", proto.Hello{Ticket: ticket})
			again.untilClosed(proto.CloseUnauthorized)
		}
	}
}
