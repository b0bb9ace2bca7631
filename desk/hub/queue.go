package hub

import "github.com/go-eddy/eddy/desk/store"

// queue is what the hub knows of the work: the open conversations, the staff that serves them and what is offered.
// Hub.mu guards it and is held in all methods.
type queue struct {
	o        *Options
	sessions *sessions
	router   *router
	dir      *directory
	roster   *roster
	since    int64             // Unix milliseconds of Start, or of when this server began to lead the others
	offers   map[string]*offer // by conversation
	pace     map[string]*pace  // by group
	counters map[counter]*counterState
	absent   map[string]int64 // by group, since when nobody takes chats
	targets  targets
	here     here
	untold   string // the conversation whose change is taken over and of which nobody has been told yet
}

func newQueue(h *Hub) queue {
	staff := newRoster(&h.sessions)
	return queue{
		o: &h.o, sessions: &h.sessions, router: h.router, dir: newDirectory(staff.lineOf), roster: staff, offers: make(map[string]*offer), pace: make(map[string]*pace),
		counters: make(map[counter]*counterState), absent: make(map[string]int64),
		targets: targets{aims: make(map[string]*aim)},
		here:    here{stored: make(map[string]bool), moved: make(map[string]bool)},
	}
}

// begin takes over what is stored. Nobody has a connection to this server yet, so times without a connection begin now
// unless they had begun.
func (q *queue) begin(open []store.Conversation, staff staffData, there []store.Presence) {
	q.since = q.o.Now().UnixMilli()
	for i := range there {
		q.sessions.setElsewhere(&there[i], q.here.node)
	}
	q.roster.apply(staff, q.roster.changes)
	for _, m := range q.roster.members {
		switch there := q.sessions.agentThere(m.ID); {
		case there:
			m.GoneAt = 0
		case m.GoneAt == 0:
			m.GoneAt = q.since
		}
	}
	for _, c := range open {
		q.dir.apply(c)
		e := q.dir.open[c.ID]
		e.left, e.leftKept = c.LeftAt, c.LeftAt != 0
		switch there := q.sessions.customerThere(c.Contact); {
		case there:
			e.left = 0
		case e.left == 0:
			e.left = q.since
		}
		q.replan(e)
	}
}
