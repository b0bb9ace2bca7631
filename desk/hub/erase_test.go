package hub

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Erasing a contact ends its chat with a reason and its connection, tells staff, is audited, and takes the permission.
func TestEraseContact(t *testing.T) {
	var asked atomic.Int64
	r := newRig(t, Options{Limits: testLimits(), Erased: func() { asked.Add(1) }})
	c := r.chat()
	sue := r.staff("sue", perm.Supervisor)
	r.ok(sue.Connected(r.ctx))
	ask[proto.Synced](r, sue, "watch", c.now, struct{}{})
	rea := r.staff("rea", perm.Auditor)
	r.ok(rea.Connected(r.ctx))
	r.mu.Lock()
	wires := slices.Clone(r.wires)
	r.mu.Unlock()
	for _, who := range []*desktest.Client{c.ann, c.lin, rea} {
		if got := r.do(who, "contact.erase", "", proto.ContactErase{Contact: c.contact}); got != proto.CodeForbidden {
			t.Errorf("erased by %s: %q", who.Me().Name, got)
		}
	}
	if got := r.do(sue, "contact.erase", "", proto.ContactErase{Contact: "nobody"}); got != proto.CodeNotFound {
		t.Errorf("nobody: %q", got)
	}
	if rows := r.audited(store.AuditErase); len(rows) != 0 || asked.Load() != 0 {
		t.Errorf("before: audit %+v, %d calls", rows, asked.Load())
	}
	ask[struct{}](r, sue, "contact.erase", "", proto.ContactErase{Contact: c.contact})
	for who, side := range map[string]*desktest.Client{"the agent": c.lin, "who watches": sue} {
		var ch proto.StateChange
		if r.event(side, c.now, state(store.Closed)).Decode(&ch); ch.Reason != reasonErased || ch.By.ID != sue.Me().ID {
			t.Errorf("%s: %+v", who, ch)
		}
	}
	for _, side := range []*desktest.Client{c.lin, sue, rea} {
		var e proto.Erased
		if r.other(side, isType("ev.erased")).Decode(&e); e.Contact != c.contact {
			t.Errorf("told %+v", e)
		}
	}
	r.waitFor("4101", func() bool {
		return slices.ContainsFunc(wires, func(w *wire) bool { return w.closeCode() == proto.CloseUnauthorized })
	})
	if rows := r.audited(store.AuditErase); len(rows) != 1 || rows[0].Who.ID != sue.Me().ID || rows[0].Target != "contact "+c.contact {
		t.Errorf("audit %+v", rows)
	}
	for command, d := range map[string]any{
		"contact.get": proto.ContactGet{Contact: c.contact}, "contact.patch": proto.ContactPatch{Contact: c.contact, Name: "Ann"},
		"contact.block": proto.ContactBlock{Contact: c.contact}, "contact.erase": proto.ContactErase{Contact: c.contact},
	} {
		if got := r.do(sue, command, "", d); got != proto.CodeNotFound {
			t.Errorf("%s of an erased contact: %q", command, got)
		}
	}
	if got := r.do(c.lin, "reopen", c.now, proto.Reopen{}); got != proto.CodeClosed {
		t.Errorf("its chat is reopened: %q", got)
	}
	if asked.Load() != 1 {
		t.Errorf("the rest was asked for %d times", asked.Load())
	}
}

// TestErasedIsToldLast: staff learns that a contact is erased when its chat is closed, not before.
func TestErasedIsToldLast(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.chat()
	r.fault.set(func(cmd store.Command, pass func(), _ func(error)) {
		if m, ok := cmd.(store.Move); ok && m.Trigger == store.Block {
			r.fault.park(pass)
			return
		}
		pass()
	})
	done := make(chan error, 1)
	go func() { done <- r.hub.Erase(r.ctx, c.contact, store.Actor{Kind: store.System, Name: "system"}) }()
	r.waitFor("the chat to be about to be closed", func() bool { return r.fault.parkedCalls() == 1 })
	pending := func() bool {
		r.hub.mu.Lock()
		defer r.hub.mu.Unlock()
		return r.hub.queue.dir.erased[c.contact]
	}
	r.waitFor("the hub to know that it will be told", pending)
	r.fault.heal()
	r.ok(<-done)
	r.event(c.lin, c.now, state(store.Closed))
	r.other(c.lin, isType("ev.erased"))
	if pending() {
		t.Error("it is told once more")
	}
}

// TestErasedBeforeACrash: a contact was erased, and the hub ended before it had closed the chats. The next one closes them, and asks for what is
// left, which could not be removed before.
func TestErasedBeforeACrash(t *testing.T) {
	var asked atomic.Int64
	r := newRig(t, Options{Limits: testLimits(), Erased: func() { asked.Add(1) }})
	c := r.chat()
	r.halt()
	r.ok(r.db.EraseContact(r.ctx, c.contact))
	if d, err := r.db.EraseMore(r.ctx, 1000); err != nil || d.More || r.conversation(c.now).State == store.Closed {
		t.Fatalf("%+v, %v, %+v", d, err, r.conversation(c.now))
	}
	asked.Store(0)
	r.startHub()
	r.waitFor("the rest to be asked for", func() bool { return asked.Load() > 0 })
	if conv := r.conversation(c.now); conv.State != store.Closed {
		t.Errorf("%+v", conv)
	}
	if _, err := r.db.EraseMore(r.ctx, 1000); err != nil {
		t.Error(err)
	}
	if _, err := r.db.Cold().Conversation(r.ctx, c.now); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the chat is there: %v", err)
	}
}
