package sqlitetest

import (
	"context"
	"database/sql"
	"errors"
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
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// Far is a deadline and a lock timeout that even the slowest machine keeps.
const Far = time.Hour

// Lent is an open store with nothing in it. Tests use the same few stores one after another. SQLite takes longer to
// understand the schema and the statements anew than most tests take to run them.
type Lent struct {
	*sqlstore.DB
	Path string

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

func newLent(t testing.TB) (*Lent, error) {
	dir, err := os.MkdirTemp("", "eddy-lent-")
	if err != nil {
		return nil, err
	}
	l := &Lent{Path: filepath.Join(dir, "desk.db"), dir: dir}
	Prepare(t, l.Path)
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(l.Path), RawQuery: "_pragma=busy_timeout(60000)"}
	if l.own, err = sql.Open("sqlite", dsn.String()); err == nil {
		l.own.SetMaxOpenConns(1)
		_, err = l.own.Exec(`DROP TRIGGER audit_log_whole`) // the trigger would keep the audit log from being emptied
	}
	if err == nil {
		l.DB, err = sqlstore.Open(context.Background(), sqlstore.Options{
			Path: l.Path, Wait: Far, BusyTimeout: Far, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return (*l.now.Load())() },
		})
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
	var names []string
	rows, err := l.own.Query(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('schema_version', 'setting') AND name NOT GLOB 'sqlite_*'`)
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
	script := `BEGIN IMMEDIATE; DELETE FROM sqlite_sequence WHERE name <> 'outbox';`
	for _, name := range names {
		switch {
		case name == "message_words":
			script += `INSERT INTO message_words (message_words) VALUES ('delete-all');`
		case !strings.HasPrefix(name, "message_words_"):
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
	return errors.Join(errs...)
}
