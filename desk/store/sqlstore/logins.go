package sqlstore

import (
	"context"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const sessionColumns = agentColumns + `, s.token, s.created, s.seen, s.expires, s.ip, s.user_agent, ` + sessionHasPush

func scanSession(r scanner) (store.AgentSession, error) {
	var s store.AgentSession
	var token []byte
	var created, seen, expires int64
	var err error
	if s.Agent, err = scanAgent(r, &token, &created, &seen, &expires, &s.IP, &s.UserAgent, &s.Push); err != nil {
		return store.AgentSession{}, err
	}
	copy(s.Token[:], token)
	s.Created, s.Seen, s.Expires = time.UnixMilli(created), time.UnixMilli(seen), time.UnixMilli(expires)
	return s, nil
}

// AgentSession implements store.Reader.
func (r *reader) AgentSession(ctx context.Context, t store.Token, now time.Time) (store.AgentSession, error) {
	s, err := scanSession(r.db.QueryRowContext(ctx, `SELECT `+sessionColumns+` FROM agent_session s JOIN agent a ON a.id = s.agent WHERE s.token = ? AND NOT a.disabled`, t[:]))
	if err == nil && !s.Expires.After(now) {
		return store.AgentSession{}, store.ErrExpired
	}
	return s, err
}

// AgentSessions implements store.Reader.
func (r *reader) AgentSessions(ctx context.Context, agent string, now time.Time) ([]store.AgentSession, error) {
	return list(ctx, r.db, scanSession, `SELECT `+sessionColumns+` FROM agent_session s JOIN agent a ON a.id = s.agent
		WHERE s.agent = ? AND s.expires > ? ORDER BY s.seen DESC, s.created DESC`, agent, now.UnixMilli())
}

// DescribeAgentSession implements store.Accounts.
func (db *DB) DescribeAgentSession(ctx context.Context, token store.Token, ip, userAgent string) error {
	return db.write(ctx, func(t *tx) error {
		return one(t.change(`UPDATE agent_session SET ip = ?, user_agent = ? WHERE token = ?`, ip, userAgent, token[:]))
	})
}

// DeleteAgentSessions implements store.Accounts.
func (db *DB) DeleteAgentSessions(ctx context.Context, agent string, except store.Token) error {
	return db.write(ctx, func(t *tx) error { return t.endLogins(agent, except) })
}

func (t *tx) endLogins(agent string, except store.Token) error {
	if err := t.exec(`DELETE FROM agent_session WHERE agent = ? AND token <> ?`, agent, except[:]); err != nil {
		return err
	}
	return t.tellAccount(agent)
}

// ChangePassword implements store.Accounts.
func (db *DB) ChangePassword(ctx context.Context, agent, before, after string, keep store.Token) error {
	return db.write(ctx, func(t *tx) error {
		if err := one(t.change(`UPDATE agent SET password = ? WHERE id = ? AND password = ?`, after, agent, before)); err != nil {
			return err
		}
		return t.passwordChanged(agent, keep)
	})
}
