package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// statements is a pool of reading connections that prepares each query once per connection. A database takes longer to
// understand one of the queries of a resume than to run it. After Close, queries get store.ErrStopped.
type statements struct {
	*sql.DB
	words *dialect

	failed atomic.Pointer[failure] // the last read, if the database failed it

	// open is held for reading while a query begins, so that none begins during or after Close.
	open   sync.RWMutex
	closed bool

	mu  sync.Mutex
	all map[string]*sql.Stmt
}

// maxStatements bounds the statements kept per pool. The queries are constants, or have few variants. More than this is
// a bug in the queries, which are still answered.
const maxStatements = 256

func newStatements(db *sql.DB, words *dialect) *statements {
	return &statements{DB: db, words: words, all: make(map[string]*sql.Stmt)}
}

// stmt returns the statement of a query, nil if it is not kept.
func (s *statements) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	s.mu.Lock()
	st, full := s.all[query], len(s.all) >= maxStatements
	s.mu.Unlock()
	if st != nil || full {
		return st, nil
	}
	st, err := s.DB.PrepareContext(ctx, s.words.rewrite(query)) // without the lock: it may wait for a connection
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.all[query]; other != nil {
		return other, st.Close()
	}
	s.all[query] = st
	return st, nil
}

// QueryContext is that of sql.DB. Its rows may be read to their end after Close.
func (s *statements) QueryContext(ctx context.Context, query string, args ...any) (*rows, error) {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed {
		return nil, store.ErrStopped
	}
	found, err := s.query(ctx, query, args...)
	if err != nil {
		return nil, s.ended(err)
	}
	return &rows{found, s}, nil
}

func (s *statements) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	args = s.words.texts(args)
	st, err := s.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	if st == nil {
		return s.DB.QueryContext(ctx, s.words.rewrite(query), args...)
	}
	return st.QueryContext(ctx, args...)
}

// rows are those of sql.DB. Ask for Err after the last one, which also says how the read ended.
type rows struct {
	*sql.Rows
	s *statements
}

// Err is that of sql.Rows.
func (r *rows) Err() error { return r.s.ended(r.Rows.Err()) }

// row is a read of one row.
type row struct {
	scanner
	s *statements
}

// Scan is that of sql.Row.
func (r row) Scan(dest ...any) error { return r.s.ended(r.scanner.Scan(dest...)) }

// ended notes how a read ended, and returns err. A read that was given up says nothing of the database.
func (s *statements) ended(err error) error {
	switch {
	case failedRead(err):
		s.failed.Store(&failure{time.Now(), err})
	case (err == nil || errors.Is(err, sql.ErrNoRows)) && s.failed.Load() != nil:
		s.failed.Store(nil)
	}
	return err
}

// QueryRowContext is that of sql.DB.
func (s *statements) QueryRowContext(ctx context.Context, query string, args ...any) scanner {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed {
		return failedRow{store.ErrStopped}
	}
	args = s.words.texts(args)
	st, err := s.stmt(ctx, query)
	if err != nil {
		return failedRow{s.ended(err)}
	}
	if st == nil {
		return row{s.DB.QueryRowContext(ctx, s.words.rewrite(query), args...), s}
	}
	return row{st.QueryRowContext(ctx, args...), s}
}

// Close waits for the queries that are about to begin. A second call does nothing.
func (s *statements) Close() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, st := range s.all {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, s.DB.Close())...)
}
