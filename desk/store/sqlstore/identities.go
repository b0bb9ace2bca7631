package sqlstore

import (
	"context"
	"fmt"

	"github.com/go-eddy/eddy/desk/store"
)

// AgentByIdentity implements store.IdentityReader.
func (r *reader) AgentByIdentity(ctx context.Context, id store.Identity) (store.AgentAccount, error) {
	return scanAgent(r.db.QueryRowContext(ctx, `SELECT `+agentColumns+` FROM agent_identity i JOIN agent a ON a.id = i.agent WHERE i.issuer = ? AND i.subject = ?`, id.Issuer, id.Subject))
}

// CreateAgentFor implements store.IdentityWrites.
func (db *DB) CreateAgentFor(ctx context.Context, a store.AgentAccount, id store.Identity) (store.AgentAccount, error) {
	agent, err := newID()
	if err != nil {
		return a, err
	}
	a.ID = agent
	return a, exists("agent "+a.Login, db.write(ctx, func(t *tx) error {
		if err := t.createAgent(a); err != nil {
			return err
		}
		return t.link(a.ID, id)
	}))
}

// LinkIdentity implements store.IdentityWrites.
func (db *DB) LinkIdentity(ctx context.Context, agent string, id store.Identity) error {
	return exists("identity", db.write(ctx, func(t *tx) error { return t.link(agent, id) }))
}

func (t *tx) link(agent string, id store.Identity) error {
	var n int
	if err := t.row(`SELECT count(*) FROM agent_identity WHERE agent = ? AND issuer = ?`, agent, id.Issuer).Scan(&n); err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("%w: identity", store.ErrExists)
	}
	return one(t.change(`INSERT INTO agent_identity (issuer, subject, agent, created) SELECT ?, ?, id, ? FROM agent WHERE id = ?`, id.Issuer, id.Subject, t.now(), agent))
}

// UnlinkIdentities implements store.IdentityWrites.
func (db *DB) UnlinkIdentities(ctx context.Context, agent string) error {
	return db.write(ctx, func(t *tx) error {
		if err := one(t.change(`DELETE FROM agent_identity WHERE agent = ?`, agent)); err != nil {
			return err
		}
		return t.endLogins(agent, store.Token{})
	})
}
