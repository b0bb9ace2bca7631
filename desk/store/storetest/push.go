package storetest

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// subscription returns what a browser of a login could have given.
func (r *rig) subscription(login store.Token, endpoint string) store.PushSubscription {
	r.t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	r.must(err)
	return store.PushSubscription{Login: login, Endpoint: endpoint, Key: key.PublicKey().Bytes(), Auth: bytes.Repeat([]byte{7}, store.PushAuth), Locale: "en"}
}

func (r *rig) loggedIn(a store.AgentAccount, life time.Duration) store.Token {
	r.t.Helper()
	token := newToken()
	r.must(r.CreateAgentSession(r.t.Context(), token, a.ID, r.now().Add(life)))
	return token
}

// subscribed gives a new login of an account a subscription.
func (r *rig) subscribed(a store.AgentAccount, endpoint string) store.Token {
	r.t.Helper()
	token := r.loggedIn(a, time.Hour)
	r.must(r.SavePush(r.t.Context(), r.subscription(token, endpoint)))
	return token
}

// endpoints returns those of an account, the one saved last first.
func (r *rig) endpoints(a store.AgentAccount) []string {
	r.t.Helper()
	all, err := r.Cold().PushSubscriptions(r.t.Context(), a.ID, r.now(), r.now().Add(-time.Hour))
	r.must(err)
	list := []string{}
	for _, s := range all {
		list = append(list, s.Endpoint)
	}
	return list
}

