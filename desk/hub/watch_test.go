package hub

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

func watchEnded(conv, reason string) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		var e proto.WatchEnd
		return f.T == "ev.watch_end" && f.C == conv && json.Unmarshal(f.D, &e) == nil && e.Reason == reason
	}
}

func (r *rig) watches(c *desktest.Client, conv string) proto.Synced {
	r.t.Helper()
	f, err := c.Do(r.ctx, "watch", conv, proto.Watch{})
	r.ok(err)
	if code(f) != "" {
		r.t.Fatalf("watch: %s", f.D)
	}
	var page proto.Synced
	f.Decode(&page)
	return page
}

// A supervisor reads along, is written down once per conversation, and sees the end.
func TestWatch(t *testing.T) {
	r := newOffering(t)
	sam := r.agentClient(r.staff("sam", 1, perm.Supervisor))
	ada := r.agentClient(r.staff("ada", 1, perm.Auditor))
	for i := range 3 {
		r.say(r.ann, r.conv, fmt.Sprint("before ", i))
	}
	if got := r.do(r.kim, "watch", r.conv, proto.Watch{}); got != proto.CodeForbidden {
		t.Errorf("an agent watches another one's: %q", got)
	}
	if got := r.do(sam, "watch", "nope", proto.Watch{}); got != proto.CodeNotFound {
		t.Errorf("an unknown one: %q", got)
	}
	page := r.watches(sam, r.conv)
	if len(page.Events) != 5 || page.More || page.Head.ID != r.conv {
		t.Errorf("%d events, %+v", len(page.Events), page.Head)
	}
	r.watches(ada, r.conv)
	r.watches(sam, r.conv) // again: nothing comes twice
	r.say(r.ann, r.conv, "live")
	r.event(sam, r.conv, body("live"))
	r.event(ada, r.conv, body("live"))
	if got := r.do(r.lin, "note.send", r.conv, proto.Note{ClientID: newClientID(), Body: "a secret"}); got != "" {
		t.Fatal(got)
	}
	r.event(sam, r.conv, body("a secret"))
	if rows := r.auditOf(sam.Me().ID, store.AuditWatch); len(rows) != 2 || rows[0].Target != "conversation "+r.conv {
		t.Errorf("%+v", rows)
	}
	if rows := r.auditOf(ada.Me().ID, store.AuditWatch); len(rows) != 1 {
		t.Errorf("%+v", rows)
	}
	if got := r.do(ada, "unwatch", r.conv, proto.Unwatch{}); got != "" {
		t.Fatal(got)
	}
	r.offer(r.moe)
	r.headOf(r.moe, "transfer.accept", r.conv, proto.Accept{})
	r.event(sam, r.conv, change("transferred")) // sam may go on
	r.ok(r.ann.EndConv(r.ctx, r.conv, "bye"))
	r.event(sam, r.conv, change("closed"))
	r.other(sam, watchEnded(r.conv, "closed"))
	r.checkView(sam, r.conv, store.StaffSide)
	if n := r.count(ada, func(f desktest.Frame) bool { return f.T == "ev.watch_end" }); n != 0 {
		t.Errorf("ada is told %d ends", n)
	}
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	if n := len(r.hub.sessions.watchers); n != 0 {
		t.Errorf("%d conversations are still watched", n)
	}
}

// The right to watch is looked at again when somebody else gets the conversation, and when a role changes.
func TestWatchRechecks(t *testing.T) {
	r := newOffering(t)
	ben, waits := r.waiting()
	r.watches(r.kim, waits)
	r.watches(r.moe, waits)
	r.say(ben, waits, "hello")
	r.event(r.kim, waits, body("hello"))
	r.ok(r.moe.Take(r.ctx, waits))
	r.event(r.kim, waits, change("taken")) // the last that it sees
	r.other(r.kim, watchEnded(waits, "forbidden"))

	account := r.staff("sam", 1, perm.Supervisor)
	sam := r.agentClient(account)
	r.watches(sam, r.conv)
	account.Role = perm.Agent
	r.ok(r.db.UpdateAgent(r.ctx, account))
	r.other(sam, watchEnded(r.conv, "forbidden"))
	r.say(r.ann, r.conv, "among us")
	r.event(r.lin, r.conv, body("among us"))
	if got := r.do(sam, "watch", r.conv, proto.Watch{}); got != proto.CodeForbidden {
		t.Errorf("with the new role: %q", got)
	}
	r.say(r.ann, r.conv, "still among us")
	for _, f := range sam.View(r.conv) {
		if body("among us")(f) {
			t.Error("sam still sees it")
		}
	}
}

