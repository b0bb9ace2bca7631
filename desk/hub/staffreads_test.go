package hub

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

func (r *rig) staff(login string, role perm.Role) *desktest.Client {
	r.t.Helper()
	a, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: login, Name: login, Password: "x", Role: role})
	r.ok(err)
	return r.agentClient(a)
}

// ask runs a command that has to succeed and decodes its answer.
func ask[T any](r *rig, c *desktest.Client, t, conv string, d any) (answer T) {
	r.t.Helper()
	f, err := c.Do(r.ctx, t, conv, d)
	r.ok(err)
	if f.T != "ok" {
		r.t.Fatalf("%s %+v: %s", t, d, f.D)
	}
	f.Decode(&answer)
	return answer
}

func (r *rig) audited(action string) []store.AuditRow {
	r.t.Helper()
	rows, err := r.db.Cold().Audit(r.ctx, store.AuditQuery{Action: action})
	r.ok(err)
	return rows
}

// chat is a closed and an open conversation of one customer with lin.
type chat struct {
	ann, lin  *desktest.Client
	past, now string
	contact   string
}

func (r *rig) chat() chat {
	r.t.Helper()
	c := chat{ann: r.customer(), lin: r.agent("lin")}
	c.past = r.open(c.ann, "human")
	r.ok(c.lin.Take(r.ctx, c.past))
	r.say(c.ann, c.past, "I want a <b>refund</b> 退款")
	r.ok(c.lin.EndConv(r.ctx, c.past, "done"))
	c.now = r.open(c.ann, "human")
	r.ok(c.lin.Take(r.ctx, c.now))
	r.note(c.lin, c.now, "refund? no")
	c.contact = c.ann.Me().ID
	return c
}

