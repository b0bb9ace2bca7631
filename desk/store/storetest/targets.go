package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// aiming makes a group that wants to give first answers within a time.
func (r *rig) aiming(in time.Duration, members ...store.AgentAccount) store.Group {
	r.t.Helper()
	g := r.group("within "+in.String(), members...)
	g.Settings.Target = in.Milliseconds()
	r.must(r.UpdateGroup(r.t.Context(), g))
	return g
}

// aimed gives the site such a group, and stops the clock.
func (r *rig) aimed(in time.Duration) store.Group {
	r.t.Helper()
	g := r.aiming(in, r.lin, r.moe)
	r.site.Group = g.ID
	r.must(r.UpdateSite(r.t.Context(), r.site))
	r.still.Store(r.now().UnixMilli())
	return g
}

// told returns what programs were told of the targets of a conversation.
func (r *rig) told(conv string) string {
	r.t.Helper()
	var types []string
	for _, row := range r.outbox(0) {
		if row.Conv == conv && strings.HasPrefix(string(row.Type), "target.") {
			types = append(types, string(row.Type))
		}
	}
	return strings.Join(types, " ")
}

// tells asks for news of a target, and expects them, "" = none.
func (r *rig) tells(conv string, want store.EventType) {
	r.t.Helper()
	before := r.told(conv)
	if want == "" {
		if out := r.refused(store.TellTarget{Conv: conv}, store.ErrConflict); out.Conv != r.head(conv) || out.Touched {
			r.t.Errorf("%+v", out)
		}
	} else if out := r.do(store.TellTarget{Conv: conv}); out.Conv != r.head(conv) || !out.Touched || len(out.Events) > 0 {
		r.t.Errorf("%+v", out)
	}
	if got := strings.TrimSpace(strings.TrimPrefix(r.told(conv), before)); got != string(want) {
		c := r.head(conv)
		r.t.Errorf("%d ms after the beginning of the wait: told %q, want %q", r.still.Load()-c.Wait(), got, want)
	}
}

// verifyTold compares what conversations say was told with what was, each once for a wait. all means that nothing
// was deleted. It returns how many that are.
func (r *rig) verifyTold(all bool) (n int) {
	r.t.Helper()
	type wait struct {
		conv  string
		since int64
		what  store.EventType
	}
	told := make(map[wait]int)
	convs := make(map[string]bool)
	for _, row := range r.outbox(0) {
		if row.Conv != "" {
			convs[row.Conv] = true
		}
		if row.Target != (store.TargetTold{}) {
			told[wait{row.Conv, row.Target.Since, row.Type}]++
			n++
		}
	}
	for w, times := range told {
		if times != 1 {
			r.t.Errorf("%s of %s, which waits since %d, was told %d times", w.what, w.conv, w.since, times)
		}
	}
	for id := range convs {
		c, err := r.Cold().Conversation(r.t.Context(), id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		r.must(err)
		if c.QueuedAt != c.Wait() {
			continue // it was taken from the bot: it waits since then, and not since the wait's name says
		}
		warned, missed := told[wait{id, c.QueuedAt, store.EventTargetWarned}], told[wait{id, c.QueuedAt, store.EventTargetMissed}]
		if noted := c.Told.Missed == c.Wait(); noted != (missed == 1) && (all || !noted) {
			r.t.Errorf("%+v: told that the target is missed %d times", c, missed)
		}
		if noted := c.Told.Warned == c.Wait(); noted != (warned+missed > 0) && (all || !noted) {
			r.t.Errorf("%+v: told that the target is missed %d times, warned of that %d times", c, missed, warned)
		}
	}
	return n
}

// testTargets: half of the time and the end of it are told once, with the group, its time and since when the customer
// waits, whatever becomes of the conversation. A new wait is told anew.
func testTargets(t *testing.T, r *rig) {
	g := r.aimed(time.Minute)
	ann := r.visitor()
	conv := r.open(ann, true)
	at := func(d time.Duration) { r.still.Store(conv.QueuedAt + d.Milliseconds()) }
	at(30*time.Second - 1*time.Millisecond)
	r.tells(conv.ID, "")
	at(30 * time.Second)
	r.tells(conv.ID, store.EventTargetWarned)
	r.tells(conv.ID, "")
	at(time.Minute)
	r.tells(conv.ID, "")
	at(time.Minute + time.Millisecond)
	r.tells(conv.ID, store.EventTargetMissed)
	rows := r.outbox(0)
	for _, row := range rows[len(rows)-2:] {
		want := store.TargetTold{Group: g.ID, In: time.Minute.Milliseconds(), Since: conv.QueuedAt}
		if row.Target != want || row.Site != r.site.ID || row.Contact != ann.ID || row.Event != 0 || row.ID == "" {
			t.Errorf("%+v", row)
		}
	}
	at(time.Hour)
	r.tells(conv.ID, "")
	other := r.aiming(time.Second, r.moe) // a shorter target, but the same wait
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	r.do(store.Move{Conv: conv.ID, Trigger: store.TransferGroup, By: r.lin.Actor(), Group: other.ID})
	r.tells(conv.ID, "")
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.moe.Actor()})
	r.do(text(conv.ID, r.moe.Actor(), "at last"))
	r.do(store.Move{Conv: conv.ID, Trigger: store.Return, By: r.moe.Actor()}) // it has had its first answer
	r.tells(conv.ID, "")
	r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	r.tells(conv.ID, "")
	if got := r.told(conv.ID); got != "target.warned target.missed" {
		t.Errorf("told %q", got)
	}
	r.still.Add(1)
	again := r.do(text(conv.ID, ann.Actor(), "one more thing")).Conv
	r.still.Store(again.QueuedAt + time.Second.Milliseconds())
	r.tells(conv.ID, store.EventTargetWarned)
	r.still.Add(1)
	r.tells(conv.ID, store.EventTargetMissed)
	if n := r.verifyTold(true); n != 4 {
		t.Errorf("%d were told", n)
	}
	r.refused(store.TellTarget{Conv: "nope"}, store.ErrNotFound)
}

