package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlMoveConvs  = `UPDATE conversation SET contact = ? WHERE contact = ?`
	sqlMoveTokens = `UPDATE contact_token SET contact = ? WHERE contact = ?`
	sqlMoveMerged = `UPDATE contact SET merged = ?1 WHERE merged = ?2 AND merged <> ''`
	sqlMerged     = `UPDATE contact SET merged = ?, name = ?, locale = '', attributes = '{}', facts = '', note = '' WHERE id = ?`
	sqlMergeInto  = `UPDATE contact SET attributes = ?, note = ?, locale = ?, created = ? WHERE id = ?`
	sqlMoveFiles  = `UPDATE attachment SET uploader_id = ? WHERE uploader_kind = 'customer' AND uploader_id = ?`
	sqlPresent    = `SELECT p.id, p.name, p.blocked FROM contact x JOIN contact p ON p.id = CASE x.merged WHEN '' THEN x.id ELSE x.merged END WHERE x.id = ?`
	sqlMergedInto = `SELECT merged FROM contact WHERE id = ?`
	sqlNote       = `SELECT note FROM contact WHERE id = ?`
)

// MergeContacts implements store.People.
func (db *DB) MergeContacts(ctx context.Context, from, into string) (store.Contact, error) {
	return written(ctx, db, func(t *tx) (store.Contact, error) {
		a, err := scanContact(t.row(sqlContact, from))
		if err != nil {
			return a, err
		}
		b, err := scanContact(t.row(sqlContact, into))
		if err != nil {
			return b, err
		}
		var open int
		if err := t.row(sqlOpenCount, from).Scan(&open); err != nil {
			return b, err
		}
		if a.ID == b.ID || a.Site != b.Site || a.Verified != b.Verified || a.Blocked != b.Blocked || open > 0 {
			return b, store.ErrMerge
		}
		return b, t.merge(&a, &b)
	})
}

// merge moves what a has to b. The row of a stays, without anything but its external id, by which its customer is found.
func (t *tx) merge(a, b *store.Contact) error {
	var notes [2]string
	for i, id := range []string{b.ID, a.ID} {
		if err := t.row(sqlNote, id).Scan(&notes[i]); err != nil {
			return notFound(err)
		}
	}
	all := maps.Clone(a.Attributes)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, b.Attributes)
	for name := range a.Attributes { // those of b count first
		if _, own := b.Attributes[name]; !own && len(all) > store.MaxAttributes {
			delete(all, name)
		}
	}
	b.Attributes, b.Locale, b.Created = all, cmp.Or(b.Locale, a.Locale), min(a.Created, b.Created)
	attributes, err := json.Marshal(all)
	if err != nil {
		return err
	}
	note := strings.TrimSpace(notes[0] + "\n" + notes[1])
	for _, c := range []struct {
		query string
		args  []any
	}{
		{sqlMergeInto, []any{string(attributes), shorten(note, store.MaxContactNote), b.Locale, b.Created, b.ID}},
		{sqlMoveConvs, []any{b.ID, a.ID}}, {sqlMoveTokens, []any{b.ID, a.ID}}, {sqlMoveFiles, []any{b.ID, a.ID}}, {sqlMoveMerged, []any{b.ID, a.ID}},
		{sqlMoveValues, []any{b.ID, a.ID}}, {sqlDropValues, []any{a.ID}},
		{sqlMerged, []any{b.ID, visitorName(a.ID), a.ID}},
	} {
		if err := t.exec(c.query, c.args...); err != nil {
			return err
		}
	}
	if err := t.tellEnded(a.ID); err != nil {
		return err
	}
	return t.tellContact(b.ID)
}

// present brings a contact up to date that the caller has read before: its name, or the contact that it was merged into
// meanwhile. It reports whether the contact is blocked.
func (t *tx) present(c *store.Contact) (blocked bool, err error) {
	err = t.row(sqlPresent, c.ID).Scan(&c.ID, &c.Name, &blocked)
	return blocked, notFound(err)
}

// acting returns the actor of a command of a conversation. A customer knows only its own ones, and those of the contact
// that it was merged into. Then it is that contact.
func (t *tx) acting(c *store.Conversation, by store.Actor) (store.Actor, error) {
	if by.Kind != store.Customer || by.ID == c.Contact {
		return by, nil
	}
	var into string
	if err := t.row(sqlMergedInto, by.ID).Scan(&into); err != nil {
		return by, notFound(err)
	}
	if into != c.Contact {
		return by, store.ErrNotFound
	}
	by.ID, by.Name = c.Contact, c.ContactName
	return by, nil
}
