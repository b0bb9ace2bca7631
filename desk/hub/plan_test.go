package hub

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// started lets the grace after the start go by, in which no timer acts.
func (r *routeRig) started() { r.pass(time.Minute) }

// An agent that does not answer in time loses the conversation to another one; who misses two in a row is away.
func TestNoAnswer(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Accept: 30_000}, store.SiteSettings{})
	r.started()
	lin := r.on("lin", 9)
	ann, conv := r.waiting()
	queued := r.conv(conv).QueuedAt
	r.belongs(conv, lin)
	r.pass(29 * time.Second)
	r.belongs(conv, lin)
	moe := r.on("moe", 1)
	r.pass(time.Second)
	r.belongs(conv, moe) // lin is excluded, though it is there and has less to do
	var back proto.StateChange
	r.event(ann, conv, change("returned")).Decode(&back)
	if back.By.Kind != "system" || back.Reason != reasonNoAnswer || back.Was == nil || back.Was.Name != "lin" || r.conv(conv).QueuedAt != queued {
		t.Errorf("%+v", back)
	}
	moe.Send(conv, "hello")
	r.event(ann, conv, body("hello"))
	r.pass(time.Minute)
	r.belongs(conv, moe) // it has answered

	_, second := r.waiting() // moe is full
	r.belongs(second, lin)
	r.pass(30 * time.Second)
	r.waitFor("lin to be away", func() bool { return statusIn(r.listed(lin), "lin") == "away" })
	r.still(second, store.Queued)
	for _, m := range r.staffStored() {
		if m.Name == "lin" && (m.Status != store.Away || m.Missed != 2) {
			t.Errorf("stored: %+v", m)
		}
	}
	r.status(lin, store.Online, true)
	r.still(second, store.Queued) // lin is excluded as long as there is anybody else, be it with full hands
	r.status(moe, store.Away, true)
	r.belongs(second, lin)
}

// Only chats missed in a row make an agent away: an answer in between begins anew. Who is alone in its group gets back
// what it has missed.
func TestMissedBeginsAnew(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Accept: 30_000}, store.SiteSettings{})
	r.started()
	lin := r.on("lin", 9)
	miss := func(conv string) {
		t.Helper()
		rev := r.conv(conv).Rev
		r.pass(30 * time.Second)
		r.waitFor("the conversation to be taken away", func() bool { return r.conv(conv).Rev > rev })
	}
	ann, conv := r.waiting()
	r.belongs(conv, lin)
	miss(conv)
	r.belongs(conv, lin)
	lin.Send(conv, "sorry")
	r.event(ann, conv, body("sorry"))
	_, second := r.waiting()
	r.belongs(second, lin)
	miss(second)
	r.belongs(second, lin)
	if s := statusIn(r.listed(lin), "lin"); s != "online" {
		t.Errorf("%s after one missed since the answer", s)
	}
	miss(second)
	r.still(second, store.Queued)
	if s := statusIn(r.listed(lin), "lin"); s != "away" {
		t.Errorf("%s after two missed in a row", s)
	}
}

func (r *routeRig) staffStored() []store.StaffMember {
	r.t.Helper()
	staff, err := r.db.Cold().Staff(r.ctx)
	r.ok(err)
	return staff
}

func (r *routeRig) listed(c *desktest.Client) proto.AgentList {
	r.t.Helper()
	f, err := c.Do(r.ctx, "agents", "", proto.Agents{})
	r.ok(err)
	var l proto.AgentList
	f.Decode(&l)
	return l
}

func agentIn(l proto.AgentList, name string) proto.AgentInfo {
	for _, a := range l.Agents {
		if a.Name == name {
			return a
		}
	}
	return proto.AgentInfo{}
}

func statusIn(l proto.AgentList, name string) string { return agentIn(l, name).Status }

