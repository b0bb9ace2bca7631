package hub

import (
	"github.com/go-eddy/eddy/desk/push"
	"github.com/go-eddy/eddy/desk/store"
)

// Calls is told what happens for agents who have no connection. Its methods must not block; the hub's locks may be held.
type Calls interface {
	// Call tells one thing.
	Call(c push.Call)
	// Back tells that an agent has a connection again.
	Back(agent string)
}

// Connected reports whether an agent has a connection.
func (h *Hub) Connected(agent string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions.agentThere(agent)
}

// call passes calls on. A hub that ends has no connections, which says nothing about its agents.
func (h *Hub) call(all []push.Call) {
	if h.draining.Load() {
		return
	}
	for _, c := range all {
		h.o.Calls.Call(c)
	}
}

// calls returns what a change means for its agent, if that one has no connection.
func (q *queue) calls(before *store.Conversation, part *store.Fed) (all []push.Call) {
	c := &part.Conv
	if c.Owner.Kind != store.Agent || q.sessions.agentThere(c.Owner.ID) {
		return nil
	}
	if !before.Owner.Is(c.Owner) {
		all = append(all, push.Call{Agent: c.Owner.ID, Conv: c.ID, Kind: push.Given})
	}
	for i := range part.Events {
		if e := &part.Events[i]; e.From.Kind == store.Customer && e.Kind != store.KindEvent {
			all = append(all, push.Call{Agent: c.Owner.ID, Conv: c.ID, Kind: push.Message})
		}
	}
	return all
}

// unheard returns what has not reached an agent whose last connection has just ended. A connection that died is noticed
// late, and what was sent on it meanwhile is lost.
func (q *queue) unheard(agent string, r *receipts) (all []push.Call) {
	for conv, e := range q.dir.byAgent[agent] {
		messages, other := r.unheard(conv)
		for range messages {
			all = append(all, push.Call{Agent: agent, Conv: conv, Kind: push.Message})
		}
		if messages == 0 && other && e.conv.RepliedAt == 0 {
			all = append(all, push.Call{Agent: agent, Conv: conv, Kind: push.Given})
		}
	}
	for _, o := range q.offers {
		if o.To.ID == agent {
			all = append(all, push.Call{Agent: agent, Conv: o.Conv, Kind: push.Offer})
		}
	}
	return all
}

// unheard returns how many messages of the customer no client of the agent has acknowledged, and whether something else
// is not acknowledged. Hub.mu may be held.
func (r *receipts) unheard(conv string) (messages int, other bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.convs[conv]
	if e == nil {
		return 0, false
	}
	for _, seq := range e.places.Unread {
		if seq > e.marks.Staff.Delivered {
			messages++
		}
	}
	return messages, e.last.Read > e.marks.Staff.Delivered
}
