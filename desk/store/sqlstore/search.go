package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/words"
)

// docShift makes room for a number below the time in a message's doc. Newer messages thus have higher docs, whenever
// they are indexed.
const (
	docShift   = 20
	candidates = 500 // messages with all the words that one page looks at
)

const (
	sqlLastDoc   = `SELECT coalesce(max(doc), 0) FROM message WHERE doc < ?`
	sqlUnindexed = `SELECT conversation, seq, kind, body, created FROM message WHERE doc IS NULL AND kind IN ('text', 'note', 'file') ORDER BY conversation, seq LIMIT ?`
)

// index gives a message to the search, in the transaction of the message. It returns the message's doc, 0 for one that
// is not searched.
func (t *tx) index(e *store.Event) (int64, error) {
	switch e.Kind {
	case store.KindText, store.KindNote, store.KindFile:
	default:
		return 0, nil
	}
	if t.db.o.noIndex {
		return 0, nil
	}
	doc, err := t.newDoc(e.Time)
	if err != nil {
		return 0, err
	}
	if list := words.Of(e.Body); len(list) > 0 {
		t.words = append(t.words, docWords{doc, strings.Join(list, " ")})
	}
	return doc, nil
}

// docWords are the words of one message.
type docWords struct {
	doc   int64
	words string
}

// addWords writes the words of the transaction's messages into the index, after its commands. Every savepoint makes FTS5
// write out what it has, and one large piece is much cheaper than many small ones.
func (t *tx) addWords() error {
	d := t.db.on.dialect()
	for left := t.words; len(left) > 0; {
		n, query := 1, d.insertWords
		if len(left) >= tellMany {
			n, query = tellMany, d.insertMany
		}
		args := make([]any, 0, 2*n)
		for _, w := range left[:n] {
			args = append(args, w.doc, w.words)
		}
		if err := t.exec(query, args...); err != nil {
			return err
		}
		left = left[n:]
	}
	return nil
}

// newDoc returns the first free number at a time.
func (t *tx) newDoc(ms int64) (int64, error) {
	if t.maxDoc == 0 {
		if err := t.row(sqlLastDoc, int64(1<<63-1)).Scan(&t.maxDoc); err != nil {
			return 0, err
		}
	}
	first := max(ms, 1) << docShift
	switch next := first + 1<<docShift; {
	case first > t.maxDoc:
		t.maxDoc = first
	case next > t.maxDoc: // another message of the same time
		t.maxDoc++
	default: // an older message
		var last int64
		err := t.row(sqlLastDoc, next).Scan(&last)
		return max(last+1, first), err
	}
	return t.maxDoc, nil
}

// indexOld adds at most limit messages that are older than the index, and returns how many it added.
func (t *tx) indexOld(limit int) (int, error) {
	old, err := all(t, func(r scanner) (e store.Event, err error) {
		err = r.Scan(&e.Conv, &e.Seq, &e.Kind, &e.Body, &e.Time)
		return e, err
	}, sqlUnindexed, limit)
	if err != nil {
		return 0, err
	}
	// Sorted by time, because the index writes out what it has when a number comes that is not higher.
	slices.SortStableFunc(old, func(a, b store.Event) int { return cmp.Compare(a.Time, b.Time) })
	for i := range old {
		doc, err := t.index(&old[i])
		if err == nil {
			err = t.exec(`UPDATE message SET doc = ? WHERE conversation = ? AND seq = ?`, doc, old[i].Conv, old[i].Seq)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(old), nil
}

// Search implements store.StaffReader.
func (r *reader) Search(ctx context.Context, s store.Scope, query string, f store.Filter, cursor string, limit int) ([]store.Hit, string, error) {
	q, ok := words.Parse(query)
	if !ok {
		return nil, "", store.ErrQuery
	}
	below := int64(1<<63 - 1)
	if cursor != "" {
		n, err := strconv.ParseInt(cursor, 36, 64)
		if err != nil || n <= 0 {
			return nil, "", store.ErrCursor
		}
		below = n
	}
	// Words have only letters, digits and marks, so nothing in them is syntax.
	rows, err := r.db.QueryContext(ctx, r.db.words.search, append([]any{r.db.words.match(q.Terms), below, candidates}, accessArgs(s)...)...)
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
		var c store.Conversation
		e := &h.Event
		if err := rows.Scan(&doc, &e.Conv, &e.Seq, &e.PSeq, &e.ID, &e.Kind, &e.From.Kind, &e.From.ID, &e.From.Name, &e.Body, &e.Time,
			&c.Contact, &h.ContactName, &c.State, &c.Site, &c.Group, &c.LastAgent, &c.AssignedAt, &c.OpenedAt, &c.SnoozedUntil, &c.Score, &c.Tags, &access); err != nil {
			return nil, "", err
		}
		looked++
		if access != store.NoAccess && f.Match(&c) && seen(s, &q, e) {
			if len(hits) == limit { // there is more
				return hits, docCursor(last), nil
			}
			h.State, h.Contact, h.Other = c.State, c.Contact, access == store.OtherAccess
			hits = append(hits, h)
		}
		last = doc
	}
	if looked < candidates {
		last = 0
	}
	return hits, docCursor(last), rows.Err()
}

// seen makes the text of a message what the agent sees of it, and reports whether the query finds that.
func seen(s store.Scope, q *words.Query, e *store.Event) bool {
	if s.Seen != nil {
		if e.Body = s.Seen(e.Body); !q.Has(words.Of(e.Body)) {
			return false
		}
	}
	return q.Match(e.Body)
}

func docCursor(doc int64) string {
	if doc == 0 {
		return ""
	}
	return strconv.FormatInt(doc, 36)
}
