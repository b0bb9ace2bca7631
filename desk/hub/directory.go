package hub

import (
	"slices"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// directory is the hub's memory of the open conversations. It is a copy of what is committed, for everything that must
// not ask the database. Hub.mu guards it.
type directory struct {
	open      map[string]*entry
	byContact map[string][]*entry
	queue     []*entry          // in queue order
	lines     map[line][]*entry // the same by line, each in queue order
	lineOf    func(*store.Conversation) line
	byAgent   map[string]map[string]*entry // assigned ones by agent, then by id
	aside     map[string]int               // how many of them each agent has put aside
	plan      plan                         // what the timers will do
	erased    map[string]bool              // contacts whose last conversation is about to be closed, see ended
}

type entry struct {
	conv store.Conversation
	sent int       // queue position last told to the customer, 0 = none
	at   time.Time // when that was

	left     int64    // since when the customer has no connection, 0 = it has one
	leftKept bool     // left is stored
	former   []string // agents that passed it on and still watch
	line     line     // while it waits
	due      int64    // when a timer looks at it, 0 = never
	slot     int      // in the plan
}

func newDirectory(lineOf func(*store.Conversation) line) *directory {
	return &directory{
		open: make(map[string]*entry), byContact: make(map[string][]*entry), byAgent: make(map[string]map[string]*entry), aside: make(map[string]int),
		lines: make(map[line][]*entry), lineOf: lineOf, erased: make(map[string]bool),
	}
}

// apply takes over a committed state and returns the one before. Outcomes arrive in commit order, so the newer one is
// right.
func (d *directory) apply(c store.Conversation) (before store.Conversation) {
	e := d.open[c.ID]
	if e == nil {
		if c.State == store.Closed {
			return before
		}
		e = &entry{slot: -1}
		d.open[c.ID] = e
		d.byContact[c.Contact] = append(d.byContact[c.Contact], e)
	}
	before = e.conv
	waited := before.State == store.Queued
	moves := waited != (c.State == store.Queued) || (waited && (before.CompareQueue(&c) != 0 || d.lineOf(&c) != e.line))
	if moves && waited {
		d.dequeue(e)
	}
	if before.Owner.Kind == store.Agent && !before.Owner.Is(c.Owner) {
		d.release(before)
	}
	if c.Owner.Kind == store.Agent {
		d.seat(e, c)
	}
	d.count(&before, -1)
	d.count(&c, 1)
	e.conv = c
	if moves && c.State == store.Queued {
		d.enqueue(e)
	}
	if !waited {
		e.sent = 0
	}
	if c.State == store.Closed {
		d.plan.drop(e)
		delete(d.open, c.ID)
		rest := slices.DeleteFunc(d.byContact[c.Contact], func(x *entry) bool { return x == e })
		if len(rest) == 0 {
			delete(d.byContact, c.Contact)
		} else {
			d.byContact[c.Contact] = rest
		}
	}
	return before
}

// wasErased reports whether the last open conversation of an erased contact has been closed, once.
func (d *directory) wasErased(contact string) bool {
	last := d.erased[contact] && len(d.byContact[contact]) == 0
	if last {
		delete(d.erased, contact)
	}
	return last
}

func (d *directory) seat(e *entry, c store.Conversation) {
	convs := d.byAgent[c.Owner.ID]
	if convs == nil {
		convs = make(map[string]*entry)
		d.byAgent[c.Owner.ID] = convs
	}
	convs[c.ID] = e
}

func (d *directory) release(c store.Conversation) {
	delete(d.byAgent[c.Owner.ID], c.ID)
	if len(d.byAgent[c.Owner.ID]) == 0 {
		delete(d.byAgent, c.Owner.ID)
	}
}

// count counts a conversation that was put aside in or out.
func (d *directory) count(c *store.Conversation, n int) {
	if !c.Snoozed() {
		return
	}
	if d.aside[c.Owner.ID] += n; d.aside[c.Owner.ID] == 0 {
		delete(d.aside, c.Owner.ID)
	}
}

// tally counts the open conversations by state, and finds the longest wait in the queue. now is Unix milliseconds.
func (d *directory) tally(now int64) (t tally) {
	for _, e := range d.open {
		switch e.conv.State {
		case store.InBot:
			if e.conv.ActedAt != 0 {
				t.bot++
			}
		case store.Assigned:
			t.assigned++
		}
	}
	t.queued = len(d.queue)
	for _, e := range d.queue {
		t.longest = max(t.longest, now-e.conv.QueuedAt)
	}
	return t
}

type tally struct {
	bot, queued, assigned int
	longest               int64 // milliseconds
}

// active returns how many places of an agent are taken.
func (d *directory) active(agent string) int { return len(d.byAgent[agent]) - d.aside[agent] }

// find returns where a conversation is, or belongs, in the queue.
func (d *directory) find(c store.Conversation) (int, bool) { return place(d.queue, &c) }

// laneFor returns the lane of a command on a conversation. A client that names a closed, unknown or foreign conversation
// gets a lane of its own, so that it cannot fill the lane of others.
func (h *Hub) laneFor(s *Session, conv string) string {
	who := s.who()
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.queue.dir.open[conv]
	if e == nil || (who.actor.Kind == store.Customer && e.conv.Contact != who.actor.ID) {
		return "session " + s.id
	}
	return conv
}
