package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	sqlite "modernc.org/sqlite" // registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/go-eddy/eddy/desk/store"
)

// Options configure a store. The zero value with a Path works.
type Options struct {
	Path        string             // the database file; created when missing
	Readers     int                // connections of each of the two read pools, default 8
	Queue       int                // commands that may wait for the writer, default 10,000
	Group       int                // commands in one transaction, default 256
	Wait        time.Duration      // deadline of account writes whose context has none, default 2 s
	BusyTimeout time.Duration      // how long SQLite waits for a lock of another process, default 5 s
	Mail        bool               // queue what agents write to customers who wait for it by mail; without a reader it would only pile up
	InOrder     bool               // the file is as it was when it was last closed: Open then does not read all of it
	Checking    func()             // called before Open reads all of a file, which takes seconds for each GB
	Migrating   func(from, to int) // called before an older schema is brought up to date; not for a new database
	Now         func() time.Time   // default time.Now
	Logger      *slog.Logger       // default slog.Default()

	noIndex bool // of a benchmark: messages are not added to the search
}

// DB is a store.Store on SQLite. Any goroutine may call all methods.
type DB struct {
	o    Options
	id   string
	work *writer
	hot  *reader
	cold *reader
	back *reader
	old  *indexer
	days *packer

	commits  atomic.Uint64
	commands atomic.Uint64
	failures atomic.Uint64
	latency  latency
	news     outboxNews
	feed     feed
}

var _ store.Store = (*DB)(nil)

// Open opens or creates the database, checks it unless it was closed in order, and brings its schema up to date. Errors are one line that names the
// file and the remedy. A file that is not usable is left as it was.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Path == "" {
		return nil, errors.New("sqlite: Options.Path is empty")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	o.Path = path
	o.fill()
	db := &DB{o: o}
	if err := db.openWriter(ctx); err != nil {
		return nil, err
	}
	db.hot, err = openReader(o)
	if err == nil {
		db.cold, err = openReader(o)
	}
	if err == nil {
		o.Readers = backgroundReaders
		db.back, err = openReader(o)
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	db.work.start()
	db.old = newIndexer(db)
	db.old.start()
	db.days = newPacker(db)
	db.days.start()
	return db, nil
}

func (o *Options) fill() {
	if o.Readers <= 0 {
		o.Readers = 8
	}
	if o.Queue <= 0 {
		o.Queue = 10_000
	}
	if o.Group <= 0 {
		o.Group = 256
	}
	if o.Wait <= 0 {
		o.Wait = 2 * time.Second
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

func (o *Options) dsn(pragmas ...string) string {
	q := url.Values{}
	q.Add("_pragma", "busy_timeout("+strconv.FormatInt(o.BusyTimeout.Milliseconds(), 10)+")")
	for _, p := range pragmas {
		q.Add("_pragma", p)
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(o.Path), RawQuery: q.Encode()}
	return u.String()
}

func (db *DB) openWriter(ctx context.Context) error {
	if err := checkExisting(ctx, db.o); err != nil {
		return err
	}
	pool, err := sql.Open("sqlite", db.o.dsn("journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"))
	if err != nil {
		return explain(db.o.Path, err)
	}
	pool.SetMaxOpenConns(1)
	conn, err := pool.Conn(ctx)
	if err != nil {
		_ = pool.Close()
		return explain(db.o.Path, err)
	}
	w := newWriter(db, pool, conn)
	err = db.prepare(ctx, conn)
	if err == nil {
		err = w.tx.begun()
	}
	if err != nil {
		return errors.Join(explain(db.o.Path, err), w.closeConn())
	}
	db.work = w
	return nil
}

// prepare brings the schema up to date and gives new data its identity.
func (db *DB) prepare(ctx context.Context, conn *sql.Conn) error {
	if err := migrate(ctx, conn, &db.o); err != nil {
		return err
	}
	err := conn.QueryRowContext(ctx, `SELECT value FROM setting WHERE key = 'store_id'`).Scan(&db.id)
	if errors.Is(err, sql.ErrNoRows) {
		db.id = uuid.NewString()
		_, err = conn.ExecContext(ctx, `INSERT INTO setting (key, value) VALUES ('store_id', ?)`, db.id)
	}
	return err
}

// checkExisting checks a file that is already there before anything is written to it. A missing file is created.
func checkExisting(ctx context.Context, o Options) error {
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
	all, err := loadMigrations()
	if err != nil {
		return err
	}
	if _, err := schemaVersion(ctx, conn, o.Path, newest(all)); err != nil {
		return explain(o.Path, err)
	}
	if o.InOrder {
		return nil
	}
	return quickCheck(ctx, conn, &o)
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
	var own *ownError
	if errors.As(err, &own) {
		return err
	}
	return fmt.Errorf("sqlite: database %s: %w", path, err)
}

// ownError is an error whose text already names the file and the remedy.
type ownError struct{ text string }

func (e *ownError) Error() string { return e.text }

// ID implements store.Store.
func (db *DB) ID() string { return db.id }

// Hot implements store.Store.
func (db *DB) Hot() store.Reader { return db.hot }

// Cold implements store.Store.
func (db *DB) Cold() store.Reader { return db.cold }

// Stats implements store.Store.
func (db *DB) Stats() store.Stats {
	return store.Stats{
		Commits: db.commits.Load(), Commands: db.commands.Load(), Failures: db.failures.Load(), Waiting: db.work.waiting(),
		Unindexed: db.old.left.Load(), Latency: db.latency.load(),
	}
}

// Close implements store.Store. It finishes what is queued, then closes the file. A second call does nothing.
func (db *DB) Close() error {
	var errs []error
	if db.old != nil {
		db.old.stop()
	}
	if db.days != nil {
		db.days.stop()
	}
	if db.work != nil {
		errs = append(errs, db.work.close())
	}
	for _, r := range []*reader{db.hot, db.cold, db.back} {
		if r != nil {
			errs = append(errs, r.db.Close())
		}
	}
	return errors.Join(errs...)
}
