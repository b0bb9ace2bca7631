package hub

import (
	"fmt"
	"slices"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// sessions are the connections of a hub and what each is told. Hub.mu guards them and is held in all methods. The slices
// are replaced, never changed, because publish reads the old ones without the lock.
type sessions struct {
	all      map[*Session]struct{}
	contacts map[string][]*Session // welcomed ones by contact id
	agents   map[string][]*Session // welcomed ones by agent id
	staff    []*Session            // welcomed ones of all agents
	watchers map[string][]*Session // by conversation

	elsewhere map[string]bool // agents and contacts with a connection to another server, by id
}

func newSessions() sessions {
	return sessions{
		all: make(map[*Session]struct{}), contacts: make(map[string][]*Session), agents: make(map[string][]*Session), watchers: make(map[string][]*Session),
		elsewhere: make(map[string]bool),
	}
}

// enter adds a session that has an identity now. It reports whether that is the first one of the identity.
func (l *sessions) enter(s *Session, who store.Actor) (first bool) {
	book := l.book(who.Kind)
	first = len(book[who.ID]) == 0
	book[who.ID] = with(book[who.ID], s)
	if who.Kind == store.Agent {
		l.staff = with(l.staff, s)
	}
	return first
}

// leave forgets a session. It reports whether that was the last one of an identity. The zero actor has none.
func (l *sessions) leave(s *Session, who store.Actor) (last bool) {
	delete(l.all, s)
	if who.Kind == "" {
		return false
	}
	book := l.book(who.Kind)
	rest := without(book[who.ID], s)
	if last = len(rest) == 0; last {
		delete(book, who.ID)
	} else {
		book[who.ID] = rest
	}
	if who.Kind == store.Agent {
		l.staff = without(l.staff, s)
		for conv := range s.watched {
			l.unwatch(s, conv)
		}
	}
	return last
}

// book returns the sessions by identity of one kind.
func (l *sessions) book(kind store.ActorKind) map[string][]*Session {
	if kind == store.Agent {
		return l.agents
	}
	return l.contacts
}

func with(list []*Session, s *Session) []*Session { return append(slices.Clip(list), s) }

func without(list []*Session, s *Session) []*Session {
	i := slices.Index(list, s)
	if i < 0 {
		return list
	}
	return slices.Delete(slices.Clone(list), i, i+1)
}

// ownersOf returns the sessions of the agents that own a conversation now and that owned it before.
func (l *sessions) ownersOf(before, now store.Actor) []*Session {
	var sessions []*Session
	if now.Kind == store.Agent {
		sessions = l.agents[now.ID]
	}
	if before.Kind == store.Agent && !before.Is(now) {
		sessions = slices.Concat(sessions, l.agents[before.ID])
	}
	return sessions
}

// listeners returns the sessions of staff that get the events of a conversation. They are those of its owner now and
// before, of the agents that passed it on, and those that watch it.
func (l *sessions) listeners(before, now store.Actor, e *entry, conv string) []*Session {
	sessions := l.ownersOf(before, now)
	if e != nil {
		for _, id := range e.former {
			if id != before.ID && id != now.ID {
				sessions = slices.Concat(sessions, l.agents[id])
			}
		}
	}
	for _, s := range l.watchers[conv] {
		if !slices.Contains(sessions, s) {
			sessions = append(slices.Clip(sessions), s)
		}
	}
	return sessions
}

// between adds the sessions of the agents that changes name as owners. The hub may have known a later owner already.
func (l *sessions) between(to []*Session, events []store.Event) []*Session {
	for i := range events {
		ch := events[i].Change
		if ch == nil {
			continue
		}
		for _, s := range l.ownersOf(ch.Was, ch.Owner) {
			if !slices.Contains(to, s) {
				to = append(slices.Clip(to), s)
			}
		}
	}
	return to
}

// watch subscribes a session to a conversation. The directory may not know the conversation yet, because a customer
// that opens one is answered before it is published.
func (l *sessions) watch(s *Session, conv string) *proto.Error {
	if slices.Contains(l.watchers[conv], s) || s.gone.Load() {
		return nil
	}
	if len(s.watched) >= maxWatched {
		return &proto.Error{Code: proto.CodeBusy, Text: fmt.Sprintf("%d conversations are watched, the limit of a connection is %d", len(s.watched), maxWatched)}
	}
	if s.watched == nil {
		s.watched = make(map[string]struct{})
	}
	s.watched[conv] = struct{}{}
	l.watchers[conv] = with(l.watchers[conv], s)
	return nil
}

// unwatch ends the watching of a conversation by a session.
func (l *sessions) unwatch(s *Session, conv string) {
	delete(s.watched, conv)
	if rest := without(l.watchers[conv], s); len(rest) > 0 {
		l.watchers[conv] = rest
	} else {
		delete(l.watchers, conv)
	}
}
