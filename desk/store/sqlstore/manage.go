package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// Agents implements store.Listing.
func (r *reader) Agents(ctx context.Context) ([]store.AgentAccount, error) {
	return list(ctx, r.db, func(s scanner) (store.AgentAccount, error) { return scanAgent(s) }, `SELECT `+agentColumns+` FROM agent a ORDER BY a.login`)
}

// Sites implements store.Listing.
func (r *reader) Sites(ctx context.Context) ([]store.Site, error) {
	return list(ctx, r.db, scanSite, sqlSites+` ORDER BY key`)
}

// Groups implements store.Listing.
func (r *reader) Groups(ctx context.Context) ([]store.Group, error) {
	return list(ctx, r.db, func(s scanner) (g store.Group, err error) {
		var settings string
		if err := s.Scan(&g.ID, &g.Name, &settings); err != nil {
			return g, err
		}
		if err := json.Unmarshal([]byte(settings), &g.Settings); err != nil {
			return g, fmt.Errorf("store: settings of group %s: %w", g.Name, err)
		}
		return g, nil
	}, `SELECT id, name, settings FROM grp ORDER BY name, id`)
}

// Members implements store.Listing.
func (r *reader) Members(ctx context.Context) (map[string][]string, error) {
	type pair struct{ group, agent string }
	all, err := list(ctx, r.db, func(s scanner) (p pair, err error) {
		err = s.Scan(&p.group, &p.agent)
		return p, err
	}, `SELECT grp, agent FROM group_member ORDER BY grp, agent`)
	members := make(map[string][]string)
	for _, p := range all {
		members[p.group] = append(members[p.group], p.agent)
	}
	return members, err
}

// CannedReplies implements store.Listing.
func (r *reader) CannedReplies(ctx context.Context) ([]store.Canned, error) {
	return list(ctx, r.db, func(s scanner) (c store.Canned, err error) {
		err = s.Scan(&c.ID, &c.Short, &c.Locale, &c.Title, &c.Body, &c.Group)
		return c, err
	}, `SELECT id, short, locale, title, body, grp FROM canned ORDER BY short, locale, grp`)
}

// UpdateAgent implements store.Management.
func (db *DB) UpdateAgent(ctx context.Context, a store.AgentAccount) error {
	return db.write(ctx, func(t *tx) error {
		var managed bool
		var email string
		if err := t.row(`SELECT login, role = ? AND NOT disabled, email FROM agent WHERE id = ?`, string(perm.Admin), a.ID).Scan(&a.Login, &managed, &email); err != nil {
			return notFound(err)
		}
		if err := a.Check(); err != nil {
			return err
		}
		if err := t.exec(`UPDATE agent SET name = ?, role = ?, capacity = ?, locale = ?, disabled = ?, skills = ?, languages = ?, email = ? WHERE id = ?`,
			a.Name, string(a.Role), a.Capacity, a.Locale, a.Disabled, a.Skills, a.Languages, a.Email, a.ID); err != nil {
			return err
		}
		if err := t.exec(`UPDATE agent_state SET accepting = ? WHERE agent = ?`, !a.NoChats, a.ID); err != nil {
			return err
		}
		if managed {
			if err := t.adminLeft(); err != nil {
				return err
			}
		}
		if a.Disabled {
			return t.passwordChanged(a.ID, store.Token{})
		}
		if a.Email != email {
			if err := t.exec(sqlDropResets, a.ID, t.now()); err != nil {
				return err
			}
		}
		return t.tellAccount(a.ID)
	})
}

// adminLeft refuses a change after which nobody could manage the installation. The command's savepoint undoes the
// change.
func (t *tx) adminLeft() error {
	var left int
	err := t.row(`SELECT count(*) FROM agent WHERE role = ? AND NOT disabled`, string(perm.Admin)).Scan(&left)
	if err == nil && left == 0 {
		return store.ErrLastAdmin
	}
	return err
}

