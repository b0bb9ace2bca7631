package front

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/sso"
	"github.com/go-eddy/eddy/desk/store"
)

// ssoAskCode asks for the code of an account's second factor. What the provider has proved stays in the browser.
func (f *Front) ssoAskCode(w http.ResponseWriter, half ssoHalf) {
	value, err := f.sso.seal.Close("code", half, halfLife)
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	http.SetCookie(w, f.cookieFor(halfCookie, value, halfLife))
	problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "This account has a second factor: give its code, too.", Reason: reasonCode})
}

// ssoCode takes the code of a second factor, and ends a login that ssoFinish has begun.
func (f *Front) ssoCode(w http.ResponseWriter, r *http.Request) {
	var in struct{ Code string }
	if !decode(w, r, &in) {
		return
	}
	var half ssoHalf
	c, err := r.Cookie(halfCookie)
	if err != nil || !f.sso.seal.Open("code", c.Value, &half) {
		f.ssoProblem(w, http.StatusBadRequest, reasonSSOLost, "This login has taken too long. Begin again.")
		return
	}
	ctx, from := r.Context(), f.address(r)
	account, err := f.store.Cold().AgentByID(ctx, half.Agent)
	switch {
	case err != nil:
		f.storeProblem(w, err)
		return
	case account.Disabled || !account.Linked:
		f.ssoUnknown(w, r, account)
		return
	}
	name := strings.ToLower(account.Login)
	attempt := auth.Attempt{Account: name, Address: network(from), Device: f.device(r, name)}
	if wait := f.throttle.Begin(attempt); wait > 0 {
		f.throttled(w, wait)
		return
	}
	how, ok := f.codeOf(ctx, w, account, in.Code, attempt, from)
	if !ok {
		return
	}
	f.throttle.Success(attempt)
	http.SetCookie(w, f.cookieFor(halfCookie, "", -time.Second))
	f.ssoIn(w, r, account, half.Role, strings.TrimPrefix("single sign-on, "+how, ", "))
}

// ssoIn logs an account in that the provider, and its second factor, have proved.
func (f *Front) ssoIn(w http.ResponseWriter, r *http.Request, account store.AgentAccount, role perm.Role, how string) {
	account, err := f.ssoRole(r.Context(), r, account, role)
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	if f.enter(r.Context(), w, r, account, how) {
		answer(w, f.agentAnswer(account))
	}
}

// ssoRole gives an account the role that the provider says. The last administrator stays one.
func (f *Front) ssoRole(ctx context.Context, r *http.Request, account store.AgentAccount, role perm.Role) (store.AgentAccount, error) {
	if role == "" || role == account.Role {
		return account, nil
	}
	changed := account
	changed.Role = role
	err := f.audit(ctx, account.Actor(), store.AuditRole, "agent "+account.ID, "role "+string(account.Role)+" → "+string(role)+" by single sign-on", f.address(r))
	if err == nil {
		err = f.store.UpdateAgent(ctx, changed)
	}
	if errors.Is(err, store.ErrLastAdmin) {
		f.o.Logger.Warn("desk: the provider's role is not taken over, because this is the last administrator", "agent", account.ID, "role", role)
		return account, nil
	}
	return changed, err
}

// ssoProblem refuses with a reason for the page.
func (f *Front) ssoProblem(w http.ResponseWriter, status int, reason, text string) {
	code := proto.CodeForbidden
	switch status {
	case http.StatusBadRequest:
		code = proto.CodeBadRequest
	case http.StatusConflict:
		code = proto.CodeConflict
	}
	problem(w, status, &proto.Error{Code: code, Text: text, Reason: reason})
}

// ssoUnknown refuses a person who is proved but has no account that may log in.
func (f *Front) ssoUnknown(w http.ResponseWriter, r *http.Request, account store.AgentAccount) {
	f.loginFailed(account, "single sign-on", f.address(r))
	f.ssoProblem(w, http.StatusForbidden, reasonSSOUnknown, "You have no account here that may log in. Ask an administrator for an invitation.")
}

// ssoFailed answers for a provider that has not proved anybody. What happened is in the log alone.
func (f *Front) ssoFailed(w http.ResponseWriter, r *http.Request, err error) {
	level := slog.LevelWarn
	if errors.Is(r.Context().Err(), context.Canceled) { // the browser went away
		level = slog.LevelDebug
	}
	f.o.Logger.Log(context.Background(), level, "desk: single sign-on failed", "err", err)
	if errors.Is(err, sso.ErrRefused) {
		f.loginFailed(store.AgentAccount{}, "single sign-on", f.address(r))
		f.ssoProblem(w, http.StatusForbidden, reasonSSORefused, "The provider has not confirmed this login. Begin again.")
		return
	}
	problem(w, http.StatusServiceUnavailable, proto.Later(proto.CodeUnavailable, "The provider of the single sign-on does not answer. Try again in a moment.", sso.DefaultTimeout))
}