// An agent that is back within its grace keeps its conversations; one that stays away loses those whose customers wait.
func TestOwnerGone(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	r.started()
	account := r.staff("lin", 9, "agent")
	lin := r.agentClient(account)
	r.ok(lin.Connected(r.ctx))
	ann, asked := r.waiting()
	ben, answered := r.waiting()
	r.belongs(asked, lin)
	r.belongs(answered, lin)
	r.say(ann, asked, "are you there?")
	r.say(ben, answered, "hello")
	lin.Send(answered, "hello, how can I help?")
	r.event(ben, answered, body("hello, how can I help?"))
	moe := r.on("moe", 9)

	gone := func() {
		lin.Close()
		r.waitFor("lin to be gone", func() bool { return !agentIn(r.listed(moe), "lin").Online })
	}
	gone()
	if s := statusIn(r.listed(moe), "lin"); s != "online" {
		t.Errorf("within the grace lin is shown as %q", s)
	}
	r.status(moe, store.Busy, true)
	_, third := r.waiting()
	r.still(third, store.Queued) // nothing new for somebody who is not there
	r.status(moe, store.Online, true)
	r.belongs(third, moe)
	r.pass(59 * time.Second)
	lin = r.agentClient(account)
	r.ok(lin.Connected(r.ctx))
	r.pass(time.Minute)
	r.belongs(asked, lin)
	r.belongs(answered, lin)

	gone()
	r.pass(time.Minute)
	r.belongs(asked, moe)
	if c := r.conv(answered); c.Owner.ID != account.ID {
		t.Errorf("nobody waited in %+v", c)
	}
	if s := statusIn(r.listed(moe), "lin"); s != "offline" {
		t.Errorf("after the grace lin is shown as %q", s)
	}
	var back proto.StateChange
	r.event(ann, asked, change("returned")).Decode(&back)
	if back.Reason != reasonAgentGone {
		t.Errorf("%+v", back)
	}
	r.say(ben, answered, "still there?") // now this one waits, too
	r.belongs(answered, moe)
}

func notice(f desktest.Frame) bool {
	var m proto.Msg
	return f.T == "ev.msg" && json.Unmarshal(f.D, &m) == nil && m.Kind == "notice" && m.From.Kind == "system" && m.Payload == idleWarning
}

// Silence is followed by a warning that both sides keep, more silence by the end; a word in between begins anew.
func TestIdle(t *testing.T) {
	const minute = 60_000
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{IdleBot: 3 * minute, IdleChat: 5 * minute, WarnFor: minute})
	r.started()
	lin := r.on("lin", 9)
	ann, conv := r.waiting()
	r.belongs(conv, lin)
	r.say(ann, conv, "hello")
	r.pass(10 * time.Minute)
	r.still(conv, store.Assigned)
	if c := r.conv(conv); c.WarnedAt != 0 {
		t.Fatalf("the customer waits, that is no reason to close: %+v", c)
	}
	lin.Send(conv, "hello")
	r.event(ann, conv, body("hello"))
	r.ok(lin.Flushed(r.ctx))
	r.pass(5*time.Minute - time.Second)
	if c := r.conv(conv); c.WarnedAt != 0 {
		t.Fatalf("warned too early: %+v", c)
	}
	r.pass(time.Second)
	warned := r.event(ann, conv, notice)
	var m proto.Msg
	warned.Decode(&m)
	if m.Body != "This conversation will be closed in 1 minute unless somebody writes." {
		t.Errorf("%q", m.Body)
	}
	r.event(lin, conv, notice)
	r.pass(59 * time.Second)
	r.say(ann, conv, "wait")
	lin.Send(conv, "I do")
	r.event(ann, conv, body("I do"))
	r.pass(2 * time.Second)
	r.still(conv, store.Assigned)
	r.pass(5 * time.Minute)
	r.event(ann, conv, func(f desktest.Frame) bool { return notice(f) && f.S > warned.S })
	r.pass(time.Minute)
	c := r.became(conv, store.Closed)
	if c.CloseReason != reasonIdle || c.Abandoned {
		t.Errorf("%+v", c)
	}
	r.checkView(ann, conv, store.CustomerSide)

	ben := r.customer()
	bots := r.open(ben, "bot")
	r.event(ben, bots, fromBot)
	r.pass(3 * time.Minute)
	r.event(ben, bots, notice)
	r.pass(time.Minute)
	r.became(bots, store.Closed)
}

