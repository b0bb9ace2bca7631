package front

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// anyStaff is the permission of routes that every logged-in agent may use.
const anyStaff perm.Permission = ""

// staffHandler serves a request of an agent who is logged in and has the permission of the route.
type staffHandler func(w http.ResponseWriter, r *http.Request, s store.AgentSession)

// staff is the one gate in front of every route of staff. It takes a place, finds the login by the cookie, checks its
// expiry, the account and the permission, and bounds the time of the request. An account that has to set up its second
// factor passes only where the permission is beforeCode. Routes below /api/ refuse with problem
// objects. A page redirects to the console's login, or answers with the page that says "forbidden".
func (f *Front) staff(p perm.Permission, next staffHandler) http.HandlerFunc {
	return f.staffIn(f.places.staff, f.within(requestTimeout), p, next)
}

// staffIn is staff for routes with places and a time limit of their own.
func (f *Front) staffIn(places chan struct{}, limit time.Duration, p perm.Permission, next staffHandler) http.HandlerFunc {
	return f.limited(places, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		r = r.WithContext(ctx)
		s, err := f.loggedIn(ctx, r)
		switch {
		case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExpired):
			f.notLoggedIn(w, r)
		case err != nil:
			f.storeProblem(w, err)
		case p != beforeCode && f.o.SecondFactor.Bars(s.Agent):
			f.setUpFirst(w, r)
		case p != anyStaff && p != beforeCode && !s.Agent.Role.Can(p):
			f.denied(w, r, s, p)
		default:
			next(w, r, s)
		}
	})
}

// isPage reports whether a route answers people and not programs.
func isPage(r *http.Request) bool { return !strings.HasPrefix(r.URL.Path, "/api/") }

// loggedIn returns the login of a request. ErrNotFound means that there is none, and ErrExpired that it has ended.
func (f *Front) loggedIn(ctx context.Context, r *http.Request) (store.AgentSession, error) {
	token := f.cookieToken(r)
	if token == (store.Token{}) {
		return store.AgentSession{}, store.ErrNotFound
	}
	s, err := f.store.Cold().AgentSession(ctx, token, f.o.Now())
	if err != nil {
		return store.AgentSession{}, err
	}
	idle := f.o.Now().Sub(s.Seen)
	if idle > f.o.LoginIdle {
		return store.AgentSession{}, store.ErrExpired
	}
	if idle > touchEvery {
		if err := f.store.TouchAgentSession(ctx, token); err != nil {
			f.o.Logger.Warn("desk: the time of a login could not be renewed", "err", err)
		}
	}
	return s, nil
}

func (f *Front) notLoggedIn(w http.ResponseWriter, r *http.Request) {
	if isPage(r) {
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, "/console", http.StatusSeeOther)
		return
	}
	problem(w, http.StatusUnauthorized, &proto.Error{Code: proto.CodeUnauthorized, Text: "You are not logged in."})
}

// denied refuses what the role may not do, and adds that to the audit log.
func (f *Front) denied(w http.ResponseWriter, r *http.Request, s store.AgentSession, p perm.Permission) {
	f.logDenied(r, s.Agent.Actor(), "needs "+string(p))
	if !isPage(r) {
		problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeForbidden, Text: "Your role may not do this."})
		return
	}
	f.refusePage(w, http.StatusForbidden, "forbidden.html")
}

// logDenied counts a refusal and adds it to the audit log, but not all of a flood.
func (f *Front) logDenied(r *http.Request, who store.Actor, why string) {
	f.Counters.RequestsDenied.Add(1)
	if f.denials.Allow(who.ID, f.o.Now()) {
		f.auditSoon(who, store.AuditDenied, "route "+r.Pattern, why, f.address(r))
	}
}

// audit writes a line of the audit log and waits for its commit. Call it before the action, because an action that
// cannot be recorded must not be done. ip is the address of the client; it is stored as far as the options allow.
func (f *Front) audit(ctx context.Context, who store.Actor, action, target, detail, ip string) error {
	return store.Record(ctx, f.store, store.Audit{Who: who, Action: action, Target: target, Detail: detail, IP: f.o.KeepIP.keep(ip)})
}

// auditSoon writes a line without waiting, about an action that was not done. A line that is lost is counted and logged.
func (f *Front) auditSoon(who store.Actor, action, target, detail, ip string) {
	line := store.Audit{Who: who, Action: action, Target: target, Detail: detail, IP: f.o.KeepIP.keep(ip)}
	f.store.Do(line, time.Now().Add(f.within(auditTimeout)), func(out store.Outcome) {
		if out.Err != nil {
			f.Counters.AuditLost.Add(1)
			f.o.Logger.Error("desk: a line of the audit log was lost", "action", action, "who", who.ID, "err", out.Err)
		}
	})
}
