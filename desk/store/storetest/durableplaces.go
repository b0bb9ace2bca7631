package storetest

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

func accountDurables() []durable {
	const issuer = "https://login.example"
	return []durable{
		account([]string{"CreateAgent"}, func(*rig, store.AgentAccount, string) error { return nil },
			func(_ *rig, a store.AgentAccount, _ string) error { return isIt(a.Capacity == 1, a, nil) }),
		account([]string{"UpdateAgent"}, func(r *rig, a store.AgentAccount, _ string) error {
			a.Capacity = 9
			return r.UpdateAgent(r.t.Context(), a)
		}, func(_ *rig, a store.AgentAccount, _ string) error { return isIt(a.Capacity == 9, a, nil) }),
		account([]string{"ChangePassword", "ResetPassword"}, func(r *rig, a store.AgentAccount, key string) error {
			return errors.Join(r.ChangePassword(r.t.Context(), a.ID, "old", "new", store.Token{}), r.ResetPassword(r.t.Context(), a.ID, key))
		}, func(_ *rig, a store.AgentAccount, key string) error { return isIt(a.Password == key, a, nil) }),
		account([]string{"NewReset", "UseReset"}, func(r *rig, a store.AgentAccount, key string) error {
			return errors.Join(r.NewReset(r.t.Context(), a.ID, a.Email, tokenOf(key)), r.UseReset(r.t.Context(), tokenOf(key), key))
		}, func(r *rig, a store.AgentAccount, key string) error {
			if a.Password != key {
				return isIt(false, a, nil)
			}
			return isGone(r.Cold().ResetAccount(r.t.Context(), tokenOf(key), r.now()))
		}),
		account([]string{"SetFactor", "UseFactor", "UseRecovery", "SetRecovery"}, func(r *rig, a store.AgentAccount, key string) error {
			codes := []store.Token{tokenOf(key), tokenOf("x" + key), tokenOf("y" + key)}
			err := r.SetFactor(r.t.Context(), a.ID, store.Factor{Secret: []byte(key), Step: 5}, codes[:1], store.Token{})
			err = errors.Join(err, r.SetRecovery(r.t.Context(), a.ID, codes), r.UseFactor(r.t.Context(), a.ID, 6))
			_, used := r.UseRecovery(r.t.Context(), a.ID, codes[0])
			return errors.Join(err, used)
		}, func(r *rig, a store.AgentAccount, key string) error {
			f, err := r.Cold().Factor(r.t.Context(), a.ID)
			return isIt(string(f.Secret) == key && f.Step == 6 && f.Recovery == 2, f, err)
		}),
		account([]string{"SpendTicket"}, func(r *rig, _ store.AgentAccount, key string) error {
			return r.SpendTicket(r.t.Context(), tokenOf(key), r.now().Add(time.Hour))
		}, func(r *rig, _ store.AgentAccount, key string) error {
			return expected(r.SpendTicket(r.t.Context(), tokenOf(key), r.now().Add(time.Hour)), store.ErrExists)
		}),
		account([]string{"RemoveFactor"}, func(r *rig, a store.AgentAccount, key string) error {
			return errors.Join(r.SetFactor(r.t.Context(), a.ID, store.Factor{Secret: []byte(key)}, nil, store.Token{}), r.RemoveFactor(r.t.Context(), a.ID, store.Token{}))
		}, func(r *rig, a store.AgentAccount, _ string) error {
			return isGone(r.Cold().Factor(r.t.Context(), a.ID))
		}),
		account([]string{"LinkIdentity"}, func(r *rig, a store.AgentAccount, key string) error {
			return r.LinkIdentity(r.t.Context(), a.ID, store.Identity{Issuer: issuer, Subject: key})
		}, func(_ *rig, a store.AgentAccount, _ string) error { return isIt(a.Linked, a, nil) }),
		account([]string{"UnlinkIdentities"}, func(r *rig, a store.AgentAccount, key string) error {
			return errors.Join(r.LinkIdentity(r.t.Context(), a.ID, store.Identity{Issuer: issuer, Subject: key}), r.UnlinkIdentities(r.t.Context(), a.ID))
		}, func(_ *rig, a store.AgentAccount, _ string) error { return isIt(!a.Linked, a, nil) }),
		account([]string{"CreateInvitation", "AcceptInvitation", "CreateAgentSession", "DescribeAgentSession", "TouchAgentSession"}, func(r *rig, a store.AgentAccount, key string) error {
			a.Role = perm.Admin
			err := r.UpdateAgent(r.t.Context(), a)
			_, made := r.CreateInvitation(r.t.Context(), store.Invitation{Role: perm.Agent, By: a.Actor(), Expires: r.now().Add(time.Hour).UnixMilli()}, tokenOf(key))
			zoe, accepted := r.AcceptInvitation(r.t.Context(), tokenOf(key), store.AgentAccount{Login: "b" + key[:20], Name: "Zoe"}, store.Identity{})
			return errors.Join(err, made, accepted, r.CreateAgentSession(r.t.Context(), tokenOf(key), zoe.ID, r.now().Add(time.Hour)),
				r.DescribeAgentSession(r.t.Context(), tokenOf(key), "192.0.2.1", key), r.TouchAgentSession(r.t.Context(), tokenOf(key)))
		}, func(r *rig, a store.AgentAccount, key string) error {
			s, err := r.Cold().AgentSession(r.t.Context(), tokenOf(key), r.now())
			if err == nil && (s.Agent.Login != "b"+key[:20] || s.Agent.Role != perm.Agent || s.UserAgent != key) {
				return isIt(false, s, nil)
			}
			_, open := r.Cold().Invitation(r.t.Context(), tokenOf(key), r.now())
			return errors.Join(err, isGone(a, open))
		}),
		account([]string{"RevokeInvitation"}, func(r *rig, a store.AgentAccount, key string) error {
			a.Role = perm.Admin
			err := r.UpdateAgent(r.t.Context(), a)
			v, made := r.CreateInvitation(r.t.Context(), store.Invitation{Role: perm.Agent, By: a.Actor(), Expires: r.now().Add(time.Hour).UnixMilli()}, tokenOf(key))
			return errors.Join(err, made, r.RevokeInvitation(r.t.Context(), v.ID))
		}, func(r *rig, _ store.AgentAccount, key string) error {
			return isGone(r.Cold().Invitation(r.t.Context(), tokenOf(key), r.now()))
		}),
		account([]string{"DeleteAgentSession", "DeleteAgentSessions"}, func(r *rig, a store.AgentAccount, key string) error {
			err := r.CreateAgentSession(r.t.Context(), tokenOf(key), a.ID, r.now().Add(time.Hour))
			other := r.CreateAgentSession(r.t.Context(), tokenOf("x"+key), a.ID, r.now().Add(time.Hour))
			return errors.Join(err, other, r.DeleteAgentSession(r.t.Context(), tokenOf(key)), r.DeleteAgentSessions(r.t.Context(), a.ID, store.Token{}))
		}, func(r *rig, a store.AgentAccount, _ string) error {
			left, err := r.Cold().AgentSessions(r.t.Context(), a.ID, r.now())
			return isIt(len(left) == 0, left, err)
		}),
		account([]string{"SavePush", "DropPush"}, func(r *rig, a store.AgentAccount, key string) error {
			var errs []error
			for _, k := range []string{key, "x" + key} {
				errs = append(errs, r.CreateAgentSession(r.t.Context(), tokenOf(k), a.ID, r.now().Add(time.Hour)), r.SavePush(r.t.Context(), r.subscription(tokenOf(k), "https://push.example/"+k)))
			}
			return errors.Join(append(errs, r.DropPush(r.t.Context(), tokenOf("x"+key), ""))...)
		}, func(r *rig, a store.AgentAccount, key string) error {
			all, err := r.Cold().PushSubscriptions(r.t.Context(), a.ID, r.now(), time.Time{})
			return isIt(len(all) == 1 && all[0].Endpoint == "https://push.example/"+key, all, err)
		}),
		account([]string{"SaveFilter", "DropFilter"}, func(r *rig, a store.AgentAccount, key string) error {
			kept, gone := store.SavedFilter{Name: key, Fields: map[string]string{"tag": key}}, store.SavedFilter{Name: "gone"}
			return errors.Join(r.Store.SaveFilter(r.t.Context(), a.ID, kept), r.Store.SaveFilter(r.t.Context(), a.ID, gone), r.DropFilter(r.t.Context(), a.ID, gone.Name))
		}, func(r *rig, a store.AgentAccount, key string) error {
			all, err := r.Cold().SavedFilters(r.t.Context(), a.ID)
			return isIt(len(all) == 1 && all[0].Fields["tag"] == key, all, err)
		}),
		account([]string{"SetStatus", "SetGone", "CreateGroup", "AddMember"}, func(r *rig, a store.AgentAccount, key string) error {
			g, made := r.CreateGroup(r.t.Context(), store.Group{Name: key})
			return errors.Join(made, r.SetStatus(r.t.Context(), a.ID, store.Busy, true), r.SetGone(r.t.Context(), a.ID, 77), r.AddMember(r.t.Context(), g.ID, a.ID))
		}, func(r *rig, a store.AgentAccount, _ string) error {
			all, err := r.Cold().Staff(r.t.Context())
			i := slices.IndexFunc(all, func(m store.StaffMember) bool { return m.ID == a.ID })
			if err != nil || i < 0 {
				return errors.Join(err, store.ErrNotFound)
			}
			return isIt(all[i].Status == store.Busy && all[i].GoneAt == 77 && len(all[i].Groups) == 1, all[i], nil)
		}),
	}
}

