package front

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	maxUserAgent = 120 // characters that are kept
	sessionIDLen = 16  // bytes of a login's hash that name it
)

// loginInfo is one login as its owner sees it.
type loginInfo struct {
	ID        string `json:"id"`
	Created   int64  `json:"created"`
	Seen      int64  `json:"seen"`
	Expires   int64  `json:"expires"`
	IP        string `json:"ip,omitempty"`
	UserAgent string `json:"user_agent,omitempty"`
	Current   bool   `json:"current,omitempty"`
	Push      bool   `json:"push,omitempty"` // its browser is called while no console is open
}

// loginID names a login to its owner. The name is made of the token's hash, which opens nothing.
func loginID(t store.Token) string { return hex.EncodeToString(t[:sessionIDLen]) }

// sessions lists the logins of the agent who asks.
func (f *Front) sessions(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	all, err := f.live(r, s.Agent.ID)
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	infos := make([]loginInfo, 0, len(all))
	for _, l := range all {
		infos = append(infos, loginInfo{
			ID: loginID(l.Token), Created: l.Created.UnixMilli(), Seen: l.Seen.UnixMilli(), Expires: l.Expires.UnixMilli(),
			IP: l.IP, UserAgent: l.UserAgent, Current: l.Token == s.Token, Push: l.Push && f.o.Push.Key() != "",
		})
	}
	answer(w, struct {
		Sessions []loginInfo `json:"sessions"`
	}{infos})
}

// live returns the logins of an agent that can still be used.
func (f *Front) live(r *http.Request, agent string) ([]store.AgentSession, error) {
	now := f.o.Now()
	all, err := f.store.Cold().AgentSessions(r.Context(), agent, now)
	used := all[:0]
	for _, l := range all {
		if now.Sub(l.Seen) <= f.o.LoginIdle {
			used = append(used, l)
		}
	}
	return used, err
}

// revoke ends logins: one of the agent's own by its id, or all of them but this one. With the permission it ends all
// logins of another agent whose role has no more permissions.
func (f *Front) revoke(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	var in struct {
		ID    string
		All   bool
		Agent string
	}
	if !decode(w, r, &in) {
		return
	}
	chosen := 0
	for _, set := range []bool{in.ID != "", in.All, in.Agent != ""} {
		if set {
			chosen++
		}
	}
	if chosen != 1 {
		problem(w, http.StatusBadRequest, &proto.Error{Code: proto.CodeBadRequest, Text: "Name exactly one of id, all and agent."})
		return
	}
	lacks, err := f.lacksOver(r.Context(), s, in.Agent)
	if err == nil && lacks == "" {
		err = f.endLogins(r, s, in.ID, in.Agent)
	}
	switch {
	case lacks != "":
		f.denied(w, r, s, lacks)
	case errors.Is(err, store.ErrNotFound):
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such login or account."})
	case err != nil:
		f.storeProblem(w, err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// lacksOver returns a permission that an agent would need to end the logins of another, or "".
func (f *Front) lacksOver(ctx context.Context, s store.AgentSession, other string) (perm.Permission, error) {
	if other == "" || other == s.Agent.ID {
		return "", nil
	}
	if !s.Agent.Role.Can(perm.ForceState) {
		return perm.ForceState, nil
	}
	account, err := f.store.Cold().AgentByID(ctx, other)
	return s.Agent.Role.Lacks(account.Role), err
}

func (f *Front) endLogins(r *http.Request, s store.AgentSession, id, agent string) error {
	ctx, target := r.Context(), s.Agent.ID
	if agent != "" {
		target = agent
	}
	var one store.AgentSession
	if id != "" {
		all, err := f.live(r, target)
		if err != nil {
			return err
		}
		for _, l := range all {
			if loginID(l.Token) == id {
				one = l
			}
		}
		if one.Token == (store.Token{}) {
			return store.ErrNotFound
		}
	}
	if err := f.audit(ctx, s.Agent.Actor(), store.AuditRevoke, "agent "+target, "", f.address(r)); err != nil {
		return err
	}
	switch {
	case id != "":
		return f.store.DeleteAgentSession(ctx, one.Token)
	case agent != "":
		return f.store.DeleteAgentSessions(ctx, target, store.Token{})
	}
	return f.store.DeleteAgentSessions(ctx, target, s.Token)
}

// password changes the password of the agent who asks and ends the agent's other logins. The agent has to know the old
// password.
func (f *Front) password(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	var in struct{ Old, New string }
	if !decode(w, r, &in) {
		return
	}
	err := auth.CheckPassword(s.Agent.Login, in.New)
	if err == nil && in.New == in.Old {
		err = auth.ErrPassword
	}
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, &proto.Error{Code: proto.CodeBadRequest, Text: sentence(err, "auth: ")})
		return
	}
	if !f.proved(w, r, s, in.Old, "password change") {
		return
	}
	ctx := r.Context()
	hash, err := f.o.Hasher.Hash(ctx, in.New)
	if errors.Is(err, auth.ErrBusy) {
		f.hasherBusy(w)
		return
	}
	if err == nil {
		err = f.audit(ctx, s.Agent.Actor(), store.AuditPassword, "agent "+s.Agent.ID, "", f.address(r))
	}
	if err == nil {
		err = f.store.ChangePassword(ctx, s.Agent.ID, s.Agent.Password, hash, s.Token)
	}
	if errors.Is(err, store.ErrNotFound) {
		problem(w, http.StatusConflict, &proto.Error{Code: proto.CodeConflict, Text: "The password has been changed meanwhile."})
		return
	}
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// proved checks the password of an agent who is logged in, as slowly as a login. what names the purpose. false means that
// the answer has been given.
func (f *Front) proved(w http.ResponseWriter, r *http.Request, s store.AgentSession, password, what string) bool {
	attempt := auth.Attempt{Device: "login " + string(s.Token[:])} // a login is a known device: what others guess does not count
	if wait := f.throttle.Begin(attempt); wait > 0 {
		f.throttled(w, wait)
		return false
	}
	err := f.o.Hasher.Check(r.Context(), s.Agent.Password, password)
	switch {
	case err == nil:
		f.throttle.Success(attempt)
		return true
	case errors.Is(err, auth.ErrWrong):
		f.loginFailed(s.Agent, what, f.address(r))
		problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: "The password is wrong."})
		return false
	case errors.Is(err, auth.ErrBusy):
		f.throttle.Cancel(attempt)
		f.hasherBusy(w)
		return false
	}
	f.throttle.Cancel(attempt)
	f.storeProblem(w, err)
	return false
}

