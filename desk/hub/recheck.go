package hub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Sessions are let in by what the store says at that moment. The functions below take back what is no longer right. They are
// called after the change is committed. A hello that is under way then either has not read yet, or is in the
// books, or finds that the counter has changed and reads again.

// CloseLogin closes the sessions that proved themselves with one login or one visitor's token.
func (h *Hub) CloseLogin(login store.Token) {
	h.closeWhere(func(who identity) bool { return who.login == login }, proto.CloseUnauthorized, "logged out")
}

func (h *Hub) closeWhere(match func(identity) bool, code int, reason string) {
	h.rechecks.Add(1)
	for _, s := range h.everySession() {
		if who := s.who(); who.actor.Kind != "" && match(who) {
			s.close(code, reason)
		}
	}
}

// Recheck checks the logins of an agent's sessions after its account or its logins have changed. Sessions whose login is
// gone are closed. The others get the agent's new role and name. It blocks and honours ctx.
func (h *Hub) Recheck(ctx context.Context, agent string) error {
	h.rechecks.Add(1)
	h.mu.Lock()
	sessions := h.sessions.agents[agent]
	h.mu.Unlock()
	var errs []error
	for _, s := range sessions {
		errs = append(errs, h.recheck(ctx, h.o.Store.Cold(), s))
	}
	h.Reload()
	return errors.Join(errs...)
}

// recheck checks one session of an agent. The session also ends if its login cannot be read.
func (h *Hub) recheck(ctx context.Context, r store.Reader, s *Session) error {
	login, no, err := h.knownAgent(ctx, r, s.who().login)
	switch {
	case err != nil:
		s.close(proto.CloseTryLater, "the server could not read")
	case no != nil:
		s.close(no.close, no.text)
	default:
		s.change(func(who *identity) { who.become(login.Agent) })
		h.rewatch(s)
	}
	return err
}

// expireIn makes the session end when its login does.
func (s *Session) expireIn(d time.Duration) {
	t := time.AfterFunc(d, func() { s.close(proto.CloseTokenExpired, "the login has expired") })
	if old := s.expiry.Swap(t); old != nil {
		old.Stop()
	}
	if s.gone.Load() {
		t.Stop()
	}
}

// change replaces the identity of a session that has one.
func (s *Session) change(f func(*identity)) {
	for {
		old := s.ident.Load()
		if old == nil {
			return
		}
		who := *old
		f(&who)
		if s.ident.CompareAndSwap(old, &who) {
			return
		}
	}
}

// refusal is the reason why a client is not let in.
type refusal struct {
	code  proto.Code
	text  string
	close int
}

// knownAgent reads a login.
func (h *Hub) knownAgent(ctx context.Context, r store.Reader, login store.Token) (store.AgentSession, *refusal, error) {
	s, err := r.AgentSession(ctx, login, h.o.Now())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return s, &refusal{proto.CodeUnauthorized, "logged out", proto.CloseUnauthorized}, nil
	case errors.Is(err, store.ErrExpired):
		return s, &refusal{proto.CodeTokenExpired, "the login has expired", proto.CloseTokenExpired}, nil
	case err == nil && h.o.Barred != nil && h.o.Barred(s.Agent):
		return s, &refusal{proto.CodeForbidden, "the second factor has to be set up first", proto.CloseUnauthorized}, nil
	}
	return s, nil, err
}

// knownCustomer reads the contact behind a visitor's token, and checks whether its site lets it in.
func (h *Hub) knownCustomer(ctx context.Context, r store.Reader, p Peer, token store.Token) (store.Contact, *refusal, error) {
	c, err := r.ContactByToken(ctx, token, h.o.Now())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return c, &refusal{proto.CodeUnauthorized, "the token is not known", proto.CloseUnauthorized}, nil
	case errors.Is(err, store.ErrExpired):
		return c, &refusal{proto.CodeTokenExpired, "the token has expired", proto.CloseTokenExpired}, nil
	case err != nil:
		return c, nil, err
	case c.Blocked:
		return c, &refusal{proto.CodeBlocked, "you cannot write here", proto.CloseBlocked}, nil
	case c.Verified && p.Origin == "":
		return c, nil, nil
	}
	site, err := r.Site(ctx, c.Site)
	if err == nil && p.Origin != "" && !slices.ContainsFunc(site.Settings.Origins, func(o string) bool { return strings.EqualFold(o, p.Origin) }) {
		return c, &refusal{proto.CodeForbidden, "this origin may not connect", proto.CloseUnauthorized}, nil
	}
	if err == nil && !c.Verified && site.Settings.Enforce {
		return c, &refusal{proto.CodeUnauthorized, "this site needs a signed identity", proto.CloseUnauthorized}, nil
	}
	return c, nil, err
}

// admit checks a session that is in the books by now. An agent's login is always read, because its ticket may be half a
// minute old. A customer is read only if anything was taken back since its contact was read. False means that the
// session has been refused.
func (h *Hub) admit(ctx context.Context, r store.Reader, s *Session, who *identity, cmd proto.Command, rechecks uint64) bool {
	var no *refusal
	var err error
	if who.actor.Kind == store.Agent {
		var login store.AgentSession
		if login, no, err = h.knownAgent(ctx, r, who.login); err == nil && no == nil {
			who.become(login.Agent)
			s.expireIn(login.Expires.Sub(h.o.Now()))
			s.change(func(w *identity) { w.become(login.Agent) })
		}
	} else if h.rechecks.Load() != rechecks {
		_, no, err = h.knownCustomer(ctx, r, s.peer, who.login)
	}
	switch {
	case err != nil:
		s.failHello(cmd, err)
	case no != nil:
		s.refuseHello(cmd, no.code, no.text, no.close)
	}
	return err == nil && no == nil
}
