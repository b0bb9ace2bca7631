package sqlstore

import (
	"context"
	"encoding/json"

	"github.com/go-eddy/eddy/desk/store"
)

const sqlFilters = `SELECT name, fields FROM agent_filter WHERE agent = ? ORDER BY name`

func scanFilter(r scanner) (f store.SavedFilter, err error) {
	var fields string
	if err = r.Scan(&f.Name, &fields); err == nil {
		err = json.Unmarshal([]byte(fields), &f.Fields)
	}
	return f, err
}

// SavedFilters implements store.FilterReader.
func (r *reader) SavedFilters(ctx context.Context, agent string) ([]store.SavedFilter, error) {
	return list(ctx, r.db, scanFilter, sqlFilters, agent)
}

// SaveFilter implements store.FilterWrites.
func (db *DB) SaveFilter(ctx context.Context, agent string, f store.SavedFilter) error {
	if err := f.Check(); err != nil {
		return err
	}
	fields, err := json.Marshal(f.Fields)
	if err != nil {
		return err
	}
	return db.write(ctx, func(t *tx) error {
		var others int
		if err := t.row(`SELECT count(*) FROM agent_filter WHERE agent = ? AND name <> ?`, agent, f.Name).Scan(&others); err != nil {
			return err
		}
		if others >= store.MaxFilters {
			return store.Invalid{{Field: "filters", Reason: store.ReasonMany, Limit: store.MaxFilters}}
		}
		return t.exec(`INSERT INTO agent_filter (agent, name, fields) VALUES (?, ?, ?) ON CONFLICT (agent, name) DO UPDATE SET fields = excluded.fields`, agent, f.Name, string(fields))
	})
}

// DropFilter implements store.FilterWrites.
func (db *DB) DropFilter(ctx context.Context, agent, name string) error {
	return db.write(ctx, func(t *tx) error {
		return one(t.change(`DELETE FROM agent_filter WHERE agent = ? AND name = ?`, agent, name))
	})
}
