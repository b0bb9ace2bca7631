package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// testResets: a link works once, for an hour, until the password or the address changes or the account is disabled. It
// ends every login.
func testResets(t *testing.T, r *rig) {
	ctx := t.Context()
	a, err := r.CreateAgent(ctx, store.AgentAccount{Login: "kim", Name: "Kim", Password: "old", Email: "kim@shop.example"})
	r.must(err)
	if got, err := r.Cold().AgentByID(ctx, a.ID); err != nil || got.Email != "kim@shop.example" {
		t.Errorf("%+v %v", got, err)
	}
	fresh := func() store.Token {
		t.Helper()
		token := newToken()
		r.must(r.NewReset(ctx, a.ID, a.Email, token))
		return token
	}
	now := func() time.Time { return time.Now().Add(time.Duration(r.shift.Load())) }
	works := func(token store.Token) bool {
		t.Helper()
		got, err := r.Cold().ResetAccount(ctx, token, now())
		if err != nil && !errors.Is(err, store.ErrNotFound) || err == nil && (got.ID != a.ID || got.Login != "kim") {
			t.Errorf("%+v %v", got, err)
		}
		return err == nil
	}
	login := newToken()
	r.must(r.CreateAgentSession(ctx, login, a.ID, now().Add(time.Hour)))
	first, second := fresh(), fresh()
	if !works(first) || !works(second) || works(newToken()) {
		t.Error("the links of two mails")
	}
	r.must(r.UseReset(ctx, first, "new"))
	if got, err := r.Cold().AgentByID(ctx, a.ID); err != nil || got.Password != "new" {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := r.Cold().AgentSession(ctx, login, now()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the login of before: %v", err)
	}
	for name, token := range map[string]store.Token{"used": first, "of another mail": second, "unknown": newToken()} {
		if err := r.UseReset(ctx, token, "third"); works(token) || !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	late := fresh()
	r.shift.Add(int64(store.ResetLife))
	if err := r.UseReset(ctx, late, "third"); works(late) || !errors.Is(err, store.ErrNotFound) {
		t.Errorf("too late: %v", err)
	}
	for name, change := range map[string]func() error{
		"a change of the password": func() error { return r.ChangePassword(ctx, a.ID, "new", "new", store.Token{}) },
		"an administrator":         func() error { return r.ResetPassword(ctx, a.ID, "new") },
		"another address": func() error {
			a.Email = "kim@home.example"
			return r.UpdateAgent(ctx, a)
		},
		"a disabled account": func() error {
			a.Disabled = true
			return r.UpdateAgent(ctx, a)
		},
	} {
		a.Disabled, a.Role = false, perm.Agent
		r.must(r.UpdateAgent(ctx, a))
		token := fresh()
		r.must(change())
		if err := r.UseReset(ctx, token, "third"); works(token) || !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after %s: %v", name, err)
		}
	}
	a.Disabled = true
	r.must(r.UpdateAgent(ctx, a))
	for name, email := range map[string]string{"disabled": a.Email, "another address": "kim@shop.example", "no address": ""} {
		if err := r.NewReset(ctx, a.ID, email, newToken()); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := r.Cold().AgentByID(ctx, a.ID); err != nil || got.Password != "new" {
		t.Errorf("%+v %v", got, err)
	}
	a.Email = "kim@shop.example\r\nBcc: eve@evil.example"
	if err := r.UpdateAgent(ctx, a); !isInvalid(err, "email") {
		t.Errorf("%v", err)
	}
}

// testAskReset: a mail is queued only for an account that may log in and has an address, at most so many at once. Whatever
// was asked, the outcome is the same, and a line of the audit log says what was done.
func testAskReset(t *testing.T, r *rig) {
	ctx := t.Context()
	account := func(login, email string, disabled bool) store.AgentAccount {
		t.Helper()
		a, err := r.CreateAgent(ctx, store.AgentAccount{Login: login, Name: "x", Password: "x", Email: email, Disabled: disabled, Locale: "zh-CN"})
		r.must(err)
		return a
	}
	kim := account("kim", "kim@shop.example", false)
	gone := account("gone", "gone@shop.example", true)
	want := func(login, target, detail string) {
		t.Helper()
		out := r.do(store.AskReset{Login: login, IP: "192.0.2.0/24"})
		if out.Conv.ID != "" || len(out.Events) > 0 {
			t.Errorf("%s: %+v", login, out)
		}
		rows, err := r.Cold().Audit(ctx, store.AuditQuery{Limit: 1})
		r.must(err)
		if l := rows[0]; l.Action != store.AuditReset || l.Target != target || l.Detail != detail || l.IP != "192.0.2.0/24" || !l.Who.IsZero() {
			t.Errorf("%s: %+v", login, l)
		}
	}
	want("nobody", "no such account", "")
	want("gone", "agent "+gone.ID, "no mail: disabled")
	want("lin", "agent "+r.lin.ID, "no mail: no address")
	r.next(0, 0)
	want("KIM", "agent "+kim.ID, "mail")
	m := r.next(1, 0)
	if m.Kind != store.MailReset || m.To != kim.Email || m.Agent != kim.ID || m.Locale != "zh-CN" || m.Expires != m.Due+store.ResetLife.Milliseconds() {
		t.Errorf("%+v", m)
	}
	want("kim", "agent "+kim.ID, "mail")
	r.must(r.NewReset(ctx, kim.ID, kim.Email, newToken()))
	want("kim", "agent "+kim.ID, "no mail: too many")
	r.must(r.MailSent(ctx, m.ID))
	r.shift.Add(int64(store.ResetLife))
	want("kim", "agent "+kim.ID, "mail")
	r.next(2, 0)
}