func (r *rig) has(what string, a store.AgentAccount, want ...string) {
	r.t.Helper()
	if got := r.endpoints(a); !slices.Equal(got, want) {
		r.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A login has one subscription, a browser is in one login, and an account has a bounded number, of which the oldest goes.
func testPush(t *testing.T, r *rig) {
	ctx := t.Context()
	r.still.Store(time.Now().UnixMilli())
	tick := func() { r.still.Add(1) }
	one := r.loggedIn(r.lin, time.Hour)
	sub := r.subscription(one, "https://push.example/1")
	r.must(r.SavePush(ctx, sub))
	got, err := r.Cold().PushSubscriptions(ctx, r.lin.ID, r.now(), r.now())
	if err != nil || len(got) != 1 || got[0].Login != one || got[0].Agent.ID != r.lin.ID || got[0].Agent.Role != r.lin.Role || got[0].Agent.Password != "" ||
		!bytes.Equal(got[0].Key, sub.Key) || !bytes.Equal(got[0].Auth, sub.Auth) || got[0].Locale != "en" {
		t.Fatalf("%+v %v", got, err)
	}
	again := r.subscription(one, "https://push.example/2")
	again.Locale = ""
	r.must(r.SavePush(ctx, again))
	if got, err = r.Cold().PushSubscriptions(ctx, r.lin.ID, r.now(), r.now()); err != nil || len(got) != 1 || got[0].Endpoint != again.Endpoint || got[0].Locale != "en" || !bytes.Equal(got[0].Key, again.Key) {
		t.Errorf("in place of the one before, in its language: %+v %v", got, err)
	}
	tick()
	r.subscribed(r.moe, "https://push.example/2") // somebody else has logged in on this browser
	r.has("a browser that has gone to another login", r.lin)
	r.has("its new login", r.moe, "https://push.example/2")

	list := []string{}
	for i := range store.MaxPush {
		tick()
		list = append([]string{fmt.Sprintf("https://push.example/lin/%d", i)}, list...)
		r.subscribed(r.lin, list[0])
	}
	r.has("as many as there may be", r.lin, list...)
	r.subscribed(r.lin, "https://push.example/more") // in the same millisecond as the one before
	want := append([]string{"https://push.example/more"}, list[:len(list)-1]...)
	if got := r.endpoints(r.lin); len(got) != len(want) || !slices.Contains(got, want[0]) || slices.Contains(got, list[len(list)-1]) {
		t.Errorf("one more: %v, want %v", got, want)
	}
	r.has("those of another", r.moe, "https://push.example/2")
	for i := range 3 * store.MaxPush { // all in one millisecond
		endpoint := fmt.Sprintf("https://push.example/moe/%d", i)
		r.subscribed(r.moe, endpoint)
		if got := r.endpoints(r.moe); !slices.Contains(got, endpoint) || len(got) != min(i+2, store.MaxPush) {
			t.Errorf("%s: %v", endpoint, got)
		}
	}
}

// A subscription ends with its login, however that ends, and with every change of the password.
func testPushEnds(t *testing.T, r *rig) {
	ctx := t.Context()
	r.still.Store(time.Now().UnixMilli())
	begin := func() (one, two store.Token) {
		t.Helper()
		one = r.subscribed(r.lin, "https://push.example/1")
		r.still.Add(1)
		two = r.subscribed(r.lin, "https://push.example/2")
		r.has("both", r.lin, "https://push.example/2", "https://push.example/1")
		r.still.Add(1)
		return one, two
	}
	r.subscribed(r.moe, "https://push.example/moe")

	one, two := begin()
	sessions, err := r.Cold().AgentSessions(ctx, r.lin.ID, r.now())
	if err != nil || len(sessions) != 2 || !sessions[0].Push || !sessions[1].Push {
		t.Errorf("the list of logins: %+v %v", sessions, err)
	}
	if err := r.DropPush(ctx, one, "https://push.example/other"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an endpoint that the login does not have: %v", err)
	}
	r.must(r.DropPush(ctx, one, "https://push.example/1"))
	r.must(r.DropPush(ctx, two, ""))
	if err := r.DropPush(ctx, two, ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("dropped twice: %v", err)
	}
	if s, err := r.Cold().AgentSession(ctx, two, r.now()); err != nil || s.Push {
		t.Errorf("the login without it: %+v %v", s, err)
	}

	one, _ = begin()
	r.must(r.DeleteAgentSession(ctx, one))
	r.has("one has logged out", r.lin, "https://push.example/2")
	r.must(r.DeleteAgentSessions(ctx, r.lin.ID, store.Token{}))
	r.has("all have", r.lin)

	_, two = begin()
	r.must(r.ChangePassword(ctx, r.lin.ID, "x", "y", two))
	r.has("another password", r.lin)
	r.must(r.SavePush(ctx, r.subscription(two, "https://push.example/2"))) // the login that has changed it goes on
	r.has("again", r.lin, "https://push.example/2")
	r.must(r.ResetPassword(ctx, r.lin.ID, "z"))
	r.has("a reset", r.lin)

	begin()
	off := r.lin
	off.Disabled = true
	r.must(r.UpdateAgent(ctx, off))
	r.has("disabled", r.lin)
	off.Disabled = false
	r.must(r.UpdateAgent(ctx, off))
	r.has("and enabled again", r.lin)

	begin()
	now := r.now()
	for what, at := range map[string][2]time.Time{"expired": {now.Add(2 * time.Hour), now.Add(-time.Hour)}, "not used": {now, now.Add(time.Minute)}} {
		if got, err := r.Cold().PushSubscriptions(ctx, r.lin.ID, at[0], at[1]); err != nil || len(got) != 0 {
			t.Errorf("%s: %+v %v", what, got, err)
		}
	}
	r.still.Add(2 * time.Hour.Milliseconds())
	r.loggedIn(r.moe, time.Hour) // removes the logins that have expired
	r.still.Store(now.UnixMilli())
	r.has("the login was removed", r.lin)
	r.has("those of another", r.moe)
}

// What no browser gives is refused, and so is a login that has ended.
func testPushRefused(t *testing.T, r *rig) {
	ctx := t.Context()
	login := r.loggedIn(r.lin, time.Hour)
	for field, change := range map[string]func(*store.PushSubscription){
		"endpoint required": func(s *store.PushSubscription) { s.Endpoint = "" },
		"endpoint long":     func(s *store.PushSubscription) { s.Endpoint = "https://" + strings.Repeat("p", store.MaxPushEndpoint) },
		"endpoint format":   func(s *store.PushSubscription) { s.Endpoint = "https://push.example/\n" },
		"key format":        func(s *store.PushSubscription) { s.Key[64] ^= 1 }, // no point of the curve
		"auth format":       func(s *store.PushSubscription) { s.Auth = s.Auth[1:] },
		"locale format":     func(s *store.PushSubscription) { s.Locale = "x" },
	} {
		s := r.subscription(login, "https://push.example/1")
		change(&s)
		wrong(t, field, r.SavePush(ctx, s), field)
	}
	for what, token := range map[string]store.Token{"no login": newToken(), "an expired one": r.loggedIn(r.lin, -time.Hour)} {
		if err := r.SavePush(ctx, r.subscription(token, "https://push.example/1")); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	r.has("none", r.lin)
}
