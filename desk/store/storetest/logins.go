package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Logins are listed without the expired ones, end one by one or all but one, and with another password.
func testLogins(t *testing.T, r *rig) {
	ctx, now := t.Context(), time.Now()
	login := func(a store.AgentAccount, life time.Duration) store.Token {
		t.Helper()
		token := newToken()
		r.must(r.CreateAgentSession(ctx, token, a.ID, now.Add(life)))
		return token
	}
	count := func(a store.AgentAccount) int {
		t.Helper()
		all, err := r.Cold().AgentSessions(ctx, a.ID, now)
		r.must(err)
		return len(all)
	}
	first, second, other := login(r.lin, time.Hour), login(r.lin, time.Hour), login(r.moe, time.Hour)
	login(r.lin, -time.Hour)
	r.must(r.DescribeAgentSession(ctx, second, "192.0.2.0/24", "Browser"))
	if err := r.DescribeAgentSession(ctx, newToken(), "x", "y"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a login that is not there: %v", err)
	}
	all, err := r.Cold().AgentSessions(ctx, r.lin.ID, now)
	r.must(err)
	if len(all) != 2 {
		t.Fatalf("%d logins", len(all))
	}
	for _, s := range all {
		want := ""
		if s.Token == second {
			want = "Browser"
		}
		if (s.Token != first && s.Token != second) || s.UserAgent != want || (want != "") != (s.IP != "") || s.Agent.ID != r.lin.ID || s.Created.IsZero() || s.Seen.IsZero() {
			t.Errorf("%+v", s)
		}
	}
	r.shift.Add(int64(time.Minute))
	r.must(r.TouchAgentSession(ctx, second))
	if all, err := r.Cold().AgentSessions(ctx, r.lin.ID, now); err != nil || len(all) != 2 || all[0].Token != second || !all[0].Seen.After(all[1].Seen) {
		t.Errorf("the one seen last does not come first: %+v %v", all, err)
	}
	third := login(r.lin, time.Hour)
	r.must(r.DeleteAgentSession(ctx, third))
	for what, err := range map[string]error{"ended twice": r.DeleteAgentSession(ctx, third), "seen after its end": r.TouchAgentSession(ctx, third)} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	r.must(r.DeleteAgentSessions(ctx, r.lin.ID, first))
	if count(r.lin) != 1 || count(r.moe) != 1 {
		t.Errorf("%d and %d logins", count(r.lin), count(r.moe))
	}
	second = login(r.lin, time.Hour)
	if err := r.ChangePassword(ctx, r.lin.ID, "not the one", "new", first); !errors.Is(err, store.ErrNotFound) || count(r.lin) != 2 {
		t.Errorf("the old password is another by now: %v, %d logins", err, count(r.lin))
	}
	r.must(r.ChangePassword(ctx, r.lin.ID, "x", "new", first))
	if a, err := r.Cold().AgentByID(ctx, r.lin.ID); err != nil || a.Password != "new" || count(r.lin) != 1 {
		t.Errorf("%+v, %v, %d logins", a, err, count(r.lin))
	}
	if _, err := r.Cold().AgentSession(ctx, second, now); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the other login: %v", err)
	}
	if s, err := r.Cold().AgentSession(ctx, first, now); err != nil || s.Token != first {
		t.Errorf("the login itself: %v", err)
	}
	r.must(r.DeleteAgentSessions(ctx, r.lin.ID, store.Token{}))
	if count(r.lin) != 0 {
		t.Errorf("%d logins", count(r.lin))
	}
	if _, err := r.Cold().AgentSession(ctx, other, now); err != nil {
		t.Errorf("another's login: %v", err)
	}
}

// testTickets: a ticket is used once, and forgotten when nobody would take it any more.
func testTickets(t *testing.T, r *rig) {
	ctx, one, other := t.Context(), newToken(), newToken()
	expires := r.now().Add(time.Minute)
	r.must(r.SpendTicket(ctx, one, expires))
	r.must(r.SpendTicket(ctx, other, expires.Add(time.Hour)))
	for _, ticket := range []store.Token{one, other} {
		if err := r.SpendTicket(ctx, ticket, expires); !errors.Is(err, store.ErrExists) {
			t.Errorf("once more: %v", err)
		}
	}
	r.shift.Add(int64(time.Minute))
	r.must(r.SpendTicket(ctx, one, expires)) // it is refused before anybody asks the store
	if err := r.SpendTicket(ctx, other, expires); !errors.Is(err, store.ErrExists) {
		t.Errorf("one that has not expired is forgotten: %v", err)
	}
}
