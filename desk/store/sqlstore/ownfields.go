package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	ownColumns = `key, label, kind, choices, see, edit, position`

	sqlOwnFields = `SELECT ` + ownColumns + ` FROM own_field ORDER BY position, label, key`
	sqlOwnField  = `SELECT ` + ownColumns + ` FROM own_field WHERE key = ?`
	sqlNewField  = `INSERT INTO own_field (key, workspace, label, kind, choices, see, edit, position) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlSetField  = `UPDATE own_field SET label = ?, kind = ?, choices = ?, see = ?, edit = ?, position = ? WHERE key = ?`
	sqlFieldUse  = `SELECT count(*) FROM contact_value WHERE field = ?`
	sqlChoiceUse = `SELECT count(*) FROM contact_value WHERE field = ?1 AND lower(substr(value, 1, 100)) = lower(?2) AND value = ?2`
	sqlDropUse   = `DELETE FROM contact_value WHERE field = ?1 AND contact IN (SELECT contact FROM contact_value WHERE field = ?1 LIMIT ?2)`
	sqlValuesOf  = `SELECT field, value FROM contact_value WHERE contact = ?`
	sqlSetValue  = `INSERT INTO contact_value (contact, field, value) VALUES (?, ?, ?)
		ON CONFLICT (contact, field) DO UPDATE SET value = excluded.value WHERE contact_value.value <> excluded.value`
	sqlDropValue  = `DELETE FROM contact_value WHERE contact = ? AND field = ?`
	sqlDropValues = `DELETE FROM contact_value WHERE contact = ?`
	sqlMoveValues = `INSERT INTO contact_value (contact, field, value) SELECT ?, field, value FROM contact_value WHERE contact = ? ON CONFLICT DO NOTHING`
)

func scanOwnField(r scanner) (f store.OwnField, err error) {
	var choices string
	if err := r.Scan(&f.Key, &f.Label, &f.Kind, &choices, &f.See, &f.Edit, &f.Position); err != nil {
		return f, notFound(err)
	}
	if err := json.Unmarshal([]byte(choices), &f.Choices); err != nil {
		return f, fmt.Errorf("store: choices of field %s: %w", f.Key, err)
	}
	return f, nil
}

// OwnFields implements store.OwnFieldReader.
func (r *reader) OwnFields(ctx context.Context) ([]store.OwnField, error) {
	return list(ctx, r.db, scanOwnField, sqlOwnFields)
}

// FieldValues implements store.OwnFieldReader.
func (r *reader) FieldValues(ctx context.Context, contact string) (map[string]string, error) {
	rows, err := list(ctx, r.db, func(row scanner) (v [2]string, err error) {
		err = row.Scan(&v[0], &v[1])
		return v, err
	}, sqlValuesOf, contact)
	values := make(map[string]string, len(rows))
	for _, v := range rows {
		values[v[0]] = v[1]
	}
	return values, err
}

// FieldUse implements store.OwnFieldReader.
func (r *reader) FieldUse(ctx context.Context, key string) (n int, err error) {
	err = r.db.QueryRowContext(ctx, sqlFieldUse, key).Scan(&n)
	return n, err
}

// CreateOwnField implements store.OwnFieldWrites.
func (db *DB) CreateOwnField(ctx context.Context, f store.OwnField) error {
	if err := f.Check(); err != nil {
		return err
	}
	choices, err := choicesJSON(&f)
	if err != nil {
		return err
	}
	return exists("field "+f.Key, db.write(ctx, func(t *tx) error {
		if err := t.workspace(); err != nil {
			return err
		}
		var others int
		if err := t.row(`SELECT count(*) FROM own_field WHERE key <> ?`, f.Key).Scan(&others); err != nil {
			return err
		}
		if others >= store.MaxOwnFields {
			return store.Invalid{{Field: "fields", Reason: store.ReasonMany, Limit: store.MaxOwnFields}}
		}
		return t.exec(sqlNewField, f.Key, workspaceID, f.Label, string(f.Kind), choices, string(f.See), string(f.Edit), f.Position)
	}))
}

// UpdateOwnField implements store.OwnFieldWrites.
func (db *DB) UpdateOwnField(ctx context.Context, f store.OwnField) error {
	if err := f.Check(); err != nil {
		return err
	}
	choices, err := choicesJSON(&f)
	if err != nil {
		return err
	}
	return db.write(ctx, func(t *tx) error {
		before, err := scanOwnField(t.row(sqlOwnField, f.Key))
		if err != nil {
			return err
		}
		if err := t.keepsValues(&before, &f); err != nil {
			return err
		}
		return t.exec(sqlSetField, f.Label, string(f.Kind), choices, string(f.See), string(f.Edit), f.Position, f.Key)
	})
}

// keepsValues refuses a change of a definition that values do not fit.
func (t *tx) keepsValues(before, after *store.OwnField) error {
	inUse := func(field string, n int) error {
		return store.Invalid{{Field: field, Reason: store.ReasonInUse, Limit: int64(n)}}
	}
	var n int
	if before.Kind != after.Kind {
		if err := t.row(sqlFieldUse, before.Key).Scan(&n); err != nil || n == 0 {
			return err
		}
		return inUse("kind", n)
	}
	for _, c := range before.Choices {
		if slices.Contains(after.Choices, c) {
			continue
		}
		var have int
		if err := t.row(sqlChoiceUse, before.Key, c).Scan(&have); err != nil {
			return err
		}
		n += have
	}
	if n > 0 {
		return inUse("choices", n)
	}
	return nil
}

// DropOwnField implements store.OwnFieldWrites.
func (db *DB) DropOwnField(ctx context.Context, key string, most, limit int) (more bool, err error) {
	return written(ctx, db, func(t *tx) (bool, error) {
		var n int
		if err := t.row(sqlFieldUse, key).Scan(&n); err != nil {
			return false, err
		}
		if n > most {
			return false, fmt.Errorf("%w: %d contacts have a value of field %s", store.ErrInUse, n, key)
		}
		if err := t.exec(sqlDropUse, key, limit); err != nil || n > limit {
			return n > limit, err
		}
		return false, one(t.change(`DELETE FROM own_field WHERE key = ?`, key))
	})
}

func choicesJSON(f *store.OwnField) (string, error) {
	if f.Choices == nil {
		return "[]", nil
	}
	b, err := json.Marshal(f.Choices)
	return string(b), err
}

// setFields changes values of own fields of a contact, for a role, or for a program if that is "". It reports whether
// anything is new.
func (t *tx) setFields(contact string, values map[string]string, role perm.Role) (changed bool, err error) {
	for key, text := range values {
		f, err := scanOwnField(t.row(sqlOwnField, key))
		if errors.Is(err, store.ErrNotFound) {
			return false, store.UnknownField(key)
		}
		if err != nil {
			return false, err
		}
		value, err := f.Take(role, text)
		if err != nil {
			return false, err
		}
		var n int64
		if value == "" {
			n, err = t.change(sqlDropValue, contact, key)
		} else {
			n, err = t.change(sqlSetValue, contact, key, value)
		}
		if err != nil {
			return false, err
		}
		changed = changed || n > 0
	}
	return changed, nil
}