// ResetPassword implements store.Management.
func (db *DB) ResetPassword(ctx context.Context, agent, hash string) error {
	return db.write(ctx, func(t *tx) error {
		if err := one(t.change(`UPDATE agent SET password = ? WHERE id = ?`, hash, agent)); err != nil {
			return err
		}
		return t.passwordChanged(agent, store.Token{})
	})
}

// named refuses a reference to a missing row, as a problem of the field. "" refers to nothing.
func (t *tx) named(table, id, field string) error {
	if id == "" {
		return nil
	}
	var n int
	if err := t.row(`SELECT count(*) FROM `+table+` WHERE id = ?`, id).Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		return store.Invalid{{Field: field, Reason: store.ReasonUnknown}}
	}
	return nil
}

func (t *tx) siteRefers(s *store.Site) error {
	if err := t.named("grp", s.Group, "group"); err != nil {
		return err
	}
	if err := t.routesRefer(s.Settings.Rules); err != nil {
		return err
	}
	return t.named("bot", s.Bot, "bot")
}

// UpdateSite implements store.Management.
func (db *DB) UpdateSite(ctx context.Context, s store.Site) error {
	if s.ReopenWindow == 0 {
		s.ReopenWindow = store.DefaultReopenWindow
	}
	return db.write(ctx, func(t *tx) error {
		if err := t.row(`SELECT key FROM site WHERE id = ?`, s.ID).Scan(&s.Key); err != nil {
			return notFound(err)
		}
		if err := s.Check(); err != nil {
			return err
		}
		if err := t.siteRefers(&s); err != nil {
			return err
		}
		settings, err := json.Marshal(s.Settings)
		if err != nil {
			return err
		}
		if err := t.setLogo(&s); err != nil {
			return err
		}
		err = t.exec(`UPDATE site SET name = ?, bot_name = ?, grp = ?, reopen_window = ?, reopen_to_bot = ?, bot = ?, settings = ? WHERE id = ?`,
			s.Name, s.BotName, s.Group, max(s.ReopenWindow, 0).Milliseconds(), s.ReopenToBot, s.Bot, string(settings), s.ID)
		if err != nil {
			return err
		}
		return t.tellSetup()
	})
}

// UpdateGroup implements store.Management.
func (db *DB) UpdateGroup(ctx context.Context, g store.Group) error {
	if err := g.Check(); err != nil {
		return err
	}
	settings, err := json.Marshal(g.Settings)
	if err != nil {
		return err
	}
	return exists("group "+g.Name, db.write(ctx, func(t *tx) error {
		if err := one(t.change(`UPDATE grp SET name = ?, settings = ? WHERE id = ?`, g.Name, string(settings), g.ID)); err != nil {
			return err
		}
		return t.tellSetup()
	}))
}

// SetMembers implements store.Management.
func (db *DB) SetMembers(ctx context.Context, group string, agents []string) error {
	return db.write(ctx, func(t *tx) error {
		if err := t.row(`SELECT id FROM grp WHERE id = ?`, group).Scan(&group); err != nil {
			return notFound(err)
		}
		if err := t.exec(`DELETE FROM group_member WHERE grp = ?`, group); err != nil {
			return err
		}
		for _, a := range agents {
			if err := t.join(group, a); err != nil {
				return err
			}
		}
		return t.tellSetup()
	})
}

// SetGroups implements store.Management.
func (db *DB) SetGroups(ctx context.Context, agent string, groups []string) error {
	return db.write(ctx, func(t *tx) error {
		if err := t.row(`SELECT id FROM agent WHERE id = ?`, agent).Scan(&agent); err != nil {
			return notFound(err)
		}
		if err := t.exec(`DELETE FROM group_member WHERE agent = ?`, agent); err != nil {
			return err
		}
		for _, g := range groups {
			if err := t.join(g, agent); err != nil {
				return err
			}
		}
		return t.tellSetup()
	})
}

