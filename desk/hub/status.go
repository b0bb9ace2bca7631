package hub

import (
	"context"
	"errors"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// setStatus sets the status of the session's agent, or with the permission that of another one.
func (s *Session) setStatus(cmd proto.Command, who identity, p *proto.Status) {
	agent := who.actor.ID
	if p.Agent != "" && p.Agent != agent {
		if !s.can(cmd, perm.ForceState) {
			return
		}
		agent = p.Agent
	}
	s.read(cmd, who, func(ctx context.Context, _ store.Reader) { s.applyStatus(ctx, cmd, who, agent, p) },
		func() { s.fail(cmd, busy("too many requests are waiting")) })
}

// applyStatus stores a status and then applies it. It blocks, so it runs on the agent pool.
func (s *Session) applyStatus(ctx context.Context, cmd proto.Command, who identity, agent string, p *proto.Status) {
	var err error
	if agent != who.actor.ID {
		err = s.audit(ctx, store.AuditForceState, "agent "+agent, p.Status)
	}
	var answer *proto.AgentStatus
	if err == nil {
		answer, err = s.hub.SetStatus(ctx, agent, store.Status(p.Status), p.Accepting)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.fail(cmd, &proto.Error{Code: proto.CodeNotFound, Text: "there is no such agent"})
	case err != nil:
		s.fail(cmd, s.hub.readError(err))
	default:
		s.reply("ok", cmd, "", answer)
	}
}

// SetStatus stores the status of an agent and tells everybody. A nil accepting leaves that part as it was. The caller
// has checked the permission and logged the change. The error is ErrNotFound if there is no such agent. SetStatus blocks
// and honours ctx.
func (h *Hub) SetStatus(ctx context.Context, agent string, status store.Status, accepting *bool) (*proto.AgentStatus, error) {
	return h.setStatus(ctx, agent, "", status, accepting)
}

func (s *Session) agents(cmd proto.Command) { s.reply("ok", cmd, "", s.hub.staffList()) }
