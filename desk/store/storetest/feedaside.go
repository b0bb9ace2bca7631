package storetest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// says checks what the feed tells of one change, live and read again. A part that is zero means that nothing is told.
func (r *rig) says(what string, want store.Fed, change func() error) {
	r.t.Helper()
	r.behind()
	before := r.feed.last()
	if err := change(); err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	r.behind()
	told := slices.DeleteFunc(r.feed.all(), func(p store.Fed) bool { return p.Last <= before })
	if read := r.reread(before, 100); len(told)+len(read) > 0 && !reflect.DeepEqual(told, read) {
		r.t.Errorf("%s: told\n%+v\nread\n%+v", what, told, read)
	}
	var got store.Fed
	if len(told) > 1 {
		r.t.Errorf("%s is told in %d parts", what, len(told))
	}
	if len(told) > 0 {
		got = told[0]
		if got.First != before+1 || got.Last < got.First {
			r.t.Errorf("%s: %d to %d behind %d", what, got.First, got.Last, before)
		}
		got.First, got.Last, got.At = 0, 0, 0
	}
	for i := range got.Contacts {
		got.Contacts[i] = store.Contact{ID: got.Contacts[i].ID}
	}
	if !reflect.DeepEqual(got, want) {
		r.t.Errorf("%s: told\n%+v\nwant\n%+v", what, got, want)
	}
}

// testFeedAccounts: each change of an account, and each end of a login, names the agent. A login that begins names nobody.
func testFeedAccounts(t *testing.T, r *rig) {
	ctx := t.Context()
	nothing, lin := store.Fed{}, store.Fed{Accounts: []string{r.lin.ID}}
	moon := store.Identity{Issuer: "https://id.example", Subject: "moon"}
	made := func(what string, do func() (store.AgentAccount, error), setup bool) {
		who := make([]string, 1)
		r.says(what, store.Fed{Accounts: who, Setup: setup}, func() error {
			a, err := do()
			who[0] = a.ID
			return err
		})
	}
	made("an account", func() (store.AgentAccount, error) {
		return r.CreateAgent(ctx, store.AgentAccount{Login: "new", Name: "New", Capacity: 1})
	}, false)
	made("an account of the single sign-on", func() (store.AgentAccount, error) {
		return r.CreateAgentFor(ctx, store.AgentAccount{Login: "for", Name: "For", Role: perm.Agent}, moon)
	}, false)
	invitation := newToken()
	kim, err := r.CreateAgent(ctx, store.AgentAccount{Login: "kim", Name: "Kim", Role: perm.Admin})
	r.must(err)
	_, err = r.CreateInvitation(ctx, store.Invitation{Role: perm.Agent, Groups: []string{r.group("care").ID}, By: kim.Actor(), Expires: r.now().Add(time.Hour).UnixMilli()}, invitation)
	r.must(err)
	made("an invited one, in a group", func() (store.AgentAccount, error) {
		return r.AcceptInvitation(ctx, invitation, store.AgentAccount{Login: "zoe", Name: "Zoe"}, store.Identity{})
	}, true)

	var first, second store.Token
	logins := func() error { first, second = r.login(r.lin), r.login(r.lin); return nil }
	reset := newToken()
	named := r.lin
	named.Name, named.Email = "Lin Two", "lin@example.com"
	disabled := named
	disabled.Disabled = true
	for _, c := range []struct {
		what string
		want store.Fed
		do   func() error
	}{
		{"logins", nothing, logins},
		{"a login that is used", nothing, func() error {
			return errors.Join(r.TouchAgentSession(ctx, first), r.DescribeAgentSession(ctx, first, "ip", "b"))
		}},
		{"a logout", lin, func() error { return r.DeleteAgentSession(ctx, first) }},
		{"the other logins", lin, func() error { return r.DeleteAgentSessions(ctx, r.lin.ID, second) }},
		{"a name", lin, func() error { return r.UpdateAgent(ctx, named) }},
		{"a password", lin, func() error { return r.ChangePassword(ctx, r.lin.ID, r.lin.Password, "y", second) }},
		{"a password by an administrator", lin, func() error { return r.ResetPassword(ctx, r.lin.ID, "z") }},
		{"a link is asked for", nothing, func() error { return r.NewReset(ctx, r.lin.ID, named.Email, reset) }},
		{"a password by mail", lin, func() error { return r.UseReset(ctx, reset, "w") }},
		{"a second factor", lin, func() error { return r.SetFactor(ctx, r.lin.ID, store.Factor{Secret: []byte("s")}, nil, second) }},
		{"no second factor", lin, func() error { return r.RemoveFactor(ctx, r.lin.ID, second) }},
		{"an identity", nothing, func() error {
			return r.LinkIdentity(ctx, r.lin.ID, store.Identity{Issuer: "https://id.example", Subject: "lin"})
		}},
		{"no identity", lin, func() error { return r.UnlinkIdentities(ctx, r.lin.ID) }},
		{"the end of it", lin, func() error { return r.UpdateAgent(ctx, disabled) }},
		{"nobody's", nothing, func() error { return expected(r.ResetPassword(ctx, "none", "x"), store.ErrNotFound) }},
		{"a logout of nobody", nothing, func() error { return expected(r.DeleteAgentSession(ctx, newToken()), store.ErrNotFound) }},
	} {
		r.says(c.what, c.want, c.do)
	}
}

