package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// testSeize: a supervisor takes a conversation from its owner, beyond its own capacity, and gives another agent's away.
func testSeize(t *testing.T, r *rig) {
	boss := r.agent("boss", 1)
	r.assigned(r.visitor(), boss)
	conv := r.assigned(r.visitor(), r.lin)
	r.refused(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: boss.Actor()}, store.ErrConflict)
	out := r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: boss.Actor(), Force: true})
	if c := out.Events[0].Change; c.Event != "taken" || c.Was.ID != r.lin.ID || c.Owner.ID != boss.ID || r.load(boss.ID).Active != 2 || r.load(r.lin.ID).Active != 0 {
		t.Fatalf("%+v", c)
	}
	r.refused(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: boss.Actor(), Force: true}, store.ErrConflict)
	out = r.do(store.Move{Conv: conv.ID, Trigger: store.Assign, By: boss.Actor(), To: r.moe.ID, Force: true})
	if c := out.Events[0].Change; c.Owner.ID != r.moe.ID || c.Was.ID != boss.ID {
		t.Fatalf("%+v", c)
	}
}

func (r *rig) member(id string) store.StaffMember {
	r.t.Helper()
	staff, err := r.Cold().Staff(r.t.Context())
	r.must(err)
	for _, m := range staff {
		if m.ID == id {
			return m
		}
	}
	r.t.Fatalf("no member of staff %s", id)
	return store.StaffMember{}
}

// testMissed: an agent's missed chat is remembered, and after the next one the agent is away. An answer in between
// begins anew.
func testMissed(t *testing.T, r *rig) {
	miss := func() store.StaffMember {
		t.Helper()
		conv := r.assigned(r.visitor(), r.lin)
		r.do(store.Move{Conv: conv.ID, Trigger: store.NoAnswer, By: system})
		return r.member(r.lin.ID)
	}
	r.must(r.SetStatus(t.Context(), r.lin.ID, store.Online, true))
	if m := miss(); m.Missed != 1 || m.Status != store.Online {
		t.Fatalf("after one: %+v", m)
	}
	conv := r.assigned(r.visitor(), r.lin)
	r.do(text(conv.ID, r.lin.Actor(), "here I am"))
	if m := r.member(r.lin.ID); m.Missed != 0 {
		t.Fatalf("after an answer: %+v", m)
	}
	miss()
	if m := miss(); m.Missed != store.MissedForAway || m.Status != store.Away {
		t.Fatalf("after two in a row: %+v", m)
	}
	r.must(r.SetStatus(t.Context(), r.lin.ID, store.Busy, false))
	if m := r.member(r.lin.ID); m.Missed != 0 || m.Status != store.Busy || !m.NoChats {
		t.Fatalf("after a choice: %+v", m)
	}
	miss()
	if m := miss(); m.Status != store.Busy {
		t.Fatalf("a chosen status has been changed: %+v", m)
	}
}

// testWarn: the warning is a notice that both sides get. It holds until anything happens, and so does the expected
// sequence of a move.
func testWarn(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	warn := store.Warn{Conv: conv.ID, Seq: conv.LastSeq, Body: "soon", Payload: "idle_warning"}
	out := r.do(warn)
	e := out.Events[0]
	if e.Kind != store.KindNotice || e.From.Kind != store.System || e.PSeq == 0 || e.Body != "soon" || e.Payload != "idle_warning" || out.Conv.WarnedAt != e.Time {
		t.Fatalf("%+v %+v", e, out.Conv)
	}
	if c := r.head(conv.ID); c != out.Conv || c.Rev != conv.Rev || c.Preview != conv.Preview {
		t.Fatalf("head %+v", c)
	}
	r.refused(warn, store.ErrConflict)
	idle := store.Move{Conv: conv.ID, Trigger: store.Idle, By: system, Seq: out.Conv.LastSeq}
	if c := r.do(text(conv.ID, ann.Actor(), "still here")).Conv; c.WarnedAt != 0 {
		t.Fatalf("the warning holds: %+v", c)
	}
	r.refused(idle, store.ErrConflict)
	idle.Seq++
	r.do(idle)
	r.refused(store.Warn{Conv: conv.ID, Seq: out.Conv.LastSeq + 2}, store.ErrConflict)
	r.refused(store.Warn{Conv: "nope"}, store.ErrNotFound)
}

// testLeave: the time at which a waiting customer left is kept with the conversation until that moves on.
func testLeave(t *testing.T, r *rig) {
	conv := r.open(r.visitor(), true)
	out := r.do(store.Leave{Conv: conv.ID, At: 77})
	if c := r.head(conv.ID); c.LeftAt != 77 || c != out.Conv || c.LastSeq != conv.LastSeq || c.Rev != conv.Rev || len(out.Events) != 0 {
		t.Fatalf("%+v", c)
	}
	if c := r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.lin.Actor()}).Conv; c.LeftAt != 0 {
		t.Fatalf("taken: %+v", c)
	}
	if c := r.do(store.Leave{Conv: conv.ID, At: 78}).Conv; c.LeftAt != 0 {
		t.Fatalf("it does not wait any more: %+v", c)
	}
	r.refused(store.Leave{Conv: "nope"}, store.ErrNotFound)
}

