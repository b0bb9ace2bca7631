package sqlite

import (
	"context"

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
	b.ID, b.Created = id, db.o.Now().UnixMilli()
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
		return one(t.change(`DELETE FROM bot WHERE id = ?`, id))
	})
}