// testTargetsAtLast: a target that was missed before anybody told so is told with what ends the wait: a late first
// answer, in front of its message, or a customer who leaves the queue. In time, nothing is told, and nothing twice.
func testTargetsAtLast(t *testing.T, r *rig) {
	r.aimed(time.Minute)
	lin := r.lin.Actor()
	answer := func(c store.Conversation) {
		r.do(store.Move{Conv: c.ID, Trigger: store.TakeOver, By: lin})
		r.do(text(c.ID, lin, "hello"))
		r.do(text(c.ID, lin, "how can I help?"))
		r.tells(c.ID, "")
		r.do(store.Move{Conv: c.ID, Trigger: store.AgentClose, By: lin})
	}
	leave := func(c store.Conversation) { r.do(store.Move{Conv: c.ID, Trigger: store.Abandon, By: system}) }
	snoozed := func(c store.Conversation) {
		r.do(store.Move{Conv: c.ID, Trigger: store.TakeOver, By: lin})
		r.do(store.Snooze{Conv: c.ID, By: lin, Until: r.now().Add(time.Hour).UnixMilli()})
		r.tells(c.ID, "")
		r.do(text(c.ID, lin, "hello"))
		r.do(store.Move{Conv: c.ID, Trigger: store.AgentClose, By: lin})
	}
	const missed, late = "target.missed", time.Minute + time.Millisecond
	for name, c := range map[string]struct {
		after time.Duration
		asks  bool // news of the target are asked for before
		end   func(store.Conversation)
		want  string
	}{
		"answered in time": {time.Minute, false, answer, ""}, "answered late": {late, false, answer, missed}, "told before": {late, true, answer, missed},
		"left in time": {time.Minute, false, leave, ""}, "left late": {late, false, leave, missed}, "left and told before": {late, true, leave, missed},
		"answered while aside":     {late, false, snoozed, missed},
		"answered while warned of": {time.Minute, true, answer, "target.warned"},
	} {
		conv := r.open(r.visitor(), true)
		r.still.Add(c.after.Milliseconds())
		if c.asks {
			r.do(store.TellTarget{Conv: conv.ID})
		}
		c.end(conv)
		r.tells(conv.ID, "")
		if got := r.told(conv.ID); got != c.want {
			t.Errorf("%s: told %q, want %q", name, got, c.want)
		}
		if c.want == missed && !c.asks {
			r.inFront(conv.ID)
		}
	}
	r.verifyTold(true)
	for _, end := range []store.Move{{Trigger: store.CustomerClose}, {Trigger: store.Block, By: lin}} { // as in reports
		ann := r.visitor()
		conv := r.assigned(ann, r.lin)
		r.still.Add(late.Milliseconds())
		if end.Conv = conv.ID; end.By.IsZero() {
			end.By = ann.Actor()
		}
		if r.do(end); r.told(conv.ID) != "" {
			t.Errorf("%s: told %q", end.Trigger, r.told(conv.ID))
		}
	}
}

