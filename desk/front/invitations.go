package front

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// invitedCapacity is how many conversations at once the account of an invitation may have, until an administrator
// changes it.
const invitedCapacity = 5

// invitationRoutes adds the routes by which somebody with the link of an invitation makes an account.
func (f *Front) invitationRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /api/v1/agent/invitation", f.limited(f.places.staff, f.invitation))
	mux.HandleFunc("POST /api/v1/agent/invitation/accept", f.limited(f.places.staff, f.accept))
}

// invitation says what an invitation is for.
func (f *Front) invitation(w http.ResponseWriter, r *http.Request) {
	var in struct{ Token string }
	if !decode(w, r, &in) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	v, err := f.store.Cold().Invitation(ctx, auth.HashToken(in.Token), f.o.Now())
	if err != nil {
		f.notInvited(w, err)
		return
	}
	answer(w, struct {
		Name    string    `json:"name"`
		Role    perm.Role `json:"role"`
		By      string    `json:"by"`
		Expires int64     `json:"expires"`
	}{v.Name, v.Role, v.By.Name, v.Expires})
}

// accept makes the account of an invitation and logs it in.
func (f *Front) accept(w http.ResponseWriter, r *http.Request) {
	var in struct{ Token, Login, Name, Password string }
	if !decode(w, r, &in) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	token := auth.HashToken(in.Token)
	v, err := f.store.Cold().Invitation(ctx, token, f.o.Now())
	if err != nil {
		f.notInvited(w, err)
		return
	}
	if !f.o.Passwords.allows(v.Role) {
		f.ssoProblem(w, http.StatusForbidden, reasonPasswordOff, "Passwords are switched off for this role. Use the single sign-on.")
		return
	}
	a := store.AgentAccount{Login: strings.ToLower(strings.TrimSpace(in.Login)), Name: strings.TrimSpace(in.Name), Role: v.Role, Capacity: invitedCapacity}
	err = a.Check()
	if err == nil {
		err = auth.CheckPassword(a.Login, in.Password)
	}
	if err != nil {
		f.notAccepted(w, err)
		return
	}
	if a.Password, err = f.o.Hasher.Hash(ctx, in.Password); err != nil {
		f.notAccepted(w, err)
		return
	}
	if a, err = f.join(ctx, r, v, token, a, store.Identity{}); err != nil {
		f.notAccepted(w, err)
		return
	}
	if f.enter(ctx, w, r, a, "invitation") {
		answer(w, f.agentAnswer(a))
	}
}

// join makes the account of an invitation, which belongs to id unless that is nobody.
func (f *Front) join(ctx context.Context, r *http.Request, v store.Invitation, token store.Token, a store.AgentAccount, id store.Identity) (store.AgentAccount, error) {
	err := f.audit(ctx, store.Actor{Name: a.Name}, store.AuditCreate, "invitation "+v.ID, "accepted as login "+a.Login+", role "+string(v.Role), f.address(r))
	if err == nil {
		a, err = f.store.AcceptInvitation(ctx, token, a, id)
	}
	return a, err
}

// notInvited answers for an invitation that cannot be used.
func (f *Front) notInvited(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "This invitation does not exist, was used, or was revoked."})
	case errors.Is(err, store.ErrExpired):
		problem(w, http.StatusGone, &proto.Error{Code: proto.CodeTokenExpired, Text: "This invitation has expired."})
	default:
		f.storeProblem(w, err)
	}
}

// notAccepted answers for an account that cannot be made. The reason names the field.
func (f *Front) notAccepted(w http.ResponseWriter, err error) {
	var invalid store.Invalid
	switch {
	case errors.As(err, &invalid):
		problem(w, http.StatusUnprocessableEntity, &proto.Error{Code: proto.CodeBadRequest, Text: sentence(err, "store: "), Reason: invalid[0].Field})
	case errors.Is(err, auth.ErrPassword):
		problem(w, http.StatusUnprocessableEntity, &proto.Error{Code: proto.CodeBadRequest, Text: sentence(err, "auth: "), Reason: "password"})
	case errors.Is(err, store.ErrExists):
		problem(w, http.StatusConflict, &proto.Error{Code: proto.CodeConflict, Text: "This login is taken.", Reason: "login"})
	case errors.Is(err, auth.ErrBusy):
		f.hasherBusy(w)
	default:
		f.notInvited(w, err)
	}
}

// sentence makes a sentence of an error's text.
func sentence(err error, prefix string) string {
	text := strings.TrimPrefix(err.Error(), prefix)
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
