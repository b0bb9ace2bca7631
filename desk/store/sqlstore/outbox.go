package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	rowColumns = `seq, id, type, site, conversation, contact, event, tags, created, target, trace`

	sqlOutbox = `SELECT ` + rowColumns + ` FROM outbox WHERE seq > greatest(CAST(? AS BIGINT), (SELECT CAST(value AS BIGINT) FROM setting WHERE key = 'outbox_floor'))
		ORDER BY seq LIMIT ?`
	sqlSeqs       = `SELECT (SELECT CAST(value AS BIGINT) FROM setting WHERE key = 'outbox_floor'), CAST(value AS BIGINT)` + ofOutbox
	sqlLast       = `SELECT CAST(value AS BIGINT), `
	ofOutbox      = ` FROM setting WHERE key = 'outbox_last'`
	sqlOldest     = `SELECT coalesce(max(seq), 0), count(*) FROM (SELECT seq, created FROM outbox ORDER BY seq LIMIT ?) o WHERE created < ? OR seq <= ?`
	sqlTrim       = `DELETE FROM outbox WHERE seq <= ?`
	sqlRaise      = `UPDATE setting SET value = ? WHERE key = 'outbox_floor'`
	sqlAnyContact = `SELECT ` + contactColumns + ` FROM contact p WHERE p.id = ?`
	sqlDropTag    = `DELETE FROM outbox WHERE conversation = ? AND tags <> ''`

	rowArgs  = 12
	tellMany = 16 // rows of one statement
	sqlTell  = `INSERT INTO outbox (` + rowColumns + `, first) VALUES ` + rowMarks
	rowMarks = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

var sqlTellMany = sqlTell + strings.Repeat(", "+rowMarks, tellMany-1)

// outboxNews tells readers of the outbox that there are new rows.
type outboxNews struct {
	mu sync.Mutex
	ch chan struct{} // nil = nobody has asked
}

// OutboxNews implements store.OutboxWrites.
func (db *DB) OutboxNews() <-chan struct{} {
	db.news.mu.Lock()
	defer db.news.mu.Unlock()
	if db.news.ch == nil {
		db.news.ch = make(chan struct{})
	}
	return db.news.ch
}

func (n *outboxNews) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

// tell adds a row to the outbox. flush writes it, in the same transaction.
func (t *tx) tell(r store.OutboxRow) error {
	id, err := newID()
	if err != nil {
		return err
	}
	t.seq, t.told = t.seq+1, true
	r.ID, r.Seq, r.Time, r.Trace = id, t.seq, t.now(), t.trace
	t.rows = append(t.rows, r)
	return nil
}

// flush writes the rows of the transaction that are not written yet, many with one statement.
func (t *tx) flush() error {
	for left := t.rows[t.written:]; len(left) > 0; {
		n, query := 1, sqlTell
		if len(left) >= tellMany {
			n, query = tellMany, sqlTellMany
		}
		args := make([]any, 0, n*rowArgs)
		for i := range left[:n] {
			r := &left[i]
			tags, target, err := details(r)
			if err != nil {
				return err
			}
			args = append(args, r.Seq, r.ID, string(r.Type), r.Site, r.Conv, r.Contact, r.Event, tags, r.Time, target, r.Trace, r.First)
		}
		if err := t.exec(query, args...); err != nil {
			return err
		}
		left = left[n:]
	}
	t.written = len(t.rows)
	return nil
}

// progress is how far a transaction has come in what it leaves to its end.
type progress struct{ words, rows, written int }

func (t *tx) progress() progress { return progress{len(t.words), len(t.rows), t.written} }

// untell takes back what the transaction was to write since then, and what flush has written.
func (t *tx) untell(since progress) {
	t.seq -= int64(len(t.rows) - since.rows)
	t.words, t.rows, t.written = t.words[:since.words], t.rows[:since.rows], since.written
}

