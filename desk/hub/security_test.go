package hub

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// forbiddenIDs are the commands that name a conversation, a contact or a file, with a valid payload. What names none is
// not in the table; silent ones have no answer.
func forbiddenIDs(contact, file string) (payloads map[string]any, none, silent []string) {
	return map[string]any{
		"msg.send": proto.Send{ClientID: uuid.NewString(), Body: "x"}, "typing": proto.Typing{On: true}, "take": proto.Take{},
		"note.send": proto.Note{ClientID: uuid.NewString(), Body: "x"}, "transfer": proto.Transfer{Group: "g"}, "return": proto.Return{},
		"reopen": proto.Reopen{}, "conv.close": proto.Close{}, "sync": proto.Sync{}, "file.links": proto.FileLinks{IDs: []string{file}},
		"assign": map[string]any{"agent": "x"}, "conv.handoff": map[string]any{}, "watch": map[string]any{}, "unwatch": map[string]any{},
		"transfer.accept": map[string]any{}, "transfer.decline": map[string]any{}, "receipt": proto.Receipt{Delivered: 1, Read: 1},
		"history": proto.History{Contact: contact}, "contact.get": proto.ContactGet{Contact: contact},
		"contact.patch": proto.ContactPatch{Contact: contact, Name: "Mallory"}, "contact.block": proto.ContactBlock{Contact: contact, Blocked: true},
		"contact.erase": proto.ContactErase{Contact: contact},
		"tag":           proto.Tag{Add: []string{"x"}}, "priority": proto.Priority{Priority: "high"}, "snooze": proto.Snooze{}, "conv.rate": proto.Rate{Score: 5},
	}, []string{"hello", "ping", "conv.open", "conv.leave", "status", "agents", "active", "search", "canned.list", "visit"}, []string{"typing", "receipt"}
}

// Knowing an id grants nothing: every command with the id of somebody else's conversation, contact or file, sent by another
// customer and by an agent whom it does not concern, is refused or finds nothing, and changes nothing.
func TestIDsGrantNothing(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, eve, lin, moe := r.customer(), r.customer(), r.agent("lin"), r.agent("moe")
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	ann.Send(conv, "the secret word is swordfish")
	r.event(lin, conv, body("the secret word is swordfish"))
	r.ok(eve.Connected(r.ctx))
	r.ok(moe.Connected(r.ctx))
	before := r.conversation(conv)
	payloads, none, silent := forbiddenIDs(ann.Me().ID, "no-such-file")
	for _, command := range commandTypes(t) {
		d, named := payloads[command]
		if named == slices.Contains(none, command) {
			t.Errorf("%q: say in the table whether it names something", command)
		}
		if !named {
			continue
		}
		for who, c := range map[string]*desktest.Client{"customer": eve, "agent": moe} {
			if slices.Contains(silent, command) {
				send(t, r, c, command, conv, d)
				continue
			}
			f, err := c.Do(r.ctx, command, conv, d)
			r.ok(err)
			if granted(command, f) {
				t.Errorf("%s by another %s: %s", command, who, f.D)
			}
		}
	}
	for who, c := range map[string]*desktest.Client{"customer": eve, "agent": moe} { // resuming with the id shows nothing either
		f, err := c.Do(r.ctx, "sync", conv, proto.Sync{})
		r.ok(err)
		if code(f) != proto.CodeNotFound {
			t.Errorf("sync by another %s: %s", who, f.D)
		}
	}
	ann.Send(conv, "end")
	r.event(lin, conv, body("end"))
	after := r.conversation(conv)
	if after.State != before.State || !after.Owner.Is(before.Owner) || after.Rev != before.Rev || after.LastSeq != before.LastSeq+1 || after.Tags != before.Tags || after.Score != 0 {
		t.Errorf("before %+v, after %+v", before, after)
	}
	for _, c := range []*desktest.Client{ann, lin} {
		for _, f := range c.Others() {
			if from := fromOf(f); (f.T == "ev.typing" || f.T == "ev.receipt") && (from == eve.Me().ID || from == moe.Me().ID) {
				t.Errorf("%s of a stranger: %s", f.T, f.D)
			}
		}
	}
	if contact, err := r.db.Cold().Contact(r.ctx, ann.Me().ID); err != nil || contact.Blocked || contact.Name == "Mallory" {
		t.Errorf("%+v, %v", contact, err)
	}
}

// granted tells whether an answer gave what was asked for. Lists may be empty instead of refused, and to stop watching what
// one does not watch is no harm.
func granted(command string, f desktest.Frame) bool {
	if f.T == "err" {
		c := code(f)
		return c != proto.CodeNotFound && c != proto.CodeForbidden && c != proto.CodeConflict
	}
	switch command {
	case "unwatch":
		return string(f.D) != "{}"
	case "history":
		var p struct{ Convs []any }
		f.Decode(&p)
		return len(p.Convs) > 0
	case "file.links":
		var p proto.Links
		f.Decode(&p)
		return len(p.Links) > 0
	}
	return true
}

