package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/store"
)

const annsMail = "ann@example.com"

func leave(c store.Contact, body string) store.LeftMessage {
	return store.LeftMessage{Open: store.Open{Contact: c, Page: "https://shop.example/a"}, ClientID: uuid.NewString(), Name: "Ann", Email: annsMail, Body: body}
}

func (r *rig) leftMessages() []store.Conversation {
	r.t.Helper()
	all, n, err := r.Cold().LeftMessages(r.t.Context(), 10)
	r.must(err)
	if queue, _, err := r.Cold().Queue(r.t.Context(), 10); err != nil || n != len(all) {
		r.t.Errorf("%d of %d left messages, %d wait, %v", len(all), n, len(queue), err)
	}
	return all
}

// A message is left in a conversation of the bot, in one that waits, in a new one and in one where one was left before; never in the queue.
func testLeftMessage(t *testing.T, r *rig) {
	ann, ben, cid := r.visitor(), r.visitor(), r.visitor()
	bots, waits := r.open(ann, false), r.open(ben, true)
	for name, c := range map[string]struct {
		contact store.Contact
		conv    string
		events  int
	}{"with the bot": {ann, bots.ID, 2}, "waits": {ben, waits.ID, 2}, "none": {cid, "", 2}} {
		cmd := leave(c.contact, "Where is my parcel?")
		out := r.do(cmd)
		e := out.Events
		if c.conv != "" && out.Conv.ID != c.conv || len(e) != c.events || e[0].Change.State != store.Deferred || e[1].Body != cmd.Body || e[1].From.ID != c.contact.ID {
			t.Errorf("%s: %+v", name, out)
		}
		head := r.head(out.Conv.ID)
		if head != out.Conv || head.State != store.Deferred || head.ReplyTo != annsMail || head.QueuedAt != 0 || head.WaitingSince == 0 || head.Abandoned || head.ContactName != "Ann" {
			t.Errorf("%s: %+v", name, head)
		}
		again := r.do(cmd)
		if !again.Dup || again.Conv.ID != head.ID || again.Events[0].ID != e[1].ID || r.head(head.ID) != head {
			t.Errorf("%s, once more: %+v", name, again)
		}
		contact, err := r.Cold().Contact(t.Context(), c.contact.ID)
		if err != nil || contact.Name != "Ann" || contact.Attributes["email"] != annsMail {
			t.Errorf("%s: contact %+v %v", name, contact, err)
		}
	}
	if all := r.leftMessages(); len(all) != 3 {
		t.Errorf("left messages: %+v", all)
	}
	if first, n, err := r.Cold().LeftMessages(t.Context(), 1); err != nil || len(first) != 1 || n != 3 {
		t.Errorf("the first of them: %+v of %d, %v", first, n, err)
	}
	if queue, n, err := r.Cold().Queue(t.Context(), 10); err != nil || len(queue) != 0 || n != 0 {
		t.Errorf("the queue has %+v of %d, %v", queue, n, err)
	}
	other := leave(ann, "And my invoice?")
	other.Name, other.Email = "", "second@example.com"
	if out := r.do(other); len(out.Events) != 1 || out.Conv.ID != bots.ID || out.Conv.ReplyTo != other.Email || out.Conv.ContactName != "Ann" {
		t.Errorf("another one: %+v", out)
	}
	if out := r.do(text(bots.ID, ann.Actor(), "hello?")); out.Conv.State != store.Deferred || out.Turn != "" {
		t.Errorf("she writes on: %+v", out)
	}
	if row := r.report(store.ReportQuery{By: store.ByAll})[0]; row.Opened != 3 || row.Arrived != 1 || row.Abandoned != 0 || row.Handoff != 1 || row.Wait.N != 0 {
		t.Errorf("counted: %+v", row)
	}
}

