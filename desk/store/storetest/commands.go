package storetest

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

func testOpen(t *testing.T, r *rig) {
	ann := r.visitor()
	opened := r.do(store.Open{Contact: ann, Page: "https://x"})
	if c := opened.Conv; len(opened.Events) != 1 || opened.Events[0].Change.Event != "opened" || c.State != store.InBot || c.Owner.Name != "Eddy" || c.Epoch != 1 || c.Prev != "" {
		t.Fatalf("opened: %+v", opened)
	}
	if again := r.do(store.Open{Contact: ann}); !again.Existing || again.Conv.ID != opened.Conv.ID || len(again.Events) != 0 {
		t.Fatalf("second open: %+v", again)
	}
	sent := r.do(text(opened.Conv.ID, ann.Actor(), "hello"))
	if e := sent.Events[0]; e.Seq != 2 || e.PSeq != 2 || e.Body != "hello" || e.ID == "" {
		t.Fatalf("sent: %+v", e)
	}
	if c := r.head(opened.Conv.ID); c != sent.Conv || c.LastSeq != 2 || c.Preview != "hello" || c.PreviewFrom != store.Customer || c.ContactName != ann.Name {
		t.Fatalf("head: %+v, outcome: %+v", c, sent.Conv)
	}
	if c := r.open(r.visitor(), true); c.State != store.Queued || c.QueuedAt == 0 || !c.Owner.IsZero() {
		t.Fatalf("for a person: %+v", c)
	}
}

func testDedupe(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.open(ann, false)
	msg := text(conv.ID, ann.Actor(), "once")
	first := r.do(msg)
	r.do(text(conv.ID, ann.Actor(), "between"))
	msg.Body = "another body"
	dup := func(when string) {
		t.Helper()
		out := r.do(msg)
		if !out.Dup || len(out.Events) != 1 || out.Events[0].ID != first.Events[0].ID || out.Events[0].Seq != first.Events[0].Seq || out.Events[0].Body != "once" {
			t.Errorf("%s: %+v, first: %+v", when, out, first)
		}
	}
	dup("dup")
	r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	dup("dup after close")
	if c := r.head(conv.ID); c.State != store.Closed {
		t.Errorf("a repeated message reopened: %+v", c)
	}
}

func testRefusals(t *testing.T, r *rig) {
	ann, stranger, lin := r.visitor(), r.visitor().Actor(), r.lin.Actor()
	other := store.Actor{Kind: store.Agent, ID: "someone", Name: "Someone"}
	conv := r.open(ann, true)
	for name, c := range map[string]struct {
		cmd  store.Command
		want error
	}{
		"unknown conversation":    {text("nope", ann.Actor(), "x"), store.ErrNotFound},
		"move of an unknown one":  {store.Move{Conv: "nope", Trigger: store.TakeOver, By: lin}, store.ErrNotFound},
		"another customer":        {text(conv.ID, stranger, "x"), store.ErrNotFound},
		"another's close":         {store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: stranger}, store.ErrNotFound},
		"agent not owner":         {text(conv.ID, lin, "x"), store.ErrConflict},
		"agent closes queued":     {store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: lin}, store.ErrConflict},
		"stale revision":          {store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: lin, Rev: 7}, store.ErrConflict},
		"unknown agent":           {store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: other}, store.ErrNotFound},
		"assigned to nobody":      {store.Move{Conv: conv.ID, Trigger: store.Assign, By: system}, store.ErrNotFound},
		"agent plays router":      {store.Move{Conv: conv.ID, Trigger: store.Assign, By: lin, To: r.moe.ID}, store.ErrForbidden},
		"opened by a move":        {store.Move{Conv: conv.ID, Trigger: store.OpenForHuman, By: system}, store.ErrConflict},
		"note of a customer":      {store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor(), Note: "n"}, store.ErrForbidden},
		"note.send of a customer": {store.Append{Conv: conv.ID, From: ann.Actor(), ClientID: "n", Body: "n", Note: true}, store.ErrForbidden},
		"unknown turn of a bot":   {store.BotTurn{Conv: conv.ID, Turn: "t", Say: []store.Say{{Body: "x"}}}, store.ErrNotFound},
		"open on unknown site":    {store.Open{Contact: store.Contact{ID: "x", Site: "y"}}, store.ErrNotFound},
	} {
		if out := r.refused(c.cmd, c.want); c.want == store.ErrConflict && out.Conv != conv {
			t.Errorf("%s: head %+v, want %+v", name, out.Conv, conv)
		}
	}
	for name, cmd := range map[string]store.Command{
		"bot says too much":     store.BotTurn{Conv: conv.ID, Turn: "t", Say: make([]store.Say, store.MaxBotMessages+1)},
		"open for ghost person": store.Open{Contact: store.Contact{ID: "x", Site: r.site.ID}},
	} {
		if out := r.try(cmd); out.Err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if events := r.events(conv.ID, store.StaffSide); len(events) != 1 {
		t.Fatalf("refused commands left %d events", len(events)-1)
	}
	if l := r.load(r.lin.ID); l.Active != 0 {
		t.Errorf("refused commands left %+v", l)
	}
}

