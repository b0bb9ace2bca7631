package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// aside opens a conversation that lin has answered and put aside for an hour.
func (r *rig) aside() (store.Contact, store.Conversation) {
	r.t.Helper()
	ann := r.visitor()
	conv := r.open(ann, true)
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	r.do(text(conv.ID, r.lin.Actor(), "until tomorrow"))
	return ann, r.do(store.Snooze{Conv: conv.ID, By: r.lin.Actor(), Until: r.now().Add(time.Hour).UnixMilli()}).Conv
}

// active returns how many places of lin are taken.
func (r *rig) active() int {
	r.t.Helper()
	loads, err := r.Cold().Loads(r.t.Context())
	r.must(err)
	for _, l := range loads {
		if l.Agent == r.lin.ID {
			return l.Active
		}
	}
	return -1
}

// putAside returns how many conversations lin has put aside.
func (r *rig) putAside() (n int) {
	r.t.Helper()
	open, err := r.Cold().OpenConversations(r.t.Context())
	r.must(err)
	for _, c := range open {
		if c.Owner.ID == r.lin.ID && c.Snoozed() {
			n++
		}
	}
	return n
}

// testSnooze: a conversation that is put aside takes no place, and comes back by its time, its agent or its customer.
func testSnooze(t *testing.T, r *rig) {
	lin := r.lin.Actor()
	ann, conv := r.aside()
	if conv != r.head(conv.ID) || !conv.Snoozed() || conv.State != store.Assigned || !conv.Owner.Is(lin) || r.active() != 0 {
		t.Errorf("%+v, %d places", conv, r.active())
	}
	last := func() store.Event {
		all := r.events(conv.ID, store.StaffSide)
		return all[len(all)-1]
	}
	if e := last(); e.Kind != store.KindNote || e.PSeq != 0 || !e.From.Is(lin) || !strings.HasPrefix(e.Payload, store.PayloadSnoozed) {
		t.Errorf("%+v", e)
	}
	longer := r.do(store.Snooze{Conv: conv.ID, By: lin, Until: r.now().Add(2 * time.Hour).UnixMilli()})
	if !longer.Touched || longer.Conv.SnoozedUntil <= conv.SnoozedUntil || r.active() != 0 {
		t.Errorf("longer: %+v, %d places", longer, r.active())
	}
	if again := r.do(store.Snooze{Conv: conv.ID, By: lin, Until: longer.Conv.SnoozedUntil}); again.Touched || len(again.Events) > 0 {
		t.Errorf("the same: %+v", again)
	}
	r.verify(conv.ID)

	r.refused(store.Snooze{Conv: conv.ID, By: system, Seq: 1}, store.ErrConflict)
	back := r.do(store.Snooze{Conv: conv.ID, By: system, Seq: longer.Conv.LastSeq})
	if back.Conv.Snoozed() || back.Conv.WaitingSince < conv.At || r.active() != 1 || last().Payload != store.PayloadWokenByTime {
		t.Errorf("by the time: %+v, %d places, %q", back.Conv, r.active(), last().Payload)
	}
	r.do(store.Snooze{Conv: conv.ID, By: lin, Until: longer.Conv.SnoozedUntil})
	out := r.do(text(conv.ID, ann.Actor(), "one more thing"))
	if out.Conv.Snoozed() || !out.Touched || r.active() != 1 || out.Events[0].Payload != store.PayloadWokenByWord || out.Events[1].Body != "one more thing" {
		t.Errorf("by a word: %+v, %d places", out, r.active())
	}
	if e := r.events(conv.ID, store.CustomerSide); e[len(e)-1].Body != "one more thing" || e[len(e)-2].Body != "until tomorrow" {
		t.Errorf("the customer sees %+v", e)
	}
	r.do(store.Snooze{Conv: conv.ID, By: lin, Until: longer.Conv.SnoozedUntil})
	r.do(text(conv.ID, lin, "still busy"))
	if c := r.head(conv.ID); !c.Snoozed() {
		t.Error("the agent's own word has brought it back")
	}
	if c := r.do(store.Snooze{Conv: conv.ID, By: lin}).Conv; c.Snoozed() || c.WaitingSince != 0 || r.active() != 1 {
		t.Errorf("by its agent: %+v, %d places", c, r.active())
	}
	r.verify(conv.ID)
}

// testSnoozeEnds: every change of state or owner ends it, and frees no place twice. What nobody may do is refused.
func testSnoozeEnds(t *testing.T, r *rig) {
	lin, moe := r.lin.Actor(), r.moe.Actor()
	for _, m := range []store.Move{
		{Trigger: store.AgentClose, By: lin}, {Trigger: store.Return, By: lin}, {Trigger: store.TransferAgent, By: lin, To: moe.ID},
		{Trigger: store.Block, By: moe}, {Trigger: store.TakeOver, By: moe, Force: true}, {Trigger: store.Idle, By: system},
	} {
		r.aside()
		_, conv := r.aside()
		kept := r.open(r.visitor(), true)
		r.do(store.Move{Conv: kept.ID, Trigger: store.TakeOver, By: lin})
		before := r.active()
		m.Conv = conv.ID
		if c := r.do(m).Conv; c.Snoozed() || r.active() != before {
			t.Errorf("%s: %+v, %d places, before %d", m.Trigger, c, r.active(), before)
		}
		r.verify(conv.ID)
		r.do(store.Move{Conv: kept.ID, Trigger: store.AgentClose, By: lin})
	}
	var last store.Conversation
	for r.putAside() < store.MaxSnoozed {
		_, last = r.aside()
	}
	more := r.open(r.visitor(), true)
	r.do(store.Move{Conv: more.ID, Trigger: store.TakeOver, By: lin})
	r.refused(store.Snooze{Conv: more.ID, By: lin, Until: r.now().Add(time.Hour).UnixMilli()}, store.ErrSnooze)
	r.do(store.Snooze{Conv: last.ID, By: lin, Until: r.now().Add(2 * time.Hour).UnixMilli()}) // it is one of them
	r.do(store.Snooze{Conv: last.ID, By: lin})
	r.do(store.Move{Conv: last.ID, Trigger: store.AgentClose, By: lin})
	r.do(store.Move{Conv: more.ID, Trigger: store.AgentClose, By: lin})
	ann, conv := r.aside()
	in := func(d time.Duration) int64 { return r.now().Add(d).UnixMilli() }
	r.refused(store.Snooze{Conv: conv.ID, By: moe}, store.ErrForbidden)
	r.refused(store.Snooze{Conv: conv.ID, By: ann.Actor()}, store.ErrForbidden)
	r.refused(store.Snooze{Conv: conv.ID, By: system, Until: in(time.Hour)}, store.ErrForbidden)
	r.refused(store.Snooze{Conv: conv.ID, By: lin, Until: in(store.MinSnooze - time.Second)}, store.ErrSnooze)
	r.refused(store.Snooze{Conv: conv.ID, By: lin, Until: in(store.MaxSnooze + time.Second)}, store.ErrSnooze)
	r.refused(store.Snooze{Conv: "nope", By: lin}, store.ErrNotFound)
	if c := r.do(store.Snooze{Conv: conv.ID, By: moe, Force: true}).Conv; c.Snoozed() || !c.Owner.Is(lin) {
		t.Errorf("a supervisor: %+v", c)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	r.refused(store.Snooze{Conv: conv.ID, By: lin, Until: in(time.Hour)}, store.ErrClosed)
	waits := r.open(r.visitor(), true)
	r.refused(store.Snooze{Conv: waits.ID, By: lin, Until: in(time.Hour)}, store.ErrConflict)
}
