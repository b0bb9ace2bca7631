package sqlstore

import (
	"context"
	"strings"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	keyColumns = `id, prefix, name, scopes, by_id, by_name, created, used, revoked`

	sqlKey     = `SELECT ` + keyColumns + ` FROM api_key WHERE token = ? AND revoked = 0`
	sqlKeys    = `SELECT ` + keyColumns + ` FROM api_key WHERE revoked = 0 ORDER BY created DESC, id DESC LIMIT ?`
	sqlRevoked = `SELECT ` + keyColumns + ` FROM api_key WHERE revoked > 0 ORDER BY revoked DESC LIMIT ?`
)

func scanKey(r scanner) (store.APIKey, error) {
	k := store.APIKey{By: store.Actor{Kind: store.Agent}}
	var scopes string
	if err := r.Scan(&k.ID, &k.Prefix, &k.Name, &scopes, &k.By.ID, &k.By.Name, &k.Created, &k.Used, &k.Revoked); err != nil {
		return k, notFound(err)
	}
	for s := range strings.SplitSeq(scopes, ",") {
		k.Scopes = append(k.Scopes, perm.KeyScope(s))
	}
	return k, nil
}

// APIKey implements store.KeyReader. The hash of the secret is looked up, so the time of the lookup tells nothing of the
// secret.
func (r *reader) APIKey(ctx context.Context, t store.Token) (store.APIKey, error) {
	return scanKey(r.db.QueryRowContext(ctx, sqlKey, t[:]))
}

// APIKeys implements store.KeyReader.
func (r *reader) APIKeys(ctx context.Context) ([]store.APIKey, error) {
	keys, err := list(ctx, r.db, scanKey, sqlKeys, store.MaxAPIKeys)
	if err != nil {
		return nil, err
	}
	revoked, err := list(ctx, r.db, scanKey, sqlRevoked, store.MaxAPIKeys)
	return append(keys, revoked...), err
}

// CreateAPIKey implements store.KeyWrites.
func (db *DB) CreateAPIKey(ctx context.Context, k store.APIKey, token store.Token) (store.APIKey, error) {
	if err := k.Check(); err != nil {
		return k, err
	}
	id, err := newID()
	if err != nil {
		return k, err
	}
	k.ID, k.Created, k.Used, k.Revoked = id, db.Now().UnixMilli(), 0, 0
	scopes := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		scopes[i] = string(s)
	}
	return k, exists("API key", db.write(ctx, func(t *tx) error {
		if err := t.workspace(); err != nil {
			return err
		}
		var n int
		if err := t.row(`SELECT count(*) FROM api_key WHERE revoked = 0`).Scan(&n); err != nil {
			return err
		}
		if n >= store.MaxAPIKeys {
			return store.Invalid{{Field: "keys", Reason: store.ReasonMany, Limit: store.MaxAPIKeys}}
		}
		return t.exec(`INSERT INTO api_key (id, workspace, token, prefix, name, scopes, by_id, by_name, created, used, revoked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)`,
			k.ID, workspaceID, token[:], k.Prefix, k.Name, strings.Join(scopes, ","), k.By.ID, k.By.Name, k.Created)
	}))
}

// RevokeAPIKey implements store.KeyWrites.
func (db *DB) RevokeAPIKey(ctx context.Context, id string) error {
	return db.write(ctx, func(t *tx) error {
		return one(t.change(`UPDATE api_key SET revoked = ? WHERE id = ? AND revoked = 0`, max(t.now(), 1), id))
	})
}

// TouchAPIKey implements store.KeyWrites.
func (db *DB) TouchAPIKey(ctx context.Context, id string) error {
	return db.write(ctx, func(t *tx) error { return one(t.change(`UPDATE api_key SET used = ? WHERE id = ?`, t.now(), id)) })
}
