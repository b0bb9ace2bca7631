package front

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

type agentInfo struct {
	ID    string `json:"id"`
	Login string `json:"login"`
	Name  string `json:"name"`
	SetUp bool   `json:"setup,omitempty"` // a second factor has to be set up first

	Connect bool   `json:"connect,omitempty"` // the account can be connected with the provider of single sign-on
	Push    string `json:"push,omitempty"`    // the key to subscribe with, "" = nobody is called
}

func (f *Front) agentAnswer(a store.AgentAccount) any {
	return struct {
		Agent agentInfo `json:"agent"`
	}{agentInfo{a.ID, a.Login, a.Name, f.o.SecondFactor.Bars(a), f.sso != nil && !a.Linked, f.o.Push.Key()}}
}

// login checks a password, and the code of an account with a second factor, and starts a login session.
func (f *Front) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Login, Password, Code string }
	if !decode(w, r, &in) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	name, from := strings.ToLower(strings.TrimSpace(in.Login)), f.address(r)
	attempt := auth.Attempt{Account: name, Address: network(from), Device: f.device(r, name)}
	if wait := f.throttle.Begin(attempt); wait > 0 {
		f.throttled(w, wait)
		return
	}
	account, err := f.checkPassword(ctx, name, in.Password)
	switch {
	case errors.Is(err, auth.ErrWrong):
		f.loginFailed(account, "login", from)
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "Login or password is wrong."})
		return
	case errors.Is(err, auth.ErrBusy):
		f.throttle.Cancel(attempt)
		f.hasherBusy(w)
		return
	case err != nil:
		f.throttle.Cancel(attempt)
		f.storeProblem(w, err)
		return
	}
	if !f.o.Passwords.allows(account.Role) {
		f.throttle.Cancel(attempt)
		f.ssoProblem(w, http.StatusForbidden, reasonPasswordOff, "Passwords are switched off for this account. Use the single sign-on.")
		return
	}
	how, ok := f.codeOf(ctx, w, account, in.Code, attempt, from)
	if !ok {
		return
	}
	f.throttle.Success(attempt)
	if f.enter(ctx, w, r, account, how) {
		answer(w, f.agentAnswer(account))
	}
}

// enter starts the login session of an account that is proved, and sets its cookies. false means that the answer has
// been given.
func (f *Front) enter(ctx context.Context, w http.ResponseWriter, r *http.Request, account store.AgentAccount, how string) bool {
	token, hash := auth.NewToken()
	if err := f.begin(ctx, r, account, hash, how); err != nil {
		f.storeProblem(w, err)
		return false
	}
	f.Counters.Logins.Add(1)
	name := strings.ToLower(account.Login)
	http.SetCookie(w, f.cookie(token, int(f.o.LoginLife.Seconds())))
	http.SetCookie(w, &http.Cookie{
		Name: f.deviceCookie(name), Value: f.devices.New(name), Path: devicePath, MaxAge: int(deviceLife.Seconds()),
		HttpOnly: true, Secure: f.o.HTTPS, SameSite: http.SameSiteLaxMode,
	})
	return true
}

// checkPassword takes as long for an account that does not exist, or may not log in, as for one that does.
func (f *Front) checkPassword(ctx context.Context, name, password string) (store.AgentAccount, error) {
	account, err := f.store.Cold().AgentByLogin(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return account, err
	}
	err = f.o.Hasher.Check(ctx, account.Password, password)
	if err == nil && account.Disabled {
		err = auth.ErrWrong
	}
	return account, err
}

// cookie carries a login. maxAge below 0 removes it.
func (f *Front) cookie(token string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: f.cookieName(), Value: token, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: f.o.HTTPS, SameSite: http.SameSiteLaxMode,
	}
}

func (f *Front) cookieName() string {
	if f.o.HTTPS {
		return "__Host-desk"
	}
	return "desk"
}

// cookieToken returns the hash of the login cookie, or the zero hash.
func (f *Front) cookieToken(r *http.Request) store.Token {
	c, err := r.Cookie(f.cookieName())
	if err != nil || c.Value == "" {
		return store.Token{}
	}
	return auth.HashToken(c.Value)
}

// deviceCookie is the name of the cookie by which a browser is known on which the account has logged in. It stays when
// the login ends.
func (f *Front) deviceCookie(account string) string { return "desk-device-" + f.devices.Name(account) }

// device returns the identity of the browser if the account has logged in on it before, or "".
func (f *Front) device(r *http.Request, account string) string {
	c, err := r.Cookie(f.deviceCookie(account))
	if err != nil {
		return ""
	}
	return f.devices.Known(account, c.Value)
}

func (f *Front) me(w http.ResponseWriter, _ *http.Request, s store.AgentSession) {
	answer(w, f.agentAnswer(s.Agent))
}

// ticket gives a logged-in agent the ticket that its WebSocket says hello with.
func (f *Front) ticket(w http.ResponseWriter, _ *http.Request, s store.AgentSession) {
	answer(w, struct {
		Ticket    string `json:"ticket"`
		ExpiresMS int64  `json:"expires_ms"`
	}{f.o.Tickets.Issue(s.Agent.ID, s.Token), auth.TicketLife.Milliseconds()})
}

// logout ends the login everywhere it is used.
func (f *Front) logout(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	if token := f.cookieToken(r); token != (store.Token{}) {
		if s, err := f.store.Cold().AgentSession(ctx, token, f.o.Now()); err == nil {
			f.auditSoon(s.Agent.Actor(), store.AuditLogout, "agent "+s.Agent.ID, "", f.address(r))
		}
		if err := f.store.DeleteAgentSession(ctx, token); err != nil && !errors.Is(err, store.ErrNotFound) {
			f.storeProblem(w, err)
			return
		}
	}
	http.SetCookie(w, f.cookie("", -1))
	w.WriteHeader(http.StatusNoContent)
}