func testTakeOver(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.open(ann, false)
	msg := text(conv.ID, r.lin.Actor(), "I am a person")
	out := r.do(msg)
	if c := out.Conv; c.State != store.Assigned || !c.Owner.Is(r.lin.Actor()) || c.Epoch != conv.Epoch+1 || c.RepliedAt == 0 {
		t.Fatalf("%+v", c)
	}
	if e := out.Events; len(e) != 2 || e[0].Change.Event != "taken" || e[1].Body != "I am a person" || e[1].Seq != 3 {
		t.Fatalf("%+v", e)
	}
	if dup := r.do(msg); !dup.Dup || dup.Events[0].Seq != 3 || r.load(r.lin.ID).Active != 1 {
		t.Fatalf("again: %+v", dup)
	}
	r.refused(text(conv.ID, r.moe.Actor(), "me too"), store.ErrForbidden)
	full := r.agent("full", 1)
	r.assigned(r.visitor(), full)
	other := r.open(r.visitor(), false)
	r.refused(text(other.ID, full.Actor(), "one too many"), store.ErrCapacity)
	if c := r.head(other.ID); c != other {
		t.Fatalf("after the refusal: %+v", c)
	}
}

func testNotes(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	r.do(text(conv.ID, ann.Actor(), "hello"))
	note := store.Append{Conv: conv.ID, From: r.moe.Actor(), ClientID: "note-1", Body: "a difficult one", Note: true}
	out := r.do(note)
	if e := out.Events[0]; e.Kind != store.KindNote || e.Seq != 4 || e.PSeq != 0 || out.Conv.LastPSeq != 3 {
		t.Fatalf("%+v", out)
	}
	if c := out.Conv; c.Preview != "hello" || c.WaitingSince == 0 || c.Rev != conv.Rev {
		t.Fatalf("a note is no answer: %+v", c)
	}
	if again := r.do(note); !again.Dup || again.Events[0].Seq != 4 {
		t.Fatalf("again: %+v", again)
	}
	if next := r.do(text(conv.ID, r.lin.Actor(), "hi")); next.Events[0].Seq != 5 || next.Events[0].PSeq != 4 || next.Conv.WaitingSince != 0 {
		t.Fatalf("after the note: %+v", next)
	}
	for _, e := range r.events(conv.ID, store.CustomerSide) {
		if e.Kind == store.KindNote {
			t.Fatalf("the customer sees %+v", e)
		}
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	note.ClientID = "note-2"
	if out := r.do(note); out.Conv.State != store.Closed || out.Events[0].Seq != 7 {
		t.Fatalf("after the close: %+v", out)
	}
	r.verify(conv.ID)
}

func testTransfer(t *testing.T, r *rig) {
	ann, lin, moe := r.visitor(), r.lin.Actor(), r.moe.Actor()
	conv := r.assigned(ann, r.lin)
	r.refused(store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: moe, To: r.moe.ID}, store.ErrForbidden)
	r.refused(store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: lin, To: r.lin.ID}, store.ErrConflict)
	r.refused(store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: lin, To: "nobody"}, store.ErrNotFound)
	r.refused(store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: lin, To: r.moe.ID, Rev: conv.Rev - 1}, store.ErrConflict)
	full := r.agent("full", 1)
	r.assigned(r.visitor(), full)
	if out := r.refused(store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: lin, To: full.ID}, store.ErrCapacity); out.Conv != conv || r.load(r.lin.ID).Active != 1 {
		t.Fatalf("to a full agent: %+v", out.Conv)
	}
	out := r.do(store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: lin, To: r.moe.ID, Rev: conv.Rev, Note: "she wants a refund"})
	if c := out.Conv; !c.Owner.Is(moe) || c.Owner.Name != r.moe.Name || c.Epoch != conv.Epoch+1 || c.Rev != conv.Rev+1 {
		t.Fatalf("%+v", c)
	}
	if e := out.Events; len(e) != 2 || e[0].Change.Event != "transferred" || !e[0].Change.Was.Is(lin) || e[1].Kind != store.KindNote || e[1].Body != "she wants a refund" {
		t.Fatalf("%+v", e)
	}
	if r.load(r.lin.ID).Active != 0 || r.load(r.moe.ID).Active != 1 {
		t.Fatal("counters", r.load(r.lin.ID), r.load(r.moe.ID))
	}
	r.refused(text(conv.ID, lin, "still me?"), store.ErrForbidden)
	r.do(text(conv.ID, moe, "hello"))

	g := r.group("billing", r.lin)
	r.refused(store.Move{Conv: conv.ID, Trigger: store.TransferGroup, By: moe, Group: "nowhere"}, store.ErrNotFound)
	out = r.do(store.Move{Conv: conv.ID, Trigger: store.TransferGroup, By: moe, Group: g.ID})
	if c := out.Conv; c.State != store.Queued || c.Group != g.ID || c.QueuedAt != conv.QueuedAt || r.load(r.moe.ID).Active != 0 {
		t.Fatalf("to a group: %+v", c)
	}
	had, err := r.Cold().Assignments(t.Context(), conv.ID)
	r.must(err)
	if len(had) != 2 || had[0].Agent != r.lin.ID || had[0].Event != "taken" || had[1].Agent != r.moe.ID || had[1].Event != "transferred" || had[1].To == 0 {
		t.Fatalf("assignments %+v", had)
	}
}

