package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/store"
)

// isThere leaves out the rows of contacts that are erased or were merged into others.
const isThere = `erased = 0 AND merged = ''`

const (
	sqlFacts     = `SELECT facts FROM contact WHERE id = ? AND ` + isThere
	sqlSaveFacts = `UPDATE contact SET facts = ? WHERE id = ?`
	sqlVisits    = `SELECT p.facts, (SELECT count(*) FROM conversation c WHERE c.contact = p.id AND ` + sqlSpoken + `) FROM contact p WHERE p.id = ? AND p.` + isThere
)

// visited replaces what is known of a contact's last visit.
func (t *tx) visited(c store.Visited) error {
	var text string
	if err := t.row(sqlFacts, c.Contact).Scan(&text); err != nil {
		return notFound(err)
	}
	before, err := factsOf(c.Contact, text)
	if err != nil {
		return err
	}
	after, err := json.Marshal(c.Facts.After(before))
	if err != nil {
		return err
	}
	return t.exec(sqlSaveFacts, string(after), c.Contact)
}

// Visits implements store.PeopleReader.
func (r *reader) Visits(ctx context.Context, contact string) (f store.Facts, chats int, err error) {
	var text string
	if err := r.db.QueryRowContext(ctx, sqlVisits, contact).Scan(&text, &chats); err != nil {
		return f, 0, notFound(err)
	}
	f, err = factsOf(contact, text)
	return f, chats, err
}

func factsOf(contact, text string) (f store.Facts, err error) {
	if text == "" {
		return f, nil
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return f, fmt.Errorf("store: facts of contact %s: %w", contact, err)
	}
	return f, nil
}

// ContactNote implements store.PeopleReader.
func (r *reader) ContactNote(ctx context.Context, contact string) (note string, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT note FROM contact WHERE id = ? AND `+isThere, contact).Scan(&note)
	return note, notFound(err)
}

// NoteContact implements store.People.
func (db *DB) NoteContact(ctx context.Context, contact, note string) error {
	if n := utf8.RuneCountInString(note); n > store.MaxContactNote {
		return store.Invalid{{Field: "note", Reason: store.ReasonLong, Limit: store.MaxContactNote}}
	}
	return db.write(ctx, func(t *tx) error {
		return one(t.change(`UPDATE contact SET note = ? WHERE id = ? AND `+isThere, note, contact))
	})
}

// contactsLooked is how many contacts one page of a list looks at. Those that have only looked at a page are left out.
const contactsLooked = 2000

// Contacts implements store.PeopleReader. Ids are in the order of time.
func (r *reader) Contacts(ctx context.Context, q store.ContactQuery) (page []store.Contact, next string, err error) {
	if q.Limit < 1 || q.Limit > store.MaxContactPage {
		q.Limit = store.MaxContactPage
	}
	if q.Cursor == "" {
		q.Cursor = "g" // behind every id
	} else if uuid.Validate(q.Cursor) != nil {
		return nil, "", store.ErrCursor
	}
	if q.Seen != nil && q.Seen(q.Value) != q.Value {
		return nil, "", nil // the reader may not know whether a contact has it
	}
	query, args := contactsWith(&q)
	rows, err := r.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = rows.Close() }()
	looked := 0
	for ; rows.Next(); looked++ {
		var known bool
		c, err := scanContact(rows, &known)
		if err != nil {
			return nil, "", err
		}
		if known && (q.Site == "" || c.Site == q.Site) && (!q.Blocked || c.Blocked) && q.Shows(&c) {
			if len(page) == q.Limit {
				return page, next, nil
			}
			page = append(page, c)
		}
		next = c.ID
	}
	if looked < contactsLooked {
		next = ""
	}
	return page, next, rows.Err()
}

// contactsWith returns the statement for the words of a query: the first one leads to the contacts, the others are looked
// up for each.
func contactsWith(q *store.ContactQuery) (query string, args []any) {
	const (
		spoken = `EXISTS (SELECT 1 FROM conversation c WHERE c.contact = p.id AND c.acted_at > 0) OR EXISTS (SELECT 1 FROM contact_key k WHERE k.contact = p.id)
			OR EXISTS (SELECT 1 FROM contact_value v WHERE v.contact = p.id)`
		last = ` ORDER BY p.id DESC LIMIT ?`
	)
	end := func(key string) string { return key + string(utf8.MaxRune) }
	keys := q.Keys()
	if len(keys) == 0 {
		query, args = `SELECT `+contactColumns+`, `+spoken+` FROM contact p WHERE p.id < ? AND p.`+isThere, []any{q.Cursor}
		having(q, &query, &args)
		return query + last, append(args, contactsLooked)
	}
	query = `SELECT ` + contactColumns + `, TRUE FROM contact p WHERE p.id IN (SELECT k.contact FROM contact_key k WHERE k.key >= ? AND k.key < ?) AND p.id < ? AND p.` + isThere
	args = []any{keys[0], end(keys[0]), q.Cursor}
	for _, key := range keys[1:] {
		query += ` AND EXISTS (SELECT 1 FROM contact_key k WHERE k.contact = p.id AND k.key >= ? AND k.key < ?)`
		args = append(args, key, end(key))
	}
	having(q, &query, &args)
	return query + last, append(args, contactsLooked)
}

// having adds the condition about an own field to a statement.
func having(q *store.ContactQuery, query *string, args *[]any) {
	if q.Field == "" {
		return
	}
	const of = ` AND p.id IN (SELECT v.contact FROM contact_value v WHERE v.field = ?`
	switch value := q.ValueKey(); {
	case value == "":
		*query += of + `)`
		*args = append(*args, q.Field)
	case q.Exact || q.Seen != nil:
		*query += of + ` AND lower(substr(v.value, 1, 100)) = ?)`
		*args = append(*args, q.Field, value)
	default:
		*query += of + ` AND lower(substr(v.value, 1, 100)) >= ? AND lower(substr(v.value, 1, 100)) < ?)`
		*args = append(*args, q.Field, value, value+string(utf8.MaxRune))
	}
}
