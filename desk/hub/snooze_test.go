package hub

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// lists waits until an agent's row of a conversation says whether it is put aside.
func (r *routeRig) lists(c *desktest.Client, conv string, snoozed bool) {
	r.t.Helper()
	r.waitFor("the row", func() bool {
		is := !snoozed
		r.count(c, func(f desktest.Frame) bool {
			var row proto.Row
			if f.T == "ev.conv" && json.Unmarshal(f.D, &row) == nil && row.ID == conv {
				is = row.Snoozed != 0
			}
			return false
		})
		return is == snoozed
	})
}

func (r *routeRig) in(d time.Duration) proto.Snooze {
	return proto.Snooze{Until: r.clock.now().Add(d).UnixMilli()}
}

// A conversation that is put aside gives its place to the next customer and comes back at its time, beyond the capacity,
// too. Meanwhile it is neither warned nor closed, and its agent is the owner whether it is there or not.
func TestSnoozedComesBackByTime(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{IdleChat: time.Minute.Milliseconds(), IdleWait: time.Hour.Milliseconds()})
	lin := r.on("lin", 1)
	ann, anns := r.waiting()
	r.belongs(anns, lin)
	_, bens := r.waiting()
	r.say(lin, anns, "until later")
	if got := r.do(lin, "snooze", anns, r.in(10*time.Minute)); got != "" {
		t.Fatal(got)
	}
	r.lists(lin, anns, true)
	r.belongs(bens, lin)
	r.waitFor("the customer to see what was said", func() bool { return slices.Contains(r.bodies(ann, anns), "until later") })
	seen := len(ann.View(anns))
	r.pass(9 * time.Minute)
	r.pass(time.Second) // the customer would have been warned, then left
	if c := r.conv(anns); c.SnoozedUntil == 0 || c.State != store.Assigned || len(ann.View(anns)) != seen {
		t.Errorf("%+v, the customer sees %d events more", c, len(ann.View(anns))-seen)
	}
	r.stopHub()
	r.startHub()
	r.settled()
	r.pass(2 * time.Minute)
	r.waitFor("the return", func() bool { return r.conv(anns).SnoozedUntil == 0 })
	if c := r.conv(anns); c.WaitingSince == 0 {
		t.Errorf("%+v", c)
	}
	h := r.theHub()
	r.waitFor("the place is taken, and nothing is aside", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.queue.dir.active(lin.Me().ID) >= 1 && len(h.queue.dir.aside) == 0
	})
}

// A word of the customer brings it back at once. Supervisors may bring back what others have put aside, and that is audited.
func TestSnoozedComesBackByAWord(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	lin, moe := r.on("lin", 1), r.on("moe", 9)
	boss := r.agentClient(r.staff("boss", 9, perm.Supervisor))
	r.ok(boss.Connected(r.ctx))
	ann, conv := r.waiting()
	if got := r.do(lin, "snooze", conv, r.in(time.Hour)); got != proto.CodeForbidden {
		t.Errorf("one that nobody has: %q", got)
	}
	r.ok(lin.Take(r.ctx, conv))
	if got := r.do(moe, "snooze", conv, r.in(time.Hour)); got != proto.CodeForbidden {
		t.Errorf("another's: %q", got)
	}
	for name, d := range map[string]time.Duration{"too short": time.Second, "too long": 400 * 24 * time.Hour} {
		if got := r.do(lin, "snooze", conv, r.in(d)); got != proto.CodeBadRequest {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := r.do(lin, "snooze", conv, r.in(time.Hour)); got != "" {
		t.Fatal(got)
	}
	r.lists(moe, conv, true)
	r.say(ann, conv, "hello?")
	if c := r.conv(conv); c.SnoozedUntil != 0 || c.WaitingSince == 0 {
		t.Errorf("after a word: %+v", c)
	}
	r.lists(lin, conv, false)
	if got := r.do(lin, "snooze", conv, r.in(time.Hour)); got != "" {
		t.Fatal(got)
	}
	if got := r.do(boss, "snooze", conv, proto.Snooze{}); got != "" {
		t.Errorf("a supervisor: %q", got)
	}
	r.lists(lin, conv, false)
	if n := len(r.auditOf(boss.Me().ID, store.AuditOverride)); n != 1 {
		t.Errorf("%d lines in the audit log", n)
	}
	r.ok(ann.EndConv(r.ctx, conv, "enough"))
	if got := r.do(lin, "snooze", conv, r.in(time.Hour)); got != proto.CodeConflict {
		t.Errorf("a closed one: %q", got)
	}
}
