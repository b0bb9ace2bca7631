package hub

import (
	"context"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	visitEvery = 0.5 // pages a second that staff is told of, of one session
	visitBurst = 5
)

// visit takes what a customer's browser says of where it is. It stays in memory until there is a chat. Pages that come
// too fast are not passed on.
func (s *Session) visit(who identity, p *proto.Visit) {
	h := s.hub
	f := store.Facts{Page: p.Page, Title: p.Title, Referrer: p.Referrer, Zone: p.Zone, Browser: s.peer.Agent, Country: s.peer.Place.Country, City: s.peer.Place.City, At: h.o.Now().UnixMilli()}.Kept(h.visitsKept(who.site))
	if before := s.facts.Load(); before != nil {
		f = f.After(*before)
	}
	s.facts.Store(&f)
	if take(s.visits, h.o.Now()) > 0 {
		return
	}
	if to := h.attendants(who.actor.ID); len(to) > 0 {
		s.saveVisit(who)
		frame := proto.Event("ev.visitor", "", 0, proto.VisitorNow{Contact: who.actor.ID, Visit: proto.Facts(f)})
		for _, a := range to {
			a.ephemeral(frame)
		}
	}
}

// attendants returns the sessions of staff that get the events of a contact's open conversations.
func (h *Hub) attendants(contact string) (to []*Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.queue.dir.byContact[contact] {
		to = append(to, h.sessions.listeners(e.conv.Owner, e.conv.Owner, e, e.conv.ID)...)
	}
	return to
}

// saveVisit stores where the customer of a session is, without waiting. What is lost comes with the next page.
func (s *Session) saveVisit(who identity) {
	f := s.facts.Load()
	if f == nil {
		return
	}
	s.hub.o.Store.Do(store.Visited{Contact: who.actor.ID, Facts: *f}, time.Now().Add(s.hub.o.Limits.CommandAge), func(out store.Outcome) {
		if out.Err != nil {
			s.hub.o.Logger.Debug("desk: where a customer is was not stored", "err", out.Err)
		}
	})
}

// visitNow returns where a connected customer is; false means that it is not connected or has not said.
func (h *Hub) visitNow(contact string) (now store.Facts, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sessions.contacts[contact] {
		if f := s.facts.Load(); f != nil && f.At >= now.At {
			now, ok = *f, true
		}
	}
	return now, ok
}

// visits reads what staff see of a contact's visits.
func (h *Hub) visits(ctx context.Context, r store.Reader, contact string) (proto.Facts, int, error) {
	f, chats, err := r.Visits(ctx, contact)
	if now, ok := h.visitNow(contact); ok {
		f = now.After(f)
	}
	return proto.Facts(f), chats, err
}

// visitsKept returns what a site keeps of visits.
func (h *Hub) visitsKept(site string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	settings := h.queue.roster.sites[site].Settings
	return settings.VisitsKept()
}

// pageKept returns what a site keeps of the page on which a conversation is opened.
func (h *Hub) pageKept(site, page string) string {
	switch h.visitsKept(site) {
	case store.KeepNothing:
		return ""
	case store.KeepBasic:
		page, _, _ = strings.Cut(page, "?")
	}
	page, _, _ = strings.Cut(page, "#")
	return page
}