func placeDurables() []durable {
	groupOf := func(r *rig, key string) (store.Group, error) {
		all, err := r.Cold().Groups(r.t.Context())
		for _, g := range all {
			if g.Name == key {
				return g, err
			}
		}
		return store.Group{}, errors.Join(err, store.ErrNotFound)
	}
	return []durable{
		{[]string{"CreateSite", "UpdateSite"}, func(r *rig, key string) error {
			s, err := r.CreateSite(r.t.Context(), store.Site{Key: key, Name: "Shop"})
			s.Name = "Shop " + key[:8]
			return errors.Join(err, r.UpdateSite(r.t.Context(), s))
		}, func(r *rig, key string) error {
			s, err := r.Hot().SiteByKey(r.t.Context(), key)
			return isIt(s.Name == "Shop "+key[:8], s, err)
		}},
		{[]string{"UpdateGroup", "SetMembers", "SetGroups"}, func(r *rig, key string) error {
			g, err := r.CreateGroup(r.t.Context(), store.Group{Name: "old" + key[:20]})
			g.Name = key
			return errors.Join(err, r.UpdateGroup(r.t.Context(), g), r.SetMembers(r.t.Context(), g.ID, []string{r.lin.ID, r.moe.ID}), r.SetGroups(r.t.Context(), r.moe.ID, nil))
		}, func(r *rig, key string) error {
			g, err := groupOf(r, key)
			members, read := r.Cold().Members(r.t.Context())
			return isIt(slices.Equal(members[g.ID], []string{r.lin.ID}), members[g.ID], errors.Join(err, read))
		}},
		{[]string{"DeleteGroup"}, func(r *rig, key string) error {
			g, err := r.CreateGroup(r.t.Context(), store.Group{Name: key})
			return errors.Join(err, r.DeleteGroup(r.t.Context(), g.ID))
		}, func(r *rig, key string) error { return isGone(groupOf(r, key)) }},
		{[]string{"CreateBot", "UpdateBot", "AddBotUsage"}, func(r *rig, key string) error {
			b, err := r.CreateBot(r.t.Context(), store.BotAccount{Name: "old" + key[:20], Kind: store.BotRules, Config: "{}"})
			b.Name = key
			return errors.Join(err, r.UpdateBot(r.t.Context(), b), r.AddBotUsage(r.t.Context(), b.ID, "2026-01-01", store.BotUsage{Calls: 3}))
		}, func(r *rig, key string) error {
			all, err := r.Cold().Bots(r.t.Context())
			i := slices.IndexFunc(all, func(b store.BotAccount) bool { return b.Name == key })
			if err != nil || i < 0 {
				return errors.Join(err, store.ErrNotFound)
			}
			u, err := r.Cold().BotUsage(r.t.Context(), all[i].ID, "2026-01-01")
			return isIt(u.Calls == 3, u, err)
		}},
		{[]string{"DeleteBot"}, func(r *rig, key string) error {
			b, err := r.CreateBot(r.t.Context(), store.BotAccount{Name: key, Kind: store.BotRules, Config: "{}"})
			return errors.Join(err, r.DeleteBot(r.t.Context(), b.ID))
		}, func(r *rig, key string) error {
			all, err := r.Cold().Bots(r.t.Context())
			return isIt(!slices.ContainsFunc(all, func(b store.BotAccount) bool { return b.Name == key }), all, err)
		}},
		{[]string{"CreateCanned", "UpdateCanned", "DeleteCanned"}, func(r *rig, key string) error {
			c, err := r.CreateCanned(r.t.Context(), store.Canned{Short: key, Title: "x", Body: "old"})
			gone, other := r.CreateCanned(r.t.Context(), store.Canned{Short: "x" + key[:20], Title: "x", Body: "gone"})
			c.Body = key
			return errors.Join(err, other, r.UpdateCanned(r.t.Context(), c), r.DeleteCanned(r.t.Context(), gone.ID))
		}, func(r *rig, key string) error {
			all, err := r.Cold().CannedReplies(r.t.Context())
			n := 0
			for _, c := range all {
				if c.Short == key && c.Body == key || c.Short == "x"+key[:20] {
					n++
				}
			}
			return isIt(n == 1, n, err)
		}},
		{[]string{"CreateAPIKey", "TouchAPIKey"}, func(r *rig, key string) error {
			k, err := r.CreateAPIKey(r.t.Context(), store.APIKey{Name: key, Scopes: []perm.KeyScope{perm.KeyRead}}, tokenOf(key))
			if full("keys")(err) {
				return errFull
			}
			return errors.Join(err, r.TouchAPIKey(r.t.Context(), k.ID))
		}, func(r *rig, key string) error {
			k, err := r.Cold().APIKey(r.t.Context(), tokenOf(key))
			return isIt(k.Name == key && k.Used > 0, k, err)
		}},
		{[]string{"RevokeAPIKey"}, func(r *rig, key string) error {
			k, err := r.CreateAPIKey(r.t.Context(), store.APIKey{Name: key, Scopes: []perm.KeyScope{perm.KeyRead}}, tokenOf(key))
			if full("keys")(err) {
				return errFull
			}
			return errors.Join(err, r.RevokeAPIKey(r.t.Context(), k.ID))
		}, func(r *rig, key string) error { return isGone(r.Cold().APIKey(r.t.Context(), tokenOf(key))) }},
		hookDurable("CreateWebhook", func(*rig, store.Webhook) error { return nil }, func(w store.Webhook, there bool) bool { return there && w.Failing == 0 }),
		hookDurable("UpdateWebhook", func(r *rig, w store.Webhook) error {
			w.Private = true
			return r.UpdateWebhook(r.t.Context(), w)
		}, func(w store.Webhook, there bool) bool { return there && w.Private }),
		hookDurable("SaveHook", func(r *rig, w store.Webhook) error {
			return r.SaveHook(r.t.Context(), store.HookProgress{Hook: w.ID, Failing: 77})
		}, func(w store.Webhook, there bool) bool { return there && w.Failing == 77 }),
		hookDurable("DeleteWebhook", func(r *rig, w store.Webhook) error { return r.DeleteWebhook(r.t.Context(), w.ID) },
			func(_ store.Webhook, there bool) bool { return !there }),
		{[]string{"Secret"}, func(r *rig, key string) error {
			secret, err := r.Secret(r.t.Context(), key)
			if err == nil {
				_, err = r.named(key, map[string]string{"secret": hex.EncodeToString(secret)})
			}
			return err
		}, func(r *rig, key string) error {
			c, err := r.foundByName(key)
			secret, again := r.Secret(r.t.Context(), key)
			return isIt(c.Attributes["secret"] == hex.EncodeToString(secret), c, errors.Join(err, again))
		}},
	}
}

// hookDurable makes a durable of something that is done to a new webhook.
func hookDurable(name string, do func(r *rig, w store.Webhook) error, there func(w store.Webhook, there bool) bool) durable {
	return durable{[]string{name}, func(r *rig, key string) error {
		w, err := r.CreateWebhook(r.t.Context(), store.Webhook{URL: "https://shop.example/" + key, Secrets: []string{strings.Repeat("s", store.MinSecret)}})
		switch {
		case full("hooks")(err):
			return errFull
		case err != nil:
			return err
		}
		return do(r, w)
	}, func(r *rig, key string) error {
		all, err := r.Cold().Webhooks(r.t.Context())
		for _, w := range all {
			if strings.HasSuffix(w.URL, key) {
				return isIt(there(w, true), w, err)
			}
		}
		return isIt(there(store.Webhook{}, false), len(all), err)
	}}
}

// errFull says that a list takes no more: a long run has filled it.
var errFull = errors.New("the list is full")
