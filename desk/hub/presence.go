package hub

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	beatEvery = 5 * time.Second
	nodeLife  = 3 * beatEvery
)

// here is what the other servers are to know of the customers that are connected to this one. Hub.mu guards it.
type here struct {
	node   string          // the name of this server, "" = there are no others
	stored map[string]bool // customers of whom they know
	moved  map[string]bool // customers whose presence may have to be stored
}

// moves notes that the presence of a customer may have to be stored. The others are told of those with an open conversation.
func (q *queue) moves(contact string) {
	if q.here.node != "" && q.here.stored[contact] != q.tells(contact) {
		q.here.moved[contact] = true
		q.router.wake()
	}
}

func (q *queue) tells(contact string) bool {
	return len(q.sessions.contacts[contact]) > 0 && len(q.dir.byContact[contact]) > 0
}

// moving takes customers whose presence has to be stored now.
func (q *queue) moving() (all []store.Here) {
	now := q.o.Now().UnixMilli()
	for contact := range q.here.moved {
		if len(all) == store.BuryRows {
			break
		}
		delete(q.here.moved, contact)
		switch is := q.tells(contact); {
		case is == q.here.stored[contact]:
		case is:
			q.here.stored[contact] = true
			all = append(all, store.Here{Contact: contact})
		default:
			delete(q.here.stored, contact)
			all = append(all, store.Here{Contact: contact, GoneAt: now})
		}
	}
	return all
}

// unmoved takes back what could not be stored.
func (q *queue) unmoved(all []store.Here) {
	for _, h := range all {
		if q.here.moved[h.Contact] = true; h.GoneAt == 0 {
			delete(q.here.stored, h.Contact)
		} else {
			q.here.stored[h.Contact] = true
		}
	}
}

// saveHere stores where customers are. It runs on the router's goroutine.
func (r *router) saveHere() error {
	h := r.hub
	for {
		h.mu.Lock()
		all := h.queue.moving()
		h.mu.Unlock()
		if len(all) == 0 {
			return nil
		}
		ctx, cancel := r.bounded()
		err := h.o.Store.SetHere(ctx, all)
		cancel()
		if err != nil {
			h.mu.Lock()
			h.queue.unmoved(all)
			h.mu.Unlock()
			return err
		}
	}
}

// present takes over where somebody is connected, and what an agent has chosen, as some server has stored it.
func (h *Hub) present(p *store.Presence) {
	h.mu.Lock()
	was := h.sessions.connected(p.Kind, p.ID)
	h.sessions.setElsewhere(p, h.queue.here.node)
	is := h.sessions.connected(p.Kind, p.ID)
	if p.Kind == store.Agent {
		h.queue.agentMoved(p, was, is)
	} else if was != is {
		h.queue.customerMoved(p.ID)
	}
	h.mu.Unlock()
	if was != is {
		h.presence(store.Actor{Kind: p.Kind, ID: p.ID}, is)
	}
	h.router.wake()
	h.ticker.wake()
}

// presences reads who is connected to which of several servers.
func (h *Hub) presences(ctx context.Context) ([]store.Presence, error) {
	if h.queue.here.node == "" {
		return nil, nil
	}
	all, err := h.o.Store.Cold().Presences(ctx)
	if err != nil {
		return nil, fmt.Errorf("hub: reading who is connected to other servers: %w", err)
	}
	return all, nil
}

// rereadPresences is for a server that has missed what was told. The staff is read again after that.
func (h *Hub) rereadPresences(ctx context.Context) error {
	all, err := h.presences(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.sessions.elsewhere)
	for i := range all {
		h.sessions.setElsewhere(&all[i], h.queue.here.node)
	}
	for contact := range h.queue.dir.byContact {
		if len(h.sessions.contacts[contact]) == 0 {
			h.queue.customerMoved(contact)
		}
	}
	return nil
}

