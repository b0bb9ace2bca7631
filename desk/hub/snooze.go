package hub

import (
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// snooze puts a conversation of the agent aside until a time or brings it back, with the permission that of another one.
func (s *Session) snooze(cmd proto.Command, who identity, p *proto.Snooze) {
	h := s.hub
	h.mu.Lock()
	e := h.queue.dir.open[cmd.Conv]
	others := e != nil && !e.conv.Owner.Is(who.actor)
	h.mu.Unlock()
	if e == nil {
		s.refuseClosed(cmd, who)
		return
	}
	if others && !s.can(cmd, perm.Override) {
		return
	}
	c := store.Snooze{Conv: cmd.Conv, By: who.actor, Until: p.Until, Force: others}
	s.run(h.laneFor(s, cmd.Conv), cmd, c, func(out store.Outcome) {
		s.reply("ok", cmd, cmd.Conv, proto.Snooze{Until: out.Conv.SnoozedUntil})
		if others && out.Touched {
			s.auditSoon(store.AuditOverride, "conversation "+cmd.Conv, cmd.Type)
		}
	})
}

// waking plans the return of a conversation that its agent has put aside. Nothing else but the time for the first answer
// goes on meanwhile.
func (q *queue) waking(n *next, c *store.Conversation) {
	n.sooner(c.SnoozedUntil, func() store.Command { return store.Snooze{Conv: c.ID, By: system, Seq: c.LastSeq} })
}
