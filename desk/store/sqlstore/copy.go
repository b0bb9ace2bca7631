package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-eddy/eddy/desk/store/words"
)

// copyRows is how many rows one transaction of a copy has.
const copyRows = 1000

// copied are the tables of a copy, those that others refer to first. The words of messages are made anew from their texts.
var copied = []string{
	"workspace", "site", "site_logo", "grp", "agent", "agent_state", "agent_session", "push_subscription", "agent_filter", "agent_factor", "agent_recovery",
	"agent_identity", "password_reset", "invitation", "group_member", "canned", "bot", "bot_usage", "api_key", "own_field", "contact", "contact_token", "contact_key",
	"contact_value", "conversation", "conversation_tag", "message", "assignment", "attachment", "bot_turn", "mail", "outbox", "webhook", "hook_event", "audit_log", "spent_ticket", "offer",
	"counted", "rollup_1m", "rollup_15m", "rollup_tag_15m", "rollup_gone", "rollup_day", "rollup_tag_day",
}

// Copied is what a copy has done.
type Copied struct {
	Rows int64
	New  int64 // of them, those that an earlier attempt had not copied
}

// Copy copies a database file, which nobody writes to, into an empty PostgreSQL database, and compares the two. A copy that
// was interrupted goes on when it is called again; until it is complete, Open refuses the new database. progress is
// called from time to time with a table and how many of its rows there are.
func Copy(ctx context.Context, path, url string, progress func(table string, rows, of int64)) (done Copied, err error) {
	c := &copying{progress: progress}
	path, err = filepath.Abs(path)
	if err != nil {
		return done, fmt.Errorf("sqlite: %w", err)
	}
	o := Options{Path: path}
	o.fill()
	target, err := newPostgres(&Options{URL: url})
	if err != nil {
		return done, err
	}
	if err := target.prepare(ctx); err != nil {
		return done, target.explain(err)
	}
	if c.from, err = (&disk{&o}).reader(1, coldReads); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, c.from.Close()) }()
	pool := target.pool(1, false, nil)
	defer func() { err = errors.Join(err, pool.Close()) }()
	if c.to, err = pool.Conn(ctx); err != nil {
		return done, target.explain(err)
	}
	defer func() { err = errors.Join(err, c.to.Close()) }()
	if done, err = c.run(ctx); err != nil {
		return done, fmt.Errorf("copying %s to %s: %w", path, target.place(), err)
	}
	return done, nil
}

// copying is a copy on its way.
type copying struct {
	from     *sql.DB
	to       *sql.Conn
	progress func(table string, rows, of int64)
}

func (c *copying) run(ctx context.Context) (done Copied, err error) {
	var id string
	if err := c.from.QueryRowContext(ctx, `SELECT value FROM setting WHERE key = 'store_id'`).Scan(&id); err != nil {
		return done, fmt.Errorf("the identity of the data: %w", err)
	}
	var there string
	switch err := c.to.QueryRowContext(ctx, `SELECT value FROM setting WHERE key = 'store_id'`).Scan(&there); {
	case err == nil:
		return done, fmt.Errorf("the database has the data of the store %s already: name an empty one", there)
	case !errors.Is(err, sql.ErrNoRows):
		return done, err
	}
	for _, name := range copied {
		t, err := c.table(ctx, name)
		if err == nil {
			err = c.copy(ctx, t, &done)
		}
		if err == nil {
			err = c.compare(ctx, t)
		}
		if err != nil {
			return done, fmt.Errorf("table %s: %w", name, err)
		}
	}
	return done, c.finish(ctx)
}

// table is one table of both databases.
type table struct {
	name    string
	columns []string
	types   []string
	key     []int // of the primary key, as indexes of columns
}

