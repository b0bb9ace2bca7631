package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-eddy/eddy/desk/store"
)

const botColumns = `id, name, kind, config, created`

func scanBot(r scanner) (b store.BotAccount, err error) {
	err = r.Scan(&b.ID, &b.Name, &b.Kind, &b.Config, &b.Created)
	return b, notFound(err)
}

// Bots implements store.Reader.
func (r *reader) Bots(ctx context.Context) ([]store.BotAccount, error) {
	return list(ctx, r.db, scanBot, `SELECT `+botColumns+` FROM bot ORDER BY name, id`)
}

// Bot implements store.Reader.
func (r *reader) Bot(ctx context.Context, id string) (store.BotAccount, error) {
	return scanBot(r.db.QueryRowContext(ctx, `SELECT `+botColumns+` FROM bot WHERE id = ?`, id))
}

// CreateBot implements store.Accounts.
func (db *DB) CreateBot(ctx context.Context, b store.BotAccount) (store.BotAccount, error) {
	id, err := newID()
	if err != nil {
		return b, err
	}
	b.ID, b.Created = id, db.Now().UnixMilli()
	return b, exists("bot "+b.Name, db.write(ctx, func(t *tx) error {
		if err := t.workspace(); err != nil {
			return err
		}
		return t.exec(`INSERT INTO bot (id, workspace, name, kind, config, created) VALUES (?, ?, ?, ?, ?, ?)`,
			b.ID, workspaceID, b.Name, b.Kind, b.Config, b.Created)
	}))
}

// UpdateBot implements store.Accounts.
func (db *DB) UpdateBot(ctx context.Context, b store.BotAccount) error {
	return exists("bot "+b.Name, db.write(ctx, func(t *tx) error {
		return one(t.change(`UPDATE bot SET name = ?, kind = ?, config = ? WHERE id = ?`, b.Name, b.Kind, b.Config, b.ID))
	}))
}

// DeleteBot implements store.Accounts.
func (db *DB) DeleteBot(ctx context.Context, id string) error {
	return db.write(ctx, func(t *tx) error {
		var sites int
		if err := t.row(`SELECT count(*) FROM site WHERE bot = ?`, id).Scan(&sites); err != nil {
			return err
		}
		if sites > 0 {
			return store.ErrInUse
		}
		if err := t.exec(`DELETE FROM bot_usage WHERE bot = ?`, id); err != nil {
			return err
		}
		return one(t.change(`DELETE FROM bot WHERE id = ?`, id))
	})
}

// BotUsage implements store.Reader.
func (r *reader) BotUsage(ctx context.Context, bot, day string) (u store.BotUsage, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT calls, prompt, completion, estimated FROM bot_usage WHERE bot = ? AND day = ?`, bot, day).
		Scan(&u.Calls, &u.Prompt, &u.Completion, &u.Estimated)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return u, err
}

// keptUsage is how many days of usage are kept for each bot.
const keptUsage = 400

// AddBotUsage implements store.Accounts.
func (db *DB) AddBotUsage(ctx context.Context, bot, day string, u store.BotUsage) error {
	return db.write(ctx, func(t *tx) error {
		var there int
		if err := t.row(`SELECT count(*) FROM bot WHERE id = ?`, bot).Scan(&there); err != nil {
			return err
		}
		if there == 0 {
			return store.ErrNotFound
		}
		err := t.exec(`INSERT INTO bot_usage (bot, day, calls, prompt, completion, estimated) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (bot, day) DO UPDATE SET calls = bot_usage.calls + excluded.calls, prompt = bot_usage.prompt + excluded.prompt,
				completion = bot_usage.completion + excluded.completion, estimated = bot_usage.estimated + excluded.estimated`,
			bot, day, u.Calls, u.Prompt, u.Completion, u.Estimated)
		if err != nil {
			return err
		}
		return t.exec(`DELETE FROM bot_usage WHERE bot = ? AND day < (SELECT day FROM bot_usage WHERE bot = ? ORDER BY day DESC LIMIT 1 OFFSET ?)`, bot, bot, keptUsage-1)
	})
}
