package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-eddy/eddy/desk/store"
)

// startWait is how long Open tries a database again that does not answer in time.
const startWait = 10 * time.Second

// Options configure a store. The zero value with a Path works.
type Options struct {
	Path        string             // the database file; created when missing
	URL         string             // postgres://user:password@host/database: PostgreSQL instead of a file
	Readers     int                // connections of each of the two read pools, default 8
	Queue       int                // commands that may wait for the writer, default 10,000
	Group       int                // commands in one transaction, default 256
	Wait        time.Duration      // deadline of account writes whose context has none, default 2 s
	BusyTimeout time.Duration      // how long SQLite waits for a lock of another process, default 5 s
	Mail        bool               // queue what agents write to customers who wait for it by mail; without a reader it would only pile up
	Alone       bool               // PostgreSQL: no other process with Alone has the database, and those without are not told at once what this one commits; of a file its directory's lock says so
	Several     bool               // PostgreSQL: this process is one of several servers, none of which has Alone
	InOrder     bool               // the file is as it was when it was last closed: Open then does not read all of it
	Checking    func()             // called before Open reads all of a file, which takes seconds for each GB
	Migrating   func(from, to int) // called before an older schema is brought up to date; not for a new database
	Now         func() time.Time   // default DB.Now
	Machine     func() time.Time   // the clock of this machine, which dates what is in a file; default time.Now
	Logger      *slog.Logger       // default slog.Default()

	answer  time.Duration // of a server, for which the writer waits; default 10 s, or Wait if that is more
	noIndex bool          // of a benchmark: messages are not added to the search
}

// DB is a store.Store on SQLite or PostgreSQL. Any goroutine may call all methods.
type DB struct {
	o    Options
	on   engine
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
	latency  store.Latencies
	news     outboxNews
	clock    clock
	feed     feed
	deaf     func() // ends the listening to other processes
}

var _ store.Store = (*DB)(nil)

// Open opens the database, checks a file unless it was closed in order, and brings the schema up to date. A file that is missing is created. Errors
// are one line that names the database and the remedy. A database that is not usable is left as it was.
func Open(ctx context.Context, o Options) (*DB, error) {
	on, err := engineFor(&o)
	if err != nil {
		return nil, err
	}
	db := &DB{o: o, on: on, clock: clock{own: o.Now, machine: o.Machine, began: time.Now()}}
	if err := db.openWriter(ctx); err != nil {
		return nil, err
	}
	db.hot, err = openReader(on, db.Node(), o.Readers, hotReads)
	if err == nil {
		db.cold, err = openReader(on, db.Node(), o.Readers, coldReads)
	}
	if err == nil {
		db.back, err = openReader(on, db.Node(), backgroundReaders, backgroundReads)
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	db.work.start()
	db.deaf = on.listen(db.work.tx.me, db.work.hear)
	db.old = newIndexer(db)
	db.old.start()
	db.days = newPacker(db)
	db.days.start()
	return db, nil
}

// engineFor fills the options in and returns the engine that they name.
func engineFor(o *Options) (engine, error) {
	o.fill()
	switch {
	case o.URL != "" && o.Path != "":
		return nil, errors.New("store: Options has both a Path and a URL: set one")
	case o.URL != "":
		return newPostgres(o)
	case o.Path == "":
		return nil, errors.New("store: Options has neither a Path nor a URL")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	o.Path = path
	return &disk{o}, nil
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
	if o.answer <= 0 {
		o.answer = max(10*time.Second, o.Wait)
	}
	if o.Machine == nil {
		o.Machine = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

func (db *DB) openWriter(ctx context.Context) error {
	w := newWriter(db)
	err := w.connect(ctx)
	for end := time.Now().Add(startWait); pgconn.Timeout(err) && ctx.Err() == nil && time.Now().Before(end); { // each of several machines has had a moment only
		err = w.connect(ctx)
	}
	if err != nil {
		return db.on.explain(err)
	}
	err = db.identify(w.tx)
	if err == nil {
		err = w.tx.begun()
	}
	if err != nil {
		return errors.Join(db.on.explain(err), w.closeConn())
	}
	db.work = w
	return nil
}

// identify gives new data its identity.
func (db *DB) identify(t *tx) error {
	const read = `SELECT value FROM setting WHERE key = 'store_id'`
	err := t.row(read).Scan(&db.id)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	var workspaces int
	if err := t.row(`SELECT count(*) FROM workspace`).Scan(&workspaces); err != nil {
		return err
	}
	if workspaces > 0 {
		return &ownError{"store: a copy into this database was interrupted: copy once more"}
	}
	if err := t.exec(`INSERT INTO setting (key, value) VALUES ('store_id', ?) ON CONFLICT DO NOTHING`, uuid.NewString()); err != nil {
		return err
	}
	return t.row(read).Scan(&db.id) // another process may have been faster
}

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
		Unindexed: db.old.left.Load(), Latency: db.latency.Load(),
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
	if db.deaf != nil {
		db.deaf()
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