func expected(err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return errors.Join(errors.New("unexpected"), err)
}

// testFeedSetup: each change of groups, members, sites and webhooks is told, and what has no effect elsewhere is not.
func testFeedSetup(t *testing.T, r *rig) {
	ctx := t.Context()
	setup, hooks := store.Fed{Setup: true}, store.Fed{Hooks: true}
	var group, other store.Group
	var hook store.Webhook
	site := r.site
	var err error
	for _, c := range []struct {
		what string
		want store.Fed
		do   func() error
	}{
		{"a group", setup, func() error { group, err = r.CreateGroup(ctx, store.Group{Name: "care"}); return err }},
		{"another", setup, func() error { other, err = r.CreateGroup(ctx, store.Group{Name: "sales"}); return err }},
		{"its name", setup, func() error { group.Name = "help"; return r.UpdateGroup(ctx, group) }},
		{"a member", setup, func() error { return r.AddMember(ctx, group.ID, r.lin.ID) }},
		{"its members", setup, func() error { return r.SetMembers(ctx, group.ID, []string{r.lin.ID, r.moe.ID}) }},
		{"no members", setup, func() error { return r.SetMembers(ctx, group.ID, nil) }},
		{"groups of a member", setup, func() error { return r.SetGroups(ctx, r.lin.ID, []string{group.ID, other.ID}) }},
		{"no groups", setup, func() error { return r.SetGroups(ctx, r.lin.ID, nil) }},
		{"its end", setup, func() error { return r.DeleteGroup(ctx, group.ID) }},
		{"a group that is not", store.Fed{}, func() error { return expected(r.DeleteGroup(ctx, group.ID), store.ErrNotFound) }},
		{"a site", setup, func() error { _, err = r.CreateSite(ctx, store.Site{Key: "two", Name: "Two"}); return err }},
		{"its settings", setup, func() error { site.Name = "One"; return r.UpdateSite(ctx, site) }},
		{"a reply", store.Fed{}, func() error {
			_, err = r.CreateCanned(ctx, store.Canned{Short: "hi", Locale: "en", Title: "Hi", Body: "Hello"})
			return err
		}},
		{"a webhook", hooks, func() error { hook = r.webhook(); return nil }},
		{"its address", hooks, func() error { hook.URL += "2"; return r.UpdateWebhook(ctx, hook) }},
		{"its progress", store.Fed{}, func() error {
			row := store.OutboxRow{Seq: 1, ID: "e", Type: store.EventMessage, Time: 1}
			return r.SaveHook(ctx, store.HookProgress{Hook: hook.ID, Position: hook.Position, Keep: []store.HookEvent{{OutboxRow: row, Attempts: 1, Dead: 1}}})
		}},
		{"nothing to try again", store.Fed{}, func() error { _, err = r.RetryDead(ctx, hook.ID, 7); return err }},
		{"an event to try again", hooks, func() error { _, err = r.RetryDead(ctx, hook.ID, 1); return err }},
		{"the end of it", hooks, func() error { return r.DeleteWebhook(ctx, hook.ID) }},
	} {
		r.says(c.what, c.want, c.do)
	}
	for _, row := range r.rows(0) {
		if hook.Wants(&row) {
			t.Errorf("a webhook is told %+v", row)
		}
	}
}

// testFeedEnds: whoever holds connections of a contact learns that tokens of it have ended, and why.
func testFeedEnds(t *testing.T, r *rig) {
	ctx := t.Context()
	ann, ben, token := r.visitor(), r.visitor(), newToken()
	dan, err := r.CreateVisitor(ctx, r.site, token, time.Now().Add(time.Hour))
	r.must(err)
	end := func(e store.ContactEnd) store.Fed { return store.Fed{Ended: []store.ContactEnd{e}} }
	r.says("a dropped token", end(store.ContactEnd{Contact: dan.ID}), func() error { return r.DropVisitor(ctx, token) })
	r.says("an unknown one", store.Fed{}, func() error { return expected(r.DropVisitor(ctx, token), store.ErrNotFound) })
	merged := end(store.ContactEnd{Contact: ann.ID, Into: ben.ID})
	merged.Contacts = []store.Contact{{ID: ben.ID}}
	r.says("a merged contact", merged, func() error { _, err := r.MergeContacts(ctx, ann.ID, ben.ID); return err })
	r.says("an erased one", end(store.ContactEnd{Contact: ben.ID, Erased: true}), func() error { return r.EraseContact(ctx, ben.ID) })
	r.says("the same again", store.Fed{}, func() error { return r.EraseContact(ctx, ben.ID) })
}

// testFeedFiles: what a scanner decides about a file is told once.
func testFeedFiles(t *testing.T, r *rig) {
	ctx := t.Context()
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	for state, ok := range map[string]bool{store.FileReady: true, store.FileRefused: false} {
		file := r.upload(conv.ID, ann.Actor(), func(a *store.Attachment) { a.State = store.FileChecking })
		decided := []store.Attachment{r.file(file.ID)}
		decided[0].State = state
		decide := func(ok bool) func() error {
			return func() error { _, err := r.DecideAttachment(ctx, file.ID, ok); return err }
		}
		r.says("a decision", store.Fed{Files: decided}, decide(ok))
		r.says("another one", store.Fed{}, decide(!ok))
	}
}
