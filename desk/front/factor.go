package front

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// FactorPolicy says which accounts need a second factor. Others may have one.
type FactorPolicy string

// Policies about second factors.
const (
	FactorOptional FactorPolicy = ""
	FactorAdmins   FactorPolicy = "admins" // accounts that may manage
	FactorAll      FactorPolicy = "all"
)

// Reasons of refusals, by which pages know what to ask for.
const (
	reasonCode      = "second_factor"       // the code is missing
	reasonWrongCode = "second_factor_wrong" // the code is wrong, or was used
	reasonSetUp     = "second_factor_setup" // the account has to set one up first
)

const (
	maxCode    = 64               // bytes of a code as it is typed
	codeBurst  = 20               // wrong codes of one account on one kind of device at once
	codeEvery  = 10 * time.Minute // one more after that
	beforeCode = perm.Permission("-")
)

// Bars reports whether an account has to set up its second factor before anything else.
func (p FactorPolicy) Bars(a store.AgentAccount) bool {
	return !a.Factor && (p == FactorAll || p == FactorAdmins && a.Role.Can(perm.Manage))
}

// setUpFirst refuses what comes before the set-up of a second factor. The console shows the set-up.
func (f *Front) setUpFirst(w http.ResponseWriter, r *http.Request) {
	if isPage(r) {
		f.notLoggedIn(w, r)
		return
	}
	problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: "Set up your second factor first.", Reason: reasonSetUp})
}

// factorRoutes adds the routes of one's own second factor.
func (f *Front) factorRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/agent/factor", f.staff(beforeCode, f.factor))
	mux.HandleFunc("POST /api/v1/agent/factor", f.staff(beforeCode, f.setFactor))
	mux.HandleFunc("POST /api/v1/agent/factor/recovery", f.staff(anyStaff, f.newRecovery))
	mux.HandleFunc("POST /api/v1/agent/factor/remove", f.staff(anyStaff, f.removeFactor))
}

// factor tells of the second factor of the agent who asks, or offers a secret for a new one. Nothing is stored: the
// secret comes back with its first code.
func (f *Front) factor(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	if s.Agent.Factor {
		have, err := f.store.Cold().Factor(r.Context(), s.Agent.ID)
		if err != nil {
			f.storeProblem(w, err)
			return
		}
		answer(w, struct {
			Since      int64 `json:"since"`
			Recovery   int   `json:"recovery"`
			NoPassword bool  `json:"no_password,omitempty"`
		}{have.Created, have.Recovery, s.Agent.Password == ""})
		return
	}
	issuer := "Desk"
	if u, err := url.Parse(f.o.PublicURL); err == nil && u.Hostname() != "" {
		issuer += " " + u.Hostname()
	}
	offer, err := auth.NewFactor(issuer, s.Agent.Login)
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	answer(w, struct {
		Secret     string `json:"secret"`
		URI        string `json:"uri"`
		QR         string `json:"qr"`
		NoPassword bool   `json:"no_password,omitempty"` // the account has none to prove
	}{offer.Secret, offer.URI, "data:image/png;base64," + base64.StdEncoding.EncodeToString(offer.QR), s.Agent.Password == ""})
}

// factorInput is what changes of a second factor are asked with.
type factorInput struct{ Password, Secret, Code string }

// setFactor sets up the second factor of the agent who asks, and answers with its recovery codes. The other logins end,
// because they have proved only a password.
func (f *Front) setFactor(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	var in factorInput
	if !decode(w, r, &in) {
		return
	}
	if s.Agent.Factor {
		problem(w, http.StatusConflict, &proto.Error{Code: proto.CodeConflict, Text: "This account has a second factor already. Remove that one first."})
		return
	}
	secret, err := auth.FactorSecret(in.Secret)
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, &proto.Error{Code: proto.CodeBadRequest, Text: "The secret is not one that this server has offered."})
		return
	}
	step, ok := auth.FactorStep(secret, in.Code, f.o.Now(), store.FactorWindow)
	if !ok {
		f.wrongCode(w, http.StatusForbidden)
		return
	}
	if s.Agent.Password != "" && !f.proved(w, r, s, in.Password, "second factor set-up") {
		return
	}
	codes, hashes := recoveryCodes()
	f.changeFactor(w, r, s, "set up", codes, func(ctx context.Context) error {
		return f.store.SetFactor(ctx, s.Agent.ID, store.Factor{Secret: secret, Step: step}, hashes, s.Token)
	})
}

// newRecovery replaces the recovery codes.
func (f *Front) newRecovery(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	if !f.factorProved(w, r, s) {
		return
	}
	codes, hashes := recoveryCodes()
	f.changeFactor(w, r, s, "new recovery codes", codes, func(ctx context.Context) error {
		return f.store.SetRecovery(ctx, s.Agent.ID, hashes)
	})
}

