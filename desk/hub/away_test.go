package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/hours"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// between returns hours that are open from some minutes after now until some minutes after now, in a zone where it is about noon.
func (c *alarmClock) between(from, to int) hours.Hours {
	now := c.now().UTC()
	ahead := 12 - now.Hour() // hours
	zone := fmt.Sprintf("Etc/GMT%+d", -ahead)
	clock := func(minutes int) string {
		return now.Add(time.Duration(ahead)*time.Hour + time.Duration(minutes)*time.Minute).Format("15:04")
	}
	day := clock(from) + "-" + clock(to)
	return hours.Hours{Zone: zone, Week: [7]string(slices.Repeat([]string{day}, 7))}
}

// lineTold returns what a customer knows of its counter.
func lineTold(c *desktest.Client) (away proto.Away) {
	if w, _ := c.Welcome(); w.Away != nil {
		away = *w.Away
	}
	for _, f := range c.Others() {
		if f.T == "ev.away" {
			away = proto.Away{}
			f.Decode(&away)
		}
	}
	return away
}

func (r *routeRig) isTold(c *desktest.Client, reason string) {
	r.t.Helper()
	r.waitFor("the customer to be told "+reason, func() bool { return lineTold(c).Reason == reason })
}

// leaves leaves a message and returns the conversation and the error.
func (r *routeRig) leaves(c *desktest.Client, text string) (conv string, e proto.Error) {
	r.t.Helper()
	f, err := c.Do(r.ctx, "conv.leave", "", proto.Leave{ClientID: newClientID(), Name: "Ann", Email: "ann@example.com", Body: text})
	r.ok(err)
	if f.T == "err" {
		f.Decode(&e)
	}
	return f.C, e
}

// handsOff asks for a person and returns the error.
func (r *routeRig) handsOff(c *desktest.Client, conv string) (e proto.Error) {
	r.t.Helper()
	f, err := c.Do(r.ctx, "conv.handoff", conv, proto.Handoff{})
	r.ok(err)
	if f.T == "err" {
		f.Decode(&e)
	}
	return e
}

// sets changes the settings of the site as the administration does.
func (r *routeRig) sets(s store.SiteSettings) {
	r.t.Helper()
	r.site.Settings = s
	r.ok(r.db.UpdateSite(r.ctx, r.site))
	r.settled()
	r.turned()
}

// The whole story of an evening: the bot works, nobody is there, a message is left, taken in the morning and answered.
func TestLeftMessageStory(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	r.started()
	r.sets(store.SiteSettings{Hours: r.clock.between(10, 60)})
	lin := r.on("lin", 5)
	auditor := r.agentClient(r.staff("ada", 0, perm.Auditor))
	r.ok(auditor.Connected(r.ctx))
	ann := r.customer()
	r.ok(ann.Connected(r.ctx))
	opens := r.clock.now().Add(10 * time.Minute).Truncate(time.Minute)
	if away := lineTold(ann); away.Reason != awayHours || away.Opens != opens.UnixMilli() {
		t.Fatalf("the welcome says %+v, it opens at %s", away, opens)
	}

	conv := r.open(ann, "bot")
	r.event(ann, conv, fromBot)
	if e := r.handsOff(ann, conv); e.Code != proto.CodeBusy || e.Reason != reasonAway || e.RetryMS == 0 {
		t.Errorf("asking for a person: %+v", e)
	}
	ann.SendPayload(conv, "Talk to a person", "human")
	var said proto.Msg
	r.event(ann, conv, body(bot.NobodyThere("Talk", "en"))).Decode(&said)
	if len(said.Buttons) != 1 || said.Buttons[0].Value != bot.LeaveMessage {
		t.Errorf("the bot says %+v", said)
	}
	if c := r.conv(conv); c.State != store.InBot {
		t.Errorf("after that it is %s", c.State)
	}

	left, e := r.leaves(ann, "Where is my parcel?")
	if left != conv || e.Code != "" {
		t.Fatalf("left in %s, %+v", left, e)
	}
	r.event(ann, conv, state(store.Deferred))
	var row proto.Row
	r.other(lin, func(f desktest.Frame) bool {
		row = proto.Row{}
		f.Decode(&row)
		return f.T == "ev.conv" && f.C == conv && row.State == string(store.Deferred) && row.Preview == "Where is my parcel?"
	})
	if row.ReplyTo != "ann@example.com" || row.Contact.Name != "Ann" || row.Queued != 0 {
		t.Errorf("the row of agents: %+v", row)
	}
	for _, f := range auditor.Others() {
		if strings.Contains(string(f.D), "ann@example.com") {
			t.Errorf("the auditor reads %s", f.D)
		}
	}
	if w := r.hub.Wall(); w.Waiting != 0 || w.Bot != 0 || len(w.Queue) != 0 || w.Longest != 0 {
		t.Errorf("the wall: %+v", w)
	}
	r.still(conv, store.Deferred) // the router gives it to nobody
	r.pass(opens.Sub(r.clock.now()))
	r.isTold(ann, "")
	r.still(conv, store.Deferred)

	r.ok(lin.Take(r.ctx, conv))
	r.event(ann, conv, state(store.Assigned))
	lin.Send(conv, "It comes tomorrow.")
	r.event(ann, conv, body("It comes tomorrow."))
	r.ok(lin.EndConv(r.ctx, conv, ""))
	r.checkView(ann, conv, store.CustomerSide)
	if c := r.conv(conv); c.ReplyTo != "ann@example.com" || c.Abandoned {
		t.Errorf("in the end: %+v", c)
	}
}

