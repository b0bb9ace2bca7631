package hub

import (
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// setPriority sets the priority of an open conversation: of one that the agent has or could take, and with the permission
// of any other.
func (s *Session) setPriority(cmd proto.Command, who identity, p *proto.Priority) {
	h := s.hub
	h.mu.Lock()
	e, others := h.queue.dir.open[cmd.Conv], false
	if e != nil {
		others = h.queue.sees(who, &e.conv) != plain || e.conv.Owner.Kind == store.Agent && !e.conv.Owner.Is(who.actor)
	}
	h.mu.Unlock()
	if e == nil {
		s.refuseClosed(cmd, who)
		return
	}
	if others && !s.can(cmd, perm.Override) {
		return
	}
	priority, _ := store.ParsePriority(p.Priority)
	c := store.Arrange{Conv: cmd.Conv, By: who.actor, Priority: priority}
	s.run(h.laneFor(s, cmd.Conv), cmd, c, func(out store.Outcome) {
		s.reply("ok", cmd, cmd.Conv, proto.Priority{Priority: out.Conv.Priority.Name()})
		if others && out.Touched {
			s.auditSoon(store.AuditOverride, "conversation "+cmd.Conv, cmd.Type)
		}
	})
}
