package hub

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// A queue that is full says so: whoever wants a person is told to leave a message, which the bot keeps.
func TestQueueFull(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{MaxQueue: 1}, store.SiteSettings{})
	r.waiting()
	refused := func(c *desktest.Client, kind, conv string, d any) {
		t.Helper()
		f, err := c.Do(r.ctx, kind, conv, d)
		r.ok(err)
		var e proto.Error
		if f.Decode(&e); f.T != "err" || e.Code != proto.CodeBusy || e.Reason != "queue_full" || e.RetryMS < 1000 {
			t.Errorf("%s: %s", kind, f.D)
		}
	}
	ann := r.customer()
	refused(ann, "conv.open", "", proto.Open{Wants: "human"})
	conv := r.open(ann, "bot")
	r.event(ann, conv, fromBot)
	refused(ann, "conv.handoff", conv, proto.Handoff{})
	r.say(ann, conv, "please call me back")
	if c := r.conv(conv); c.State != store.InBot {
		t.Errorf("%+v", c)
	}
	ann.SendPayload(conv, "Talk to a person", "human") // the bot cannot hand over either, and says so
	r.waitFor("the bot to try", func() bool { return r.hub.Counters.BotNoPlace.Load() == 1 })
	r.still(conv, store.InBot)
	r.say(ann, conv, "are you still there?")
}

// Handing over by the customer needs the bot; a reason is kept.
func TestCustomerHandoff(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	ann, ben := r.customer(), r.customer()
	conv := r.open(ann, "bot")
	if got := r.do(ben, "conv.handoff", conv, proto.Handoff{}); got != proto.CodeNotFound {
		t.Errorf("another customer: %q", got)
	}
	if h := r.headOf(ann, "conv.handoff", conv, proto.Handoff{Reason: "a refund"}); h.State != "queued" || h.Group != r.group.ID {
		t.Errorf("%+v", h)
	}
	var s proto.StateChange
	r.event(ann, conv, change("handoff")).Decode(&s)
	if s.Reason != "a refund" || s.By.Kind != "customer" || s.Group != r.group.ID {
		t.Errorf("%+v", s)
	}
	if got := r.do(ann, "conv.handoff", conv, proto.Handoff{}); got != proto.CodeConflict {
		t.Errorf("twice: %q", got)
	}
}

func TestPace(t *testing.T) {
	var p *pace
	if p.estimate(1) != 0 {
		t.Error("something is known of a queue that nobody has left")
	}
	p = &pace{}
	now := time.Now()
	for _, s := range []int{0, 10, 1, 30, 2} { // the first is no interval
		now = now.Add(time.Duration(s) * time.Second)
		p.handedOver(now)
	}
	if got := p.estimate(1); got != 0 {
		t.Errorf("of four intervals: %v", got)
	}
	p.handedOver(now.Add(500 * time.Second))
	if got := p.estimate(3); got != 30*time.Second { // the median of 1, 2, 10, 30, 500 is 10
		t.Errorf("of five intervals: %v", got)
	}
	now = now.Add(500 * time.Second)
	for range paceSamples {
		now = now.Add(4 * time.Second)
		p.handedOver(now)
	}
	if got := p.estimate(2); got != 8*time.Second || len(p.intervals) != paceSamples {
		t.Errorf("of the latest %d: %v", len(p.intervals), got)
	}
}

// Positions count those of the same group only; the estimate comes once five hand-overs have been seen.
func TestPositionsByGroup(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	lin := r.on("lin", 100)
	grouped := r.site
	demo, err := r.db.Hot().SiteByKey(r.ctx, "demo")
	r.ok(err)
	r.site = demo
	r.waiting()
	r.site = grouped
	ann, _ := r.waiting()
	r.other(ann, position(1)) // the one before is in another queue
	for range paceMinimum + 1 {
		_, conv := r.waiting()
		r.clock.advance(10 * time.Second)
		r.ok(lin.Take(r.ctx, conv))
	}
	ben, _ := r.waiting()
	f := r.other(ben, position(2))
	var q proto.QueuePosition
	if f.Decode(&q); q.EstimateMS != 20_000 {
		t.Errorf("%+v", q)
	}
	for _, f := range ann.Others() {
		var q proto.QueuePosition
		if f.T == "ev.queue" && json.Unmarshal(f.D, &q) == nil && q.EstimateMS != 0 {
			t.Errorf("told %+v before anything was known", q)
		}
	}
	ben.Break()
	r.waitFor("the place to be told again", func() bool {
		return len(slices.DeleteFunc(ben.Others(), func(f desktest.Frame) bool { return f.T != "ev.queue" })) == 2
	})
}

// Rows say how long the customer has waited for an answer, and where it comes from.
func TestRowDetails(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	ann, conv := r.waiting()
	r.say(ann, conv, "hello")
	r.clock.advance(7 * time.Second)
	lin := r.on("lin", 100)
	w, _ := lin.Welcome()
	if len(w.Inbox.Rows) != 1 {
		t.Fatalf("%+v", w.Inbox)
	}
	if row := w.Inbox.Rows[0]; row.Waiting != 7000 || row.Site != r.site.Key || row.Locale != "en" || row.Group != r.group.ID {
		t.Errorf("%+v", row)
	}
	r.ok(lin.Take(r.ctx, conv))
	lin.Send(conv, "hello")
	r.ok(lin.Flushed(r.ctx))
	lin.Break()
	r.waitFor("the new welcome", func() bool { _, n := lin.Welcome(); return n == 2 })
	if w, _ := lin.Welcome(); w.Inbox.Rows[0].Waiting != 0 {
		t.Errorf("%+v", w.Inbox.Rows[0])
	}
}

func TestLeastBusy(t *testing.T) {
	type agent struct {
		id               string
		active, capacity int
		last             int64
	}
	for name, c := range map[string]struct {
		can  []agent
		want string
	}{
		"the smaller part of its capacity":  {[]agent{{"a", 1, 2, 1}, {"b", 3, 8, 9}}, "b"},
		"of equals, who has waited longer":  {[]agent{{"a", 2, 4, 7}, {"b", 1, 2, 5}, {"c", 4, 8, 6}}, "b"},
		"then by id":                        {[]agent{{"b", 0, 5, 0}, {"a", 0, 1, 0}}, "a"},
		"more than twenty count as twenty":  {[]agent{{"a", 2, 1000, 1}, {"b", 1, 19, 9}}, "b"},
		"a large capacity and little to do": {[]agent{{"a", 2, 1000, 1}, {"b", 1, 9, 9}}, "a"},
	} {
		active := make(map[string]int)
		var can []*member
		for _, a := range c.can {
			m := &member{}
			m.ID, m.Capacity, m.LastAssigned = a.id, a.capacity, a.last
			active[a.id] = a.active
			can = append(can, m)
		}
		if got := leastBusy(can, func(id string) int { return active[id] }); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
