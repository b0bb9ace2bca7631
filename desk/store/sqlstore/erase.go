package sqlstore

import (
	"context"
	"errors"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlStub       = `UPDATE contact SET name = ?, external = '', verified = FALSE, blocked = TRUE, locale = '', attributes = '{}', facts = '', note = '', erased = CASE WHEN erased > 0 THEN erased ELSE ? END, erasing = ? WHERE id = ?`
	sqlAdopt      = `UPDATE conversation SET contact = ?1 WHERE contact IN (SELECT id FROM contact WHERE merged = ?1 AND merged <> '')`
	sqlDropMerged = `DELETE FROM contact WHERE merged = ? AND merged <> ''`
	sqlTokensOf   = `DELETE FROM contact_token WHERE contact = ?`
	sqlErasing    = `SELECT id FROM contact WHERE erasing = 1 AND id > ? ORDER BY id LIMIT 1`
	sqlClosedOf   = `SELECT ` + convColumns + convFrom + `WHERE c.contact = ? AND c.state = 'closed' ORDER BY c.opened_at LIMIT 1`
	sqlOpenCount  = `SELECT count(*) FROM conversation WHERE contact = ? AND state <> 'closed'`
	sqlErased     = `SELECT erased > 0 FROM contact WHERE id = ? AND merged = ''`
)

// EraseContact implements store.People.
func (db *DB) EraseContact(ctx context.Context, contact string) error {
	return db.write(ctx, func(t *tx) error {
		var erased bool
		if err := t.row(sqlErased, contact).Scan(&erased); err != nil || erased {
			return notFound(err)
		}
		if err := t.overwriting(func() error { return t.stub(contact, true) }); err != nil {
			return err
		}
		return t.tellEnded(contact)
	})
}

// stub takes everything out of a contact. left means that conversations of it may be left, also those that were opened by
// whoever was merged into it and did not know it yet.
func (t *tx) stub(contact string, left bool) error {
	for _, query := range []string{sqlTokensOf, sqlAdopt, sqlDropMerged, sqlDropValues} {
		if err := t.exec(query, contact); err != nil {
			return err
		}
	}
	erasing := 0
	if left {
		erasing = 1
	}
	return one(t.change(sqlStub, visitorName(contact), t.now(), erasing, contact))
}

// overwriting runs f so that what it deletes is overwritten in a file, which costs writes. PostgreSQL overwrites by itself, some time later.
func (t *tx) overwriting(f func() error) (err error) {
	words := t.db.on.dialect()
	if words.overwrite == "" {
		return f()
	}
	if err := t.force(words.overwrite); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, t.force(words.leave))
	}()
	return f()
}

// EraseMore implements store.People.
func (db *DB) EraseMore(ctx context.Context, limit int) (store.Dropped, error) {
	return written(ctx, db, func(t *tx) (d store.Dropped, err error) {
		err = t.overwriting(func() error {
			d, err = t.eraseMore(limit)
			return err
		})
		return d, err
	})
}

func (t *tx) eraseMore(limit int) (d store.Dropped, err error) {
	contact := ""
	for limit > 0 {
		if err := t.row(sqlErasing, contact).Scan(&contact); err != nil {
			if errors.Is(notFound(err), store.ErrNotFound) {
				return d, nil
			}
			return d, err
		}
		if limit, err = t.eraseClosed(contact, limit, &d); err != nil || limit <= 0 {
			break
		}
		var open int
		if err := t.row(sqlOpenCount, contact).Scan(&open); err != nil {
			return d, err
		}
		if open > 0 { // somebody is about to close it
			continue
		}
		if err := t.stub(contact, false); err != nil { // once more: a bot may have learnt something meanwhile
			return d, err
		}
		limit--
	}
	d.More = true
	return d, err
}

// eraseClosed removes at most limit rows of a contact's closed conversations, and returns what is left of limit.
func (t *tx) eraseClosed(contact string, limit int, d *store.Dropped) (int, error) {
	for limit > 0 {
		c, err := scanConv(t.row(sqlClosedOf, contact))
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return limit, err
		}
		if limit, err = t.dropConv(&c, limit, d); err != nil {
			return limit, err
		}
	}
	return limit, nil
}

// notErased refuses a contact that is erased.
func (t *tx) notErased(contact string) error {
	var erased bool
	err := t.row(sqlErased, contact).Scan(&erased)
	if err == nil && erased {
		return store.ErrClosed
	}
	return notFound(err)
}