// testReturn: a conversation that comes back to the queue has its old place, before those that came after it.
func testReturn(t *testing.T, r *rig) {
	first := r.assigned(r.visitor(), r.lin)
	r.shift.Add(int64(time.Minute))
	second := r.open(r.visitor(), true)
	out := r.do(store.Move{Conv: first.ID, Trigger: store.Return, By: r.lin.Actor(), Note: "no time"})
	if c := out.Conv; c.State != store.Queued || c.QueuedAt != first.QueuedAt || c.Epoch != first.Epoch+1 || c.Excluded != "" || r.load(r.lin.ID).Active != 0 {
		t.Fatalf("%+v", c)
	}
	queue, total, err := r.Cold().Queue(t.Context(), 10)
	if err != nil || total != 2 || queue[0].ID != first.ID || queue[1].ID != second.ID {
		t.Fatalf("queue %+v %v", queue, err)
	}
	r.refused(store.Move{Conv: first.ID, Trigger: store.Return, By: r.lin.Actor()}, store.ErrConflict)
}

func testLost(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	r.refused(store.Move{Conv: conv.ID, Trigger: store.OwnerGone, By: system}, store.ErrConflict) // nobody waits
	r.do(text(conv.ID, ann.Actor(), "anybody?"))
	out := r.do(store.Move{Conv: conv.ID, Trigger: store.OwnerGone, By: system, Reason: "the agent is offline"})
	if c := out.Conv; c.State != store.Queued || c.QueuedAt != conv.QueuedAt || c.Excluded != r.lin.ID || c.LastAgent != r.lin.ID {
		t.Fatalf("%+v", c)
	}
	out = r.do(store.Move{Conv: conv.ID, Trigger: store.Assign, By: system, To: r.moe.ID})
	if c := out.Conv; !c.Owner.Is(r.moe.Actor()) || c.Excluded != "" || out.Events[0].Change.Event != "assigned" {
		t.Fatalf("%+v", c)
	}
	out = r.do(store.Move{Conv: conv.ID, Trigger: store.NoAnswer, By: system})
	if out.Conv.Excluded != r.moe.ID {
		t.Fatalf("%+v", out.Conv)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.moe.Actor()}) // by hand it may
	r.do(text(conv.ID, r.moe.Actor(), "here"))
	r.refused(store.Move{Conv: conv.ID, Trigger: store.NoAnswer, By: system}, store.ErrConflict)
}

