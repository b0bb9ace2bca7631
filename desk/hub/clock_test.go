package hub

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store"
)

// The server's clock jumps by hours, forward and back, under open chats: messages keep their order and their numbers, the queue
// keeps its order and is served, connections come back, and nobody is closed without the warning before it.
func TestClockJumps(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{IdleChat: 5 * 60_000, WarnFor: 60_000})
	r.started()
	lin := r.on("lin", 1)
	ann, conv := r.waiting()
	r.belongs(conv, lin)
	talk := func(text string) {
		t.Helper()
		r.say(ann, conv, "customer "+text)
		r.say(lin, conv, "agent "+text)
		r.event(ann, conv, body("agent "+text))
		r.event(lin, conv, body("customer "+text))
	}
	jump := func(d time.Duration) {
		t.Helper()
		r.clock.advance(d)
		r.turned()
	}
	returns := func(c *desktest.Client) {
		t.Helper()
		_, n := c.Welcome()
		c.Break()
		r.waitFor("the connection to come back", func() bool { _, now := c.Welcome(); return now > n })
	}
	talk("before")
	_, first := r.waiting()
	jump(-5 * time.Hour)
	_, second := r.waiting() // by the clock it came long before the first
	talk("five hours back")
	returns(ann)
	returns(lin)
	talk("after coming back")
	r.still(first, store.Queued)
	r.ok(lin.EndConv(r.ctx, conv, "done"))
	r.belongs(first, lin)
	r.still(second, store.Queued)
	r.ok(lin.EndConv(r.ctx, first, "done"))
	r.belongs(second, lin)
	r.ok(lin.EndConv(r.ctx, second, "done"))

	r.say(ann, conv, "again") // it goes on, at its agent's
	r.belongs(conv, lin)
	talk("opened again")
	jump(5*time.Hour + 30*time.Minute) // tokens hold for an hour here
	r.event(ann, conv, notice)         // silent for hours, by the clock: the warning comes first
	r.still(conv, store.Assigned)
	talk("still here")
	returns(ann)
	jump(-3 * time.Hour)
	r.still(conv, store.Assigned)
	talk("and back")
	r.checkView(ann, conv, store.CustomerSide)
	r.checkView(lin, conv, store.StaffSide)
}

// TestTwoHubsClockOff: the clock of one of two servers, which gives the chats out, is ten minutes off and jumps. Chats keep their order in the queue and messages theirs, with times
// of the database; nobody is warned, gone or refused too early, and the lease and the presence of both servers go on.
func TestTwoHubsClockOff(t *testing.T) {
	const off = 10 * time.Minute
	for _, first := range []time.Duration{off, -off} {
		t.Run(first.String(), func(t *testing.T) {
			var by atomic.Int64
			by.Store(int64(first))
			o := Options{Limits: testLimits(), Routing: store.GroupSettings{Strategy: store.LeastBusy}}
			one, two := twoHubsAt(t, o, o, func() time.Time { return time.Now().Add(time.Duration(by.Load())) })
			one.waitFor("the server that is off to lead", one.leads)
			site := one.site
			site.Settings.IdleChat, site.Settings.WarnFor = 5*60_000, 60_000
			one.ok(one.db.UpdateSite(one.ctx, site))
			began := time.Now()
			moe, lin := one.account("moe", 1), two.account("lin", 1)
			agents := []*desktest.Client{one.agentClient(moe), two.agentClient(lin)}
			for i, r := range []*rig{one, two} {
				r.ok(agents[i].Connected(r.ctx))
			}
			for _, r := range []*rig{one, two} {
				r.waitFor("both agents to be known", func() bool { return r.gone(moe.ID) == 0 && r.gone(lin.ID) == 0 })
			}
			var customers []*desktest.Client
			var convs []string
			for i := range 6 { // of both servers in turn, and the clock jumps in between
				r := []*rig{one, two}[i%2]
				c := r.customer()
				customers, convs = append(customers, c), append(convs, r.open(c, "human"))
				by.Store(int64([]time.Duration{-first, first, 0}[i%3]))
			}
			owner := func(conv string) string {
				c, err := one.db.Cold().Conversation(one.ctx, conv)
				one.ok(err)
				if c.State != store.Assigned {
					return ""
				}
				return c.Owner.ID
			}
			for i, conv := range convs {
				one.waitFor("the next chat of the queue to be given out", func() bool { return owner(conv) != "" })
				for _, later := range convs[min(i+2, len(convs)):] {
					if owner(later) != "" {
						t.Errorf("chat %d was given out before its turn", i)
					}
				}
				r, agent := one, agents[0]
				if owner(conv) == lin.ID {
					r, agent = two, agents[1]
				}
				by.Store(int64(-first))
				for n := range 3 {
					customers[i].Send(conv, fmt.Sprint("customer ", n))
					agent.Send(conv, fmt.Sprint("agent ", n))
					by.Add(int64(first))
				}
				r.event(customers[i], conv, body("agent 2"))
				r.event(agent, conv, body("customer 2"))
				customers[i].Break() // its token is asked for again
				agent.Break()
				customers[i].Send(conv, "back")
				r.event(agent, conv, body("back"))
				r.ok(agent.EndConv(r.ctx, conv, "done"))
			}
			for i, conv := range convs {
				one.checkView(customers[i], conv, store.CustomerSide)
				events, _, err := one.db.Cold().Events(one.ctx, conv, store.StaffSide, 0, 1000, 1<<20)
				one.ok(err)
				last := began.Add(-time.Minute).UnixMilli()
				for _, e := range events {
					if e.Time < last || e.Time > time.Now().Add(time.Minute).UnixMilli() || e.Kind == store.KindNotice {
						t.Errorf("chat %d: %+v, after %v", i, e, time.UnixMilli(last))
					}
					last = e.Time
				}
			}
			one.waitFor("one of them to lead", func() bool { return one.leads() != two.leads() })
			for _, r := range []*rig{one, two} {
				r.waitFor("both agents to be there", func() bool { return r.gone(moe.ID) == 0 && r.gone(lin.ID) == 0 })
				if n := r.hub.Counters.Rebuilds.Load(); n != 0 {
					t.Errorf("everything was read again %d times", n)
				}
			}
		})
	}
}