func (c *copying) table(ctx context.Context, name string) (*table, error) {
	t := &table{name: name}
	rows, err := c.to.QueryContext(ctx, `SELECT column_name, data_type FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position`, name)
	if err != nil {
		return nil, err
	}
	columns, err := collect(rows, func(s scanner) (v [2]string, err error) {
		err = s.Scan(&v[0], &v[1])
		return v, err
	})
	if err != nil {
		return nil, err
	}
	for _, v := range columns {
		t.columns, t.types = append(t.columns, v[0]), append(t.types, v[1])
	}
	rows, err = c.to.QueryContext(ctx, `SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
		WHERE i.indrelid = CAST(CAST($1 AS text) AS regclass) AND i.indisprimary ORDER BY k.place`, name)
	if err != nil {
		return nil, err
	}
	keys, err := collect(rows, func(s scanner) (v string, err error) { return v, s.Scan(&v) })
	for _, k := range keys {
		t.key = append(t.key, slices.Index(t.columns, k))
	}
	return t, err
}

// order names the columns of the primary key. Texts are compared by their bytes in both databases.
func (t *table) order(collate string) []string {
	var all []string
	for _, i := range t.key {
		name := t.columns[i]
		if t.types[i] == "text" {
			name += collate
		}
		all = append(all, name)
	}
	return all
}

const (
	liteBytes = ` COLLATE BINARY`
	pgBytes   = ` COLLATE "C"`
)

func (t *table) selected() string {
	return `SELECT ` + strings.Join(t.columns, ", ") + ` FROM ` + t.name
}

// scan reads a row of either database into the types of PostgreSQL.
func (t *table) scan(s scanner) ([]any, error) {
	row := make([]any, len(t.columns))
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	if err := s.Scan(into...); err != nil {
		return nil, err
	}
	for i, v := range row {
		switch n, isInt := v.(int64); {
		case isInt && t.types[i] == "boolean":
			row[i] = n != 0
		case v != nil && t.types[i] == "text":
			text, ok := v.(string)
			if b, isBytes := v.([]byte); isBytes {
				text, ok = string(b), true
			}
			if ok {
				row[i] = cleanText(text)
			}
		}
	}
	return row, nil
}