func TestSearchOverTheWire(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.chat()
	kim, sue := r.agent("kim"), r.staff("sue", perm.Supervisor)
	find := func(who *desktest.Client, q string) []string {
		t.Helper()
		var got []string
		for _, h := range ask[proto.Found](r, who, "search", "", proto.Search{Q: q, Limit: 1}).Hits {
			got = append(got, h.Conv)
		}
		return got
	}
	if got := find(c.lin, "REFUND"); !slices.Equal(got, []string{c.now}) {
		t.Errorf("lin finds %v", got)
	}
	found := ask[proto.Found](r, c.lin, "search", "", proto.Search{Q: "退"})
	if len(found.Hits) != 1 || found.Cursor != "" {
		t.Fatalf("%+v", found)
	}
	if h := found.Hits[0]; h.Conv != c.past || h.S != 3 || h.Kind != "text" || h.From.Kind != "customer" || h.Snippet != "I want a <b>refund</b> 退款" ||
		h.Contact != (proto.HitContact{ID: c.contact, Name: c.ann.Me().Name}) || h.State != "closed" || h.Time == 0 {
		t.Errorf("%+v", h)
	}
	if got := find(kim, "refund"); len(got) != 0 { // both are lin's
		t.Errorf("kim finds %v", got)
	}
	if rows := r.audited(store.AuditSearch); len(rows) != 0 {
		t.Errorf("audit %+v", rows)
	}
	if got := find(sue, "refund"); !slices.Equal(got, []string{c.now}) {
		t.Errorf("sue finds %v", got)
	}
	if rows := r.audited(store.AuditSearch); len(rows) != 1 || rows[0].Who.ID != sue.Me().ID || strings.Contains(rows[0].Detail, "refund") {
		t.Errorf("audit %+v", rows)
	}
	page := ask[proto.Found](r, sue, "search", "", proto.Search{Q: "refund", Limit: 1})
	if page = ask[proto.Found](r, sue, "search", "", proto.Search{Q: "refund", Limit: 1, Cursor: page.Cursor}); len(page.Hits) != 1 || page.Hits[0].Conv != c.past {
		t.Errorf("second page %+v", page)
	}
	for _, bad := range []proto.Search{{}, {Q: "!?"}, {Q: strings.Repeat("x ", 40) + strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyz0123456789", ""), " ")}, {Q: "x", Cursor: "?"}} {
		if got := r.do(c.lin, "search", "", bad); got != proto.CodeBadRequest {
			t.Errorf("%+v: %q", bad, got)
		}
	}
	if got := r.do(c.ann, "search", "", proto.Search{Q: "refund"}); got != proto.CodeForbidden {
		t.Errorf("a customer searches: %q", got)
	}
}

// Lists have what their filter selects and the reader may read. What others have is written down.
func TestListsOverTheWire(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.chat()
	kim, sue, ada := r.agent("kim"), r.staff("sue", perm.Supervisor), r.staff("ada", perm.Auditor)
	ask[proto.Tagged](r, c.lin, "tag", c.past, proto.Tag{Add: []string{"Refund"}})
	list := func(who *desktest.Client, in proto.Filter) (ids []string) {
		t.Helper()
		for _, row := range ask[proto.Past](r, who, "history", "", proto.History{In: in}).Convs {
			ids = append(ids, row.ID)
		}
		return ids
	}
	lin := c.lin.Me().ID
	for _, in := range []proto.Filter{{State: "closed"}, {Tag: "refund"}, {Agent: lin, State: "closed"}, {Site: r.site.Key, State: "closed"}} {
		if got := list(c.lin, in); !slices.Equal(got, []string{c.past}) {
			t.Errorf("lin, %+v: %v", in, got)
		}
		if got := list(kim, in); len(got) != 0 {
			t.Errorf("kim, %+v: %v", in, got)
		}
	}
	past := ask[proto.Past](r, c.lin, "history", "", proto.History{In: proto.Filter{State: "closed"}}).Convs[0]
	if past.State != "closed" || past.Closed == 0 || past.Reason != "done" || !slices.Equal(past.Tags, []string{"Refund"}) || past.Contact.ID != c.contact || past.Preview == "" {
		t.Errorf("%+v", past)
	}
	if got := list(c.lin, proto.Filter{State: "open"}); !slices.Equal(got, []string{c.now}) {
		t.Errorf("open: %v", got)
	}
	if got := list(c.lin, proto.Filter{From: past.Opened, To: past.Opened + 1}); !slices.Contains(got, c.past) {
		t.Errorf("of its time: %v", got)
	}
	if got := list(c.lin, proto.Filter{To: past.Opened}); len(got) != 0 {
		t.Errorf("before it: %v", got)
	}
	if rows := r.audited(store.AuditSearch); len(rows) != 0 {
		t.Errorf("audit %+v", rows)
	}
	for _, who := range []*desktest.Client{sue, ada} {
		if got := list(who, proto.Filter{}); !slices.Equal(got, []string{c.now, c.past}) {
			t.Errorf("all: %v", got)
		}
	}
	if rows := r.audited(store.AuditSearch); len(rows) != 2 || rows[0].Who.ID != ada.Me().ID || rows[1].Who.ID != sue.Me().ID || rows[1].Target != "conversations" || rows[1].Detail != "2 of other agents' conversations" {
		t.Errorf("audit %+v", rows)
	}
	found := ask[proto.Found](r, c.lin, "search", "", proto.Search{Q: "refund", In: proto.Filter{State: "closed", Tag: "refund"}})
	if len(found.Hits) != 1 || found.Hits[0].Conv != c.past {
		t.Errorf("searched %+v", found)
	}
	if got := ask[proto.AgentList](r, kim, "agents", "", proto.Agents{}).Sites; !slices.Contains(got, r.site.Key) {
		t.Errorf("sites %v", got)
	}
	for _, bad := range []proto.History{{In: proto.Filter{Site: "none"}}, {In: proto.Filter{State: "gone"}}, {Cursor: "?"}} {
		if got := r.do(c.lin, "history", "", bad); got != proto.CodeBadRequest {
			t.Errorf("%+v: %q", bad, got)
		}
	}
	if got := r.do(c.ann, "history", "", proto.History{}); got != proto.CodeForbidden {
		t.Errorf("a customer lists: %q", got)
	}
}

// A list masks what its reader may not see.
func TestListsAreMasked(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.chat()
	r.say(c.ann, c.now, "call me: +49 30 1234567")
	read := func(role perm.Role) string {
		page := ask[proto.Past](r, r.staff(string(role)+"1", role), "history", "", proto.History{In: proto.Filter{State: "open"}})
		return page.Convs[0].Preview
	}
	if got := read(perm.Supervisor); !strings.Contains(got, "1234567") {
		t.Errorf("a supervisor reads %q", got)
	}
	if got := read(perm.Auditor); got == "" || strings.Contains(got, "1234567") {
		t.Errorf("an auditor reads %q", got)
	}
}

// Who reads what is another agent's is written down, once for a while; who may not, is told that there is nothing.
func TestReadingOfOthersIsAudited(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.chat()
	kim, sue, ada := r.agent("kim"), r.staff("sue", perm.Supervisor), r.staff("ada", perm.Auditor)
	if got := r.do(kim, "sync", c.now, proto.Sync{}); got != proto.CodeNotFound {
		t.Errorf("kim: %q", got)
	}
	for range 3 {
		ask[proto.Synced](r, sue, "sync", c.now, proto.Sync{})
		ask[proto.Synced](r, sue, "sync", c.past, proto.Sync{}) // closed, of no group, but lin's still
	}
	if got := r.do(kim, "sync", c.past, proto.Sync{}); got != proto.CodeNotFound {
		t.Errorf("kim, the closed one: %q", got)
	}
	ask[proto.Synced](r, ada, "sync", c.now, proto.Sync{})
	ask[proto.Past](r, ada, "history", "", proto.History{Contact: c.contact})
	var got []string
	for _, row := range r.audited(store.AuditRead) {
		got = append(got, row.Who.Name+" "+row.Target)
	}
	want := []string{"ada contact " + c.contact, "ada conversation " + c.now, "sue conversation " + c.past, "sue conversation " + c.now}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestContacts(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.chat()
	kim := r.agent("kim")
	got := ask[proto.ContactGot](r, c.lin, "contact.get", "", proto.ContactGet{Contact: c.contact})
	if got.Contact.ID != c.contact || got.Contact.Attributes == nil || got.Contact.Created == 0 || len(got.Convs) != 2 || got.Convs[0].ID != c.now || got.Cursor != "" {
		t.Fatalf("%+v", got)
	}
	if past := got.Convs[1]; past.ID != c.past || past.Closed == 0 || past.Reason != "done" || past.State != "closed" || past.Contact.Name == "" {
		t.Errorf("%+v", past)
	}
	if got := ask[proto.Past](r, kim, "history", "", proto.History{Contact: c.contact}); len(got.Convs) != 0 {
		t.Errorf("kim sees %+v", got)
	}
	if got := r.do(kim, "history", "", proto.History{Contact: c.contact, Cursor: "?"}); got != proto.CodeBadRequest {
		t.Errorf("a wrong cursor: %q", got)
	}
	stranger := r.customer()
	r.ok(stranger.Connected(r.ctx))
	for _, id := range []string{stranger.Me().ID, "nobody"} { // nothing of it may be seen
		for _, try := range []struct {
			t string
			d any
		}{{"contact.get", proto.ContactGet{Contact: id}}, {"contact.patch", proto.ContactPatch{Contact: id, Name: "x"}}} {
			if got := r.do(c.lin, try.t, "", try.d); got != proto.CodeNotFound {
				t.Errorf("%s of a stranger: %q", try.t, got)
			}
		}
	}
	changed := ask[proto.ContactChanged](r, c.lin, "contact.patch", "", proto.ContactPatch{Contact: c.contact, Name: " Ann Lee ", Attributes: map[string]string{"email": "a@b.c"}})
	if changed.Contact.Name != "Ann Lee" || changed.Contact.Attributes["email"] != "a@b.c" {
		t.Errorf("%+v", changed)
	}
	r.other(kim, func(f desktest.Frame) bool {
		var row proto.Row
		return f.T == "ev.conv" && f.C == c.now && f.Decode(&row).T != "" && row.Contact.Name == "Ann Lee"
	})
	if got := ask[proto.ContactGot](r, c.lin, "contact.get", "", proto.ContactGet{Contact: c.contact}); got.Contact.Name != "Ann Lee" || got.Convs[0].Contact.Name != "Ann Lee" {
		t.Errorf("%+v", got)
	}
	if rows := r.audited(store.AuditUpdate); len(rows) != 1 || rows[0].Target != "contact "+c.contact || strings.Contains(rows[0].Detail, "a@b.c") {
		t.Errorf("audit %+v", rows)
	}
	many := make(map[string]string)
	for i := range store.MaxAttributes {
		many[fmt.Sprint("k", i)] = "v"
	}
	if got := r.do(c.lin, "contact.patch", "", proto.ContactPatch{Contact: c.contact, Attributes: many}); got != proto.CodeBadRequest {
		t.Errorf("too many attributes: %q", got)
	}
}

// What an agent has closed with a customer, its colleagues read while they serve that customer, and are not written down for it.
func TestEarlierChatsOfWhoIsServed(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.chat()
	kim, sue := r.agent("kim"), r.staff("sue", perm.Supervisor)
	r.ok(sue.Connected(r.ctx))
	r.ok(kim.Connected(r.ctx))
	f, err := c.lin.Do(r.ctx, "return", c.now, proto.Return{})
	r.ok(err)
	if code(f) != "" {
		t.Fatalf("return: %s", f.D)
	}
	r.ok(kim.Take(r.ctx, c.now))
	if got := ask[proto.ContactGot](r, kim, "contact.get", "", proto.ContactGet{Contact: c.contact}); len(got.Convs) != 2 {
		t.Errorf("kim sees %+v", got.Convs)
	}
	if got := ask[proto.Synced](r, kim, "sync", c.past, proto.Sync{}); len(got.Events) == 0 {
		t.Errorf("kim reads %+v", got)
	}
	if rows := r.audited(store.AuditRead); len(rows) != 0 {
		t.Errorf("audit %+v", rows)
	}
	r.say(c.ann, c.now, "so long")
	r.ok(kim.EndConv(r.ctx, c.now, ""))
	if got := r.do(kim, "sync", c.past, proto.Sync{}); got != proto.CodeNotFound {
		t.Errorf("kim, after it: %q", got)
	}
	closed := func(preview bool) func(desktest.Frame) bool {
		return func(f desktest.Frame) bool {
			var row proto.Row
			return f.T == "ev.conv" && f.C == c.now && f.Decode(&row).T != "" && row.State == "closed" && (row.Preview != "") == preview
		}
	}
	r.other(kim, closed(true))
	r.other(sue, closed(true))
	stranger := r.agent("moe")
	r.ok(stranger.Connected(r.ctx))
	other := r.open(c.ann, "human")
	r.ok(kim.Take(r.ctx, other))
	r.say(c.ann, other, "swordfish")
	r.ok(kim.EndConv(r.ctx, other, ""))
	r.other(stranger, func(f desktest.Frame) bool {
		var row proto.Row
		return f.T == "ev.conv" && f.C == other && f.Decode(&row).T != "" && row.State == "closed" && row.Preview == ""
	})
}

func TestTagsAndScore(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.chat()
	kim := r.agent("kim")
	if got := ask[proto.Tagged](r, c.lin, "tag", c.now, proto.Tag{Add: []string{"vip", "new"}, Remove: []string{"x"}}); !slices.Equal(got.Tags, []string{"new", "vip"}) {
		t.Errorf("%+v", got)
	}
	tagged := func(want ...string) func(desktest.Frame) bool {
		return func(f desktest.Frame) bool {
			var row proto.Row
			return f.T == "ev.conv" && f.C == c.now && f.Decode(&row).T != "" && slices.Equal(row.Tags, want)
		}
	}
	r.other(c.lin, tagged("new", "vip"))
	r.say(c.ann, c.now, "hello") // an event keeps them
	if got := ask[proto.Tagged](r, c.lin, "tag", c.now, proto.Tag{Remove: []string{"new", "vip"}}); got.Tags == nil || len(got.Tags) != 0 {
		t.Errorf("%+v", got)
	}
	r.other(c.lin, tagged())
	if got := r.do(kim, "tag", c.now, proto.Tag{Add: []string{"mine"}}); got != proto.CodeNotFound {
		t.Errorf("kim tags lin's: %q", got)
	}
	if got := r.do(c.ann, "tag", c.now, proto.Tag{Add: []string{"mine"}}); got != proto.CodeForbidden {
		t.Errorf("the customer tags: %q", got)
	}

	if got := r.do(c.ann, "conv.rate", c.now, proto.Rate{Score: 5}); got != proto.CodeConflict {
		t.Errorf("an open conversation is rated: %q", got)
	}
	r.ok(c.lin.EndConv(r.ctx, c.now, ""))
	rated := func(score int, comment string) func(desktest.Frame) bool {
		return func(f desktest.Frame) bool {
			var row proto.Row
			return f.T == "ev.conv" && f.C == c.now && f.Decode(&row).T != "" && row.Score == score && row.Comment == comment
		}
	}
	for _, score := range []int{1, 4} {
		ask[struct{}](r, c.ann, "conv.rate", c.now, proto.Rate{Score: score, Comment: "ok"})
		r.other(c.lin, rated(score, "ok"))
	}
	if got := veiled(proto.Row{Score: 4, Comment: "ok"}); got.Score != 0 || got.Comment != "" {
		t.Errorf("who may not read the chat sees %+v", got)
	}
	if got := ask[proto.Past](r, c.lin, "history", "", proto.History{In: proto.Filter{ScoreFrom: 4, ScoreTo: 5}}); len(got.Convs) != 1 || got.Convs[0].ID != c.now {
		t.Errorf("rated 4 or 5: %+v", got)
	}
	if got := r.do(r.customer(), "conv.rate", c.now, proto.Rate{Score: 1}); got != proto.CodeNotFound {
		t.Errorf("a stranger rates: %q", got)
	}
	if got := ask[proto.Past](r, c.lin, "history", "", proto.History{Contact: c.contact}).Convs[0]; got.ID != c.now || got.Score != 4 || got.Comment != "ok" {
		t.Errorf("%+v", got)
	}
}

func TestCannedList(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	lin := r.agent("lin")
	for i := range cannedItems + 10 {
		_, err := r.db.CreateCanned(r.ctx, store.Canned{Short: fmt.Sprintf("hi%02d", i), Locale: "en", Title: "Greeting", Body: "Hello"})
		r.ok(err)
	}
	got := ask[proto.CannedItems](r, lin, "canned.list", "", proto.CannedList{Q: "hi", Locale: "en"})
	if len(got.Items) != cannedItems || got.Items[0].Short != "hi00" || got.Items[0].Body != "Hello" || got.Items[0].Title == "" || got.Items[0].ID == "" {
		t.Errorf("%+v", got)
	}
	if got := ask[proto.CannedItems](r, lin, "canned.list", "", proto.CannedList{Q: "none"}); got.Items == nil || len(got.Items) != 0 {
		t.Errorf("%+v", got)
	}
}

// A blocked contact is out at once: its conversations are closed, with the reason for staff only, its connections with
// 4103, and it does not come back before it is let in again.
func TestBlockedContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t, Options{Limits: testLimits()})
		c := r.chat()
		sue := r.staff("sue", perm.Supervisor)
		r.ok(sue.Connected(r.ctx))
		var wires []*wire
		r.mu.Lock()
		wires = slices.Clone(r.wires)
		r.mu.Unlock()
		if got := r.do(c.lin, "contact.block", "", proto.ContactBlock{Contact: c.contact, Blocked: true}); got != proto.CodeForbidden {
			t.Errorf("an agent blocks: %q", got)
		}
		failures := 2 // the first attempts to close the conversation
		var mu sync.Mutex
		r.fault.set(func(cmd store.Command, pass func(), fail func(error)) {
			mu.Lock()
			m, ok := cmd.(store.Move)
			ok = ok && m.Trigger == store.Block && failures > 0
			if ok {
				failures--
			}
			mu.Unlock()
			if ok {
				fail(store.ErrBusy)
				return
			}
			pass()
		})
		got := ask[proto.ContactChanged](r, sue, "contact.block", "", proto.ContactBlock{Contact: c.contact, Blocked: true, Reason: "spam"})
		if !got.Contact.Blocked {
			t.Errorf("%+v", got)
		}
		closed := r.event(c.lin, c.now, state(store.Closed))
		var ch proto.StateChange
		if closed.Decode(&ch); ch.Reason != "" || ch.By.ID != sue.Me().ID {
			t.Errorf("%+v", ch)
		}
		r.waitFor("4103", func() bool {
			return slices.ContainsFunc(wires, func(w *wire) bool { return w.closeCode() == proto.CloseBlocked })
		})
		events, _, err := r.db.Cold().Events(r.ctx, c.now, store.CustomerSide, 0, 100, 1<<20)
		r.ok(err)
		for _, e := range events {
			if e.Body == "spam" {
				t.Error("the customer may read why")
			}
		}
		if rows := r.audited(store.AuditBlock); len(rows) != 1 || rows[0].Who.ID != sue.Me().ID || rows[0].Target != "contact "+c.contact {
			t.Errorf("audit %+v", rows)
		}
		r.fault.set(nil)
		if got := ask[proto.ContactChanged](r, sue, "contact.block", "", proto.ContactBlock{Contact: c.contact}); got.Contact.Blocked {
			t.Errorf("%+v", got)
		}
		r.open(c.ann, "human") // its client comes back by itself
		if rows := r.audited(store.AuditUnblock); len(rows) != 1 {
			t.Errorf("audit %+v", rows)
		}
	})
}

