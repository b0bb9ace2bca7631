package hub

import (
	"context"
	"errors"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// reasonAgentAway is the reason of a return to the queue because the agent is there but away.
const reasonAgentAway = "agent_away"

// use notes that somebody works with an agent's session. Commands that clients send by themselves do not count; a ping never
// gets here.
func (s *Session) use(payload any) {
	switch payload.(type) {
	case *proto.Receipt, *proto.Sync, *proto.FileLinks, *proto.Agents:
		return
	}
	s.used.Store(s.hub.o.Now().UnixMilli())
}

// used returns when a member did something last.
func (q *queue) used(m *member) int64 {
	at := m.used
	for _, s := range q.sessions.agents[m.ID] {
		at = max(at, s.used.Load())
	}
	return at
}

// leaver is a member whose status changes by itself.
type leaver struct {
	agent    string
	from, to store.Status
}

// leaving returns the members that are done with their last chat and go offline, and those that have done nothing for so
// long that they are away. An agent that is connected to another server, too, is at work there for all that is known. It
// returns when the next one falls due, 0 = never.
func (q *queue) leaving(now int64, leads bool) (all []leaver, due int64) {
	idle := q.o.Limits.IdleAway.Milliseconds()
	for _, m := range q.roster.members {
		switch {
		case m.Status == store.Finishing && q.dir.active(m.ID) == 0 && leads:
			all = append(all, leaver{m.ID, m.Status, store.Offline})
		case m.Status == store.Online && idle > 0 && m.Role.Can(perm.Serve) && len(q.sessions.agents[m.ID]) > 0 && !q.sessions.elsewhere[m.ID]:
			if end := q.used(m) + idle; end > now {
				due = earlier(due, end)
			} else {
				all = append(all, leaver{m.ID, m.Status, store.Away})
			}
		}
	}
	return all, due
}

// leave sets the status of members that leave. It returns when it must be called again without a trigger, 0 = never.
func (r *router) leave(now int64, d *duty) (due int64, err error) {
	r.hub.mu.Lock()
	all, due := r.hub.queue.leaving(now, d != nil)
	r.hub.mu.Unlock()
	for _, l := range all {
		ctx, cancel := r.bounded()
		_, err := r.hub.setStatus(ctx, l.agent, l.from, l.to, nil)
		cancel()
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return due, err
		}
	}
	return due, nil
}

// setStatus is SetStatus. from is the status that the agent must have now, "" = any; with it the server acts by itself.
func (h *Hub) setStatus(ctx context.Context, agent string, from, to store.Status, accepting *bool) (*proto.AgentStatus, error) {
	h.mu.Lock()
	m := h.queue.roster.members[agent]
	h.mu.Unlock()
	if m == nil {
		return nil, store.ErrNotFound
	}
	m.setting.Lock()
	defer m.setting.Unlock()
	h.mu.Lock()
	accepts, changed, answer := !m.NoChats, from != "" && m.Status != from, h.queue.statusOf(agent)
	h.mu.Unlock()
	if changed {
		return answer, nil
	}
	if accepting != nil {
		accepts = *accepting
	}
	if err := h.o.Store.SetStatus(ctx, agent, to, accepts); err != nil {
		return nil, err
	}
	h.mu.Lock()
	if m.NoChats == accepts {
		m.NoChats = !accepts
		h.queue.roster.hear()
		h.queue.restaffed()
	}
	m.be(to, h.o.Now().UnixMilli())
	m.idle, m.Missed = from == store.Online, 0
	h.queue.roster.change(m)
	m.chosen = m.changed
	h.queue.replanOf(agent)
	answer = h.queue.statusOf(agent)
	h.mu.Unlock()
	h.ticker.wake()
	h.router.wake()
	return answer, nil
}

// be gives a member another status.
func (m *member) be(s store.Status, now int64) {
	if m.Status != s {
		m.Status, m.since = s, now
	}
}

// awayFrom plans the return to the queue of a conversation whose customer waits for an agent that is there and away, or
// invisible. From the return on it waits where it waited before.
func (q *queue) awayFrom(n *next, c *store.Conversation, m *member) {
	if m == nil || m.Status != store.Away && m.Status != store.Offline {
		return
	}
	settings := q.settings(c.Group)
	since := max(c.WaitingSince, c.AssignedAt, m.since, q.since)
	n.sooner(since+settings.AwayFor().Milliseconds(), func() store.Command {
		return store.Move{Conv: c.ID, By: system, Rev: c.Rev, Trigger: store.OwnerGone, Reason: reasonAgentAway}
	})
}
