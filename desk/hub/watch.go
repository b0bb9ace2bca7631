package hub

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// sight says whether a session may read a conversation.
type sight uint8

const (
	blind   sight = iota // no
	private              // it is another agent's: with the permission, and the reading is logged
	plain                // yes
)

// sees decides what a member of staff may read of the open conversations. A member sees its own, those offered to it
// or passed on by it, and those of its groups that no agent has. Everything else takes a permission. A conversation
// that everybody saw until it was closed belongs to its last agent only.
func (q *queue) sees(who identity, c *store.Conversation) sight {
	if who.role.Can(perm.Serve) {
		o, e := q.offers[c.ID], q.dir.open[c.ID]
		switch {
		case c.State != store.Assigned && c.Group != "" && q.inGroup(who.actor.ID, c.Group):
			return plain
		case c.State != store.Assigned && c.State != store.Closed && c.Group == "":
			return plain
		case c.State == store.Closed && c.AssignedAt != 0 && c.LastAgent == who.actor.ID:
			return plain
		case c.Owner.Is(who.actor), o != nil && o.To.ID == who.actor.ID, e != nil && slices.Contains(e.former, who.actor.ID):
			return plain
		}
	}
	if who.role.Can(perm.ReadOthers) {
		return private
	}
	return blind
}

func (q *queue) inGroup(agent, group string) bool {
	m := q.roster.members[agent]
	return m != nil && slices.Contains(m.Groups, group)
}

// shares reports whether an open conversation of another agent also concerns this one, because it was offered to it or
// passed on by it.
func (h *Hub) shares(who identity, conv string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.queue.dir.open[conv]
	return e != nil && who.role.Can(perm.Serve) && e.conv.Owner.Kind == store.Agent && h.queue.sees(who, &e.conv) == plain
}

// watch subscribes the session to a conversation, then reads its newest events.
func (s *Session) watch(cmd proto.Command, who identity) {
	s.read(cmd, who, func(ctx context.Context, r store.Reader) { s.startWatch(ctx, r, cmd) },
		func() { s.fail(cmd, busy("too many requests are waiting")) })
}

func (h *Hub) dropWatch(s *Session, conv string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions.unwatch(s, conv)
}

// startWatch begins to watch. It blocks, so it runs on the agent pool. The role is checked here, because the command may
// have waited.
func (s *Session) startWatch(ctx context.Context, r store.Reader, cmd proto.Command) {
	h := s.hub
	if err := s.maySee(ctx, r, cmd.Conv); err != nil {
		s.fail(cmd, h.readError(err))
		return
	}
	h.mu.Lock()
	refusal := h.sessions.watch(s, cmd.Conv)
	h.mu.Unlock()
	if refusal != nil {
		s.fail(cmd, refusal)
		return
	}
	page, err := watchPage(ctx, r, cmd.Conv)
	if err != nil {
		h.dropWatch(s, cmd.Conv)
		s.fail(cmd, h.readError(err))
		return
	}
	if page.Head.State == string(store.Closed) {
		h.dropWatch(s, cmd.Conv) // a closed conversation has no more events
	}
	s.reply("ok", cmd, cmd.Conv, page)
}

// maySee checks the right to watch a conversation, and logs the watching where required. Later the right is checked
// again with each change.
func (s *Session) maySee(ctx context.Context, r store.Reader, conv string) error {
	h := s.hub
	h.mu.Lock()
	e, may := h.queue.dir.open[conv], blind
	if e != nil {
		may = h.queue.sees(s.who(), &e.conv)
	}
	h.mu.Unlock()
	switch {
	case e == nil:
		return s.mayRead(ctx, r, s.who(), conv)
	case may == blind:
		return store.ErrForbidden
	case may == private:
		return s.audit(ctx, store.AuditWatch, "conversation "+conv, "")
	}
	return nil
}

// watchPage reads the newest events of a conversation, fewer if they are long.
func watchPage(ctx context.Context, r store.Reader, conv string) (page proto.Synced, err error) {
	c, err := r.Conversation(ctx, conv)
	if err != nil {
		return page, err
	}
	for n := uint64(watchEvents); n > 0; n /= 2 {
		after := c.LastSeq - min(n, c.LastSeq)
		events, longer, err := r.Events(ctx, conv, store.StaffSide, after, watchEvents, pageBytes)
		if err != nil {
			return page, err
		}
		if longer && n > 1 {
			continue
		}
		page = proto.Synced{Head: head(&c, store.StaffSide), Events: make([]json.RawMessage, 0, len(events)), More: after > 0}
		for i := range events {
			page.Events = append(page.Events, eventFrame(&events[i], store.StaffSide))
		}
		return page, nil
	}
	return page, nil
}

// unwatch ends the watching by this session, and that of the whole agent, which comes from passing the conversation on.
func (s *Session) unwatch(cmd proto.Command, who identity) {
	h := s.hub
	h.mu.Lock()
	h.sessions.unwatch(s, cmd.Conv)
	if e := h.queue.dir.open[cmd.Conv]; e != nil {
		e.former = slices.DeleteFunc(e.former, func(id string) bool { return id == who.actor.ID })
	}
	h.mu.Unlock()
	s.reply("ok", cmd, cmd.Conv, struct{}{})
}

// watchEnd is a subscription that has ended by itself.
type watchEnd struct {
	s      *Session
	conv   string
	reason string
}

func tellWatchEnds(ended []watchEnd) {
	for _, w := range ended {
		w.s.deliver(w.conv, 0, proto.Event("ev.watch_end", w.conv, 0, proto.WatchEnd{Reason: w.reason}))
	}
}

// rewatch ends the watching of all conversations that a session may no longer see.
func (h *Hub) rewatch(s *Session) {
	var ended []watchEnd
	h.mu.Lock()
	for conv := range s.watched {
		if e := h.queue.dir.open[conv]; e != nil && h.queue.sees(s.who(), &e.conv) == blind {
			h.sessions.unwatch(s, conv)
			ended = append(ended, watchEnd{s, conv, "forbidden"})
		}
	}
	h.mu.Unlock()
	tellWatchEnds(ended)
}

// rewatchConv is rewatch for all sessions that watch a changed conversation. If it is closed, all of them stop.
func (q *queue) rewatchConv(c *store.Conversation) (ended []watchEnd) {
	for _, s := range q.sessions.watchers[c.ID] {
		switch {
		case c.State == store.Closed:
			ended = append(ended, watchEnd{s, c.ID, "closed"})
		case q.sees(s.who(), c) == blind:
			ended = append(ended, watchEnd{s, c.ID, "forbidden"})
		default:
			continue
		}
		q.sessions.unwatch(s, c.ID)
	}
	return ended
}

// passedOn lets the agent that has passed a conversation on watch it. Hub.mu is held.
func (e *entry) passedOn(events []store.Event) {
	for i := range events {
		ch := events[i].Change
		if ch == nil || ch.Event != "transferred" || ch.Was.Kind != store.Agent {
			continue
		}
		e.former = slices.DeleteFunc(e.former, func(id string) bool { return id == ch.Was.ID })
		if len(e.former) == maxFormer {
			e.former = slices.Delete(e.former, 0, 1)
		}
		e.former = append(e.former, ch.Was.ID)
	}
}