// A contact that is connected all the same, say because it came just then, cannot open or write.
func TestBlockedContactCannotWrite(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann := r.customer()
	conv := r.open(ann, "human")
	r.fault.set(func(_ store.Command, _ func(), fail func(error)) { fail(store.ErrBlocked) }) // the feed has not come to it
	if got := r.do(ann, "msg.send", conv, proto.Send{ClientID: newClientID(), Body: "x"}); got != proto.CodeBlocked {
		t.Errorf("writes: %q", got)
	}
	if got := r.do(ann, "conv.open", "", proto.Open{}); got != proto.CodeBlocked {
		t.Errorf("opens: %q", got)
	}
	// What a crash has left open is closed at the next start.
	r.fault.set(nil)
	_, err := r.db.BlockContact(r.ctx, ann.Me().ID, true)
	r.ok(err)
	r.stop()
	r.openStore()
	r.startHub()
	r.waitFor("the conversation to be closed", func() bool {
		c, err := r.db.Cold().Conversation(r.ctx, conv)
		return err == nil && c.State == store.Closed
	})
}

// A search that takes too long is told so.
func TestSlowSearch(t *testing.T) {
	limits := testLimits()
	limits.SearchTimeout = time.Nanosecond
	r := newRig(t, Options{Limits: limits})
	f, err := r.agent("lin").Do(r.ctx, "search", "", proto.Search{Q: "x"})
	r.ok(err)
	if code(f) != proto.CodeUnavailable || !strings.Contains(string(f.D), "takes too long") {
		t.Errorf("%s", f.D)
	}
}

