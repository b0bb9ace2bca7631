package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlMissed = `UPDATE agent_state SET missed = missed + 1, status = CASE WHEN missed + 1 >= ? AND status = 'online' THEN 'away' ELSE status END WHERE agent = ?`
	sqlMet    = `UPDATE agent_state SET missed = 0 WHERE agent = ? AND missed <> 0`
	sqlGone   = `UPDATE agent_state SET gone_at = ?, status = CASE WHEN ? AND status = 'offline' THEN 'online' ELSE status END WHERE agent = ?`
	sqlLeave  = `UPDATE conversation SET left_at = ? WHERE id = ? AND state = 'queued'`
	sqlInLine = `SELECT count(*) FROM conversation WHERE state = 'queued' AND grp = ? AND id <> ?`
)

// warn adds the notice that comes before a close for inactivity.
func (t *tx) warn(c store.Warn) (store.Outcome, error) {
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	head := store.Outcome{Conv: d.Conversation}
	if d.State == store.Closed || d.LastSeq != c.Seq {
		return head, store.ErrConflict
	}
	if err := t.add(d, store.Event{Kind: store.KindNotice, From: store.Actor{Kind: store.System}, Body: c.Body, Payload: c.Payload}); err != nil {
		return head, err
	}
	d.At = d.events[len(d.events)-1].Time
	d.WarnedAt = d.At
	return t.save(d)
}

// leave stores when a waiting customer went away.
func (t *tx) leave(c store.Leave) (store.Outcome, error) {
	if err := t.exec(sqlLeave, c.At, c.Conv); err != nil {
		return store.Outcome{}, err
	}
	conv, err := scanConv(t.row(sqlConv, c.Conv))
	return store.Outcome{Conv: conv}, err
}

// room refuses a customer for whom the queue of its group has no place. A conversation that comes back to the queue is
// always let in.
func (t *tx) room(group, conv string) error {
	if group == "" {
		return nil
	}
	g, err := t.groupSettings(group)
	if err != nil || g.MaxQueue <= 0 {
		return err
	}
	var n int
	if err := t.row(sqlInLine, group, conv).Scan(&n); err != nil {
		return err
	}
	if n >= g.MaxQueue {
		return fmt.Errorf("%w: %d of %d", store.ErrQueueFull, n, g.MaxQueue)
	}
	return nil
}

func (t *tx) groupSettings(group string) (g store.GroupSettings, err error) {
	var text string
	if err := t.row(`SELECT settings FROM grp WHERE id = ?`, group).Scan(&text); err != nil {
		return g, notFound(err)
	}
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return g, fmt.Errorf("store: settings of group %s: %w", group, err)
	}
	return g, nil
}

// SetStatus implements store.Accounts.
func (db *DB) SetStatus(ctx context.Context, agent string, s store.Status, accepting bool) error {
	return db.write(ctx, func(t *tx) error {
		if err := one(t.change(`UPDATE agent_state SET status = ?, accepting = ?, missed = 0 WHERE agent = ?`, string(s), accepting, agent)); err != nil {
			return err
		}
		return t.tellPresence(store.Agent, agent)
	})
}

// SetGone implements store.Accounts.
func (db *DB) SetGone(ctx context.Context, agent string, at int64) error {
	return db.write(ctx, func(t *tx) error {
		if at == 0 {
			if err := one(t.change(sqlGone, 0, true, agent)); err != nil {
				return err
			}
			return t.appear(store.Agent, agent)
		}
		return t.vanish(t.me, &store.Presence{Kind: store.Agent, ID: agent}, at)
	})
}

// Staff implements store.Reader.
func (r *reader) Staff(ctx context.Context) ([]store.StaffMember, error) {
	return list(ctx, r.db, func(s scanner) (m store.StaffMember, err error) {
		var groups string
		err = s.Scan(&m.ID, &m.Login, &m.Name, &m.Capacity, &m.Role, &m.Locale, &m.Skills, &m.Languages, &m.Status, &m.NoChats, &m.Missed, &m.GoneAt, &m.Active, &m.LastAssigned, &groups)
		if groups != "" {
			m.Groups = strings.Split(groups, " ")
		}
		return m, err
	}, `SELECT a.id, a.login, a.name, a.capacity, a.role, a.locale, a.skills, a.languages, s.status, NOT s.accepting, s.missed, s.gone_at, s.active, s.last_assigned_at,
		coalesce((SELECT string_agg(m.grp, ' ' ORDER BY m.grp) FROM group_member m WHERE m.agent = a.id), '')
		FROM agent a JOIN agent_state s ON s.agent = a.id WHERE NOT a.disabled ORDER BY a.id`)
}