// testQueueFull: a group's queue takes no more than its limit, whichever way customers come. A conversation that was in
// it comes back.
func testQueueFull(t *testing.T, r *rig) {
	g, err := r.CreateGroup(t.Context(), store.Group{Name: "small", Settings: store.GroupSettings{MaxQueue: 2}})
	r.must(err)
	r.must(r.AddMember(t.Context(), g.ID, r.lin.ID))
	small := r.newSite(store.Site{Key: "small", Name: "Small", BotName: "Eddy", Group: g.ID})
	demo := r.site
	r.site = small
	ann, ben, cid := r.visitor(), r.visitor(), r.visitor()
	r.site = demo
	first := r.open(ann, true)
	taken := r.do(store.Move{Conv: r.open(ben, true).ID, Trigger: store.TakeOver, By: r.lin.Actor()}).Conv
	bots := r.open(cid, false)
	r.do(store.Move{Conv: bots.ID, Trigger: store.Handoff, By: cid.Actor()})
	r.site = small
	dan := r.visitor()
	r.site = demo
	r.refused(store.Open{Contact: dan, Human: true}, store.ErrQueueFull)
	opened := r.do(store.Open{Contact: dan})
	dans := opened.Conv
	r.refused(store.Move{Conv: dans.ID, Trigger: store.Handoff, By: dan.Actor()}, store.ErrQueueFull)
	r.refused(store.BotTurn{Conv: dans.ID, Turn: opened.Turn, Say: []store.Say{{Body: "x"}}, Handoff: true}, store.ErrQueueFull)
	if c := r.head(dans.ID); c != dans {
		t.Fatalf("a refusal left %+v", c)
	}
	r.do(store.Move{Conv: taken.ID, Trigger: store.Return, By: r.lin.Actor()})
	r.do(store.Move{Conv: first.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	r.do(text(first.ID, ann.Actor(), "again"))
	r.open(r.visitor(), true) // another queue
}

func testStaff(t *testing.T, r *rig) {
	ctx := t.Context()
	g, h := r.group("g", r.lin, r.moe), r.group("h", r.lin)
	if _, err := r.CreateAgent(ctx, store.AgentAccount{Login: "gone", Name: "gone", Password: "x", Disabled: true}); err != nil {
		t.Fatal(err)
	}
	r.assigned(r.visitor(), r.lin)
	r.must(r.SetGone(ctx, r.moe.ID, 55))
	for _, err := range []error{r.SetGone(ctx, "nobody", 1), r.SetStatus(ctx, "nobody", store.Busy, true)} {
		if err != store.ErrNotFound {
			t.Error(err)
		}
	}
	r.must(r.SetStatus(ctx, r.lin.ID, store.Busy, true))
	r.must(r.SetGone(ctx, r.lin.ID, 0))
	if m := r.member(r.lin.ID); m.Status != store.Busy {
		t.Errorf("the choice of lin: %+v", m)
	}
	r.must(r.SetGone(ctx, r.moe.ID, 0))
	if m := r.member(r.moe.ID); m.Status != store.Online || m.GoneAt != 0 {
		t.Errorf("moe has come: %+v", m)
	}
	r.must(r.SetGone(ctx, r.moe.ID, 55))
	staff, err := r.Cold().Staff(ctx)
	r.must(err)
	if len(staff) != 2 {
		t.Fatalf("%+v", staff)
	}
	lin, moe := r.member(r.lin.ID), r.member(r.moe.ID)
	slices.Sort(lin.Groups)
	want := []string{g.ID, h.ID}
	slices.Sort(want)
	if !slices.Equal(lin.Groups, want) || !slices.Equal(moe.Groups, []string{g.ID}) {
		t.Errorf("groups %v and %v", lin.Groups, moe.Groups)
	}
	if lin.Status != store.Busy || lin.NoChats || lin.Active != 1 || lin.LastAssigned == 0 || lin.Capacity != 5 || lin.Name != "lin" || lin.Password != "" {
		t.Errorf("lin: %+v", lin)
	}
	if moe.GoneAt != 55 || moe.Active != 0 {
		t.Errorf("moe: %+v", moe)
	}
	groups, err := r.Cold().Groups(ctx)
	r.must(err)
	sites, err := r.Cold().Sites(ctx)
	r.must(err)
	if len(groups) != 2 || groups[0].ID != g.ID || groups[1].Name != "h" || len(sites) != 1 || sites[0].ID != r.site.ID || sites[0].ReopenWindow != r.site.ReopenWindow {
		t.Errorf("groups %+v, sites %+v", groups, sites)
	}
}

// testLastAgent: a new conversation has the agent of the one before, and since when.
func testLastAgent(t *testing.T, r *rig) {
	ann := r.visitor()
	ann.Locale = "zh-CN"
	conv := r.assigned(ann, r.lin)
	if conv.LastAgentAt != conv.AssignedAt || conv.AssignedAt == 0 || conv.Locale != "zh-CN" {
		t.Fatalf("%+v", conv)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	r.shift.Add(int64(48 * time.Hour))
	if c := r.open(ann, true); c.LastAgent != r.lin.ID || c.LastAgentAt != conv.AssignedAt {
		t.Fatalf("%+v", c)
	}
}