func (f *Front) throttled(w http.ResponseWriter, wait time.Duration) {
	f.Counters.LoginsThrottled.Add(1)
	problem(w, http.StatusTooManyRequests, proto.Later(proto.CodeRateLimited, "Too many attempts. Wait a moment.", wait))
}

func (f *Front) hasherBusy(w http.ResponseWriter) {
	problem(w, http.StatusServiceUnavailable, proto.Later(proto.CodeBusy, "Many people are logging in. Try again in a moment.", time.Second))
}

// loginFailed counts a wrong password and adds it to the audit log. A login that does not exist may be a password typed
// into the wrong field, so it is not stored. Of a flood from one address only some attempts are logged.
func (f *Front) loginFailed(account store.AgentAccount, what, from string) {
	f.Counters.LoginsFailed.Add(1)
	if !f.denials.Allow("login "+from, f.o.Now()) {
		return
	}
	who := store.Actor{Kind: store.Agent, ID: account.ID, Name: account.Name}
	target := "agent " + account.ID
	if account.ID == "" {
		who, target = store.Actor{}, "no such account"
	}
	f.auditSoon(who, store.AuditLoginFailed, target, what, from)
}

// begin adds a login to the audit log and starts its session. how says by what it was proved besides a password. It also
// stores where the login came from, if the options say so.
func (f *Front) begin(ctx context.Context, r *http.Request, account store.AgentAccount, token store.Token, how string) error {
	ip := f.address(r)
	err := f.audit(ctx, account.Actor(), store.AuditLogin, "agent "+account.ID, how, ip)
	if err == nil {
		err = f.store.CreateAgentSession(ctx, token, account.ID, f.o.Now().Add(f.o.LoginLife))
	}
	if err == nil && f.o.KeepIP != KeepNoIP {
		err = f.store.DescribeAgentSession(ctx, token, f.o.KeepIP.keep(ip), shortened(r.UserAgent(), maxUserAgent))
	}
	return err
}

// shortened returns at most n characters of s, made valid UTF-8.
func shortened(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}