// inFront checks that a missed target is told in front of the change that has ended the wait.
func (r *rig) inFront(conv string) {
	r.t.Helper()
	rows := slices.DeleteFunc(r.outbox(0), func(row store.OutboxRow) bool { return row.Conv != conv })
	i := slices.IndexFunc(rows, func(row store.OutboxRow) bool { return row.Type == store.EventTargetMissed })
	if i < 0 || i+1 == len(rows) || rows[i+1].Type != store.EventMessage && rows[i+1].Type != store.EventClosed {
		r.t.Errorf("%+v", rows)
	}
}

// testTargetsLookAway: nothing is told of customers who wait for nobody, and of groups without a target. What was told
// is not told later.
func testTargetsLookAway(t *testing.T, r *rig) {
	nobody := r.open(r.visitor(), true) // has no group
	g := r.aimed(time.Minute)
	lin := r.lin.Actor()
	unheard := r.open(r.visitor(), true)
	r.still.Add(time.Hour.Milliseconds())
	r.do(store.TellTarget{Conv: unheard.ID})
	r.tells(unheard.ID, "")
	bot := r.open(r.visitor(), false)
	left := r.do(leave(r.visitor(), "later")).Conv
	closed := r.assigned(r.visitor(), r.lin)
	r.do(store.Move{Conv: closed.ID, Trigger: store.AgentClose, By: lin})
	silent := r.open(r.visitor(), false)
	r.do(store.Move{Conv: silent.ID, Trigger: store.TakeOver, By: r.moe.Actor()})
	aside := r.assigned(r.visitor(), r.lin)
	r.do(store.Snooze{Conv: aside.ID, By: lin, Until: r.now().Add(24 * time.Hour).UnixMilli()})
	r.still.Add(time.Hour.Milliseconds())
	for name, c := range map[string]store.Conversation{"no group": nobody, "with the bot": bot, "a left message": left, "closed": closed, "silent": silent, "aside": aside} {
		if r.tells(c.ID, ""); r.told(c.ID) != "" {
			t.Errorf("%s: told %q", name, r.told(c.ID))
		}
	}
	r.do(store.Snooze{Conv: aside.ID, By: lin})
	r.tells(aside.ID, store.EventTargetMissed) // the time has gone on
	r.do(store.Move{Conv: left.ID, Trigger: store.TakeOver, By: lin})
	r.tells(left.ID, "") // the answer to a left message is wanted from now on
	r.still.Add((30 * time.Second).Milliseconds())
	r.tells(left.ID, store.EventTargetWarned)
	r.do(store.Move{Conv: left.ID, Trigger: store.TransferAgent, By: lin, To: r.moe.ID})
	r.still.Add((30 * time.Second).Milliseconds())
	r.tells(left.ID, "") // moe has it for half of the time, which was told
	r.still.Add((30 * time.Second).Milliseconds() + 1)
	r.tells(left.ID, store.EventTargetMissed)
	g.Settings.Target = 0
	r.must(r.UpdateGroup(t.Context(), g))
	free := r.open(r.visitor(), true)
	r.still.Add(time.Hour.Milliseconds())
	if r.tells(free.ID, ""); r.told(free.ID) != "" || r.told(unheard.ID) != string(store.EventTargetMissed) {
		t.Errorf("told %q, %q", r.told(free.ID), r.told(unheard.ID))
	}
}
