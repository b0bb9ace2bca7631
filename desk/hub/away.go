package hub

import (
	"slices"

	"github.com/go-eddy/eddy/desk/hours"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Reasons of proto.Away, and that of a refusal.
const (
	awayHours  = "hours"
	awayAbsent = "absent"
	reasonAway = "away"
)

// counter is the queue of a group, "" = everybody's, for the customers of one site. The group's hours count where it has
// some, else the site's.
type counter struct{ site, group string }

// counterState is what is known of a counter, and what its customers have been told. Hub.mu guards it.
type counterState struct {
	edition uint64 // of the settings that open and until were made from
	open    bool   // by the hours
	until   int64  // open stays as it is, Unix milliseconds; 0 = for good
	told    proto.Away
}

// schedules reads the hours of groups and sites. It may read files of the system, so no lock is held.
func (d *staffData) schedules() {
	d.hours = make(map[string]*hours.Schedule)
	for i := range d.groups {
		d.hours[d.groups[i].ID], _ = hours.Parse(d.groups[i].Settings.Hours) // checked when they were stored
	}
	for i := range d.sites {
		d.hours[d.sites[i].ID], _ = hours.Parse(d.sites[i].Settings.Hours)
	}
}

// schedule returns the hours of a counter, nil for always.
func (r *roster) schedule(l counter) *hours.Schedule {
	if s := r.hours[l.group]; s != nil {
		return s
	}
	return r.hours[l.site]
}

// at returns the state of a counter, whose hours are right.
func (q *queue) at(l counter, now int64) *counterState {
	st := q.counters[l]
	fresh := st == nil
	if fresh {
		st = &counterState{}
		q.counters[l] = st
	}
	if fresh || st.edition != q.roster.edition || st.until != 0 && now >= st.until {
		open, until := q.roster.schedule(l).At(q.o.Now())
		st.edition, st.open, st.until = q.roster.edition, open, 0
		if !until.IsZero() {
			st.until = until.UnixMilli()
		}
	}
	if fresh {
		st.told, _ = q.away(l, now)
	}
	return st
}

// away says why nobody is there for a counter, and when that may change by itself, 0 = never.
func (q *queue) away(l counter, now int64) (is proto.Away, next int64) {
	st := q.at(l, now)
	if !st.open {
		return proto.Away{Reason: awayHours, Opens: st.until}, st.until
	}
	next = st.until
	site := q.roster.sites[l.site].Settings
	since, limit := q.absence(l.group, now), site.Absence().Milliseconds()
	if since == 0 || limit == 0 {
		return is, next
	}
	if due := since + limit; due > now {
		return is, earlier(next, due)
	}
	return proto.Away{Reason: awayAbsent}, next
}

// absence returns since when nobody who takes chats of a group is online, 0 = somebody is.
func (q *queue) absence(group string, now int64) int64 {
	gone := q.since
	for _, m := range q.roster.members {
		if !m.takesChats() || group != "" && !slices.Contains(m.Groups, group) {
			continue
		}
		if q.serves(m) {
			delete(q.absent, group)
			return 0
		}
		if q.sessions.agentThere(m.ID) {
			gone = now // one that is busy, nobody knows since when
		}
		gone = max(gone, m.GoneAt)
	}
	if q.absent[group] == 0 {
		q.absent[group] = gone
	}
	return q.absent[group]
}

// away is the store.Unserved of all commands.
func (h *Hub) away(site, group string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	is, _ := h.queue.away(counter{site, group}, h.o.Now().UnixMilli())
	return is.Reason != ""
}

// counterOf returns the counter of a customer: that of its open conversation, or that of the next one.
func (q *queue) counterOf(contact, site string) counter {
	if all := q.dir.byContact[contact]; len(all) > 0 {
		return counter{site, all[0].conv.Group}
	}
	return counter{site, q.roster.sites[site].Group}
}

// tellsAway returns what the welcome of a customer says about its counter, nil while somebody is there. Changes after that
// are told to the session, whatever its phase.
func (h *Hub) tellsAway(who identity) *proto.Away {
	if who.actor.Kind != store.Customer {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if told := h.queue.at(h.queue.counterOf(who.actor.ID, who.site), h.o.Now().UnixMilli()).told; told.Reason != "" {
		return &told
	}
	return nil
}

// tellAway tells customers whose counter has changed. It returns when the next counter may change by itself, 0 = never.
func (h *Hub) tellAway(now int64) (due int64) {
	type note struct {
		away proto.Away
		to   []*Session
	}
	var notes []note
	h.mu.Lock()
	q := &h.queue
	changed := make(map[counter]proto.Away)
	for l, st := range q.counters {
		is, next := q.away(l, now)
		due = earlier(due, next)
		if is != st.told {
			st.told, changed[l] = is, is
		}
	}
	if len(changed) > 0 {
		for contact, to := range h.sessions.contacts {
			if is, has := changed[q.counterOf(contact, to[0].who().site)]; has {
				notes = append(notes, note{is, to})
			}
		}
	}
	h.mu.Unlock()
	for _, n := range notes {
		tellCounter(n.away, n.to)
	}
	return due
}

// tellCounter sends what a counter's customers are told. It is never lost: a session that is being resumed gets it then.
func tellCounter(is proto.Away, to []*Session) {
	frame := proto.Event("ev.away", "", 0, is)
	for _, s := range to {
		s.deliver("", 0, frame)
	}
}

// counterMoved tells a customer whose conversation has come to another counter, by a transfer, by its end or by going on.
func (h *Hub) counterMoved(n *news) {
	c := &n.part.Conv
	if len(n.customers) == 0 || n.before.ID == "" && c.State == store.Closed { // one that was closed before
		return
	}
	h.mu.Lock()
	q := &h.queue
	was, now := counter{c.Site, n.before.Group}, q.counterOf(c.Contact, c.Site)
	if n.before.ID == "" {
		was.group = q.roster.sites[c.Site].Group
	}
	told := q.at(now, q.o.Now().UnixMilli()).told
	h.mu.Unlock()
	if was != now {
		tellCounter(told, n.customers)
	}
}