func testGroups(t *testing.T, r *rig) {
	g := r.group("sales", r.lin)
	r.must(r.AddMember(t.Context(), g.ID, r.lin.ID)) // again
	for _, pair := range [][2]string{{"nowhere", r.lin.ID}, {g.ID, "nobody"}} {
		if err := r.AddMember(t.Context(), pair[0], pair[1]); err != store.ErrNotFound {
			t.Errorf("member %v: %v", pair, err)
		}
	}
	r.site = r.newSite(store.Site{Key: "sales", Name: "Sales", Group: g.ID})
	if s, err := r.Hot().SiteByKey(t.Context(), "sales"); err != nil || !reflect.DeepEqual(s, r.site) {
		t.Errorf("%+v, want %+v (%v)", s, r.site, err)
	}
	conv := r.open(r.visitor(), false) // a site without a bot
	if conv.Group != g.ID || conv.State != store.Queued {
		t.Fatalf("%+v", conv)
	}
	r.refused(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.moe.Actor()}, store.ErrForbidden)
	r.refused(store.Move{Conv: conv.ID, Trigger: store.Assign, By: system, To: r.moe.ID}, store.ErrForbidden)
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
}

// testForce: a supervisor overrides owner, group and capacity, and the counters stay right.
func testForce(t *testing.T, r *rig) {
	full := r.agent("full", 1)
	boss := r.agent("boss", 1).Actor()
	r.assigned(r.visitor(), full)
	conv := r.assigned(r.visitor(), r.lin)
	r.do(store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: boss, To: full.ID, Force: true})
	if l := r.load(full.ID); l.Active != 2 {
		t.Fatalf("%+v", l)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: boss, To: boss.ID, Force: true})
	r.do(text(conv.ID, boss, "I take care of it"))
	queued := r.open(r.visitor(), true)
	r.refused(store.Move{Conv: queued.ID, Trigger: store.TakeOver, By: boss}, store.ErrCapacity)
	r.do(store.Move{Conv: queued.ID, Trigger: store.Assign, By: boss, To: full.ID, Force: true})
	r.do(store.Move{Conv: queued.ID, Trigger: store.Return, By: boss, Force: true})
	r.refused(store.Move{Conv: queued.ID, Trigger: store.CustomerClose, By: boss, Force: true}, store.ErrForbidden)
}

