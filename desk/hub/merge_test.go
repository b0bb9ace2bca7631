package hub

import (
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
)

// The connection of a merged contact ends and comes back as the other one, which sees the chats of both. Staff is told.
func TestMergedContactComesBack(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, ben, lin := r.customer(), r.customer(), r.agent("lin")
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	r.say(ann, conv, "hello")
	r.ok(lin.EndConv(r.ctx, conv, "done"))
	r.ok(ben.Connected(r.ctx))
	from, into := ann.Me().ID, ben.Me().ID
	sue := r.staff("sue", perm.Supervisor)
	r.ok(sue.Connected(r.ctx))
	_, err := r.db.MergeContacts(r.ctx, from, into)
	r.ok(err)
	var told proto.Merged
	if r.other(sue, isType("ev.merged")).Decode(&told); told != (proto.Merged{Contact: from, Into: into}) {
		t.Errorf("told %+v", told)
	}
	r.waitFor("the first one to come back", func() bool { return ann.Me().ID == into })
	if got := ask[proto.ContactGot](r, sue, "contact.get", "", proto.ContactGet{Contact: into}); len(got.Convs) != 1 || got.Convs[0].ID != conv {
		t.Errorf("%+v", got.Convs)
	}
	if got := r.do(sue, "contact.get", "", proto.ContactGet{Contact: from}); got != proto.CodeNotFound {
		t.Errorf("the first one: %q", got)
	}
	again := r.open(ann, "human")
	if got := r.open(ben, "human"); got != again {
		t.Errorf("two open chats of one contact: %s and %s", again, got)
	}
}
