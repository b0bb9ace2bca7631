package sqlitetest

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// Far is a deadline and a lock timeout that even the slowest machine keeps.
const Far = time.Hour

// onPostgres has Lend lend databases of PostgreSQL.
var onPostgres = flag.Bool("postgres", false, "run every test that is lent a store on PostgreSQL")

// Lent is an open store with nothing in it. Tests use the same few stores one after another. SQLite takes longer to
// understand the schema and the statements anew than most tests take to run them.
type Lent struct {
	*sqlstore.DB
	Place string // for Options

	dir string
	now atomic.Pointer[func() time.Time]
	own *sql.DB // to empty it with
}

var lent struct {
	sync.Mutex
	idle []*Lent
}

// Lend returns a store whose clock is now, for one test and what that test starts. When the test is over the store is
// emptied, or given up if the test has closed it. Do not use it in a bubble of synctest. Call Close before the process
// ends.
func Lend(t testing.TB, now func() time.Time) *Lent {
	t.Helper()
	l := takeIdle()
	if l == nil {
		var err error
		if l, err = newLent(t); err != nil {
			t.Fatal(err)
		}
	}
	l.now.Store(&now)
	t.Cleanup(func() {
		if err := l.back(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func takeIdle() *Lent {
	lent.Lock()
	defer lent.Unlock()
	n := len(lent.idle)
	if n == 0 {
		return nil
	}
	l := lent.idle[n-1]
	lent.idle = lent.idle[:n-1]
	return l
}

// Options are those of a store at a place.
func Options(place string) sqlstore.Options {
	o := sqlstore.Options{Path: place, Alone: true, Wait: Far, BusyTimeout: Far, Logger: slog.New(slog.DiscardHandler)}
	if strings.HasPrefix(place, "postgres:") {
		o.Path, o.URL = "", place
	}
	return o
}

func newLent(t testing.TB) (*Lent, error) {
	if *onPostgres {
		return newPostgres(t)
	}
	dir, err := os.MkdirTemp("", "eddy-lent-")
	if err != nil {
		return nil, err
	}
	l := &Lent{Place: filepath.Join(dir, "desk.db"), dir: dir}
	Prepare(t, l.Place)
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(l.Place), RawQuery: "_pragma=busy_timeout(60000)"}
	if l.own, err = sql.Open("sqlite", dsn.String()); err == nil {
		l.own.SetMaxOpenConns(1)
		_, err = l.own.Exec(`DROP TRIGGER audit_log_whole`) // the trigger would keep the audit log from being emptied
	}
	return l.open(err)
}

// newPostgres is newLent on PostgreSQL.
func newPostgres(t testing.TB) (*Lent, error) {
	l := &Lent{Place: pgtest.Lasting(t, sqlstore.Blank)}
	var err error
	if l.own, err = sql.Open("pgx", l.Place); err == nil {
		l.own.SetMaxOpenConns(1)
		_, err = l.own.Exec(`SET session_replication_role = replica`) // deletes in any order, also from the audit log
	}
	return l.open(err)
}

// open opens the store, unless there was an error before.
func (l *Lent) open(err error) (*Lent, error) {
	if err == nil {
		o := Options(l.Place)
		o.Now = func() time.Time { return (*l.now.Load())() }
		l.DB, err = sqlstore.Open(context.Background(), o)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// back empties the store for the next test.
func (l *Lent) back() error {
	if _, err := l.Cold().Staff(context.Background()); errors.Is(err, store.ErrStopped) {
		return l.close()
	}
	if err := l.empty(); err != nil {
		return errors.Join(err, l.close())
	}
	lent.Lock()
	defer lent.Unlock()
	lent.idle = append(lent.idle, l)
	return nil
}

// empty removes all rows that a new database does not have. A new one has only its version and its identity. The numbers of
// the outbox go on, because the store has told them.
func (l *Lent) empty() error {
	tables, begin := `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('schema_version', 'setting') AND name NOT GLOB 'sqlite_*'`,
		`BEGIN IMMEDIATE; DELETE FROM sqlite_sequence WHERE name <> 'outbox';`
	if *onPostgres {
		tables, begin = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_name NOT IN ('schema_version', 'setting')`,
			`BEGIN; ALTER SEQUENCE audit_log_id_seq RESTART;`
	}
	var names []string
	rows, err := l.own.Query(tables)
	if err != nil {
		return err
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return errors.Join(err, rows.Close())
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	script := begin
	for _, name := range names {
		switch {
		case name == "message_words" && !*onPostgres:
			script += `INSERT INTO message_words (message_words) VALUES ('delete-all');`
		case *onPostgres || !strings.HasPrefix(name, "message_words_"):
			script += `DELETE FROM ` + name + `;`
		}
	}
	_, err = l.own.Exec(script + `COMMIT`)
	return err
}

func (l *Lent) close() error {
	var errs []error
	if l.DB != nil {
		errs = append(errs, l.DB.Close())
	}
	if l.own != nil {
		errs = append(errs, l.own.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// Closing runs the tests of a package, after which it closes the stores that Lend has opened.
type Closing struct{ *testing.M }

// Run runs the tests.
func (c Closing) Run() int {
	code := c.M.Run()
	if err := Close(); err != nil && code == 0 {
		slog.Error("closing the stores of the tests", "err", err)
		code = 1
	}
	return code
}

// Close closes the stores that Lend has opened. All tests must have given theirs back.
func Close() error {
	lent.Lock()
	defer lent.Unlock()
	var errs []error
	for _, l := range lent.idle {
		errs = append(errs, l.close())
	}
	lent.idle = nil
	return errors.Join(append(errs, pgtest.Close())...)
}
