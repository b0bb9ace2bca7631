package hub

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Agents set the priority of what they have or could take, supervisors that of everything. Staff see it in the row and as a
// note, and the customers hear their new places.
func TestPriorityMovesTheQueue(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	lin, moe := r.on("lin", 1), r.on("moe", 9)
	boss := r.agentClient(r.staff("boss", 9, perm.Supervisor))
	r.ok(boss.Connected(r.ctx))
	ann, anns := r.waiting()
	r.other(ann, position(1))
	r.clock.advance(time.Second)
	ben, bens := r.waiting()
	r.other(ben, position(2))
	if got := r.do(lin, "priority", bens, proto.Priority{Priority: "high"}); got != "" {
		t.Fatal(got)
	}
	r.other(ben, position(1))
	r.other(ann, position(2))
	r.other(moe, rowWith(bens, "high"))
	if got := r.payloads(bens); got != "priority:high" {
		t.Errorf("noted %q", got)
	}
	if n := len(ben.View(bens)); n != 1 {
		t.Errorf("the customer sees %d events", n)
	}
	r.ok(lin.Take(r.ctx, bens))
	if got := r.do(moe, "priority", bens, proto.Priority{Priority: "low"}); got != proto.CodeForbidden {
		t.Errorf("another's: %q", got)
	}
	if got := r.do(boss, "priority", bens, proto.Priority{Priority: "urgent"}); got != "" {
		t.Errorf("a supervisor: %q", got)
	}
	r.other(moe, rowWith(bens, "urgent"))
	if n := len(r.auditOf(boss.Me().ID, store.AuditOverride)); n != 1 {
		t.Errorf("%d lines in the audit log", n)
	}
	if got := r.do(lin, "priority", bens, proto.Priority{Priority: "normal"}); got != "" {
		t.Errorf("one's own: %q", got)
	}
	r.ok(ann.EndConv(r.ctx, anns, "enough"))
	if got := r.do(lin, "priority", anns, proto.Priority{Priority: "low"}); got != proto.CodeConflict {
		t.Errorf("a closed one: %q", got)
	}
}

// An offer outlives a change of priority.
func TestPriorityKeepsOffers(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	lin, moe := r.on("lin", 1), r.on("moe", 9)
	_, conv := r.waiting()
	r.ok(lin.Take(r.ctx, conv))
	if got := r.do(lin, "transfer", conv, proto.Transfer{Agent: moe.Me().ID}); got != "" {
		t.Fatal(got)
	}
	if got := r.do(lin, "priority", conv, proto.Priority{Priority: "high"}); got != "" {
		t.Fatal(got)
	}
	if got := r.do(moe, "transfer.accept", conv, proto.Accept{}); got != "" {
		t.Fatal(got)
	}
	r.belongs(conv, moe)
}

// The router serves in the order of the queue: a higher priority first, and nobody is passed for ever.
func TestPriorityIsServedFirst(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{IdleWait: time.Hour.Milliseconds(), AwayAfter: time.Hour.Milliseconds(), Rules: []store.RouteRule{{Page: "/vip", Priority: "high"}, {Page: "/later", Priority: "low"}}})
	lin := r.on("lin", 1)
	r.status(lin, store.Away, true)
	low, first := r.asks("en", "/later"), r.asks("en", "/")
	r.clock.advance(14 * time.Minute)
	vip := r.asks("en", "/vip")
	r.clock.advance(2 * time.Minute)
	late := r.asks("en", "/vip")
	r.clock.advance(20 * time.Minute)
	last := r.asks("en", "/")
	r.status(lin, store.Online, true)
	for _, conv := range []string{vip, first, late, low, last} {
		r.belongs(conv, lin)
		r.ok(lin.EndConv(r.ctx, conv, "done"))
	}
}

// rowWith matches the row of a conversation with a priority.
func rowWith(conv, priority string) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		var row proto.Row
		return f.T == "ev.conv" && f.C == conv && json.Unmarshal(f.D, &row) == nil && row.Priority == priority
	}
}
