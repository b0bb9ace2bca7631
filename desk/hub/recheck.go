package hub

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Sessions are let in by what the store says at that moment. The feed says when that may no longer be right: then the store
// is asked again, on the feed's goroutine. A hello that is under way then either has not read yet, or is in the books, or
// finds that the counter has changed and reads again.

// rechecks are the sessions that the store is to be asked about again.
type rechecks struct {
	count atomic.Uint64 // of changes; a hello compares it

	mu       sync.Mutex
	agents   map[string]bool // by id
	contacts map[string]bool
}

// doubt notes the sessions that a part of the feed is about. It reports whether there are any.
func (h *Hub) doubt(part *store.Fed) bool {
	if len(part.Accounts)+len(part.Ended) == 0 {
		return false
	}
	r := &h.rechecks
	r.count.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agents == nil {
		r.agents, r.contacts = make(map[string]bool), make(map[string]bool)
	}
	for _, id := range part.Accounts {
		r.agents[id] = true
	}
	for _, e := range part.Ended {
		r.contacts[e.Contact] = true
	}
	return true
}

// doubted returns the sessions that were noted, and forgets them.
func (h *Hub) doubted() (sessions []*Session) {
	r := &h.rechecks
	r.mu.Lock()
	agents, contacts := r.agents, r.contacts
	r.agents, r.contacts = nil, nil
	r.mu.Unlock()
	if len(agents)+len(contacts) == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range agents {
		sessions = append(sessions, h.sessions.agents[id]...)
	}
	for id := range contacts {
		sessions = append(sessions, h.sessions.contacts[id]...)
	}
	return sessions
}

// recheck asks the store about the sessions that were noted. One whose login is gone, or cannot be read, is closed. Those of
// agents get the account's new role and name. It blocks and honours ctx.
func (h *Hub) recheck(ctx context.Context) {
	var errs []error
	for _, s := range h.doubted() {
		who, check := s.who(), h.recheckAgent
		if who.actor.Kind == store.Customer {
			check = h.recheckCustomer
		}
		no, err := check(ctx, s, &who)
		switch {
		case err != nil:
			s.close(proto.CloseTryLater, "the server could not read")
			errs = append(errs, err)
		case no != nil:
			s.close(no.close, no.text)
		}
	}
	if len(errs) > 0 {
		h.o.Logger.Error("desk: sessions whose login may have ended could not be looked at and were closed", "sessions", len(errs), "err", errs[0])
	}
}

func (h *Hub) recheckAgent(ctx context.Context, s *Session, who *identity) (*refusal, error) {
	login, no, err := h.knownAgent(ctx, h.o.Store.Hot(), who.login)
	if err == nil && no == nil {
		s.change(func(who *identity) { who.become(login.Agent) })
		h.rewatch(s)
	}
	return no, err
}

func (h *Hub) recheckCustomer(ctx context.Context, s *Session, who *identity) (*refusal, error) {
	c, no, err := h.knownCustomer(ctx, h.o.Store.Hot(), s.peer, who.login)
	if err == nil && no == nil && c.ID != who.actor.ID {
		no = &refusal{proto.CodeUnavailable, "merged", proto.CloseTryLater}
	}
	return no, err
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
	} else if h.rechecks.count.Load() != rechecks {
		no, err = h.recheckCustomer(ctx, s, who)
	}
	return s.letIn(cmd, no, err)
}
