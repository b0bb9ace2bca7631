package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// once is something that happens once, however many ask for it at the same time.
type once struct {
	names  []string                       // of the commands
	begin  func(r *rig) func(i int) error // makes ready; what it returns runs many times at once
	others func(err error) bool           // whether that is what all but one are told
	after  func(r *rig) error             // looks at what is left, nil = nothing to look at
}

func told(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

// full tells that a list takes no more.
func full(field string) func(error) bool {
	return func(err error) bool {
		i, ok := errors.AsType[store.Invalid](err)
		return ok && i[0].Field == field && i[0].Reason == store.ReasonMany
	}
}

// nothing is what a command is told that counts what it has changed, and has changed nothing.
var errNothing = errors.New("nothing was changed")

func some(n int, err error) error {
	if err == nil && n == 0 {
		return errNothing
	}
	return err
}

func onces() []once {
	return slices.Concat(accountOnces(), placeOnces(), listOnces(), chatOnces())
}

// testOnce: of many that do what can be done once, one succeeds, and the others are told why not.
func testOnce(t *testing.T, r *rig) {
	for _, c := range onces() {
		const callers = 4
		run := c.begin(r)
		var errs [callers]error
		var at sync.WaitGroup
		for i := range errs {
			at.Go(func() { errs[i] = run(i) })
		}
		at.Wait()
		done := 0
		for _, err := range errs {
			if err == nil {
				done++
			} else if !c.others(err) {
				t.Errorf("%v: %v", c.names, err)
			}
		}
		if done != 1 {
			t.Errorf("%v: %d of %d succeeded: %v", c.names, done, callers, errs)
		}
		if c.after != nil {
			if err := c.after(r); err != nil {
				t.Errorf("%v: %v", c.names, err)
			}
		}
	}
}

// anybody returns a new account.
func (r *rig) anybody(role perm.Role) store.AgentAccount {
	r.t.Helper()
	a, err := r.CreateAgent(r.t.Context(), store.AgentAccount{Login: "a" + uuid.NewString()[:20], Name: "Any", Password: "old", Role: role, Email: "any@shop.example", Capacity: 1})
	r.must(err)
	return a
}

func (r *rig) invited(by store.AgentAccount) (store.Invitation, store.Token) {
	r.t.Helper()
	token := newToken()
	v, err := r.CreateInvitation(r.t.Context(), store.Invitation{Role: perm.Agent, By: by.Actor(), Expires: r.now().Add(time.Hour).UnixMilli()}, token)
	r.must(err)
	return v, token
}

func accountOnces() []once {
	return []once{
		{names: []string{"CreateAgent"}, others: told(store.ErrExists), begin: func(r *rig) func(int) error {
			return func(int) error {
				_, err := r.CreateAgent(r.t.Context(), store.AgentAccount{Login: "twice", Name: "Twice", Password: "x"})
				return err
			}
		}},
		{names: []string{"CreateAgentFor"}, others: told(store.ErrExists), begin: func(r *rig) func(int) error {
			return func(i int) error {
				_, err := r.CreateAgentFor(r.t.Context(), store.AgentAccount{Login: fmt.Sprint("for", i), Name: "For", Role: perm.Agent}, store.Identity{Issuer: "https://a.example", Subject: "for"})
				return err
			}
		}},
		{names: []string{"SpendTicket"}, others: told(store.ErrExists), begin: func(r *rig) func(int) error {
			ticket, expires := newToken(), r.now().Add(time.Hour)
			return func(int) error { return r.SpendTicket(r.t.Context(), ticket, expires) }
		}},
		{names: []string{"LinkIdentity"}, others: told(store.ErrExists), begin: func(r *rig) func(int) error {
			of := []store.AgentAccount{r.anybody(perm.Agent), r.anybody(perm.Agent)}
			return func(i int) error {
				return r.LinkIdentity(r.t.Context(), of[i%2].ID, store.Identity{Issuer: "https://a.example", Subject: "link"})
			}
		}},
		{names: []string{"UnlinkIdentities"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			a := r.anybody(perm.Agent)
			r.must(r.LinkIdentity(r.t.Context(), a.ID, store.Identity{Issuer: "https://a.example", Subject: "unlink"}))
			return func(int) error { return r.UnlinkIdentities(r.t.Context(), a.ID) }
		}},
		{names: []string{"AcceptInvitation"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			_, token := r.invited(r.anybody(perm.Admin))
			return func(i int) error {
				_, err := r.AcceptInvitation(r.t.Context(), token, store.AgentAccount{Login: fmt.Sprint("invited", i), Name: "Zoe", Password: "x"}, store.Identity{})
				return err
			}
		}},
		{names: []string{"RevokeInvitation", "AcceptInvitation"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			v, token := r.invited(r.anybody(perm.Admin))
			return func(i int) error {
				if i%2 == 0 {
					return r.RevokeInvitation(r.t.Context(), v.ID)
				}
				_, err := r.AcceptInvitation(r.t.Context(), token, store.AgentAccount{Login: fmt.Sprint("revoked", i), Name: "Zoe", Password: "x"}, store.Identity{})
				return err
			}
		}},
		{names: []string{"SetFactor"}, others: told(store.ErrExists), begin: func(r *rig) func(int) error {
			a := r.anybody(perm.Agent)
			return func(int) error {
				return r.SetFactor(r.t.Context(), a.ID, store.Factor{Secret: []byte("s")}, []store.Token{newToken()}, store.Token{})
			}
		}},
		{names: []string{"UseFactor"}, others: told(store.ErrConflict), begin: func(r *rig) func(int) error {
			a := r.withFactor(newToken())
			return func(int) error { return r.UseFactor(r.t.Context(), a.ID, 77) }
		}},
		{names: []string{"UseRecovery"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			code := newToken()
			a := r.withFactor(code)
			return func(int) error {
				_, err := r.UseRecovery(r.t.Context(), a.ID, code)
				return err
			}
		}},
		{names: []string{"RemoveFactor"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			a := r.withFactor(newToken())
			return func(int) error { return r.RemoveFactor(r.t.Context(), a.ID, store.Token{}) }
		}},
		{names: []string{"UseReset", "NewReset"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			a, token := r.anybody(perm.Agent), newToken()
			r.must(r.NewReset(r.t.Context(), a.ID, a.Email, token))
			return func(i int) error { return r.UseReset(r.t.Context(), token, fmt.Sprint("new", i)) }
		}},
		{names: []string{"ChangePassword"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			a := r.anybody(perm.Agent)
			return func(i int) error {
				return r.ChangePassword(r.t.Context(), a.ID, "old", fmt.Sprint("new", i), store.Token{})
			}
		}},
		{names: []string{"CreateAgentSession", "DeleteAgentSession"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			token := newToken()
			r.must(r.CreateAgentSession(r.t.Context(), token, r.lin.ID, r.now().Add(time.Hour)))
			return func(int) error { return r.DeleteAgentSession(r.t.Context(), token) }
		}},
	}
}

// withFactor returns an account with a second factor and one recovery code.
func (r *rig) withFactor(code store.Token) store.AgentAccount {
	r.t.Helper()
	a := r.anybody(perm.Agent)
	r.must(r.SetFactor(r.t.Context(), a.ID, store.Factor{Secret: []byte("s")}, []store.Token{code}, store.Token{}))
	return a
}

func placeOnces() []once {
	secret := strings.Repeat("s", store.MinSecret)
	return []once{
		{names: []string{"CreateSite"}, others: told(store.ErrExists), begin: func(r *rig) func(int) error {
			return func(int) error {
				_, err := r.CreateSite(r.t.Context(), store.Site{Key: "twice", Name: "Twice"})
				return err
			}
		}},
		{names: []string{"CreateGroup"}, others: told(store.ErrExists), begin: func(r *rig) func(int) error {
			return func(int) error {
				_, err := r.CreateGroup(r.t.Context(), store.Group{Name: "twice"})
				return err
			}
		}},
		{names: []string{"DeleteGroup"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			g := r.group("gone", r.lin)
			return func(int) error { return r.DeleteGroup(r.t.Context(), g.ID) }
		}},
		{names: []string{"CreateBot"}, others: told(store.ErrExists), begin: func(r *rig) func(int) error {
			return func(int) error {
				_, err := r.CreateBot(r.t.Context(), store.BotAccount{Name: "twice", Kind: store.BotRules, Config: "{}"})
				return err
			}
		}},
		{names: []string{"DeleteBot"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			b, err := r.CreateBot(r.t.Context(), store.BotAccount{Name: "gone", Kind: store.BotRules, Config: "{}"})
			r.must(err)
			return func(int) error { return r.DeleteBot(r.t.Context(), b.ID) }
		}},
		{names: []string{"CreateCanned"}, others: told(store.ErrExists), begin: func(r *rig) func(int) error {
			return func(int) error {
				_, err := r.CreateCanned(r.t.Context(), store.Canned{Short: "twice", Title: "Twice", Body: "x"})
				return err
			}
		}},
		{names: []string{"DeleteCanned"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			c, err := r.CreateCanned(r.t.Context(), store.Canned{Short: "gone", Title: "Gone", Body: "x"})
			r.must(err)
			return func(int) error { return r.DeleteCanned(r.t.Context(), c.ID) }
		}},
		{names: []string{"RevokeAPIKey"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			k, err := r.CreateAPIKey(r.t.Context(), store.APIKey{Name: "gone", Scopes: []perm.KeyScope{perm.KeyRead}}, newToken())
			r.must(err)
			return func(int) error { return r.RevokeAPIKey(r.t.Context(), k.ID) }
		}},
		{names: []string{"DeleteWebhook"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			w := r.webhook()
			return func(int) error { return r.DeleteWebhook(r.t.Context(), w.ID) }
		}},
		{names: []string{"SaveHook", "RetryDead", "DropDead"}, others: told(errNothing), begin: func(r *rig) func(int) error {
			w, err := r.CreateWebhook(r.t.Context(), store.Webhook{URL: "https://shop.example", Secrets: []string{secret}})
			r.must(err)
			e := store.HookEvent{OutboxRow: store.OutboxRow{Seq: 1, ID: "e", Type: store.EventOpened, Conv: "c"}, Dead: 1}
			r.must(r.SaveHook(r.t.Context(), store.HookProgress{Hook: w.ID, Keep: []store.HookEvent{e}}))
			return func(i int) error {
				if i%2 == 0 {
					return some(r.RetryDead(r.t.Context(), w.ID, 1))
				}
				return some(r.DropDead(r.t.Context(), w.ID, 1))
			}
		}},
	}
}

// listOnces are lists that have room for one more.
func listOnces() []once {
	secret := strings.Repeat("s", store.MinSecret)
	return []once{
		{names: []string{"CreateAPIKey"}, others: full("keys"), begin: func(r *rig) func(int) error {
			more := func(int) error {
				_, err := r.CreateAPIKey(r.t.Context(), store.APIKey{Name: "more", Scopes: []perm.KeyScope{perm.KeyRead}}, newToken())
				return err
			}
			r.fill(store.MaxAPIKeys-1, more)
			return more
		}},
		{names: []string{"CreateWebhook"}, others: full("hooks"), begin: func(r *rig) func(int) error {
			more := func(int) error {
				_, err := r.CreateWebhook(r.t.Context(), store.Webhook{URL: "https://shop.example", Secrets: []string{secret}})
				return err
			}
			there, err := r.Cold().Webhooks(r.t.Context())
			r.must(err)
			r.fill(store.MaxWebhooks-1-len(there), more)
			return more
		}},
		{names: []string{"CreateInvitation"}, others: full("invitations"), begin: func(r *rig) func(int) error {
			boss := r.anybody(perm.Admin)
			more := func(int) error {
				_, err := r.CreateInvitation(r.t.Context(), store.Invitation{Role: perm.Agent, By: boss.Actor(), Expires: r.now().Add(time.Hour).UnixMilli()}, newToken())
				return err
			}
			r.fill(store.MaxInvitations-1, more)
			return more
		}},
		{names: []string{"SaveFilter"}, others: full("filters"), begin: func(r *rig) func(int) error {
			more := func(i int) error {
				return r.SaveFilter(r.t.Context(), r.lin.ID, store.SavedFilter{Name: fmt.Sprint("one more ", i)})
			}
			for i := range store.MaxFilters - 1 {
				r.must(more(100 + i))
			}
			return more
		}},
		{names: []string{"DropFilter"}, others: told(store.ErrNotFound), begin: func(r *rig) func(int) error {
			r.must(r.SaveFilter(r.t.Context(), r.moe.ID, store.SavedFilter{Name: "gone"}))
			return func(int) error { return r.DropFilter(r.t.Context(), r.moe.ID, "gone") }
		}},
	}
}

func (r *rig) fill(n int, more func(int) error) {
	r.t.Helper()
	for i := range n {
		r.must(more(i))
	}
}