// Hours that begin, end and change are told to those who are connected; who waits when they end keeps the place.
func TestHoursChangeWhileCustomersAreThere(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	r.started()
	lin := r.on("lin", 5)
	ann, conv := r.waiting()
	ben := r.customer()
	r.ok(ben.Connected(r.ctx))
	bens := r.open(ben, "bot")
	r.sets(store.SiteSettings{Hours: r.clock.between(-30, 10)})
	if away := lineTold(ann); away.Reason != "" {
		t.Errorf("while it is open: %+v", away)
	}
	r.pass(10 * time.Minute)
	r.isTold(ann, awayHours)
	r.isTold(ben, awayHours)
	r.still(conv, store.Queued)
	if e := r.handsOff(ben, bens); e.Reason != reasonAway {
		t.Errorf("asking after the end: %+v", e)
	}
	r.sets(store.SiteSettings{Hours: r.clock.between(-30, 30)})
	r.isTold(ann, "")
	if e := r.handsOff(ben, bens); e.Code != "" {
		t.Errorf("asking when the hours are longer: %+v", e)
	}
	r.group.Settings.Hours = r.clock.between(20, 40) // the group's own
	r.ok(r.db.UpdateGroup(r.ctx, r.group))
	r.isTold(ben, awayHours)
	r.isTold(ann, awayHours)

	if c, _ := r.leaves(ann, "I cannot wait."); c != conv { // and who stands behind comes forward
		t.Errorf("left in %s instead of %s", c, conv)
	}
	r.other(ben, position(1))
	r.ok(lin.Take(r.ctx, bens)) // and who has an agent keeps it
	r.still(bens, store.Assigned)
	if row := r.hub.Wall(); row.Waiting != 0 {
		t.Errorf("%d wait", row.Waiting)
	}
}

// A transfer into a group with other hours tells the customer; so does the end of that chat.
func TestLineOfATransferredChat(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	night, err := r.db.CreateGroup(r.ctx, store.Group{Name: "night", Settings: store.GroupSettings{Hours: r.clock.between(60, 90)}})
	r.ok(err)
	r.settled()
	lin := r.on("lin", 5)
	ann, conv := r.waiting()
	r.ok(lin.Take(r.ctx, conv))
	if got := r.do(lin, "transfer", conv, proto.Transfer{Group: night.ID}); got != "" {
		t.Fatal(got)
	}
	r.isTold(ann, awayHours)
	r.ok(ann.EndConv(r.ctx, conv, ""))
	r.isTold(ann, "")
	ann.Send(conv, "one more thing") // it would be the queue of the night again
	r.waitFor("the refusal", func() bool {
		return slices.ContainsFunc(ann.Refusals(), func(e proto.Error) bool { return e.Reason == reasonAway })
	})
	if c := r.conv(conv); c.State != store.Closed {
		t.Errorf("it is %s", c.State)
	}
}

// Nobody who takes chats is online: after the time of the site messages are left, until somebody comes.
func TestNobodyIsOnline(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{AwayAfter: 120_000})
	ann, conv := r.waiting()
	ben := r.customer()
	bens := r.open(ben, "bot")
	if e := lineTold(ann); e.Reason != "" {
		t.Errorf("at once: %+v", e)
	}
	r.pass(2 * time.Minute)
	r.isTold(ann, awayAbsent)
	r.isTold(ben, awayAbsent)
	if e := r.handsOff(ben, bens); e.Reason != reasonAway {
		t.Errorf("asking for a person: %+v", e)
	}
	boss := r.without("boss", perm.Supervisor) // online, and takes no chats
	r.turned()
	if e := lineTold(ann); e.Reason != awayAbsent {
		t.Errorf("with one who takes no chats: %+v", e)
	}
	lin := r.on("lin", 5)
	r.isTold(ann, "")
	r.status(lin, store.Away, true)
	r.turned()
	r.pass(119 * time.Second)
	if e := lineTold(ann); e.Reason != "" {
		t.Errorf("two minutes are not over: %+v", e)
	}
	r.status(lin, store.Online, true)
	r.turned()
	r.status(lin, store.Away, true)
	r.turned()
	r.pass(119 * time.Second)
	if e := lineTold(ann); e.Reason != "" {
		t.Errorf("somebody was there meanwhile: %+v", e)
	}
	r.pass(time.Second)
	r.isTold(ann, awayAbsent)
	r.still(conv, store.Queued)
	r.status(boss, store.Online, true)
	r.isTold(ann, "")
	if e := r.handsOff(ben, bens); e.Code != "" {
		t.Errorf("asking when somebody is there: %+v", e)
	}
}

