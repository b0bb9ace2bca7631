package hub

import (
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// setPriority sets the priority of an open conversation: of one that the agent has or could take, and with the permission
// of any other.
func (s *Session) setPriority(cmd proto.Command, who identity, p *proto.Priority) {
	priority, _ := store.ParsePriority(p.Priority)
	s.arrange(cmd, who, func(c *store.Conversation) bool {
		return s.hub.queue.sees(who, c) != plain || c.Owner.Kind == store.Agent && !c.Owner.Is(who.actor)
	}, func(bool) store.Command { return store.Arrange{Conv: cmd.Conv, By: who.actor, Priority: priority} },
		func(c *store.Conversation) any { return proto.Priority{Priority: c.Priority.Name()} })
}
