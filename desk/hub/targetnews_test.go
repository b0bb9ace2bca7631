package hub

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// listens makes the store write down what happens.
// told returns what programs were told of targets, by conversation.
func (r *routeRig) told() map[string]string {
	r.t.Helper()
	page, err := r.db.Cold().Outbox(r.ctx, 0, 10_000)
	r.ok(err)
	all := make(map[string]string)
	for _, row := range page.Rows {
		if row.Target.In != 0 {
			all[row.Conv] += string(row.Type) + " "
		}
	}
	return all
}

// tells waits until programs have been told something about a conversation, and nothing more.
func (r *routeRig) tells(conv, want string) {
	r.t.Helper()
	r.waitFor(fmt.Sprintf("%q", want), func() bool { return r.told()[conv] == want })
	r.turned()
	if got := r.told()[conv]; got != want {
		r.t.Errorf("told %q, want %q", got, want)
	}
}

// Programs are told when half of the time for a first answer has passed, and when all of it has, at that moment and without
// any other change; once each, also over a restart and after a change of the target.
func TestTargetIsTold(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual, Target: 40_000}, store.SiteSettings{IdleWait: (24 * time.Hour).Milliseconds()})
	lin := r.on("lin", 5)
	_, conv := r.waiting()
	_, quick := r.waiting()
	r.ok(lin.Take(r.ctx, quick))
	r.say(lin, quick, "hello")
	r.pass(19 * time.Second)
	r.tells(conv, "")
	r.clock.advance(time.Second)
	r.tells(conv, "target.warned ")
	r.stopHub()
	r.startHub()
	r.settled()
	r.tells(conv, "target.warned ")
	r.pass(19 * time.Second)
	r.tells(conv, "target.warned ")
	r.clock.advance(1001 * time.Millisecond)
	r.tells(conv, "target.warned target.missed ")
	r.group.Settings.Target = 10_000
	r.ok(r.db.UpdateGroup(r.ctx, r.group))
	r.settled()
	r.pass(time.Hour)
	r.stopHub()
	_, err := r.db.TrimOutbox(r.ctx, store.OutboxTrim{})
	r.ok(err)
	r.clock.advance(time.Hour)
	r.startHub()
	r.settled()
	r.pass(time.Minute)
	r.tells(conv, "target.warned target.missed ")
	if got := r.told()[quick]; got != "" {
		t.Errorf("of a quick answer: %q", got)
	}
}

// What falls due while the server is away is told after its start, an answer that comes first tells it itself, and both
// at once tell it once.
func TestTargetIsToldOnce(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual, Target: 40_000}, store.SiteSettings{IdleWait: (24 * time.Hour).Milliseconds()})
	lin := r.on("lin", 50)
	var waits []string
	for range 20 {
		_, conv := r.waiting()
		r.ok(lin.Take(r.ctx, conv))
		waits = append(waits, conv)
	}
	_, away := r.waiting()
	r.turned()
	r.clock.advance(41 * time.Second) // the router tells it while lin answers
	for _, conv := range waits {
		lin.Send(conv, "hello")
	}
	r.ok(lin.Flushed(r.ctx))
	for _, conv := range waits {
		r.tells(conv, "target.missed ")
	}
	r.tells(away, "target.missed ")
	r.group.Settings.Target = 4000 // soon: what was told does not wait for another look
	r.ok(r.db.UpdateGroup(r.ctx, r.group))
	r.settled()
	_, soon := r.waiting()
	r.turned()
	r.clock.advance(2 * time.Second)
	r.tells(soon, "target.warned ")
	r.clock.advance(2001 * time.Millisecond)
	r.tells(soon, "target.warned target.missed ")
	r.group.Settings.Target = 40_000
	r.ok(r.db.UpdateGroup(r.ctx, r.group))
	r.settled()
	_, later := r.waiting()
	r.turned()
	r.stopHub()
	r.clock.advance(25 * time.Second)
	r.startHub()
	r.settled()
	r.tells(later, "target.warned ")
}

// A chat that its agent puts aside, and one that is closed, are not told of; the time goes on for the first of them. A
// target that comes later counts for those who wait already.
func TestTargetIsNotTold(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual, Target: 40_000}, store.SiteSettings{IdleWait: (24 * time.Hour).Milliseconds()})
	lin := r.on("lin", 5)
	_, aside := r.waiting()
	ann, closed := r.waiting()
	r.ok(lin.Take(r.ctx, aside))
	r.ok(lin.Take(r.ctx, closed))
	if got := r.do(lin, "snooze", aside, r.in(5*time.Minute)); got != "" {
		t.Fatal(got)
	}
	r.ok(ann.EndConv(r.ctx, closed, "enough"))
	r.pass(time.Minute)
	r.tells(aside, "")
	r.tells(closed, "")
	r.clock.advance(5 * time.Minute)
	r.tells(aside, "target.missed ")
	r.say(lin, aside, "hello")

	r.group.Settings.Target = 0
	r.ok(r.db.UpdateGroup(r.ctx, r.group))
	r.settled()
	_, conv := r.waiting()
	r.pass(time.Minute)
	r.tells(conv, "")
	r.group.Settings.Target = 100_000
	r.ok(r.db.UpdateGroup(r.ctx, r.group))
	r.settled()
	r.tells(conv, "target.warned ")
}