// copy copies the rows behind the last one that is there. Rows come in the order of their keys, so the ones before it are
// there, too.
func (c *copying) copy(ctx context.Context, t *table, done *Copied) error {
	var total, have int64
	if err := c.from.QueryRowContext(ctx, `SELECT count(*) FROM `+t.name).Scan(&total); err != nil {
		return err
	}
	if err := c.to.QueryRowContext(ctx, `SELECT count(*) FROM `+t.name).Scan(&have); err != nil {
		return err
	}
	done.Rows += total
	query := t.selected()
	var last []any
	if have > 0 {
		rows, err := c.to.QueryContext(ctx, t.selected()+` ORDER BY `+strings.Join(t.order(pgBytes), " DESC, ")+` DESC LIMIT 1`)
		if err != nil {
			return err
		}
		one, err := collect(rows, t.scan)
		if err != nil {
			return err
		}
		for _, i := range t.key {
			last = append(last, one[0][i])
		}
		order := strings.Join(t.order(liteBytes), ", ")
		query += ` WHERE (` + order + `) > (` + strings.TrimSuffix(strings.Repeat("?, ", len(t.key)), ", ") + `)`
	}
	rows, err := c.from.QueryContext(ctx, query+` ORDER BY `+strings.Join(t.order(liteBytes), ", "), last...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var batch [][]any
	for more := true; more; {
		if more = rows.Next(); more {
			row, err := t.scan(rows)
			if err != nil {
				return err
			}
			batch = append(batch, row)
		}
		if len(batch) == copyRows || !more && len(batch) > 0 {
			if err := c.write(ctx, t, batch); err != nil {
				return err
			}
			have += int64(len(batch))
			done.New += int64(len(batch))
			batch = batch[:0]
			c.progress(t.name, have, total)
		}
	}
	return rows.Err()
}

// write adds rows in one transaction. Triggers would do again what has been done.
func (c *copying) write(ctx context.Context, t *table, rows [][]any) error {
	return c.to.Raw(func(conn any) error {
		tx, err := conn.(*stdlib.Conn).Conn().Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if _, err := tx.Exec(ctx, `ALTER TABLE `+t.name+` DISABLE TRIGGER USER`); err != nil {
			return err
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, pgx.CopyFromRows(rows)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `ALTER TABLE `+t.name+` ENABLE TRIGGER USER`); err != nil {
			return err
		}
		if t.name == "message" {
			if err := addWordsOf(ctx, tx, t, rows); err != nil {
				return err
			}
		}
		return tx.Commit(ctx)
	})
}

// addWordsOf adds messages that are searched to the search.
func addWordsOf(ctx context.Context, tx pgx.Tx, t *table, rows [][]any) error {
	doc, body := slices.Index(t.columns, "doc"), slices.Index(t.columns, "body")
	batch := &pgx.Batch{}
	insert := postgresDialect.rewrite(postgresDialect.insertWords)
	for _, row := range rows {
		if row[doc] == nil {
			continue
		}
		if list := words.Of(row[body].(string)); len(list) > 0 {
			batch.Queue(insert, row[doc], strings.Join(list, " "))
		}
	}
	return tx.SendBatch(ctx, batch).Close()
}

// compare compares the rows of both databases by a check sum.
func (c *copying) compare(ctx context.Context, t *table) error {
	from, err := c.from.QueryContext(ctx, t.selected()+` ORDER BY `+strings.Join(t.order(liteBytes), ", "))
	if err != nil {
		return err
	}
	want, n, err := t.sum(from)
	if err != nil {
		return err
	}
	to, err := c.to.QueryContext(ctx, t.selected()+` ORDER BY `+strings.Join(t.order(pgBytes), ", "))
	if err != nil {
		return err
	}
	got, have, err := t.sum(to)
	if err == nil && got != want {
		err = fmt.Errorf("the copy of %d rows has %d and another check sum: drop the new database, create it again and copy once more", n, have)
	}
	return err
}

// sum returns the check sum of rows, and their number.
func (t *table) sum(rows *sql.Rows) (sum [sha256.Size]byte, n int64, err error) {
	defer func() { _ = rows.Close() }()
	h := sha256.New()
	for rows.Next() {
		row, err := t.scan(rows)
		if err != nil {
			return sum, n, err
		}
		for _, v := range row {
			hashValue(h, v)
		}
		n++
	}
	h.Sum(sum[:0])
	return sum, n, rows.Err()
}

func hashValue(h hash.Hash, v any) {
	var b []byte
	switch v := v.(type) {
	case nil:
		b = []byte{0}
	case int64:
		b = binary.AppendVarint([]byte{1}, v)
	case bool:
		b = []byte{2, 0}
		if v {
			b[1] = 1
		}
	case string:
		b = append(binary.AppendUvarint([]byte{3}, uint64(len(v))), v...)
	case []byte:
		b = append(binary.AppendUvarint([]byte{4}, uint64(len(v))), v...)
	}
	_, _ = h.Write(b) // a hash never fails
}

// finish copies the settings, among them the identity, by which Open knows that the copy is complete.
func (c *copying) finish(ctx context.Context) error {
	rows, err := c.from.QueryContext(ctx, `SELECT key, value FROM setting`)
	if err != nil {
		return err
	}
	settings, err := collect(rows, func(s scanner) (v [2]string, err error) {
		err = s.Scan(&v[0], &v[1])
		return v, err
	})
	if err != nil {
		return err
	}
	return c.to.Raw(func(conn any) error {
		tx, err := conn.(*stdlib.Conn).Conn().Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		for _, v := range settings {
			if _, err := tx.Exec(ctx, `INSERT INTO setting (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, v[0], v[1]); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `SELECT setval(pg_get_serial_sequence('audit_log', 'id'), coalesce((SELECT max(id) FROM audit_log), 0) + 1, FALSE)`); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
}
