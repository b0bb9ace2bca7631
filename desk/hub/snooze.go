package hub

import (
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// snooze puts a conversation of the agent aside until a time or brings it back, with the permission that of another one.
func (s *Session) snooze(cmd proto.Command, who identity, p *proto.Snooze) {
	s.arrange(cmd, who, func(c *store.Conversation) bool { return !c.Owner.Is(who.actor) },
		func(others bool) store.Command {
			return store.Snooze{Conv: cmd.Conv, By: who.actor, Until: p.Until, Force: others}
		},
		func(c *store.Conversation) any { return proto.Snooze{Until: c.SnoozedUntil} })
}

// waking plans the return of a conversation that its agent has put aside. Nothing else but the time for the first answer
// goes on meanwhile.
func (q *queue) waking(n *next, c *store.Conversation) {
	n.sooner(c.SnoozedUntil, func() store.Command { return store.Snooze{Conv: c.ID, By: system, Seq: c.LastSeq} })
}