// The newest events come first, and a session watches only so many conversations.
func TestWatchBounds(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	sam := r.agentClient(r.staff("sam", 1, perm.Supervisor))
	ann, conv := r.waiting()
	for i := range watchEvents + 10 {
		ann.Send(conv, fmt.Sprint("message ", i))
	}
	r.ok(ann.Flushed(r.ctx))
	page := r.watches(sam, conv)
	var last desktest.Frame
	if err := json.Unmarshal(page.Events[len(page.Events)-1], &last); err != nil || len(page.Events) != watchEvents || !page.More || last.S != page.Head.Last {
		t.Errorf("%d events up to %d of %d, more %v", len(page.Events), last.S, page.Head.Last, page.More)
	}
	for range 20 { // more than a page has bytes
		ann.Send(conv, strings.Repeat("x", 7990))
	}
	r.ok(ann.Flushed(r.ctx))
	page = r.watches(sam, conv)
	if err := json.Unmarshal(page.Events[len(page.Events)-1], &last); err != nil || len(page.Events) == 0 || !page.More || last.S != page.Head.Last {
		t.Errorf("%d long events up to %d of %d, more %v", len(page.Events), last.S, page.Head.Last, page.More)
	}
	for range maxWatched - 1 {
		_, c := r.waiting()
		r.watches(sam, c)
	}
	_, over := r.waiting()
	if got := r.do(sam, "watch", over, proto.Watch{}); got != proto.CodeBusy {
		_, n := sam.Welcome()
		t.Errorf("one more: %q; %d welcomes, refusals %v", got, n, sam.Refusals())
	}
	if got := r.do(sam, "unwatch", conv, proto.Unwatch{}); got != "" {
		t.Fatal(got)
	}
	r.watches(sam, over)
	sam.Close()
	r.waitFor("the connection to be forgotten", func() bool {
		r.hub.mu.Lock()
		defer r.hub.mu.Unlock()
		return len(r.hub.sessions.watchers) == 0
	})
}

// What waits for a group is its members' to read. Others need the permission, and it is written down; without it they are told
// that it waits, not what was said.
func TestQueueOfAForeignGroup(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	outside := func(login string, role perm.Role) *desktest.Client {
		a, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: login, Name: login, Password: "x", Capacity: 1, Role: role})
		r.ok(err)
		c := r.agentClient(a)
		r.ok(c.Connected(r.ctx))
		return c
	}
	lin, moe, sue := r.on("lin", 1), outside("moe", perm.Agent), outside("sue", perm.Supervisor)
	r.settled()
	ann, conv := r.waiting()
	r.watches(lin, conv)
	r.watches(sue, conv)
	for command, d := range map[string]any{
		"watch": proto.Watch{}, "sync": proto.Sync{}, "tag": proto.Tag{Add: []string{"x"}}, "note.send": proto.Note{ClientID: newClientID(), Body: "x"}, "take": proto.Take{},
	} {
		if got := r.do(moe, command, conv, d); got != proto.CodeForbidden && got != proto.CodeNotFound {
			t.Errorf("%s by somebody outside: %q", command, got)
		}
	}
	r.say(ann, conv, "swordfish")
	r.event(lin, conv, body("swordfish"))
	r.event(sue, conv, body("swordfish"))
	row := func(preview string) func(desktest.Frame) bool {
		return func(f desktest.Frame) bool {
			var row proto.Row
			return f.T == "ev.conv" && f.C == conv && json.Unmarshal(f.D, &row) == nil && row.State == "queued" && row.Last == 2 && row.Preview == preview
		}
	}
	r.other(lin, row("swordfish"))
	r.other(moe, row(""))
	if n := r.count(moe, row("swordfish")); n != 0 || len(moe.View(conv)) != 0 {
		t.Errorf("somebody outside is told %d previews and %d events", n, len(moe.View(conv)))
	}
	for who, want := range map[*desktest.Client]int{lin: 0, sue: 1} {
		if rows := r.auditOf(who.Me().ID, store.AuditWatch); len(rows) != want {
			t.Errorf("%s: %d lines, want %d", who.Me().Name, len(rows), want)
		}
	}
	r.ok(r.db.AddMember(r.ctx, r.group.ID, moe.Me().ID)) // who joins the group may read at once
	r.settled()
	r.watches(moe, conv)
}
