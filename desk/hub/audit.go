package hub

import (
	"context"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	auditTimeout = 5 * time.Second // for lines that nobody waits for
	auditEvery   = 1               // lines a second about the refusals of one session
	auditBurst   = 20
)

// audit writes a line of the audit log about the session's agent and waits for its commit. An action that cannot be
// recorded must not be done. audit blocks: call it on the agent pool only.
func (s *Session) audit(ctx context.Context, action, target, detail string) error {
	return store.Record(ctx, s.hub.o.Store, s.auditLine(action, target, detail))
}

func (s *Session) auditLine(action, target, detail string) store.Audit {
	return store.Audit{Who: s.who().actor, Action: action, Target: target, Detail: detail, IP: s.peer.IP}
}

// auditSoon writes a line without waiting, from any goroutine. A line that is lost is counted and logged.
func (s *Session) auditSoon(action, target, detail string) {
	line := s.auditLine(action, target, detail)
	s.hub.o.Store.Do(line, time.Now().Add(auditTimeout), func(out store.Outcome) {
		if out.Err != nil {
			s.hub.Counters.AuditLost.Add(1)
			s.hub.o.Logger.Error("desk: a line of the audit log was lost", "action", action, "who", line.Who.ID, "err", out.Err)
		}
	})
}

// can reports whether the session's agent has a permission. If not, the command is refused and the refusal logged.
func (s *Session) can(cmd proto.Command, p perm.Permission) bool {
	who := s.who()
	if who.actor.Kind == store.Agent && who.role.Can(p) {
		return true
	}
	s.deny(cmd, who, "needs "+string(p))
	return false
}

// deny refuses a command that the session's identity may not use. Refusals of staff are logged, but not all of a flood.
func (s *Session) deny(cmd proto.Command, who identity, why string) {
	s.fail(cmd, &proto.Error{Code: proto.CodeForbidden, Text: "you may not do this"})
	s.hub.Counters.Denied.Add(1)
	if who.actor.Kind == store.Agent && s.denials.AllowN(s.hub.o.Now(), 1) {
		s.auditSoon(store.AuditDenied, "conversation "+cmd.Conv, cmd.Type+" "+why)
	}
}