// removeFactor removes the second factor of the agent who asks. If the account needs one, it has to set up another
// before anything else.
func (f *Front) removeFactor(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	if !f.factorProved(w, r, s) {
		return
	}
	f.changeFactor(w, r, s, "removed", nil, func(ctx context.Context) error {
		return f.store.RemoveFactor(ctx, s.Agent.ID, s.Token)
	})
}

// changeFactor logs a change and makes it. The answer are recovery codes, if
// there are some.
func (f *Front) changeFactor(w http.ResponseWriter, r *http.Request, s store.AgentSession, what string, codes []string, change func(context.Context) error) {
	ctx := r.Context()
	err := f.audit(ctx, s.Agent.Actor(), store.AuditFactor, "agent "+s.Agent.ID, what, f.address(r))
	if err == nil {
		err = change(ctx)
	}
	if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound) {
		problem(w, http.StatusConflict, &proto.Error{Code: proto.CodeConflict, Text: "The second factor has been changed meanwhile."})
		return
	}
	switch {
	case err != nil:
		f.storeProblem(w, err)
	case codes == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		answer(w, struct {
			Recovery []string `json:"recovery"`
		}{codes})
	}
}

func recoveryCodes() (codes []string, hashes []store.Token) {
	codes, raw := auth.NewRecoveryCodes()
	for _, h := range raw {
		hashes = append(hashes, h)
	}
	return codes, hashes
}

// factorProved checks password and code of an agent who is logged in. false means that the answer has been given.
func (f *Front) factorProved(w http.ResponseWriter, r *http.Request, s store.AgentSession) bool {
	var in factorInput
	if !decode(w, r, &in) {
		return false
	}
	if !s.Agent.Factor {
		problem(w, http.StatusConflict, &proto.Error{Code: proto.CodeConflict, Text: "This account has no second factor."})
		return false
	}
	if s.Agent.Password != "" && !f.proved(w, r, s, in.Password, "second factor") {
		return false
	}
	_, wait, err := f.checkCode(r.Context(), s.Agent, in.Code, "login "+string(s.Token[:]))
	switch {
	case wait > 0:
		f.throttled(w, wait)
	case errors.Is(err, auth.ErrWrong):
		f.loginFailed(s.Agent, "second factor", f.address(r))
		f.wrongCode(w, http.StatusForbidden)
	case err != nil:
		f.storeProblem(w, err)
	}
	return wait == 0 && err == nil
}

// codeOf checks the code of a login whose password is right. It returns how the second factor was proved. false means
// that the answer has been given.
func (f *Front) codeOf(ctx context.Context, w http.ResponseWriter, account store.AgentAccount, code string, attempt auth.Attempt, from string) (how string, ok bool) {
	if !account.Factor {
		return "", true
	}
	if code == "" {
		f.throttle.Cancel(attempt)
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "This account has a second factor: give its code, too.", Reason: reasonCode})
		return "", false
	}
	how, wait, err := f.checkCode(ctx, account, code, attempt.Device)
	switch {
	case wait > 0:
		f.throttle.Cancel(attempt)
		f.throttled(w, wait)
	case errors.Is(err, auth.ErrWrong):
		f.loginFailed(account, "second factor", from)
		f.wrongCode(w, http.StatusUnauthorized)
	case err != nil:
		f.throttle.Cancel(attempt)
		f.storeProblem(w, err)
	}
	return how, wait == 0 && err == nil
}

func (f *Front) wrongCode(w http.ResponseWriter, status int) {
	code := proto.CodeForbidden
	if status == http.StatusUnauthorized {
		code = proto.CodeUnauthorized
	}
	problem(w, status, &proto.Error{Code: code, Text: "The code is wrong, or was used before.", Reason: reasonWrongCode})
}

// checkCode uses up a code of an account's app, or one of its recovery codes. The error is auth.ErrWrong if it is
// neither. Wrong codes are bounded by account, and by device where it is known, more tightly than passwords: a code is
// short. A wait above 0 means that nothing was checked.
func (f *Front) checkCode(ctx context.Context, a store.AgentAccount, code, device string) (how string, wait time.Duration, err error) {
	key := a.ID + " " + device
	if wait := f.codes.Take(key, f.o.Now()); wait > 0 {
		return "", wait, nil
	}
	switch {
	case len(code) > maxCode:
		err = auth.ErrWrong
	case auth.LooksLikeFactorCode(code):
		how, err = "second factor", f.useCode(ctx, a.ID, code)
	default:
		var left int
		left, err = f.store.UseRecovery(ctx, a.ID, auth.HashRecovery(code))
		how = fmt.Sprintf("recovery code, %d left", left)
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		err = auth.ErrWrong
	}
	if !errors.Is(err, auth.ErrWrong) {
		f.codes.Return(key)
	}
	return how, 0, err
}

func (f *Front) useCode(ctx context.Context, agent, code string) error {
	have, err := f.store.Cold().Factor(ctx, agent)
	if err != nil {
		return err
	}
	step, ok := auth.FactorStep(have.Secret, code, f.o.Now(), store.FactorWindow)
	if !ok {
		return auth.ErrWrong
	}
	return f.store.UseFactor(ctx, agent, step)
}
