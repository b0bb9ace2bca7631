package hub

import (
	"encoding/json"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

func change(event string) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		var c proto.StateChange
		return f.T == "ev.state" && json.Unmarshal(f.D, &c) == nil && c.Event == event
	}
}

// head runs a command that has to succeed and returns the head of its answer.
func (r *rig) headOf(c *desktest.Client, t, conv string, d any) proto.Head {
	r.t.Helper()
	f, err := c.Do(r.ctx, t, conv, d)
	r.ok(err)
	var answer proto.Changed
	if code(f) != "" {
		r.t.Fatalf("%s: %s", t, f.D)
	}
	f.Decode(&answer)
	return answer.Head
}

// A conversation goes from agent to agent, back to the queue in front of those that came later, and is reopened after its end.
func TestTransferReturnReopen(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	moeAccount := r.account("moe", 1)
	ann, ben, lin, moe := r.customer(), r.customer(), r.agent("lin"), r.agentClient(moeAccount)
	r.ok(lin.Connected(r.ctx))
	r.ok(moe.Connected(r.ctx))
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	second := r.open(ben, "human")
	r.other(ben, position(1))
	head := r.headOf(lin, "conv.close", r.closedOne(lin), proto.Close{})
	if head.State != string(store.Closed) {
		t.Fatalf("%+v", head)
	}

	taken := r.event(lin, conv, change("taken"))
	var was proto.StateChange
	taken.Decode(&was)
	offered := r.headOf(lin, "transfer", conv, proto.Transfer{Agent: moeAccount.ID, Note: "she wants a refund", Rev: was.Rev})
	if offered.Owner.ID != lin.Me().ID || offered.Rev != was.Rev {
		t.Fatalf("offered: %+v", offered)
	}
	moved := r.headOf(moe, "transfer.accept", conv, proto.Accept{})
	if moved.Owner == nil || moved.Owner.ID != moeAccount.ID || moved.Rev != was.Rev+1 || moved.Epoch != was.Epoch+1 {
		t.Fatalf("transferred: %+v", moved)
	}
	for _, c := range []*desktest.Client{ann, lin, moe} {
		var s proto.StateChange
		r.event(c, conv, change("transferred")).Decode(&s)
		if s.Was == nil || s.Was.Name != "lin" || s.Owner.Name != "moe" {
			t.Errorf("told %+v", s)
		}
	}
	r.event(moe, conv, body("she wants a refund"))
	if got := r.do(lin, "msg.send", conv, proto.Send{ClientID: newClientID(), Body: "am I still here?"}); got != proto.CodeForbidden {
		t.Errorf("the former owner speaks: %q", got)
	}
	moe.Send(conv, "hello, I am Moe")
	r.event(ann, conv, body("hello, I am Moe"))

	back := r.headOf(moe, "return", conv, proto.Return{Note: "not mine", Rev: moved.Rev})
	if back.State != string(store.Queued) || back.Owner != nil {
		t.Fatalf("returned: %+v", back)
	}
	r.event(moe, conv, change("returned"))
	r.other(ben, position(2)) // ann is in front again
	if got := r.headOf(moe, "take", second, proto.Take{}); got.State != string(store.Assigned) {
		t.Fatalf("%+v", got)
	}
	r.ok(lin.Take(r.ctx, conv))
	if got := r.do(lin, "transfer", conv, proto.Transfer{Agent: moeAccount.ID}); got != proto.CodeForbidden {
		t.Errorf("to an agent at capacity: %q", got)
	}
	r.ok(lin.EndConv(r.ctx, conv, "done"))
	again := r.headOf(lin, "reopen", conv, proto.Reopen{})
	if again.State != string(store.Queued) || again.Closed != 0 || again.Reason != "" {
		t.Fatalf("reopened: %+v", again)
	}
	r.event(ann, conv, change("reopened"))
	r.ok(ann.EndConv(r.ctx, conv, "enough"))
	ann.Send(conv, "no, one thing more")
	r.ok(ann.Flushed(r.ctx))
	said := r.event(ann, conv, body("no, one thing more"))
	if acks := ann.Acks(); len(acks) != 1 || acks[0].S != said.S {
		t.Errorf("acknowledged %+v, the message has %d", acks, said.S)
	}
	r.checkView(ann, conv, store.CustomerSide)
}

