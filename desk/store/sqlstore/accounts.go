package sqlstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

const workspaceID = "main"

func (t *tx) workspace() error {
	return t.exec(`INSERT INTO workspace (id, name, created) VALUES (?, 'Main', ?) ON CONFLICT DO NOTHING`, workspaceID, t.now())
}

// CreateSite implements store.Accounts.
func (db *DB) CreateSite(ctx context.Context, s store.Site) (store.Site, error) {
	id, err := newID()
	if err != nil {
		return s, err
	}
	s.ID = id
	if s.ReopenWindow == 0 {
		s.ReopenWindow = store.DefaultReopenWindow
	}
	if err := s.Check(); err != nil {
		return s, err
	}
	return s, exists("site "+s.Key, db.write(ctx, func(t *tx) error {
		if err := t.workspace(); err != nil {
			return err
		}
		if err := t.siteRefers(&s); err != nil {
			return err
		}
		settings, err := json.Marshal(s.Settings)
		if err != nil {
			return err
		}
		err = t.exec(`INSERT INTO site (id, workspace, key, name, bot_name, grp, reopen_window, reopen_to_bot, bot, settings, created)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			s.ID, workspaceID, s.Key, s.Name, s.BotName, s.Group, max(s.ReopenWindow, 0).Milliseconds(), s.ReopenToBot, s.Bot, string(settings), t.now())
		if err != nil {
			return err
		}
		if err := t.setLogo(&s); err != nil {
			return err
		}
		return t.tellSetup()
	}))
}

// CreateAgent implements store.Accounts.
func (db *DB) CreateAgent(ctx context.Context, a store.AgentAccount) (store.AgentAccount, error) {
	id, err := newID()
	if err != nil {
		return a, err
	}
	a.ID = id
	if a.Role == "" {
		a.Role = perm.Agent
	}
	return a, exists("agent "+a.Login, db.write(ctx, func(t *tx) error { return t.createAgent(a) }))
}

func (t *tx) createAgent(a store.AgentAccount) error {
	if err := a.Check(); err != nil {
		return err
	}
	if err := t.workspace(); err != nil {
		return err
	}
	err := t.exec(`INSERT INTO agent (id, workspace, login, name, password, capacity, role, locale, disabled, skills, languages, email, created)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.ID, workspaceID, a.Login, a.Name, a.Password, a.Capacity, string(a.Role), a.Locale, a.Disabled, a.Skills, a.Languages, a.Email, t.now())
	if err != nil {
		return err
	}
	if err := t.exec(`INSERT INTO agent_state (agent, active, last_assigned_at, accepting) VALUES (?, 0, 0, ?)`, a.ID, !a.NoChats); err != nil {
		return err
	}
	return t.tellAccount(a.ID)
}

// CreateGroup implements store.Accounts.
func (db *DB) CreateGroup(ctx context.Context, g store.Group) (store.Group, error) {
	id, err := newID()
	if err != nil {
		return g, err
	}
	g.ID = id
	if err := g.Check(); err != nil {
		return g, err
	}
	return g, exists("group "+g.Name, db.write(ctx, func(t *tx) error {
		if err := t.workspace(); err != nil {
			return err
		}
		settings, err := json.Marshal(g.Settings)
		if err != nil {
			return err
		}
		if err := t.exec(`INSERT INTO grp (id, workspace, name, settings, created) VALUES (?, ?, ?, ?, ?)`, g.ID, workspaceID, g.Name, string(settings), t.now()); err != nil {
			return err
		}
		return t.tellSetup()
	}))
}

// AddMember implements store.Accounts.
func (db *DB) AddMember(ctx context.Context, group, agent string) error {
	return db.write(ctx, func(t *tx) error { return t.join(group, agent) })
}

// Reconcile implements store.Accounts.
func (db *DB) Reconcile(ctx context.Context) (int, error) {
	wrong := make(chan int64, 1)
	err := db.write(ctx, func(t *tx) error {
		n, err := t.reconcile()
		wrong <- n
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(<-wrong), nil
}

// CreateVisitor implements store.Accounts.
func (db *DB) CreateVisitor(ctx context.Context, site store.Site, token store.Token, expires time.Time) (store.Contact, error) {
	id, err := newID()
	if err != nil {
		return store.Contact{}, err
	}
	c := store.Contact{ID: id, Site: site.ID, Name: visitorName(id)}
	err = db.write(ctx, func(t *tx) error {
		if err := t.exec(`INSERT INTO contact (id, workspace, site, name, created) VALUES (?, ?, ?, ?, ?)`, c.ID, workspaceID, c.Site, c.Name, t.now()); err != nil {
			return err
		}
		return t.exec(`INSERT INTO contact_token (token, contact, created, expires) VALUES (?, ?, ?, ?)`, token[:], c.ID, t.now(), expires.UnixMilli())
	})
	return c, err
}

// ExtendVisitor implements store.Accounts.
func (db *DB) ExtendVisitor(ctx context.Context, token store.Token, expires time.Time) error {
	return db.write(ctx, func(t *tx) error {
		return one(t.change(`UPDATE contact_token SET expires = ? WHERE token = ?`, expires.UnixMilli(), token[:]))
	})
}

// one turns "no row changed" into ErrNotFound.
func one(n int64, err error) error {
	if err == nil && n == 0 {
		return store.ErrNotFound
	}
	return err
}

// CreateAgentSession implements store.Accounts. Expired sessions are removed on the way.
func (db *DB) CreateAgentSession(ctx context.Context, token store.Token, agent string, expires time.Time) error {
	return db.write(ctx, func(t *tx) error {
		if err := t.exec(`DELETE FROM agent_session WHERE expires <= ?`, t.now()); err != nil {
			return err
		}
		return t.exec(`INSERT INTO agent_session (token, agent, created, seen, expires) VALUES (?, ?, ?, ?, ?)`, token[:], agent, t.now(), t.now(), expires.UnixMilli())
	})
}

// TouchAgentSession implements store.Accounts.
func (db *DB) TouchAgentSession(ctx context.Context, token store.Token) error {
	return db.write(ctx, func(t *tx) error {
		return one(t.change(`UPDATE agent_session SET seen = ? WHERE token = ?`, t.now(), token[:]))
	})
}

// DeleteAgentSession implements store.Accounts.
func (db *DB) DeleteAgentSession(ctx context.Context, token store.Token) error {
	return db.write(ctx, func(t *tx) error {
		var agent string
		if err := t.row(sqlLoginOf, token[:]).Scan(&agent); err != nil {
			return notFound(err)
		}
		if err := t.exec(`DELETE FROM agent_session WHERE token = ?`, token[:]); err != nil {
			return err
		}
		return t.tellAccount(agent)
	})
}

// SpendTicket implements store.Accounts.
func (db *DB) SpendTicket(ctx context.Context, ticket store.Token, expires time.Time) error {
	if db.o.Alone {
		return nil
	}
	return exists("ticket", db.write(ctx, func(t *tx) error {
		if err := t.exec(`DELETE FROM spent_ticket WHERE expires <= ?`, t.now()); err != nil {
			return err
		}
		return t.exec(`INSERT INTO spent_ticket (id, expires) VALUES (?, ?)`, ticket[:], expires.UnixMilli())
	}))
}