func testReopen(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	closed := r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.lin.Actor(), Reason: "solved"}).Conv
	if closed.CloseReason != "solved" || closed.ClosedAt == 0 {
		t.Fatalf("%+v", closed)
	}
	r.refused(text(conv.ID, r.lin.Actor(), "one more thing"), store.ErrClosed)
	r.shift.Add(int64(23 * time.Hour))
	waiting := r.open(r.visitor(), true)
	r.shift.Add(int64(time.Minute))
	out := r.do(text(conv.ID, ann.Actor(), "it is not"))
	if c := out.Conv; c.State != store.Queued || c.ClosedAt != 0 || c.CloseReason != "" || c.LastAgent != r.lin.ID || c.QueuedAt <= waiting.QueuedAt {
		t.Fatalf("%+v", c)
	}
	if e := out.Events; len(e) != 2 || e[0].Change.Event != "reopened" || e[1].Body != "it is not" {
		t.Fatalf("%+v", e)
	}
	if queue, _, err := r.Cold().Queue(t.Context(), 10); err != nil || queue[0].ID != conv.ID {
		t.Fatalf("the reopened one does not come first: %+v %v", queue, err)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	if out := r.do(store.Move{Conv: conv.ID, Trigger: store.ReopenToQueue, By: r.moe.Actor()}); out.Conv.State != store.Queued {
		t.Fatalf("by an agent: %+v", out.Conv)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	other := r.open(ann, true)
	r.refused(text(conv.ID, ann.Actor(), "beside the other"), store.ErrClosed)
	r.refused(store.Move{Conv: conv.ID, Trigger: store.ReopenToQueue, By: r.moe.Actor()}, store.ErrClosed)
	r.do(store.Move{Conv: other.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	r.shift.Add(int64(24 * time.Hour))
	if out := r.refused(text(conv.ID, ann.Actor(), "too late"), store.ErrClosed); out.Conv.ID != conv.ID || out.Conv.State != store.Closed {
		t.Fatalf("head of the refusal: %+v", out.Conv)
	}
	r.site = r.newSite(store.Site{Key: "never", Name: "Never", ReopenWindow: -1})
	ben := r.visitor()
	conv = r.open(ben, true)
	r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ben.Actor()})
	r.refused(text(conv.ID, ben.Actor(), "at once"), store.ErrClosed)
}

func testReopenToBot(t *testing.T, r *rig) {
	r.site = r.newSite(store.Site{Key: "bot", Name: "Bot", BotName: "Eddy", ReopenToBot: true, ReopenWindow: time.Hour})
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	if out := r.do(text(conv.ID, ann.Actor(), "hello?")); out.Conv.State != store.InBot || out.Conv.Owner.Name != "Eddy" || out.Events[0].Change.Event != "reopened" {
		t.Fatalf("%+v", out)
	}
	r.later(time.Minute)
	out := r.do(store.Move{Conv: conv.ID, Trigger: store.Handoff, By: ann.Actor()})
	if c := out.Conv; c.State != store.Queued || c.QueuedAt < conv.QueuedAt+time.Minute.Milliseconds() || c.Priority != store.PriorityReopened {
		t.Fatalf("%+v", c)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	if out := r.do(store.Move{Conv: conv.ID, Trigger: store.ReopenToQueue, By: r.lin.Actor()}); out.Conv.State != store.Queued {
		t.Fatalf("by an agent: %+v", out.Conv)
	}
}

func testNewIsLinked(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	r.shift.Add(int64(48 * time.Hour))
	r.refused(text(conv.ID, ann.Actor(), "much later"), store.ErrClosed)
	next := r.open(ann, true)
	if next.ID == conv.ID || next.Prev != conv.ID || next.LastAgent != r.lin.ID || next.Priority != store.PriorityNormal {
		t.Fatalf("%+v", next)
	}
	if c := r.head(next.ID); c != next {
		t.Fatalf("read back: %+v, want %+v", c, next)
	}
}

func testAbandoned(t *testing.T, r *rig) {
	since := time.Now().UnixMilli()
	served := r.assigned(r.visitor(), r.lin)
	r.do(store.Move{Conv: served.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	for _, by := range []string{"system", "customer"} {
		ann := r.visitor()
		conv := r.open(ann, true)
		move := store.Move{Conv: conv.ID, Trigger: store.Abandon, By: system, Reason: "left"}
		if by == "customer" {
			move.Trigger, move.By = store.CustomerClose, ann.Actor()
		}
		if out := r.do(move); !out.Conv.Abandoned || !out.Events[0].Change.Abandoned {
			t.Errorf("by the %s: %+v", by, out)
		}
	}
	bot := r.open(r.visitor(), false)
	r.do(store.Move{Conv: bot.ID, Trigger: store.Idle, By: system})
	if c, err := r.Cold().Closings(t.Context(), since); err != nil || c != (store.Closings{Served: 2, Abandoned: 2}) {
		t.Errorf("%+v %v", c, err)
	}
	if c, err := r.Cold().Closings(t.Context(), time.Now().Add(time.Hour).UnixMilli()); err != nil || c != (store.Closings{}) {
		t.Errorf("since later: %+v %v", c, err)
	}
}
