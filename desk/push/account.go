package push

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Kind says what a Call is about.
type Kind int

// Kinds of calls.
const (
	Message Kind = iota // a customer has written in a chat of the agent
	Given               // a chat has become the agent's
	Offer               // a colleague offers a chat
)

// Call is one thing that has happened for an agent who has no console open.
type Call struct {
	Agent string
	Conv  string
	Kind  Kind
}

// news is what has happened for an agent since the last console was closed.
type news struct {
	messages, given, offers int
	chats                   map[string]bool // concerned, at most maxChats
}

// account is an agent who is to be called. Push.mu guards it.
type account struct {
	news
	fresh   bool      // something has happened that no call has told
	from    time.Time // when that may be told
	last    time.Time // of the last call
	rest    time.Time // nothing is done before, because the store has failed
	running bool      // a round is calling
	held    map[string]held
}

// held is what a push service has said about the time of the next request to one endpoint.
type held struct {
	until time.Time
	tries int  // that have failed in a row
	owed  bool // the endpoint has not got the last call
}

func newAccount() *account {
	return &account{news: news{chats: make(map[string]bool)}, held: make(map[string]held)}
}

// add counts a call, and reports whether the account is due earlier than before.
func (a *account) add(c Call, now time.Time) bool {
	switch c.Kind {
	case Message:
		a.messages++
	case Given:
		a.given++
	case Offer:
		a.offers++
	}
	if len(a.chats) < maxChats {
		a.chats[c.Conv] = true
	}
	if a.fresh {
		return false
	}
	a.fresh, a.from = true, now.Add(settle)
	if next := a.last.Add(every); next.After(a.from) {
		a.from = next
	}
	return true
}

// due returns when there is something to do, if there is.
func (a *account) due() (at time.Time, waits bool) {
	at, waits = a.from, a.fresh
	for _, h := range a.held {
		if h.owed && (!waits || h.until.Before(at)) {
			at, waits = h.until, true
		}
	}
	if a.rest.After(at) {
		at = a.rest
	}
	return at, waits
}

// begin returns the subscriptions that are to be asked now, and what they are told. What is fresh counts as told: an
// endpoint that has to wait is owed it.
func (a *account) begin(subs []store.PushSubscription, now time.Time) (n news, todo []store.PushSubscription) {
	fresh := a.fresh && !a.from.After(now)
	for endpoint := range a.held {
		if !slices.ContainsFunc(subs, func(s store.PushSubscription) bool { return s.Endpoint == endpoint }) {
			delete(a.held, endpoint)
		}
	}
	for _, s := range subs {
		h, is := a.held[s.Endpoint]
		switch {
		case is && h.until.After(now):
			h.owed = h.owed || fresh
			a.held[s.Endpoint] = h
		case fresh || h.owed:
			todo = append(todo, s)
		}
	}
	if fresh {
		a.fresh, a.last = false, now
	}
	n = a.news
	n.chats = make(map[string]bool, len(a.chats))
	for c := range a.chats {
		n.chats[c] = true
	}
	return n, todo
}

// told notes that an endpoint has got the call, or will never get it.
func (a *account) told(endpoint string) { delete(a.held, endpoint) }

// later notes that an endpoint may be asked again after so long, but not sooner than after a pause that doubles. It reports
// false if the call is given up. The time counts all the same.
func (a *account) later(endpoint string, wait time.Duration, now time.Time) bool {
	h := a.held[endpoint]
	pause := firstWait << h.tries
	h.tries++
	h.until = now.Add(min(max(wait, pause+rand.N(pause/4)), maxWait))
	h.owed = h.tries < maxTries && !h.until.After(a.last.Add(life))
	if !h.owed {
		h.tries = 0
	}
	a.held[endpoint] = h
	return h.owed
}
