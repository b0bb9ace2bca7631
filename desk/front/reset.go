package front

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// resetRoutes adds the routes for forgotten passwords.
func (f *Front) resetRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /reset", f.servePage("reset.html"))
	mux.HandleFunc("GET /api/v1/agent/reset", f.resetKnown)
	mux.HandleFunc("POST /api/v1/agent/reset", f.limited(f.places.staff, f.askReset))
	mux.HandleFunc("POST /api/v1/agent/reset/password", f.limited(f.places.staff, f.useReset))
}

const (
	resetBurst = 5 // questions of one address at once
	resetEvery = 10 * time.Minute
)

// resetKnown says whether this server sends mails.
func (f *Front) resetKnown(w http.ResponseWriter, _ *http.Request) {
	answer(w, struct {
		Mail bool `json:"mail"`
	}{f.o.Mail.On()})
}

// askReset sends a mail for a forgotten password. The answer comes before the account is looked for, so that neither it
// nor its time tells whether there is one.
func (f *Front) askReset(w http.ResponseWriter, r *http.Request) {
	var in struct{ Login string }
	if !decode(w, r, &in) {
		return
	}
	login := strings.ToLower(strings.TrimSpace(in.Login))
	switch {
	case !f.o.Mail.On():
		problem(w, http.StatusConflict, &proto.Error{Code: proto.CodeConflict, Text: "This server sends no mail. Ask an administrator for a new password."})
		return
	case login == "" || len(login) > maxLoginBytes:
		problem(w, http.StatusBadRequest, &proto.Error{Code: proto.CodeBadRequest, Text: "Give the login of the account."})
		return
	}
	from := f.address(r)
	if wait := f.resets.Take(network(from), f.o.Now()); wait > 0 {
		f.throttled(w, wait)
		return
	}
	f.store.Do(store.AskReset{Login: login, IP: f.o.KeepIP.keep(from)}, time.Now().Add(f.within(auditTimeout)), func(out store.Outcome) {
		if out.Err != nil {
			f.o.Logger.Error("desk: a mail for a forgotten password could not be queued", "err", out.Err)
		}
		f.o.Mail.Wake()
	})
	w.WriteHeader(http.StatusNoContent)
}

const maxLoginBytes = 4 * store.MaxLogin

// useReset sets the password of the account that a mail was about, and ends its logins.
func (f *Front) useReset(w http.ResponseWriter, r *http.Request) {
	var in struct{ Token, Password string }
	if !decode(w, r, &in) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	token := auth.HashToken(in.Token)
	account, err := f.store.Cold().ResetAccount(ctx, token, f.o.Now())
	if errors.Is(err, store.ErrNotFound) {
		f.resetGone(w)
		return
	}
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	if err := auth.CheckPassword(account.Login, in.Password); err != nil {
		text := strings.TrimPrefix(err.Error(), "auth: ")
		problem(w, http.StatusUnprocessableEntity, &proto.Error{Code: proto.CodeBadRequest, Text: strings.ToUpper(text[:1]) + text[1:] + "."})
		return
	}
	hash, err := f.o.Hasher.Hash(ctx, in.Password)
	if errors.Is(err, auth.ErrBusy) {
		f.hasherBusy(w)
		return
	}
	if err == nil {
		err = f.audit(ctx, account.Actor(), store.AuditPassword, "agent "+account.ID, "by mail", f.address(r))
	}
	if err == nil {
		err = f.store.UseReset(ctx, token, hash)
	}
	if errors.Is(err, store.ErrNotFound) {
		f.resetGone(w)
		return
	}
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// resetGone answers for a link that does not work.
func (f *Front) resetGone(w http.ResponseWriter) {
	problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "This link was used already or is too old. Ask for another mail."})
}