// What was left survives a restart, is in the inbox of agents and is not given up when its customer is away; a blocked customer leaves nothing.
func TestLeftMessagesStay(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{IdleWait: 60_000, IdleBot: 60_000, IdleChat: 60_000, AwayAfter: 60_000})
	r.started()
	r.pass(time.Minute)
	ann, ben := r.customer(), r.customer()
	conv, e := r.leaves(ann, "Where is my parcel?")
	if e.Code != "" {
		t.Fatalf("%+v", e)
	}
	bens, _ := r.leaves(ben, "Hello?")
	ann.Close()
	r.stopHub()
	r.startHub()
	r.settled()
	r.started()
	r.pass(10 * time.Minute)
	r.still(conv, store.Deferred)
	lin := r.on("lin", 5)
	w, _ := lin.Welcome()
	if w.Inbox == nil || w.Inbox.Left != 2 || w.Inbox.Queued != 0 || len(w.Inbox.Rows) != 2 || w.Inbox.Rows[0].ID != conv || w.Inbox.Rows[0].State != string(store.Deferred) {
		t.Fatalf("the inbox: %+v", w.Inbox)
	}
	r.turned()
	r.still(conv, store.Deferred)
	boss := r.agentClient(r.staff("boss", 5, perm.Supervisor))
	r.ok(boss.Connected(r.ctx))
	if got := r.do(boss, "contact.block", "", proto.ContactBlock{Contact: r.conv(bens).Contact, Blocked: true}); got != "" {
		t.Fatal(got)
	}
	r.became(bens, store.Closed)

	r.ok(lin.Take(r.ctx, conv)) // and lets go of it again
	if got := r.do(lin, "return", conv, proto.Return{}); got != "" {
		t.Fatal(got)
	}
	r.still(conv, store.Deferred)
	if got := r.do(boss, "assign", conv, proto.Assign{Agent: lin.Me().ID}); got != "" {
		t.Fatal(got)
	}
	r.belongs(conv, lin)
	if w := r.hub.Wall(); w.Assigned != 1 || w.Waiting != 0 {
		t.Errorf("the wall: %+v", w)
	}
}

// The full queue of a group refuses a customer, who leaves a message instead.
func TestLeftMessageBesideAFullQueue(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual, MaxQueue: 1}, store.SiteSettings{})
	lin := r.on("lin", 5)
	_, first := r.waiting()
	ann := r.customer()
	f, err := ann.Do(r.ctx, "conv.open", "", proto.Open{Wants: "human"})
	r.ok(err)
	var e proto.Error
	if f.Decode(&e); e.Reason != "queue_full" {
		t.Fatalf("the queue is full: %+v", e)
	}
	conv, e := r.leaves(ann, "Write me, please.")
	if c := r.conv(conv); e.Code != "" || c.State != store.Deferred {
		t.Errorf("%+v, %+v", e, c)
	}
	if e := r.handsOff(ann, conv); e.Reason != "queue_full" {
		t.Errorf("asking for a person: %+v", e)
	}
	r.ok(lin.Take(r.ctx, first))
	if e := r.handsOff(ann, conv); e.Code != "" {
		t.Errorf("asking when there is room: %+v", e)
	}
	r.other(ann, position(1))
	if _, e := r.leaves(ann, ""); e.Code != proto.CodeBadRequest {
		t.Errorf("an empty message: %+v", e)
	}
	f, err = ann.Do(r.ctx, "conv.leave", "", proto.Leave{ClientID: newClientID(), Email: "nowhere", Body: "x"})
	r.ok(err)
	if f.Decode(&e); e.Code != proto.CodeBadRequest || e.Text != "field email must be an e-mail address" {
		t.Errorf("a wrong address: %+v", e)
	}
	if got := r.do(lin, "conv.leave", "", proto.Leave{ClientID: newClientID(), Email: "a@example.com", Body: "x"}); got != proto.CodeForbidden {
		t.Errorf("an agent leaves a message: %s", got)
	}
}

// Messages that are left count for the address as chats do, each conversation once.
func TestLeftMessagesOfOneAddress(t *testing.T) {
	limits := testLimits()
	limits.Chats = 2
	o := newOpener(t, limits)
	leave := func(c *rawClient) proto.Error {
		_, e := o.ask(c, "conv.leave", "", proto.Leave{ClientID: newClientID(), Email: "ann@example.com", Body: "Hello?"})
		return e
	}
	ann, ben, cid := o.on(o.site), o.on(o.site), o.on(o.site)
	conv := o.opens(ben, proto.Open{})
	for range 2 {
		for name, c := range map[string]*rawClient{"new": ann, "with the bot": ben} {
			if e := leave(c); e.Code != "" {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	if e := leave(cid); e.Code != proto.CodeRateLimited || e.Reason != reasonChats {
		t.Errorf("the third of the address: %+v", e)
	}
	if e := o.says(ben, conv); e.Code != "" {
		t.Errorf("what goes on: %+v", e)
	}
}