// closedOne opens a conversation of another customer that the agent takes.
func (r *rig) closedOne(agent *desktest.Client) string {
	r.t.Helper()
	conv := r.open(r.customer(), "human")
	r.ok(agent.Take(r.ctx, conv))
	return conv
}

func TestStaffCommandsRefuse(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, lin, moe := r.customer(), r.agent("lin"), r.agent("moe")
	conv, waiting := r.open(ann, "human"), r.open(r.customer(), "human")
	r.ok(lin.Take(r.ctx, conv))
	me := lin.Me().ID
	for name, c := range map[string]struct {
		who  *desktest.Client
		t    string
		conv string
		d    any
		want proto.Code
	}{
		"customer transfers":         {ann, "transfer", conv, proto.Transfer{Agent: me}, proto.CodeForbidden},
		"customer returns":           {ann, "return", conv, proto.Return{}, proto.CodeForbidden},
		"customer uses reopen":       {ann, "reopen", conv, proto.Reopen{}, proto.CodeForbidden},
		"customer notes":             {ann, "note.send", conv, proto.Note{ClientID: newClientID(), Body: "x"}, proto.CodeForbidden},
		"another agent transfers":    {moe, "transfer", conv, proto.Transfer{Agent: me}, proto.CodeForbidden},
		"another agent returns":      {moe, "return", conv, proto.Return{}, proto.CodeForbidden},
		"to an unknown agent":        {lin, "transfer", conv, proto.Transfer{Agent: "nobody"}, proto.CodeNotFound},
		"to an unknown group":        {lin, "transfer", conv, proto.Transfer{Group: "nowhere"}, proto.CodeNotFound},
		"to oneself":                 {lin, "transfer", conv, proto.Transfer{Agent: me}, proto.CodeConflict},
		"stale transfer":             {lin, "transfer", conv, proto.Transfer{Group: "", Agent: me, Rev: 1}, proto.CodeConflict},
		"stale return":               {lin, "return", conv, proto.Return{Rev: 1}, proto.CodeConflict},
		"stale take":                 {moe, "take", waiting, proto.Take{Rev: 7}, proto.CodeConflict},
		"stale reopen":               {moe, "reopen", conv, proto.Reopen{Rev: 1}, proto.CodeConflict},
		"return of a waiting one":    {lin, "return", waiting, proto.Return{}, proto.CodeConflict},
		"reopen of an open one":      {lin, "reopen", waiting, proto.Reopen{}, proto.CodeConflict},
		"note in an unknown one":     {lin, "note.send", "nope", proto.Note{ClientID: newClientID(), Body: "x"}, proto.CodeNotFound},
		"transfer of an unknown one": {lin, "transfer", "nope", proto.Transfer{Agent: me}, proto.CodeNotFound},
	} {
		f, err := c.who.Do(r.ctx, c.t, c.conv, c.d)
		r.ok(err)
		if got := code(f); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		var e proto.Error
		f.Decode(&e)
		if c.want == proto.CodeConflict && (e.Head == nil || e.Head.ID != c.conv) {
			t.Errorf("%s: head %+v", name, e.Head)
		}
	}
}

// Notes are in the staff stream only: the customer's stays without gaps, live and after a resume.
func TestNotesStayWithStaff(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	boss, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: "moe", Name: "moe", Password: "x", Role: perm.Supervisor})
	r.ok(err)
	ann, lin, moe := r.customer(), r.agent("lin"), r.agentClient(boss)
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	note := proto.Note{ClientID: newClientID(), Body: "a secret"}
	for i, who := range []*desktest.Client{lin, lin, moe} { // the second is the same again
		f, err := who.Do(r.ctx, "note.send", conv, note)
		r.ok(err)
		var ack proto.Ack
		f.Decode(&ack)
		if want := []uint64{3, 3, 4}[i]; ack.S != want || ack.Dup != (i == 1) {
			t.Errorf("note %d: %s", i, f.D)
		}
	}
	r.event(lin, conv, body("a secret"))
	lin.Send(conv, "visible")
	r.event(ann, conv, body("visible"))
	ann.Break()
	lin.Send(conv, "after the resume")
	r.event(ann, conv, body("after the resume"))
	r.checkView(ann, conv, store.CustomerSide)
	for _, f := range ann.View(conv) {
		if body("a secret")(f) {
			t.Fatal("the customer sees the note")
		}
	}
	r.event(lin, conv, body("after the resume"))
	r.checkView(lin, conv, store.StaffSide)
}