func fromOf(f desktest.Frame) string {
	var p struct{ From proto.Party }
	_ = json.Unmarshal(f.D, &p)
	return p.From.ID
}

// send is for commands without an answer; a ping behind it has one.
func send(t *testing.T, r *rig, c *desktest.Client, command, conv string, d any) {
	t.Helper()
	r.ok(c.Tell(r.ctx, command, conv, d))
	_, err := c.Do(r.ctx, "ping", "", proto.Ping{})
	r.ok(err)
}

func (r *rig) conversation(id string) store.Conversation {
	r.t.Helper()
	c, err := r.db.Cold().Conversation(r.ctx, id)
	r.ok(err)
	return c
}

// A hello that names conversations of others gets nothing of them; a role that may read them gets them, and that is
// written down.
func TestSeenGrantsNothing(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	ann.Send(conv, "swordfish")
	r.event(lin, conv, body("swordfish"))
	for _, role := range perm.Roles() {
		account, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: string(role) + "s", Name: "x", Password: "x", Role: role})
		r.ok(err)
		ticket := r.hub.o.Tickets.Issue(account.ID, r.login(account))
		c := r.raw(r.dial(Peer{}))
		c.write("hello", "h", "", proto.Hello{Ticket: ticket, Seen: map[string]uint64{conv: 0, "nothing": 0}})
		var w proto.Welcome
		c.until(isType("welcome")).Decode(&w)
		shown := slices.ContainsFunc(w.Heads, func(h proto.Head) bool { return h.ID == conv })
		if shown != role.Can(perm.ReadOthers) {
			t.Errorf("%s: shown %v", role, shown)
		}
		for _, row := range w.Inbox.Rows {
			if row.ID == conv && row.Preview != "" && !role.Can(perm.ReadOthers) {
				t.Errorf("%s: row %+v", role, row)
			}
		}
		lines, err := r.db.Cold().Audit(r.ctx, store.AuditQuery{Who: account.ID, Action: store.AuditRead})
		r.ok(err)
		if want := map[bool]int{true: 1}[shown]; len(lines) != want {
			t.Errorf("%s: %d lines in the audit log, want %d", role, len(lines), want)
		}
	}
	c := r.raw(r.dial(Peer{}))
	c.write("hello", "h", "", proto.Hello{Token: r.visitor(), Seen: map[string]uint64{conv: 0}})
	var w proto.Welcome
	if c.until(isType("welcome")).Decode(&w); len(w.Heads) != 0 {
		t.Errorf("another customer: %+v", w.Heads)
	}
}

// A row tells those who may not read a conversation that it is there, and not what was said in it.
func TestRowsAreVeiled(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	boss, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: "boss", Name: "Boss", Password: "x", Role: perm.Supervisor})
	r.ok(err)
	ann, lin, moe, sup := r.customer(), r.agent("lin"), r.agent("moe"), r.agentClient(boss)
	r.ok(moe.Connected(r.ctx))
	r.ok(sup.Connected(r.ctx))
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	ann.Send(conv, "swordfish")
	r.event(lin, conv, body("swordfish"))
	f, err := lin.Do(r.ctx, "tag", conv, proto.Tag{Add: []string{"vip"}})
	r.ok(err)
	if code(f) != "" {
		t.Fatalf("%s", f.D)
	}
	for who, c := range map[string]struct {
		client *desktest.Client
		want   string
	}{"owner": {lin, "swordfish"}, "another": {moe, ""}, "supervisor": {sup, "swordfish"}} {
		r.other(c.client, func(f desktest.Frame) bool {
			var row proto.Row
			return f.T == "ev.conv" && f.C == conv && json.Unmarshal(f.D, &row) == nil && row.State == "assigned" && row.Preview == c.want && (len(row.Tags) > 0) == (c.want != "" && row.Last > 2)
		})
		if who == "another" {
			for _, f := range c.client.Others() {
				var row proto.Row
				if f.T == "ev.conv" && json.Unmarshal(f.D, &row) == nil && row.State == "assigned" && row.Preview != "" {
					t.Errorf("%s is told %+v", who, row)
				}
			}
		}
	}
}

// A note into another agent's conversation needs the right for it.
func TestWhisperNeedsItsRight(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "human")
	note := func(c *desktest.Client) proto.Code {
		return r.do(c, "note.send", conv, proto.Note{ClientID: newClientID(), Body: "x"})
	}
	clients := make(map[perm.Role]*desktest.Client)
	for _, role := range perm.Roles() {
		a, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: string(role) + "s", Name: "x", Password: "x", Role: role})
		r.ok(err)
		clients[role] = r.agentClient(a)
	}
	for role, c := range clients {
		if got := note(c); (got == "") != role.Can(perm.Serve) {
			t.Errorf("%s, nobody's: %q", role, got)
		}
	}
	r.ok(lin.Take(r.ctx, conv))
	for role, c := range maps.All(clients) {
		if got := note(c); (got == "") != role.Can(perm.Whisper) {
			t.Errorf("%s, another's: %q", role, got)
		}
	}
}
