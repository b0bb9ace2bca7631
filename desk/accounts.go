package desk

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

type agentInfo struct {
	ID    string `json:"id"`
	Login string `json:"login"`
	Name  string `json:"name"`
}

func agentAnswer(a store.AgentAccount) any {
	return struct {
		Agent agentInfo `json:"agent"`
	}{agentInfo{a.ID, a.Login, a.Name}}
}

// login checks a password and starts a login session.
func (d *Desk) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Login, Password string }
	if !decode(w, r, &in) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.o.within(requestTimeout))
	defer cancel()
	name, from := strings.ToLower(strings.TrimSpace(in.Login)), d.address(r)
	if wait := d.throttle.Begin(name, from); wait > 0 {
		d.throttled(w, wait)
		return
	}
	account, err := d.checkPassword(ctx, name, in.Password)
	switch {
	case errors.Is(err, auth.ErrWrong):
		d.loginFailed(account, "login", from)
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "Login or password is wrong."})
		return
	case errors.Is(err, auth.ErrBusy):
		d.throttle.Cancel(name, from)
		d.hasherBusy(w)
		return
	case err != nil:
		d.throttle.Cancel(name, from)
		d.storeProblem(w, err)
		return
	}
	d.throttle.Success(name, from)
	token, hash := auth.NewToken()
	if err := d.begin(ctx, r, account, hash); err != nil {
		d.storeProblem(w, err)
		return
	}
	d.counters.logins.Add(1)
	http.SetCookie(w, d.cookie(token, int(d.o.LoginLife.Seconds())))
	answer(w, agentAnswer(account))
}

// checkPassword takes as long for an account that does not exist, or may not log in, as for one that does.
func (d *Desk) checkPassword(ctx context.Context, name, password string) (store.AgentAccount, error) {
	account, err := d.store.Cold().AgentByLogin(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return account, err
	}
	err = d.hasher.Check(ctx, account.Password, password)
	if err == nil && account.Disabled {
		err = auth.ErrWrong
	}
	return account, err
}

// cookie carries a login. maxAge below 0 removes it.
func (d *Desk) cookie(token string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: d.cookieName(), Value: token, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: d.o.HTTPS, SameSite: http.SameSiteLaxMode,
	}
}

func (d *Desk) cookieName() string {
	if d.o.HTTPS {
		return "__Host-desk"
	}
	return "desk"
}

// cookieToken returns the hash of the login cookie, or the zero hash.
func (d *Desk) cookieToken(r *http.Request) store.Token {
	c, err := r.Cookie(d.cookieName())
	if err != nil || c.Value == "" {
		return store.Token{}
	}
	return auth.HashToken(c.Value)
}

func (d *Desk) me(w http.ResponseWriter, _ *http.Request, s store.AgentSession) {
	answer(w, agentAnswer(s.Agent))
}

// ticket gives a logged-in agent the ticket that its WebSocket says hello with.
func (d *Desk) ticket(w http.ResponseWriter, _ *http.Request, s store.AgentSession) {
	t, err := d.tickets.Issue(hub.Login{Agent: s.Agent, Session: s.Token})
	if err != nil {
		problem(w, http.StatusServiceUnavailable, &proto.Error{Code: proto.CodeBusy, Text: "Too many connections are being made. Try again in a moment.", RetryMS: 1000})
		return
	}
	answer(w, struct {
		Ticket    string `json:"ticket"`
		ExpiresMS int64  `json:"expires_ms"`
	}{t, auth.TicketLife.Milliseconds()})
}

// logout ends the login everywhere it is used.
func (d *Desk) logout(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), d.o.within(requestTimeout))
	defer cancel()
	if token := d.cookieToken(r); token != (store.Token{}) {
		if s, err := d.store.Cold().AgentSession(ctx, token, d.o.Now()); err == nil {
			d.auditSoon(s.Agent.Actor(), store.AuditLogout, "agent "+s.Agent.ID, "", d.address(r))
		}
		if err := d.store.DeleteAgentSession(ctx, token); err != nil && !errors.Is(err, store.ErrNotFound) {
			d.storeProblem(w, err)
			return
		}
		d.hub.CloseLogin(token)
	}
	http.SetCookie(w, d.cookie("", -1))
	w.WriteHeader(http.StatusNoContent)
}
