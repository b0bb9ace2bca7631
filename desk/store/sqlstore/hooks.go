package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	hookColumns = `id, url, types, site, secrets, private, by_id, by_name, created, position, failing, failure, lost`
	heldColumns = rowColumns + `, attempts, due, dead, failure`

	sqlHooks      = `SELECT ` + hookColumns + ` FROM webhook ORDER BY created, id`
	sqlHook       = `SELECT ` + hookColumns + ` FROM webhook WHERE id = ?`
	sqlInsertHook = `INSERT INTO webhook (id, workspace, url, types, site, secrets, private, by_id, by_name, created, position, failing, failure, lost)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '', 0)`
	sqlUpdateHook = `UPDATE webhook SET url = ?, types = ?, site = ?, secrets = ?, private = ? WHERE id = ?`
	sqlMoveHook   = `UPDATE webhook SET position = greatest(position, ?), failing = ?, failure = ?, lost = lost + ? WHERE id = ?`
	sqlDropHook   = `DELETE FROM hook_event WHERE conversation = ?`

	sqlDue = `SELECT ` + heldColumns + ` FROM hook_event e WHERE e.webhook = ?1 AND e.dead = 0 AND e.due <= ?2 AND NOT EXISTS (SELECT 1 FROM hook_event x
		WHERE x.webhook = e.webhook AND x.dead = 0 AND x.conversation = e.conversation AND x.contact = e.contact AND x.seq < e.seq) ORDER BY e.due, e.seq LIMIT ?3`
	sqlLanes     = `SELECT DISTINCT CASE conversation WHEN '' THEN contact ELSE conversation END FROM hook_event WHERE webhook = ? AND dead = 0`
	sqlHookQueue = `SELECT count(*), coalesce(min(CASE WHEN due > ?2 THEN due END), 0) FROM hook_event WHERE webhook = ?1 AND dead = 0`
	sqlHeld      = `SELECT (SELECT count(*) FROM hook_event WHERE webhook = w.id AND dead = 0), (SELECT count(*) FROM hook_event WHERE webhook = w.id AND dead > 0),
		greatest(0, (SELECT CAST(value AS BIGINT) FROM setting WHERE key = 'outbox_last') - w.position),
		coalesce((SELECT min(created) FROM hook_event WHERE webhook = w.id AND dead = 0),
			(SELECT created FROM outbox WHERE seq > greatest(w.position, (SELECT CAST(value AS BIGINT) FROM setting WHERE key = 'outbox_floor')) ORDER BY seq LIMIT 1), 0)
		FROM webhook w WHERE w.id = ?`
	sqlDead = `SELECT ` + heldColumns + ` FROM hook_event WHERE webhook = ? AND dead > 0 ORDER BY seq DESC LIMIT ?`
	sqlKeep = `INSERT INTO hook_event (webhook, ` + heldColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (webhook, seq) DO UPDATE SET attempts = excluded.attempts, due = excluded.due, dead = excluded.dead, failure = excluded.failure`
	sqlDone     = `DELETE FROM hook_event WHERE webhook = ? AND seq = ?`
	sqlDeadOver = `DELETE FROM hook_event WHERE webhook = ?1 AND dead > 0 AND seq IN (SELECT seq FROM hook_event WHERE webhook = ?1 AND dead > 0 ORDER BY seq DESC LIMIT 9223372036854775807 OFFSET ?2)`
	sqlRetry    = `UPDATE hook_event SET dead = 0, due = 0 WHERE webhook = ?1 AND dead > 0 AND (CAST(?2 AS BIGINT) = 0 OR seq = ?2)`
	sqlDiscard  = `DELETE FROM hook_event WHERE webhook = ?1 AND dead > 0 AND (CAST(?2 AS BIGINT) = 0 OR seq = ?2)`
)

func scanHook(r scanner) (store.Webhook, error) {
	w := store.Webhook{By: store.Actor{Kind: store.Agent}}
	var types, secrets string
	err := r.Scan(&w.ID, &w.URL, &types, &w.Site, &secrets, &w.Private, &w.By.ID, &w.By.Name, &w.Created, &w.Position, &w.Failing, &w.Failure, &w.Lost)
	if err != nil {
		return w, notFound(err)
	}
	for t := range strings.SplitSeq(types, ",") {
		if t != "" {
			w.Types = append(w.Types, store.EventType(t))
		}
	}
	if err := json.Unmarshal([]byte(secrets), &w.Secrets); err != nil {
		return w, fmt.Errorf("store: secrets of webhook %s: %w", w.ID, err)
	}
	return w, nil
}

func scanHeld(r scanner) (e store.HookEvent, err error) {
	e.OutboxRow, err = scanRow(r, &e.Attempts, &e.Due, &e.Dead, &e.Failure)
	return e, err
}

// Webhooks implements store.HookReader.
func (r *reader) Webhooks(ctx context.Context) ([]store.Webhook, error) {
	return list(ctx, r.db, scanHook, sqlHooks)
}

// Webhook implements store.HookReader.
func (r *reader) Webhook(ctx context.Context, id string) (store.Webhook, error) {
	return scanHook(r.db.QueryRowContext(ctx, sqlHook, id))
}

// HookWork implements store.HookReader.
func (r *reader) HookWork(ctx context.Context, id string, now int64, limit int) (w store.HookWork, err error) {
	if w.Webhook, err = r.Webhook(ctx, id); err != nil {
		return w, err
	}
	if err := r.db.QueryRowContext(ctx, sqlHookQueue, id, now).Scan(&w.Waiting, &w.NextDue); err != nil || w.Waiting == 0 {
		return w, err
	}
	if w.Due, err = list(ctx, r.db, scanHeld, sqlDue, id, now, limit); err != nil {
		return w, err
	}
	w.Lanes, err = list(ctx, r.db, func(s scanner) (lane string, err error) { return lane, s.Scan(&lane) }, sqlLanes, id)
	return w, err
}

// HookNumbers implements store.HookReader.
func (r *reader) HookNumbers(ctx context.Context, id string) (n store.HookNumbers, err error) {
	return n, notFound(r.db.QueryRowContext(ctx, sqlHeld, id).Scan(&n.Waiting, &n.Dead, &n.Behind, &n.Oldest))
}

// DeadEvents implements store.HookReader.
func (r *reader) DeadEvents(ctx context.Context, id string, limit int) ([]store.HookEvent, error) {
	return list(ctx, r.db, scanHeld, sqlDead, id, limit)
}

// hookValues returns the checked values of the columns that an administrator sets.
func (t *tx) hookValues(w *store.Webhook) ([]any, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	if err := t.named("site", w.Site, "site"); err != nil {
		return nil, err
	}
	types := make([]string, len(w.Types))
	for i, what := range w.Types {
		types[i] = string(what)
	}
	secrets, err := json.Marshal(w.Secrets)
	return []any{w.URL, strings.Join(types, ","), w.Site, string(secrets), w.Private}, err
}

// CreateWebhook implements store.HookWrites.
func (db *DB) CreateWebhook(ctx context.Context, w store.Webhook) (store.Webhook, error) {
	id, err := newID()
	if err != nil {
		return w, err
	}
	w.ID, w.Created = id, db.Now().UnixMilli()
	return w, db.write(ctx, func(t *tx) error {
		values, err := t.hookValues(&w)
		if err != nil {
			return err
		}
		var n int
		if err := t.row(`SELECT count(*) FROM webhook`).Scan(&n); err != nil {
			return err
		}
		if n >= store.MaxWebhooks {
			return store.Invalid{{Field: "hooks", Reason: store.ReasonMany, Limit: store.MaxWebhooks}}
		}
		if err := t.workspace(); err != nil {
			return err
		}
		if err := t.tellHooks(); err != nil { // it begins behind that
			return err
		}
		return t.exec(sqlInsertHook, slices.Concat([]any{w.ID, workspaceID}, values, []any{w.By.ID, w.By.Name, w.Created, t.seq})...)
	})
}

// UpdateWebhook implements store.HookWrites.
func (db *DB) UpdateWebhook(ctx context.Context, w store.Webhook) error {
	return db.write(ctx, func(t *tx) error {
		values, err := t.hookValues(&w)
		if err != nil {
			return err
		}
		if err := one(t.change(sqlUpdateHook, append(values, w.ID)...)); err != nil {
			return err
		}
		if err := t.exec(`UPDATE hook_event SET due = 0 WHERE webhook = ? AND dead = 0`, w.ID); err != nil { // another receiver may take them
			return err
		}
		return t.tellHooks()
	})
}

// DeleteWebhook implements store.HookWrites.
func (db *DB) DeleteWebhook(ctx context.Context, id string) error {
	return db.write(ctx, func(t *tx) error {
		if err := one(t.change(`DELETE FROM webhook WHERE id = ?`, id)); err != nil {
			return err
		}
		return t.tellHooks()
	})
}

// SaveHook implements store.HookWrites.
func (db *DB) SaveHook(ctx context.Context, p store.HookProgress) error {
	return db.write(ctx, func(t *tx) error {
		if err := one(t.change(sqlMoveHook, p.Position, p.Failing, p.Failure, p.Lost, p.Hook)); err != nil {
			return err
		}
		for _, seq := range p.Done {
			if err := t.exec(sqlDone, p.Hook, seq); err != nil {
				return err
			}
		}
		dead := false
		for i := range p.Keep {
			dead = dead || p.Keep[i].Dead > 0
			if err := t.keepHeld(p.Hook, &p.Keep[i]); err != nil {
				return err
			}
		}
		if !dead {
			return nil
		}
		n, err := t.change(sqlDeadOver, p.Hook, store.MaxHookDead)
		if err != nil || n == 0 {
			return err
		}
		return t.exec(`UPDATE webhook SET lost = lost + ? WHERE id = ?`, n, p.Hook)
	})
}

func (t *tx) keepHeld(hook string, e *store.HookEvent) error {
	tags, target, err := details(&e.OutboxRow)
	if err != nil {
		return err
	}
	return t.exec(sqlKeep, hook, e.Seq, e.ID, string(e.Type), e.Site, e.Conv, e.Contact, e.Event, tags, e.Time, target, e.Trace, e.Attempts, e.Due, e.Dead, e.Failure)
}

// RetryDead implements store.HookWrites.
func (db *DB) RetryDead(ctx context.Context, id string, seq int64) (int, error) {
	return db.changeDead(ctx, sqlRetry, id, seq)
}

// DropDead implements store.HookWrites.
func (db *DB) DropDead(ctx context.Context, id string, seq int64) (int, error) {
	return db.changeDead(ctx, sqlDiscard, id, seq)
}

func (db *DB) changeDead(ctx context.Context, query, id string, seq int64) (int, error) {
	return written(ctx, db, func(t *tx) (int, error) {
		n, err := t.change(query, id, seq)
		if err == nil && n > 0 {
			err = t.tellHooks()
		}
		return int(n), err
	})
}
