package front

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// transcriptRoutes adds the routes by which a chat is sent to its customer by mail.
func (f *Front) transcriptRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /api/v1/widget/transcript", f.limited(f.places.widget, f.widgetTranscript))
	mux.HandleFunc("POST /api/v1/agent/conversations/{id}/transcript", f.staff(perm.Serve, f.staffTranscript))
}

const (
	transcriptBurst = 3 // that one visitor asks for at once
	transcriptEvery = 20 * time.Minute
)

// widgetTranscript sends a visitor a chat of theirs that is over, if the site allows that. It goes to the address that is
// known of the visitor, never to one that the request names.
func (f *Front) widgetTranscript(w http.ResponseWriter, r *http.Request) {
	var in struct{ Token, Conv string }
	if !decode(w, r, &in) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), f.within(requestTimeout))
	defer cancel()
	reader := f.store.Hot()
	contact, err := reader.ContactByToken(ctx, auth.HashToken(in.Token), f.o.Now())
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExpired) {
		problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "The token is not known."})
		return
	}
	var site store.Site
	if err == nil {
		site, err = reader.Site(ctx, contact.Site)
	}
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	conv, err := reader.Conversation(ctx, in.Conv)
	if err == nil && conv.Contact != contact.ID {
		err = store.ErrNotFound
	}
	switch {
	case !allows(&site, foreign(r)):
		f.wrongOrigin(w)
	case contact.Blocked:
		blocked(w)
	case errors.Is(err, store.ErrNotFound):
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such conversation for you."})
	case err != nil:
		f.storeProblem(w, err)
	case !site.Settings.MailChats:
		problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: "This site does not send chats by mail."})
	case conv.State != store.Closed:
		problem(w, http.StatusConflict, &proto.Error{Code: proto.CodeConflict, Text: "The chat is not over.", Reason: "open"})
	default:
		if wait := f.transcripts.Take(contact.ID, f.o.Now()); wait > 0 {
			problem(w, http.StatusTooManyRequests, proto.Later(proto.CodeRateLimited, "Too many mails. Wait a while.", wait))
			return
		}
		f.sendTranscript(ctx, w, &conv, &contact, contact.Actor(), f.address(r))
	}
}

// staffTranscript sends a chat that the agent may read to its customer. A chat of another agent takes the permission, and
// the reading is logged.
func (f *Front) staffTranscript(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	ctx, id, reader := r.Context(), r.PathValue("id"), f.store.Cold()
	access, err := reader.Access(ctx, store.Scope{Agent: s.Agent.ID, All: s.Agent.Role.Can(perm.ReadOthers)}, id)
	if err == nil && access == store.NoAccess {
		err = store.ErrNotFound
	}
	if err == nil && access == store.OtherAccess {
		err = f.audit(ctx, s.Agent.Actor(), store.AuditRead, "conversation "+id, "transcript", f.address(r))
	}
	var conv store.Conversation
	if err == nil {
		conv, err = reader.Conversation(ctx, id)
	}
	var contact store.Contact
	if err == nil {
		contact, err = reader.Contact(ctx, conv.Contact)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such conversation for you."})
	case err != nil:
		f.storeProblem(w, err)
	default:
		f.sendTranscript(ctx, w, &conv, &contact, s.Agent.Actor(), f.address(r))
	}
}

// sendTranscript queues the mail with a chat, once for those that wait, and adds who asked for it to the audit log.
func (f *Front) sendTranscript(ctx context.Context, w http.ResponseWriter, conv *store.Conversation, contact *store.Contact, who store.Actor, ip string) {
	to := contact.Email()
	switch {
	case !f.o.Mail.On():
		problem(w, http.StatusConflict, &proto.Error{Code: proto.CodeConflict, Text: "This server sends no mail.", Reason: "mail_off"})
		return
	case to == "":
		problem(w, http.StatusConflict, &proto.Error{Code: proto.CodeConflict, Text: "No e-mail address of this customer is known.", Reason: "no_address"})
		return
	}
	err := f.audit(ctx, who, store.AuditMail, "conversation "+conv.ID, "transcript", ip)
	if err == nil {
		_, err = f.store.QueueMail(ctx, store.Mail{Kind: store.MailTranscript, To: to, Conv: conv.ID, Locale: contact.Locale})
	}
	switch {
	case errors.Is(err, store.ErrNotFound): // erased meanwhile
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such conversation for you."})
	case errors.Is(err, store.ErrMailFull):
		problem(w, http.StatusServiceUnavailable, proto.Later(proto.CodeBusy, "Too many mails are waiting. Try again later.", time.Minute))
	case err != nil:
		f.storeProblem(w, err)
	default:
		f.o.Mail.Wake()
		w.WriteHeader(http.StatusNoContent)
	}
}
