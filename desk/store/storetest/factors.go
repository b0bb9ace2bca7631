package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// testFactors: a code and a recovery code count once, also for two that use them at once, and whatever changes the
// factor ends the other logins.
func testFactors(t *testing.T, r *rig) {
	ctx, lin := t.Context(), r.lin.ID
	expect := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	none := func(agent string) {
		t.Helper()
		_, err := r.Cold().Factor(ctx, agent)
		expect("none", err, store.ErrNotFound)
		expect("a code of none", r.UseFactor(ctx, agent, 1), store.ErrNotFound)
		_, err = r.UseRecovery(ctx, agent, store.Token{1})
		expect("a recovery code of none", err, store.ErrNotFound)
		expect("recovery codes of none", r.SetRecovery(ctx, agent, nil), store.ErrNotFound)
		expect("removing none", r.RemoveFactor(ctx, agent, store.Token{}), store.ErrNotFound)
	}
	none(lin)
	none("x")
	mine, other := newToken(), newToken()
	login := func(token store.Token) { r.must(r.CreateAgentSession(ctx, token, lin, time.Now().Add(time.Hour))) }
	only := func(want store.Token) {
		t.Helper()
		all, err := r.Cold().AgentSessions(ctx, lin, time.Now())
		r.must(err)
		if len(all) != 1 || all[0].Token != want {
			t.Errorf("%d logins", len(all))
		}
	}
	login(mine)
	login(other)
	codes := []store.Token{newToken(), newToken(), newToken()}
	set := store.Factor{Secret: []byte("a secret"), Step: 100}
	expect("nobody's", r.SetFactor(ctx, "x", set, codes, store.Token{}), store.ErrNotFound)
	r.must(r.SetFactor(ctx, lin, set, codes, mine))
	expect("a second one", r.SetFactor(ctx, lin, store.Factor{Secret: []byte("another")}, nil, store.Token{}), store.ErrExists)
	only(mine)
	f, err := r.Cold().Factor(ctx, lin)
	if r.must(err); string(f.Secret) != "a secret" || f.Step != 100 || f.Recovery != 3 || f.Created == 0 {
		t.Errorf("%+v", f)
	}
	if a, err := r.Cold().AgentByID(ctx, lin); err != nil || !a.Factor {
		t.Errorf("%+v %v", a, err)
	}
	none(r.moe.ID)
	for _, c := range []struct {
		step int64
		want error
	}{{100, store.ErrConflict}, {99, store.ErrConflict}, {98, store.ErrConflict}, {101, nil}, {101, store.ErrConflict}, {200, nil}, {198, store.ErrConflict}, {50, nil}, {50, store.ErrConflict}, {51, nil}} {
		expect("a code", r.UseFactor(ctx, lin, c.step), c.want)
	}
	var at sync.WaitGroup
	var taken [8]error
	var used [8]error
	for i := range taken {
		at.Go(func() {
			taken[i] = r.UseFactor(ctx, lin, 300)
			_, used[i] = r.UseRecovery(ctx, lin, codes[0])
		})
	}
	at.Wait()
	once := func(what string, errs []error, refused error) {
		t.Helper()
		good := 0
		for _, err := range errs {
			if err == nil {
				good++
			} else {
				expect(what, err, refused)
			}
		}
		if good != 1 {
			t.Errorf("%s was used %d times", what, good)
		}
	}
	once("the code", taken[:], store.ErrConflict)
	once("the recovery code", used[:], store.ErrNotFound)
	if left, err := r.UseRecovery(ctx, lin, codes[1]); err != nil || left != 1 {
		t.Errorf("%d left, %v", left, err)
	}
	r.must(r.SetRecovery(ctx, lin, codes[:1]))
	_, err = r.UseRecovery(ctx, lin, codes[2])
	expect("a replaced recovery code", err, store.ErrNotFound)
	login(other)
	r.must(r.RemoveFactor(ctx, lin, other))
	only(other)
	none(lin)
	r.must(r.SetFactor(ctx, lin, set, codes, other))
	if f, err := r.Cold().Factor(ctx, lin); err != nil || f.Recovery != 3 {
		t.Errorf("set up anew: %+v, %v", f, err)
	}
}
