package hub

import (
	"context"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// setStatus keeps what an agent says of itself, or what somebody who may says of another.
func (s *Session) setStatus(cmd proto.Command, who identity, p *proto.Status) {
	agent := who.actor.ID
	if p.Agent != "" && p.Agent != agent {
		if !s.can(cmd, perm.ForceState) {
			return
		}
		agent = p.Agent
	}
	s.read(who, func(ctx context.Context, _ store.Reader) { s.applyStatus(ctx, cmd, who, agent, p) },
		func() { s.fail(cmd, busy("too many requests are waiting")) })
}

// applyStatus writes a status, then goes by it. It blocks: it runs on the agent pool.
func (s *Session) applyStatus(ctx context.Context, cmd proto.Command, who identity, agent string, p *proto.Status) {
	h := s.hub
	h.mu.Lock()
	m := h.roster.members[agent]
	h.mu.Unlock()
	if m == nil {
		s.fail(cmd, &proto.Error{Code: proto.CodeNotFound, Text: "there is no such agent"})
		return
	}
	m.setting.Lock()
	defer m.setting.Unlock()
	status := store.Status(p.Status)
	h.mu.Lock()
	accepting := m.Accepting
	h.mu.Unlock()
	if p.Accepting != nil {
		accepting = *p.Accepting
	}
	var err error
	if agent != who.actor.ID {
		err = s.audit(ctx, store.AuditForceState, "agent "+agent, p.Status)
	}
	if err == nil {
		err = h.o.Store.SetStatus(ctx, agent, status, accepting)
	}
	if err != nil {
		s.fail(cmd, h.readError(err))
		return
	}
	h.mu.Lock()
	m.Status, m.Accepting, m.Missed = status, accepting, 0
	h.roster.change(m)
	answer := h.statusOf(agent)
	h.mu.Unlock()
	h.ticker.wake()
	h.router.wake()
	s.reply("ok", cmd, "", answer)
}

func (s *Session) agents(cmd proto.Command) { s.reply("ok", cmd, "", s.hub.staffList()) }
