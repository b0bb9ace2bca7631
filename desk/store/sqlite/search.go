package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/words"
)

// A message's doc is its time and a number, so that newer messages have higher ones whenever they are indexed.
const (
	docShift   = 20
	candidates = 500 // messages with all the words that one page looks at
)

const (
	sqlWords   = `INSERT INTO message_words (rowid, words) VALUES (?, ?)`
	sqlLastDoc = `SELECT coalesce(max(doc), 0) FROM message WHERE doc < ?`
	sqlSearch  = `WITH hits AS MATERIALIZED (SELECT rowid AS doc FROM message_words WHERE message_words MATCH ? AND rowid < ? ORDER BY rowid DESC LIMIT ?)
		SELECT h.doc, m.conversation, m.seq, coalesce(m.pseq, 0), m.id, m.kind, m.sender_kind, m.sender_id, m.sender_name, m.body, m.created,
			c.state, c.contact, p.name, ` + sqlAccess + `
		FROM hits h CROSS JOIN message m ON m.doc = h.doc CROSS JOIN conversation c ON c.id = m.conversation CROSS JOIN contact p ON p.id = c.contact
		ORDER BY h.doc DESC`
	sqlUnindexed = `SELECT conversation, seq, kind, body, created FROM message WHERE doc IS NULL AND kind <> 'event' ORDER BY conversation, seq LIMIT ?`
)

// index adds a message to the search, in the transaction of the message, and returns its doc, 0 for what is not searched.
func (t *tx) index(e *store.Event) (int64, error) {
	if e.Kind == store.KindEvent {
		return 0, nil
	}
	doc, err := t.newDoc(e.Time)
	if err != nil {
		return 0, err
	}
	list := words.Of(e.Body)
	if len(list) == 0 {
		return doc, nil
	}
	return doc, t.exec(sqlWords, doc, strings.Join(list, " "))
}

// newDoc returns the first number that is free at a time.
func (t *tx) newDoc(ms int64) (int64, error) {
	var last int64
	err := t.row(sqlLastDoc, (ms+1)<<docShift).Scan(&last)
	return max(last+1, ms<<docShift), err
}

// indexOld adds at most limit messages that are older than the index, and returns how many it has added.
func (t *tx) indexOld(limit int) (int, error) {
	s, err := t.stmt(sqlUnindexed)
	if err != nil {
		return 0, err
	}
	rows, err := s.QueryContext(context.Background(), limit)
	if err != nil {
		return 0, err
	}
	var old []store.Event
	for rows.Next() {
		var e store.Event
		if err = rows.Scan(&e.Conv, &e.Seq, &e.Kind, &e.Body, &e.Time); err != nil {
			break
		}
		old = append(old, e)
	}
	if err == nil {
		err = rows.Err()
	}
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	for i := 0; err == nil && i < len(old); i++ {
		var doc int64
		if doc, err = t.index(&old[i]); err == nil {
			err = t.exec(`UPDATE message SET doc = ? WHERE conversation = ? AND seq = ?`, doc, old[i].Conv, old[i].Seq)
		}
	}
	return len(old), err
}

// match returns the query in the language of FTS5. Words have letters, digits and marks only, so nothing in them is syntax.
func match(q *words.Query) string { return `"` + strings.Join(q.Terms, `" AND "`) + `"` }

// Search implements store.StaffReader.
func (r *reader) Search(ctx context.Context, s store.Scope, query, cursor string, limit int) ([]store.Hit, string, error) {
	q, ok := words.Parse(query)
	if !ok {
		return nil, "", fmt.Errorf("%w: at most %d", store.ErrQuery, words.MaxTerms)
	}
	below := int64(1<<63 - 1)
	if cursor != "" {
		n, err := strconv.ParseInt(cursor, 36, 64)
		if err != nil || n <= 0 {
			return nil, "", store.ErrCursor
		}
		below = n
	}
	rows, err := r.db.QueryContext(ctx, sqlSearch, match(&q), below, candidates, s.Agent, s.Agent, s.Agent, s.All)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = rows.Close() }()
	var hits []store.Hit
	var last int64
	looked := 0
	for rows.Next() {
		var h store.Hit
		var doc int64
		var access store.Access
		e := &h.Event
		if err := rows.Scan(&doc, &e.Conv, &e.Seq, &e.PSeq, &e.ID, &e.Kind, &e.From.Kind, &e.From.ID, &e.From.Name, &e.Body, &e.Time,
			&h.State, &h.Contact, &h.ContactName, &access); err != nil {
			return nil, "", err
		}
		looked++
		if access != store.NoAccess && q.Match(e.Body) {
			if len(hits) == limit { // there is more
				return hits, docCursor(last), nil
			}
			h.Other = access == store.OtherAccess
			hits = append(hits, h)
		}
		last = doc
	}
	if looked < candidates {
		last = 0
	}
	return hits, docCursor(last), rows.Err()
}

func docCursor(doc int64) string {
	if doc == 0 {
		return ""
	}
	return strconv.FormatInt(doc, 36)
}