// What is wrong with a message that is left is told, and nothing is changed.
func testLeftMessageRefused(t *testing.T, r *rig) {
	ann := r.visitor()
	field := func(edit func(*store.LeftMessage)) string {
		t.Helper()
		cmd := leave(ann, "x")
		edit(&cmd)
		out := r.try(cmd)
		e, ok := errors.AsType[*store.FieldError](out.Err)
		if !ok || len(out.Events) != 0 {
			t.Errorf("%+v: %v", cmd, out.Err)
			return ""
		}
		return e.Field + " " + e.Why
	}
	for want, edit := range map[string]func(*store.LeftMessage){
		"email is required":               func(c *store.LeftMessage) { c.Email = "" },
		"email must be an e-mail address": func(c *store.LeftMessage) { c.Email = "ann" },
		"email must be one line of text":  func(c *store.LeftMessage) { c.Email = "a@b.c\r\nBcc: x@y.z" },
		"email is over 254 bytes":         func(c *store.LeftMessage) { c.Email = strings.Repeat("a", 250) + "@b.cd" },
		"name is over 100 characters":     func(c *store.LeftMessage) { c.Name = strings.Repeat("é", 101) },
	} {
		if got := field(edit); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if all, err := r.Hot().OfContact(t.Context(), ann.ID); err != nil || len(all) != 0 {
		t.Errorf("refusals have left %+v, %v", all, err)
	}
	demo := r.site
	r.site = r.newSite(store.Site{Key: "asks", Name: "Asks", Settings: store.SiteSettings{
		Consent: "We keep this.", PreChat: []store.Field{{Name: "email", Label: "E-mail", Type: "email", Required: true}, {Name: "order", Label: "Order", Type: "text", Required: true}},
	}})
	eve := r.visitor()
	r.site = demo
	asked := leave(eve, "x")
	if out := r.try(asked); out.Err == nil || out.Err.Error() != "store: field order is required" {
		t.Errorf("a question that was not answered: %v", out.Err)
	}
	asked.Fields = map[string]string{"order": "17"}
	if out := r.try(asked); out.Err == nil || out.Err.Error() != "store: field consent is required" {
		t.Errorf("without the consent: %v", out.Err)
	}
	asked.Consent = true
	conv := r.do(asked).Conv
	if c, err := r.Cold().Contact(t.Context(), eve.ID); err != nil || c.Attributes["order"] != "17" || c.Attributes["email"] != annsMail {
		t.Errorf("answers: %+v %v", c, err)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	if out := r.refused(leave(eve, "x"), store.ErrConflict); out.Conv.State != store.Assigned {
		t.Errorf("while an agent has it: %+v", out.Conv)
	}
	_, err := r.BlockContact(t.Context(), ann.ID, true)
	r.must(err)
	r.refused(leave(ann, "x"), store.ErrBlocked)
	r.refused(store.Move{Conv: conv.ID, Trigger: store.LeaveMessage, By: eve.Actor()}, store.ErrConflict)
}

// A left message is taken, answered and closed like any other; it waits among the left ones again if its agent lets go of it. Its customer may ask
// for a person instead, and is not given up for that. Afterwards it is deleted like every closed one.
func testLeftMessageAnswered(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.do(leave(ann, "Where is my parcel?")).Conv
	move := func(trigger store.Trigger, by store.Actor, want store.State) store.Conversation {
		t.Helper()
		out := r.do(store.Move{Conv: conv.ID, Trigger: trigger, By: by})
		if out.Conv.State != want || out.Conv.ReplyTo != annsMail {
			t.Errorf("%s: %+v", trigger, out.Conv)
		}
		return out.Conv
	}
	if access, err := r.Cold().Access(t.Context(), store.Scope{Agent: r.moe.ID}, conv.ID); err != nil || access != store.OwnAccess {
		t.Errorf("an agent may read it: %v, %v", access, err)
	}
	listed, _, err := r.Cold().History(t.Context(), store.Scope{Agent: r.moe.ID}, store.Filter{State: store.Deferred}, "", 10)
	if err != nil || len(listed) != 1 {
		t.Errorf("in the list of their state: %+v, %v", listed, err)
	}
	move(store.TakeOver, r.lin.Actor(), store.Assigned)
	move(store.OwnerGone, system, store.Deferred)
	move(store.TakeOver, r.lin.Actor(), store.Assigned)
	move(store.Return, r.lin.Actor(), store.Deferred)
	if c := move(store.Handoff, ann.Actor(), store.Queued); c.QueuedAt == 0 {
		t.Errorf("in the queue: %+v", c)
	}
	if c := move(store.Abandon, system, store.Deferred); c.Abandoned || c.QueuedAt != 0 {
		t.Errorf("its customer went: %+v", c)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.Assign, By: r.moe.Actor(), To: r.lin.ID, Force: true})
	r.do(text(conv.ID, r.lin.Actor(), "On its way."))
	if row := r.report(store.ReportQuery{By: store.ByAll})[0]; row.Abandoned != 0 || row.Wait.N != 0 || row.First.N != 1 {
		t.Errorf("counted: %+v", row)
	}
	move(store.AgentClose, r.lin.Actor(), store.Closed)
	if own, err := r.Hot().OfContact(t.Context(), ann.ID); err != nil || len(own) != 1 || own[0].ID != conv.ID {
		t.Errorf("she comes back to %+v, %v", own, err)
	}
	move(store.ReopenToQueue, r.moe.Actor(), store.Deferred)
	_, err = r.BlockContact(t.Context(), ann.ID, true)
	r.must(err)
	move(store.Block, system, store.Closed)
	if len(r.leftMessages()) != 0 {
		t.Error("it is still among the left messages")
	}
	r.later(48 * time.Hour)
	if d, err := r.DropClosed(t.Context(), r.site.ID, time.Now().Add(24*time.Hour).UnixMilli(), 100); err != nil || d.Conversations != 1 {
		t.Errorf("deleted: %+v, %v", d, err)
	}
}

// While nobody is there, no customer and no bot gets a conversation into the queue, but the bot goes on, staff are free, and who has left an address
// goes on without asking.
func testAway(t *testing.T, r *rig) {
	g := r.group("sales", r.lin)
	asked := make(map[[2]string]bool)
	away := func(site, group string) bool {
		asked[[2]string{site, group}] = true
		return true
	}
	ann, ben := r.visitor(), r.visitor()
	r.refused(store.Open{Contact: ann, Human: true, Away: away}, store.ErrAway)
	opened := r.do(store.Open{Contact: ann, Away: away})
	conv := opened.Conv
	r.refused(store.Move{Conv: conv.ID, Trigger: store.Handoff, By: ann.Actor(), Away: away}, store.ErrAway)
	r.refused(store.BotTurn{Conv: conv.ID, Turn: opened.Turn, Say: []store.Say{{Body: "x"}}, Handoff: true, Away: away}, store.ErrAway)
	if c := r.head(conv.ID); c != conv {
		t.Fatalf("refusals left %+v", c)
	}
	said := r.do(store.Append{Conv: conv.ID, From: ann.Actor(), ClientID: uuid.NewString(), Body: "hello", Away: away})
	if out := r.do(store.BotTurn{Conv: conv.ID, Turn: opened.Turn, Say: []store.Say{{Body: "Hello!"}}, Away: away}); said.Conv.State != store.InBot || out.Conv.State != store.InBot {
		t.Errorf("the bot: %+v, %+v", said.Conv, out.Conv)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})

	bens := r.assigned(ben, r.lin)
	r.do(store.Move{Conv: bens.ID, Trigger: store.TransferGroup, By: r.lin.Actor(), Group: g.ID, Away: away})
	r.do(store.Move{Conv: bens.ID, Trigger: store.TakeOver, By: r.lin.Actor(), Away: away})
	r.do(store.Move{Conv: bens.ID, Trigger: store.AgentClose, By: r.lin.Actor(), Away: away})
	clear(asked)
	again := store.Append{Conv: bens.ID, From: ben.Actor(), ClientID: uuid.NewString(), Body: "one more thing", Away: away}
	r.refused(again, store.ErrAway)
	if !asked[[2]string{r.site.ID, g.ID}] || len(asked) != 1 {
		t.Errorf("asked about %v", asked)
	}
	r.do(store.Move{Conv: bens.ID, Trigger: store.ReopenToQueue, By: r.lin.Actor(), Away: away})
	r.do(store.Move{Conv: bens.ID, Trigger: store.CustomerClose, By: ben.Actor(), Away: away})

	left := r.do(leave(ben, "Write me, please.")).Conv
	r.refused(store.Move{Conv: left.ID, Trigger: store.Handoff, By: ben.Actor(), Away: away}, store.ErrAway)
	r.do(store.Move{Conv: left.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	r.do(store.Move{Conv: left.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	again.Conv, again.ClientID = left.ID, uuid.NewString()
	if out := r.do(again); out.Conv.State != store.Deferred || out.Conv.ReplyTo != annsMail {
		t.Errorf("who has left an address writes again: %+v", out.Conv)
	}
}
