package hub

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// That a file has been looked at is told to everybody who sees it: both sides, who watches, who passed the conversation on, and
// who uploaded it. What is the staff's or was not sent yet is not told to the other side.
func TestWhoHearsOfAFile(t *testing.T) {
	r := newOffering(t)
	sue := r.agentClient(r.staff("sue", 100, perm.Supervisor))
	r.ok(sue.Connected(r.ctx))
	r.watches(sue, r.conv)
	r.offer(r.moe)
	r.headOf(r.moe, "transfer.accept", r.conv, proto.Accept{}) // lin has passed it on
	clients := map[string]*desktest.Client{"ann": r.ann, "lin": r.lin, "moe": r.moe, "kim": r.kim, "sue": sue}
	all := slices.Sorted(maps.Keys(clients))
	for id, c := range map[string]struct {
		a    store.Attachment
		want []string
	}{
		"sent":     {store.Attachment{Uploader: customer(r.ann), Seq: 4, PSeq: 4}, []string{"ann", "lin", "moe", "sue"}},
		"answer":   {store.Attachment{Uploader: agent(r.moe), Seq: 5, PSeq: 5}, []string{"ann", "lin", "moe", "sue"}},
		"note":     {store.Attachment{Uploader: agent(r.moe), Seq: 6}, []string{"lin", "moe", "sue"}},
		"loose":    {store.Attachment{Uploader: customer(r.ann)}, []string{"ann"}},
		"unsent":   {store.Attachment{Uploader: agent(r.moe)}, []string{"moe"}},
		"outsider": {store.Attachment{Uploader: agent(r.kim), Seq: 7}, []string{"kim", "lin", "moe", "sue"}},
	} {
		c.a.ID, c.a.Conv, c.a.Contact, c.a.State = id, r.conv, r.ann.Me().ID, store.FileReady
		r.theHub().fileChanged(c.a)
		told := func(f desktest.Frame) bool {
			var x proto.File
			return f.T == "ev.file" && f.C == r.conv && f.Decode(&x).T != "" && x.ID == id && x.State == store.FileReady
		}
		for _, who := range all {
			want := 0
			if slices.Contains(c.want, who) {
				want = 1
			}
			if n := r.count(clients[who], told); n != want {
				t.Errorf("%s: %s is told %d times, want %d", id, who, n, want)
			}
		}
	}
	// Nobody watches any more what is closed; its customer and its uploader are still told.
	r.ok(r.ann.EndConv(r.ctx, r.conv, "bye"))
	r.event(r.moe, r.conv, change("closed"))
	r.theHub().fileChanged(store.Attachment{ID: "late", Conv: r.conv, Contact: r.ann.Me().ID, Uploader: agent(r.moe), Seq: 5, PSeq: 5, State: store.FileRefused})
	for who, want := range map[string]int{"ann": 1, "moe": 1, "lin": 0, "sue": 0} {
		if n := r.count(clients[who], func(f desktest.Frame) bool {
			var x proto.File
			return f.T == "ev.file" && f.Decode(&x).T != "" && x.ID == "late"
		}); n != want {
			t.Errorf("after the close %s is told %d times, want %d", who, n, want)
		}
	}
}

func customer(c *desktest.Client) store.Actor {
	return store.Actor{Kind: store.Customer, ID: c.Me().ID}
}

func agent(c *desktest.Client) store.Actor { return store.Actor{Kind: store.Agent, ID: c.Me().ID} }

// plainLinks are addresses without a signature.
type plainLinks struct{}

func (plainLinks) Link(id string, side store.Side) (string, time.Duration) {
	return fmt.Sprint("/files/", id, "?", side), time.Minute
}

// Knowing the id of a file grants nothing: the files of a conversation are for its customer and for staff who may read it, and
// what somebody has uploaded and not sent is for nobody else. Who reads another agent's by permission is written down.
func TestFileLinksOfOthers(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits(), Links: plainLinks{}})
	ann, eve, lin, moe, sue := r.customer(), r.customer(), r.agent("lin"), r.agent("moe"), r.staff("sue", perm.Supervisor)
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	file := func(from store.Actor, state string) string {
		t.Helper()
		a, err := r.db.AddAttachment(r.ctx, store.Attachment{Conv: conv, Uploader: from, Name: "x.txt", Type: "text/plain", Size: 1, Storage: fmt.Sprintf("%032x", rand.Uint64()), State: state}, store.Quota{})
		r.ok(err)
		return a.ID
	}
	send := func(c *desktest.Client, command, id string) string {
		t.Helper()
		if got := r.do(c, command, conv, map[string]any{"client_id": newClientID(), "kind": "file", "body": "x", "attachments": []string{id}}); got != "" {
			t.Fatal(got)
		}
		return id
	}
	sent, answer := send(ann, "msg.send", file(customer(ann), store.FileReady)), send(lin, "msg.send", file(agent(lin), store.FileReady))
	note, checking := send(lin, "note.send", file(agent(lin), store.FileReady)), send(ann, "msg.send", file(customer(ann), store.FileChecking))
	loose, draft := file(customer(ann), store.FileReady), file(agent(lin), store.FileReady)
	ids := []string{sent, answer, note, checking, loose, draft}
	for who, c := range map[string]struct {
		client *desktest.Client
		links  []string
		states int
	}{
		"the customer": {ann, []string{sent, answer, loose}, 1}, "another customer": {eve, nil, 0},
		"the owner": {lin, []string{sent, answer, note, draft}, 1}, "another agent": {moe, nil, 0}, "a supervisor": {sue, []string{sent, answer, note}, 1},
	} {
		got := ask[proto.Links](r, c.client, "file.links", "", proto.FileLinks{IDs: ids})
		if have := slices.Sorted(maps.Keys(got.Links)); !slices.Equal(have, slices.Sorted(slices.Values(c.links))) || len(got.States) != c.states {
			t.Errorf("%s: links of %v, want %v; states %v", who, have, c.links, got.States)
		}
	}
	if rows := r.audited(store.AuditRead); len(rows) != 1 || rows[0].Who.Name != "sue" || rows[0].Target != "conversation "+conv {
		t.Errorf("written down: %+v", rows)
	}
}

// TestDecisionIsTold: what the scanner decides comes with the feed, whichever server has asked it.
func TestDecisionIsTold(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann := r.customer()
	conv := r.open(ann, "human")
	a, err := r.db.AddAttachment(r.ctx, store.Attachment{
		Conv: conv, Uploader: store.Actor{Kind: store.Customer, ID: ann.Me().ID}, Name: "a.png", Type: "image/png", Size: 1, Storage: "s", State: store.FileChecking,
	}, store.Quota{Bytes: 1, Count: 1, Loose: 1})
	r.ok(err)
	_, err = r.db.DecideAttachment(r.ctx, a.ID, true)
	r.ok(err)
	var told proto.File
	if r.other(ann, isType("ev.file")).Decode(&told); told.ID != a.ID || told.State != store.FileReady {
		t.Errorf("told %+v", told)
	}
}
