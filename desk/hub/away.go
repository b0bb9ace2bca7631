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

// line is the queue of a group, "" = everybody's, for the customers of one site. The group's hours count where it has
// some, else the site's.
type line struct{ site, group string }

// lineState is what is known of a line, and what its customers have been told. Hub.mu guards it.
type lineState struct {
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

// schedule returns the hours of a line, nil for always.
func (r *roster) schedule(l line) *hours.Schedule {
	if s := r.hours[l.group]; s != nil {
		return s
	}
	return r.hours[l.site]
}

// at returns the state of a line, whose hours are right.
func (q *queue) at(l line, now int64) *lineState {
	st := q.lines[l]
	fresh := st == nil
	if fresh {
		st = &lineState{}
		q.lines[l] = st
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

// away says why nobody is there for a line, and when that may change by itself, 0 = never.
func (q *queue) away(l line, now int64) (is proto.Away, next int64) {
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
		if len(q.sessions.agents[m.ID]) > 0 {
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
	is, _ := h.queue.away(line{site, group}, h.o.Now().UnixMilli())
	return is.Reason != ""
}

// lineOf returns the line of a customer: that of its open conversation, or that of the next one.
func (q *queue) lineOf(contact, site string) line {
	if all := q.dir.byContact[contact]; len(all) > 0 {
		return line{site, all[0].conv.Group}
	}
	return line{site, q.roster.sites[site].Group}
}

// tellsAway returns what the welcome of a customer says about its line, nil while somebody is there. Changes after that
// are told to the session, whatever its phase.
func (h *Hub) tellsAway(who identity) *proto.Away {
	if who.actor.Kind != store.Customer {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if told := h.queue.at(h.queue.lineOf(who.actor.ID, who.site), h.o.Now().UnixMilli()).told; told.Reason != "" {
		return &told
	}
	return nil
}

// tellAway tells customers whose line has changed. It returns when the next line may change by itself, 0 = never.
func (h *Hub) tellAway(now int64) (due int64) {
	type note struct {
		away proto.Away
		to   []*Session
	}
	var notes []note
	h.mu.Lock()
	q := &h.queue
	changed := make(map[line]proto.Away)
	for l, st := range q.lines {
		is, next := q.away(l, now)
		due = earlier(due, next)
		if is != st.told {
			st.told, changed[l] = is, is
		}
	}
	if len(changed) > 0 {
		for contact, to := range h.sessions.contacts {
			if is, has := changed[q.lineOf(contact, to[0].who().site)]; has {
				notes = append(notes, note{is, to})
			}
		}
	}
	h.mu.Unlock()
	for _, n := range notes {
		tellLine(n.away, n.to)
	}
	return due
}

// tellLine sends what a line's customers are told. It is never lost: a session that is being resumed gets it then.
func tellLine(is proto.Away, to []*Session) {
	frame := proto.Event("ev.away", "", 0, is)
	for _, s := range to {
		s.deliver("", 0, frame)
	}
}

// lineMoved tells a customer whose conversation has come to another line, by a transfer, by its end or by going on.
func (h *Hub) lineMoved(n *news) {
	c := &n.out.Conv
	if len(n.customers) == 0 {
		return
	}
	h.mu.Lock()
	q := &h.queue
	was, now := line{c.Site, n.before.Group}, q.lineOf(c.Contact, c.Site)
	if n.before.ID == "" {
		was.group = q.roster.sites[c.Site].Group
	}
	told := q.at(now, q.o.Now().UnixMilli()).told
	h.mu.Unlock()
	if was != now {
		tellLine(told, n.customers)
	}
}