// join puts an agent into a group. The error is ErrNotFound if one of them does not exist.
func (t *tx) join(group, agent string) error {
	if err := one(t.change(`INSERT INTO group_member (grp, agent) SELECT g.id, a.id FROM grp g, agent a WHERE g.id = ? AND a.id = ?
		ON CONFLICT (grp, agent) DO UPDATE SET agent = excluded.agent`, group, agent)); err != nil {
		return err
	}
	return t.tellSetup()
}

// DeleteGroup implements store.Management.
func (db *DB) DeleteGroup(ctx context.Context, id string) error {
	return db.write(ctx, func(t *tx) error {
		sites, err := t.ruled(id)
		if err != nil {
			return err
		}
		var convs, canned int
		if err := t.row(`SELECT (SELECT count(*) FROM conversation WHERE grp = ?1 AND state <> 'closed'), (SELECT count(*) FROM canned WHERE grp = ?1)`, id).Scan(&convs, &canned); err != nil {
			return err
		}
		if sites+convs+canned > 0 {
			return fmt.Errorf("%w: %d sites, %d open conversations and %d prepared replies name this group", store.ErrInUse, sites, convs, canned)
		}
		if err := one(t.change(`DELETE FROM grp WHERE id = ?`, id)); err != nil {
			return err
		}
		return t.tellSetup()
	})
}

// CreateCanned implements store.Management.
func (db *DB) CreateCanned(ctx context.Context, c store.Canned) (store.Canned, error) {
	if err := c.Check(); err != nil {
		return c, err
	}
	id, err := newID()
	if err != nil {
		return c, err
	}
	c.ID = id
	return c, exists("reply "+c.Short, db.write(ctx, func(t *tx) error {
		if err := t.workspace(); err != nil {
			return err
		}
		if err := t.named("grp", c.Group, "group"); err != nil {
			return err
		}
		return t.exec(`INSERT INTO canned (id, workspace, short, locale, title, body, grp, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			c.ID, workspaceID, c.Short, c.Locale, c.Title, c.Body, c.Group, t.now())
	}))
}

// UpdateCanned implements store.Management.
func (db *DB) UpdateCanned(ctx context.Context, c store.Canned) error {
	if err := c.Check(); err != nil {
		return err
	}
	return exists("reply "+c.Short, db.write(ctx, func(t *tx) error {
		if err := t.named("grp", c.Group, "group"); err != nil {
			return err
		}
		return one(t.change(`UPDATE canned SET short = ?, locale = ?, title = ?, body = ?, grp = ? WHERE id = ?`, c.Short, c.Locale, c.Title, c.Body, c.Group, c.ID))
	}))
}

// DeleteCanned implements store.Management.
func (db *DB) DeleteCanned(ctx context.Context, id string) error {
	return db.write(ctx, func(t *tx) error { return one(t.change(`DELETE FROM canned WHERE id = ?`, id)) })
}

// sqlSites reads what scanSite takes.
const sqlSites = `SELECT id, key, name, bot_name, grp, reopen_window, reopen_to_bot, bot, settings, coalesce(hash, ''), coalesce(type, ''), coalesce(width, 0), coalesce(height, 0)
	FROM site LEFT JOIN site_logo ON site_logo.site = site.id`

func scanSite(r scanner) (store.Site, error) {
	var s store.Site
	var window int64
	var settings string
	err := r.Scan(&s.ID, &s.Key, &s.Name, &s.BotName, &s.Group, &window, &s.ReopenToBot, &s.Bot, &settings, &s.Logo.Hash, &s.Logo.Type, &s.Logo.Width, &s.Logo.Height)
	if err != nil {
		return s, notFound(err)
	}
	s.ReopenWindow = time.Duration(window) * time.Millisecond
	if window == 0 {
		s.ReopenWindow = -1
	}
	s.Settings, err = settingsOf(s.Key, settings)
	return s, err
}