// The searches of one agent hang: 4 of them, 16 wait, the next is refused; another agent searches, and everybody writes.
func TestStuckSearch(t *testing.T) {
	limits := testLimits()
	limits.AgentWorkers, limits.ReadTimeout, limits.SearchTimeout = 6, time.Minute, time.Minute
	r := newRig(t, Options{Limits: limits})
	ann, lin, kim := r.customer(), r.agent("lin"), r.agent("kim")
	conv, other := r.open(ann, "human"), r.open(r.customer(), "human")
	r.ok(lin.Take(r.ctx, conv))
	r.ok(kim.Take(r.ctx, other))
	r.say(ann, conv, "needle")
	r.checkView(lin, conv, store.StaffSide)
	r.checkView(kim, other, store.StaffSide)
	r.waitFor("the agent pool to rest", func() bool { return r.hub.PoolStats().Agent.Running == 0 })

	r.fault.hangCold()
	replies := make(chan desktest.Frame, 100)
	search := func() {
		f, err := lin.Do(r.ctx, "search", "", proto.Search{Q: "needle"})
		if err != nil {
			t.Error(err)
		}
		replies <- f
	}
	const share = 4 + 16
	for range share {
		go search()
	}
	r.waitFor("lin's share to hang", func() bool { return r.fault.hungReads() == 4 })
	r.waitFor("the others to wait", func() bool {
		r.hub.staff.mu.Lock()
		defer r.hub.staff.mu.Unlock()
		sh := r.hub.staff.shares[lin.Me().ID]
		return sh != nil && len(sh.queue) == 16
	})
	if got := r.do(lin, "search", "", proto.Search{Q: "needle"}); got != proto.CodeBusy {
		t.Errorf("the 17th that waits: %q", got)
	}
	if got := r.do(lin, "canned.list", "", proto.CannedList{}); got != proto.CodeBusy {
		t.Errorf("a read of another kind: %q", got)
	}
	if got := r.do(kim, "canned.list", "", proto.CannedList{}); got != "" { // it does not hang itself
		t.Errorf("another agent reads: %q", got)
	}
	for i := range 20 {
		ann.Send(conv, fmt.Sprint("customer ", i))
		lin.Send(conv, fmt.Sprint("stuck agent ", i))
		kim.Send(other, fmt.Sprint("other agent ", i))
	}
	r.ok(ann.Flushed(r.ctx))
	r.ok(lin.Flushed(r.ctx))
	r.ok(kim.Flushed(r.ctx))
	if n := r.fault.hungReads(); n != 4 {
		t.Errorf("%d reads hung", n)
	}
	r.fault.heal()
	for range share {
		if f := <-replies; f.T != "ok" {
			t.Errorf("after healing: %s", f.D)
		}
	}
}
