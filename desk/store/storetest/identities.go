package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// testIdentities: an identity belongs to one account, and an account has one identity of an issuer.
func testIdentities(t *testing.T, r *rig) {
	ctx := t.Context()
	at := func(subject string) store.Identity {
		return store.Identity{Issuer: "https://login.example", Subject: subject}
	}
	whose := func(id store.Identity, want string) {
		t.Helper()
		a, err := r.Cold().AgentByIdentity(ctx, id)
		if want == "" {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%v: %+v %v", id, a, err)
			}
			return
		}
		if err != nil || a.ID != want || !a.Linked {
			t.Errorf("%v: %+v %v, want %s", id, a, err, want)
		}
	}
	whose(at("1"), "")
	whose(store.Identity{}, "")
	r.must(r.LinkIdentity(ctx, r.lin.ID, at("1")))
	whose(at("1"), r.lin.ID)
	whose(store.Identity{Issuer: "https://other.example", Subject: "1"}, "")
	for what, c := range map[string]struct {
		agent string
		id    store.Identity
		want  error
	}{
		"another account's": {r.moe.ID, at("1"), store.ErrExists}, "its own again": {r.lin.ID, at("1"), store.ErrExists},
		"a second one": {r.lin.ID, at("2"), store.ErrExists}, "no account": {"x", at("2"), store.ErrNotFound},
	} {
		if err := r.LinkIdentity(ctx, c.agent, c.id); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	r.must(r.LinkIdentity(ctx, r.lin.ID, store.Identity{Issuer: "https://other.example", Subject: "1"}))
	zoe, err := r.CreateAgentFor(ctx, store.AgentAccount{Login: "zoe", Name: "Zoe", Role: perm.Agent}, at("3"))
	r.must(err)
	whose(at("3"), zoe.ID)
	for what, c := range map[string]struct {
		login string
		id    store.Identity
	}{"a login that is taken": {"ZOE", at("4")}, "an identity that is taken": {"new", at("3")}} {
		if _, err := r.CreateAgentFor(ctx, store.AgentAccount{Login: c.login, Name: "x", Role: perm.Agent}, c.id); !errors.Is(err, store.ErrExists) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := r.Cold().AgentByLogin(ctx, "new"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("half an account is left: %v", err)
	}
	whose(at("4"), "")
	_, err = r.CreateAgentFor(ctx, store.AgentAccount{Login: "a b", Name: "x", Role: perm.Agent}, at("4"))
	wrong(t, "a bad login", err, "login format")
	token := newToken()
	r.must(r.CreateAgentSession(ctx, token, zoe.ID, time.Now().Add(time.Hour)))
	r.must(r.UnlinkIdentities(ctx, zoe.ID))
	whose(at("3"), "")
	if _, err := r.Cold().AgentSession(ctx, token, time.Now()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its login: %v", err)
	}
	if err := r.UnlinkIdentities(ctx, zoe.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unlinked twice: %v", err)
	}
	if a, err := r.Cold().AgentByID(ctx, zoe.ID); err != nil || a.Linked {
		t.Errorf("%+v %v", a, err)
	}
}