// setElsewhere notes the servers that somebody is connected to.
func (l *sessions) setElsewhere(p *store.Presence, own string) {
	if slices.ContainsFunc(p.Nodes, func(n string) bool { return n != own }) {
		l.elsewhere[p.ID] = true
	} else {
		delete(l.elsewhere, p.ID)
	}
}

// connected reports whether somebody has a connection, to this server or another one.
func (l *sessions) connected(kind store.ActorKind, id string) bool {
	return len(l.book(kind)[id]) > 0 || l.elsewhere[id]
}

func (l *sessions) agentThere(id string) bool { return l.connected(store.Agent, id) }

func (l *sessions) customerThere(id string) bool { return l.connected(store.Customer, id) }

// agentMoved takes over the state of an agent. What this server has not stored yet is newer.
func (q *queue) agentMoved(p *store.Presence, was, is bool) {
	m := q.roster.members[p.ID]
	if m == nil {
		q.router.stale.Store(true)
		return
	}
	before, now := m.StaffMember, q.o.Now()
	if !m.unsaved {
		m.be(p.Status, now.UnixMilli())
		m.NoChats, m.Missed = p.NoChats, p.Missed
	}
	switch {
	case is:
		m.GoneAt = 0
		if !was {
			m.faded, m.ready = false, now.Add(q.o.Limits.AgentSettle).UnixMilli()
		}
	case was:
		m.GoneAt, m.faded = cmp.Or(p.GoneAt, now.UnixMilli()), false
	}
	if m.NoChats != before.NoChats {
		q.roster.hear()
		q.restaffed()
	}
	if was != is || m.Status != before.Status || m.NoChats != before.NoChats || m.Missed != before.Missed {
		q.roster.change(m)
		q.replanOf(m.ID)
	}
}

// pulse tells the other servers that this one lives.
func (h *Hub) pulse(ctx context.Context) {
	for {
		fired, giveUp := h.o.After(beatEvery)
		select {
		case <-ctx.Done():
			giveUp()
			return
		case <-fired:
		}
		within, cancel := context.WithTimeout(ctx, beatEvery)
		err := h.beat(within)
		cancel()
		if err != nil && ctx.Err() == nil {
			h.o.Logger.Warn("desk: the other servers could not be told that this one lives", "err", err)
		}
	}
}

// beat says once that this server lives. If the others do not know it, everybody who is connected is stored again.
func (h *Hub) beat(ctx context.Context) error {
	about := h.o.Self()
	place, behind, longest := h.feed.standing()
	about.Behind, about.Lag = behind, longest
	anew, err := h.o.Store.Beat(ctx, nodeLife, place, about)
	if err != nil || !anew {
		return err
	}
	h.mu.Lock()
	for agent := range h.sessions.agents {
		if m := h.queue.roster.members[agent]; m != nil {
			m.unsaved = true
		}
	}
	clear(h.queue.here.stored)
	for contact := range h.sessions.contacts {
		h.queue.moves(contact)
	}
	h.mu.Unlock()
	h.router.wake()
	return nil
}

// buryPart ends a part of what servers have left that do not live any more. After the last part it asks the bots again that
// they have asked.
func (r *router) buryPart(ctx context.Context) (more bool, err error) {
	h := r.hub
	if more, err = h.o.Store.Bury(ctx); err != nil || more {
		return more, err
	}
	some, err := h.o.Store.AdoptTurns(ctx)
	if err != nil {
		return false, err
	}
	r.adopted = append(r.adopted, some...)
	if more = len(some) == store.BuryRows; more || len(r.adopted) == 0 {
		return more, nil
	}
	pending, err := h.o.Store.Hot().BotPending(ctx)
	if err != nil {
		return false, err // they are asked the next time
	}
	for _, p := range pending {
		if slices.Contains(r.adopted, p.Turn.ID) {
			h.startTurn(p)
		}
	}
	r.adopted = nil
	return false, nil
}
