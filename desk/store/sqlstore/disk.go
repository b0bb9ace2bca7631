package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	sqlite "modernc.org/sqlite" // registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// disk is the engine for SQLite.
type disk struct{ o *Options }

func (d *disk) dialect() *dialect { return &sqliteDialect }

// session implements engine.
func (d *disk) session(ctx context.Context) (session, error) {
	if err := checkExisting(ctx, d.o); err != nil {
		return nil, err
	}
	pool, err := sql.Open("sqlite", d.o.dsn("journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"))
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	s := &fileSession{pool: pool, conn: conn, stmts: make(map[string]*sql.Stmt)}
	if err := migrate(ctx, conn, &sqliteDialect, d.o.Path, d.o); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// reader implements engine.
func (d *disk) reader(n int, _ readerClass) (*sql.DB, error) {
	db, err := sql.Open("sqlite", d.o.dsn("query_only(1)"))
	if err != nil {
		return nil, d.explain(err)
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// listen implements engine. Whoever else writes to the file does not tell.
func (d *disk) listen(string, func(int64)) func() { return func() {} }

// explain implements engine.
func (d *disk) explain(err error) error { return explain(d.o.Path, err) }

func (o *Options) dsn(pragmas ...string) string {
	q := url.Values{}
	q.Add("_pragma", "busy_timeout("+strconv.FormatInt(o.BusyTimeout.Milliseconds(), 10)+")")
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(o.Path), RawQuery: q.Encode()}
	return u.String()
}

// checkExisting checks a file that is already there before anything is written to it. A missing file is created.
func checkExisting(ctx context.Context, o *Options) error {
	info, err := os.Stat(o.Path)
	if errors.Is(err, os.ErrNotExist) {
		return createPrivate(o.Path)
	}
	if err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return explain(o.Path, err)
	}
	if info.Mode().IsRegular() {
		if err := checkWritable(o.Path); err != nil {
			return err
		}
	}
	pool, err := sql.Open("sqlite", o.dsn())
	if err != nil {
		return explain(o.Path, err)
	}
	defer func() { _ = pool.Close() }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return explain(o.Path, err)
	}
	defer func() { _ = conn.Close() }()
	all, err := loadMigrations(&sqliteDialect)
	if err != nil {
		return err
	}
	if _, err := schemaVersion(ctx, conn, &sqliteDialect, o.Path, newest(all)); err != nil {
		return explain(o.Path, err)
	}
	if o.InOrder {
		return nil
	}
	return quickCheck(ctx, conn, o)
}

// quickCheck reads the whole file and fails if anything in it is damaged.
func quickCheck(ctx context.Context, conn *sql.Conn, o *Options) error {
	if o.Checking != nil {
		o.Checking()
	}
	var result string
	if err := conn.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&result); err != nil {
		return explain(o.Path, err)
	}
	if result != "ok" {
		return corrupt(o.Path, result)
	}
	return nil
}

// createPrivate makes the empty file, because SQLite would let everybody read it. The files that SQLite puts beside it
// take its mode.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return notWritable(path)
	}
	if err != nil {
		return explain(path, err)
	}
	return f.Close()
}

// checkWritable fails on a file that SQLite would silently open only for reading. It must run before this process has
// the database open, because closing any descriptor of the file gives up SQLite's locks.
func checkWritable(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return notWritable(path)
	}
	if err != nil {
		return explain(path, err)
	}
	return f.Close()
}

func notWritable(path string) error {
	return fmt.Errorf("sqlite: database %s cannot be opened for writing: give this user write access to the file and its directory", path)
}

func corrupt(path, detail string) error {
	return fmt.Errorf("sqlite: database %s is damaged (%.120s): restore it from a backup, or move it away to start empty", path, detail)
}

// explain turns an error of opening the database into one line that names the file and the remedy.
func explain(path string, err error) error {
	var se *sqlite.Error
	if errors.As(err, &se) {
		switch se.Code() & 0xff {
		case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
			return corrupt(path, sqlite.ErrorCodeString[se.Code()&0xff])
		case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
			return notWritable(path)
		case sqlite3.SQLITE_BUSY:
			return fmt.Errorf("sqlite: database %s is locked by another process: stop that process", path)
		case sqlite3.SQLITE_FULL:
			return fmt.Errorf("sqlite: database %s: the disk is full: free some space", path)
		}
	}
	if _, ok := errors.AsType[*ownError](err); ok {
		return err
	}
	return fmt.Errorf("sqlite: database %s: %w", path, err)
}
