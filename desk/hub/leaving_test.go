package hub

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// status of an agent as others see it, and whether it is away because it did nothing.
func (r *routeRig) shown(c *desktest.Client) (string, bool) {
	r.t.Helper()
	for _, a := range r.listed(c).Agents {
		if a.ID == c.Me().ID {
			return a.Status, a.Idle
		}
	}
	r.t.Fatal("not listed")
	return "", false
}

func (r *routeRig) becomes(c *desktest.Client, want store.Status) {
	r.t.Helper()
	r.waitFor(c.Me().Name+" to be "+string(want), func() bool { s, _ := r.shown(c); return s == string(want) })
}

// The customers of an agent who is away stay with that agent while they do not wait for an answer. One who waits goes back
// to the queue after the time of its group, to its old place, and both sides are told.
func TestAwayGivesBack(t *testing.T) {
	for _, status := range []store.Status{store.Away, store.Offline} {
		t.Run(string(status), func(t *testing.T) {
			r := newRouteRig(t, store.GroupSettings{Away: 300_000}, store.SiteSettings{IdleChat: 3_600_000, IdleWait: 3_600_000, AwayAfter: 3_600_000})
			r.started()
			lin := r.on("lin", 2)
			ann, anns := r.waiting()
			ben, bens := r.waiting()
			r.belongs(anns, lin)
			r.belongs(bens, lin)
			r.say(ann, anns, "hello")
			r.say(ben, bens, "hello")
			for _, conv := range []string{anns, bens} {
				lin.Send(conv, "a moment")
			}
			r.ok(lin.Flushed(r.ctx))
			r.status(lin, status, true)
			r.pass(10 * time.Minute)
			r.still(anns, store.Assigned) // nobody waits
			r.say(ann, anns, "are you there?")
			r.clock.advance(time.Second)
			_, later := r.waiting()
			r.pass(4*time.Minute + 58*time.Second)
			r.still(anns, store.Assigned)
			r.pass(time.Second)
			c := r.became(anns, store.Queued)
			if c.Excluded != lin.Me().ID || c.QueuedAt >= r.conv(later).QueuedAt {
				t.Errorf("%+v", c)
			}
			for who, client := range map[string]*desktest.Client{"customer": ann, "agent": lin} {
				var s proto.StateChange
				if r.event(client, anns, change("returned")).Decode(&s); s.Reason != reasonAgentAway || s.By.Kind != "system" {
					t.Errorf("%s is told %+v", who, s)
				}
			}
			r.still(bens, store.Assigned)
			r.status(lin, store.Online, true)
			r.belongs(anns, lin) // there is nobody else
			r.still(later, store.Queued)
		})
	}
}

// A customer who has waited already waits no shorter for an agent who goes away now, and not at all for one who is back.
func TestAwayBeginsWithTheStatus(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Away: 300_000}, store.SiteSettings{IdleChat: 3_600_000})
	r.started()
	lin := r.on("lin", 2)
	ann, conv := r.waiting()
	r.belongs(conv, lin)
	r.say(ann, conv, "hello")
	r.pass(9 * time.Minute)
	r.still(conv, store.Assigned)
	r.status(lin, store.Away, true)
	r.pass(4*time.Minute + 59*time.Second)
	r.still(conv, store.Assigned)
	r.status(lin, store.Busy, true)
	r.pass(20 * time.Minute)
	r.still(conv, store.Assigned)
	r.status(lin, store.Away, true)
	r.pass(5 * time.Minute)
	r.became(conv, store.Queued)
}

// Who finishes keeps the chats that there are, gets no new ones, and is offline after the last; the next day begins online.
func TestFinishing(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Away: 60_000}, store.SiteSettings{IdleChat: 3_600_000})
	lin, moe := r.on("lin", 5), r.on("moe", 1)
	r.status(moe, store.Busy, true)
	ann, conv := r.waiting()
	r.belongs(conv, lin)
	r.status(lin, store.Finishing, true)
	_, other := r.waiting()
	r.still(other, store.Queued)
	if got := r.do(moe, "take", other, proto.Take{}); got != "" {
		t.Fatal(got)
	}
	if got := r.do(moe, "transfer", other, proto.Transfer{Agent: lin.Me().ID}); got != proto.CodeForbidden {
		t.Errorf("offered: %q", got)
	}
	r.say(ann, conv, "one thing more")
	r.pass(10 * time.Minute)
	r.still(conv, store.Assigned)
	if s, _ := r.shown(lin); s != string(store.Finishing) {
		t.Errorf("lin is %s", s)
	}
	r.ok(lin.EndConv(r.ctx, conv, "done"))
	r.becomes(lin, store.Offline)
	lin.Break()
	r.waitFor("the new welcome", func() bool { _, n := lin.Welcome(); return n == 2 })
	r.becomes(lin, store.Online)
	r.status(lin, store.Finishing, true) // without a chat: at once
	r.becomes(lin, store.Offline)
}

// newIdleRig is newRouteRig where agents who do nothing for a quarter of an hour are away.
func newIdleRig(t *testing.T) *routeRig {
	t.Helper()
	return routeRigOf(func(t *testing.T, o Options) *rig {
		o.Limits.IdleAway = DefaultIdleAway
		return newRig(t, o)
	}, t, store.GroupSettings{}, store.SiteSettings{})
}

// An agent who does nothing becomes away, unless anything in any of its sessions shows that somebody is there.
func TestIdleIsAway(t *testing.T) {
	r := newIdleRig(t)
	account := r.staff("lin", 5, "agent")
	lin, second := r.agentClient(account), r.agentClient(account)
	r.ok(lin.Connected(r.ctx))
	r.ok(second.Connected(r.ctx))
	busy := r.on("busy", 1)
	r.status(busy, store.Busy, true)
	r.pass(14 * time.Minute)
	for range 5 { // what a client does by itself
		r.do(lin, "ping", "", proto.Ping{})
	}
	r.pass(59 * time.Second)
	if s, _ := r.shown(lin); s != "online" {
		t.Fatalf("lin is %s too early", s)
	}
	r.ok(second.Tell(r.ctx, "active", "", proto.Active{}))
	r.do(second, "ping", "", proto.Ping{})
	r.pass(14 * time.Minute)
	second.Close() // what it did counts on
	r.waitFor("the second session to end", func() bool { return r.theHub().Counters.Sessions.Load() == 2 })
	r.pass(59 * time.Second)
	if s, _ := r.shown(lin); s != "online" {
		t.Fatalf("lin is %s though there was somebody", s)
	}
	r.pass(time.Second)
	r.becomes(lin, store.Away)
	if _, idle := r.shown(lin); !idle {
		t.Error("the reason is not told")
	}
	_, conv := r.waiting()
	r.still(conv, store.Queued)
	r.status(lin, store.Online, true)
	r.belongs(conv, lin)
	if _, idle := r.shown(lin); idle {
		t.Error("still idle")
	}
	if s, idle := r.shown(busy); s != "busy" || idle {
		t.Errorf("a chosen status is %s now", s)
	}
}