// A customer that leaves the queue is waited for a while; one that is there is not sent away.
func TestAbandon(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{IdleWait: 120_000})
	r.started()
	ann, anns := r.waiting()
	_, bens := r.waiting()
	token := r.visitor()
	cid := r.client(r.dialer(token))
	cids := r.open(cid, "human")
	left := func(conv string, want bool) {
		t.Helper()
		r.waitFor("the absence to be kept", func() bool { return (r.conv(conv).LeftAt != 0) == want })
	}
	ann.Close()
	cid.Close()
	left(anns, true)
	left(cids, true)
	r.pass(119 * time.Second)
	r.still(anns, store.Queued)
	cid = r.client(r.dialer(token))
	r.ok(cid.Connected(r.ctx))
	left(cids, false)
	r.pass(time.Second)
	if c := r.became(anns, store.Closed); !c.Abandoned || c.CloseReason != reasonLeft {
		t.Errorf("%+v", c)
	}
	r.pass(time.Hour / 2)
	r.still(bens, store.Queued)
	r.still(cids, store.Queued)
}

// After a restart the timers go on from what is stored, but nothing happens before everybody had time to come back.
func TestTimersAfterRestart(t *testing.T) {
	const minute = 60_000
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual, Accept: 4 * minute}, store.SiteSettings{IdleWait: 3 * minute, IdleChat: 10 * minute, WarnFor: 5 * minute})
	r.started()
	account := r.staff("lin", 9, "agent")
	lin := r.agentClient(account)
	ann, anns := r.waiting()
	_, bens := r.waiting()
	_, cids := r.waiting()
	dan, dans := r.waiting()
	r.ok(lin.Take(r.ctx, bens))
	lin.Send(bens, "hello")
	r.ok(lin.Flushed(r.ctx))
	r.pass(8 * time.Minute)
	r.ok(lin.Take(r.ctx, cids))
	r.pass(2 * time.Minute)
	r.waitFor("the warning", func() bool { return r.conv(bens).WarnedAt != 0 })
	ann.Close()
	r.waitFor("the absence to be kept", func() bool { return r.conv(anns).LeftAt != 0 })
	r.pass(time.Minute + 59*time.Second) // cid's is due in a second, ann's in a minute and a second

	r.stopHub()
	dan.Close() // too late to be kept
	r.clock.advance(30 * time.Second)
	r.startHub()
	r.turned()
	r.still(cids, store.Assigned) // overdue, but lin may be on its way
	r.pass(59 * time.Second)
	r.still(cids, store.Assigned)
	r.still(anns, store.Queued)
	r.pass(time.Second)
	if c := r.became(cids, store.Queued); c.Excluded != account.ID {
		t.Errorf("%+v", c)
	}
	r.became(anns, store.Closed)
	r.still(bens, store.Assigned)
	r.pass(91 * time.Second) // five minutes after the warning
	if c := r.became(bens, store.Closed); c.CloseReason != reasonIdle {
		t.Errorf("%+v", c)
	}
	r.still(dans, store.Queued)
	r.pass(29 * time.Second) // three minutes after the start
	r.became(dans, store.Closed)
}

// A timer whose command fails is tried again.
func TestTimerRetries(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{IdleWait: 60_000})
	r.started()
	ann, conv := r.waiting()
	ann.Close()
	r.waitFor("the absence to be kept", func() bool { return r.conv(conv).LeftAt != 0 })
	r.fault.set(func(cmd store.Command, pass func(), fail func(error)) {
		if m, ok := cmd.(store.Move); ok && m.Trigger == store.Abandon {
			fail(store.ErrUnavailable)
			return
		}
		pass()
	})
	before := r.hub.Counters.Timers.Load()
	r.pass(time.Minute)
	if n := r.hub.Counters.Timers.Load() - before; n != 1 {
		t.Fatalf("%d attempts", n)
	}
	r.still(conv, store.Queued)
	r.fault.set(nil)
	r.pass(actionRetry)
	r.became(conv, store.Closed)
}

// A setting that is changed counts for conversations that are open already.
func TestSettingsReplan(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{IdleWait: 600_000})
	r.started()
	ann, conv := r.waiting()
	ann.Close()
	r.waitFor("the absence to be kept", func() bool { return r.conv(conv).LeftAt != 0 })
	r.pass(time.Minute)
	r.still(conv, store.Queued)
	r.site.Settings.IdleWait = 60_000
	r.ok(r.db.UpdateSite(r.ctx, r.site))
	r.became(conv, store.Closed)
}

func TestInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Millisecond: "1 second", 20 * time.Second: "20 seconds", time.Minute: "1 minute", 61 * time.Second: "2 minutes", 2 * time.Hour: "120 minutes"} {
		if got := inWords(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