// fed returns what the feed tells of a command whose rows begin behind the first n of the transaction, nil if there are
// none. The outcome gets its place.
func (t *tx) fed(n int, out *store.Outcome) *store.Fed {
	rows := t.rows[n:]
	if len(rows) == 0 {
		return nil
	}
	f := new(t.part)
	f.First, f.Last, f.At, f.Trace = rows[0].Seq, rows[len(rows)-1].Seq, rows[0].Time, rows[0].Trace
	for i := range rows {
		rows[i].First = f.First
		if rows[i].Conv != "" {
			f.Conv, f.Events, f.Touched, f.Turn = out.Conv, out.Events, out.Touched, out.Turn
		}
	}
	out.Fed = f.Last
	return f
}

// details returns the columns of a row that are JSON, each "" if there is nothing to say.
func details(r *store.OutboxRow) (tags, target string, err error) {
	column := func(v any, empty bool) string {
		if empty || err != nil {
			return ""
		}
		var b []byte
		b, err = json.Marshal(v)
		return string(b)
	}
	tags = column(r.Tags, len(r.Tags.Added)+len(r.Tags.Removed) == 0)
	target = column(r.Target, r.Target == store.TargetTold{})
	return tags, target, err
}

// tagsChanged compares the tags of a conversation before and after a change.
func tagsChanged(before, after []string) (c store.TagChange) {
	for _, tag := range after {
		if !slices.Contains(before, tag) {
			c.Added = append(c.Added, tag)
		}
	}
	for _, tag := range before {
		if !slices.Contains(after, tag) {
			c.Removed = append(c.Removed, tag)
		}
	}
	return c
}

func (t *tx) tellConv(c *store.Conversation, what store.EventType, tags store.TagChange) error {
	return t.tell(store.OutboxRow{Type: what, Site: c.Site, Conv: c.ID, Contact: c.Contact, Tags: tags})
}

// scanRow reads rowColumns, and the columns after them into more.
func scanRow(s scanner, more ...any) (r store.OutboxRow, err error) {
	var tags, target string
	if err := s.Scan(append([]any{&r.Seq, &r.ID, &r.Type, &r.Site, &r.Conv, &r.Contact, &r.Event, &tags, &r.Time, &target, &r.Trace}, more...)...); err != nil {
		return r, notFound(err)
	}
	if tags != "" {
		err = json.Unmarshal([]byte(tags), &r.Tags)
	}
	if target != "" {
		err = errors.Join(err, json.Unmarshal([]byte(target), &r.Target))
	}
	return r, err
}

// Outbox implements store.OutboxReader. The floor is read behind the rows: one that was deleted before has raised it.
func (r *reader) Outbox(ctx context.Context, after int64, limit int) (p store.OutboxPage, err error) {
	p.Rows, err = list(ctx, r.db, func(s scanner) (store.OutboxRow, error) { return scanRow(s) }, sqlOutbox, after, limit)
	if err != nil {
		return p, err
	}
	return p, r.db.QueryRowContext(ctx, sqlSeqs).Scan(&p.Floor, &p.Last)
}

// TrimOutbox implements store.OutboxWrites.
func (db *DB) TrimOutbox(ctx context.Context, o store.OutboxTrim) (bool, error) {
	return written(ctx, db, func(t *tx) (bool, error) { return t.trimOutbox(o) })
}

func (t *tx) trimOutbox(o store.OutboxTrim) (more bool, err error) {
	var floor, last, upTo int64
	var n int
	if err := t.row(sqlSeqs).Scan(&floor, &last); err != nil {
		return false, err
	}
	if err := t.row(sqlOldest, o.Limit, o.Before, max(floor, last-o.Keep)).Scan(&upTo, &n); err != nil || n == 0 {
		return false, err
	}
	var slowest sql.NullInt64 // a server that is behind has still to read them, but not for ever
	if err := t.row(sqlSlowest, t.now()).Scan(&slowest); err != nil {
		return false, err
	}
	if slowest.Valid {
		upTo = min(upTo, max(slowest.Int64, last-2*o.Keep))
	}
	if upTo <= floor {
		return false, nil
	}
	if err := t.exec(sqlTrim, upTo); err != nil {
		return false, err
	}
	return n >= o.Limit, t.exec(sqlRaise, strconv.FormatInt(max(floor, upTo), 10))
}
