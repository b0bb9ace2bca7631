package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	rowColumns = `seq, id, type, site, conversation, contact, event, tags, created, target`

	sqlOutbox = `SELECT ` + rowColumns + ` FROM outbox WHERE seq > max(?, (SELECT CAST(value AS INTEGER) FROM setting WHERE key = 'outbox_floor'))
		ORDER BY seq LIMIT ?`
	sqlSeqs    = `SELECT CAST(s.value AS INTEGER), coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'outbox'), 0) FROM setting s WHERE s.key = 'outbox_floor'`
	sqlTell    = `INSERT INTO outbox (id, type, site, conversation, contact, event, tags, created, target) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlSiteOf  = `SELECT site FROM contact WHERE id = ?`
	sqlWanted  = `SELECT EXISTS (SELECT 1 FROM webhook) OR EXISTS (SELECT 1 FROM api_key WHERE revoked = 0 AND instr(',' || scopes || ',', ?) > 0)`
	sqlOldest  = `SELECT coalesce(max(seq), 0), count(*) FROM (SELECT seq, created FROM outbox ORDER BY seq LIMIT ?) WHERE created < ? OR seq <= ?`
	sqlTrim    = `DELETE FROM outbox WHERE seq <= ?`
	sqlRaise   = `UPDATE setting SET value = ? WHERE key = 'outbox_floor'`
	sqlNewSeq  = `INSERT INTO outbox (id, type, site, conversation, contact, event, tags, created) VALUES ('', '', '', '', '', 0, '', 0) RETURNING seq`
	sqlDropTag = `DELETE FROM outbox WHERE conversation = ? AND tags <> ''`
)

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

// want is what the writer knows about who reads the outbox. The zero value is that it has to look.
type want int8

const (
	wanted want = iota + 1
	unwanted
)

// wanted reports whether somebody wants to be told.
func (t *tx) wanted() (bool, error) {
	if t.want == 0 {
		var yes bool
		if err := t.row(sqlWanted, ","+string(perm.KeyEvents)+",").Scan(&yes); err != nil {
			return false, err
		}
		if t.want = unwanted; yes {
			t.want = wanted
		}
	}
	return t.want == wanted, nil
}

// wanting runs a change of who wants to be told. When the first comes, the outbox begins anew: nothing was written
// before. A row that is deleted at once makes even the newest cursor of an earlier reader too old.
func (t *tx) wanting(change func() error) error {
	before, err := t.wanted()
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	t.want = 0
	now, err := t.wanted()
	if err != nil || before || !now {
		return err
	}
	var seq int64
	if err := t.row(sqlNewSeq).Scan(&seq); err != nil {
		return err
	}
	if err := t.exec(`DELETE FROM outbox WHERE seq = ?`, seq); err != nil {
		return err
	}
	return t.exec(sqlRaise, strconv.FormatInt(seq, 10)) // what is below is deleted by and by
}

// tell writes a row into the outbox if somebody wants it.
func (t *tx) tell(r store.OutboxRow) error {
	if yes, err := t.wanted(); err != nil || !yes {
		return err
	}
	id, err := newID()
	if err != nil {
		return err
	}
	tags, target, err := details(&r)
	if err != nil {
		return err
	}
	t.told = true
	return t.exec(sqlTell, id, string(r.Type), r.Site, r.Conv, r.Contact, r.Event, tags, t.now(), target)
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

func (t *tx) tellContact(id string) error {
	if yes, err := t.wanted(); err != nil || !yes {
		return err
	}
	var site string
	if err := t.row(sqlSiteOf, id).Scan(&site); err != nil {
		return notFound(err)
	}
	return t.tell(store.OutboxRow{Type: store.EventContact, Site: site, Contact: id})
}

// scanRow reads rowColumns, and the columns after them into more.
func scanRow(s scanner, more ...any) (r store.OutboxRow, err error) {
	var tags, target string
	if err := s.Scan(append([]any{&r.Seq, &r.ID, &r.Type, &r.Site, &r.Conv, &r.Contact, &r.Event, &tags, &r.Time, &target}, more...)...); err != nil {
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
	if err := t.exec(sqlTrim, upTo); err != nil {
		return false, err
	}
	return n >= o.Limit, t.exec(sqlRaise, strconv.FormatInt(max(floor, upTo), 10))
}
