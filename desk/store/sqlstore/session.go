package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-eddy/eddy/desk/store"
)

// session is the writing connection. It runs statements in the words of this package, in their order, and prepares each
// once. Only the writer's goroutine calls it.
type session interface {
	// exec runs a statement whose result nobody needs. It may return before the database has seen the statement; the next
	// call of another method then has its error.
	exec(query string, args ...any) error
	// update runs an UPDATE that has to change one row, else its error is store.ErrConflict. Like exec it may return before.
	update(query string, args ...any) error
	// later reads one row, like exec perhaps not before the next call of another method. read has to call Scan.
	later(read func(scanner) error, query string, args ...any) error
	// change runs a statement and returns the number of rows it changed.
	change(query string, args ...any) (int64, error)
	// row reads one row. Scan has to be called.
	row(query string, args ...any) scanner
	query(query string, args ...any) (rowsOf, error)
	// sync waits until everything has run.
	sync() error
	// force runs a statement at once. Those that have not run are forgotten.
	force(statement string) error
	// mark marks a place between two statements.
	mark() mark
	// forget forgets the statements since a place, and reports whether it could: none of them has gone to the database.
	forget(since mark) bool
	// lost reports whether the connection has ended by itself.
	lost() bool
	close() error
}

// mark is a place between two statements.
type mark struct{ ran, held int }

// fileSession is a session of SQLite. It runs each statement at once.
type fileSession struct {
	pool  *sql.DB // of conn alone
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	ran   int // statements
}

func (s *fileSession) stmt(query string) (*sql.Stmt, error) {
	s.ran++
	if st, ok := s.stmts[query]; ok {
		return st, nil
	}
	st, err := s.conn.PrepareContext(context.Background(), sqliteDialect.rewrite(query))
	if err != nil {
		return nil, err
	}
	s.stmts[query] = st
	return st, nil
}

func (s *fileSession) exec(query string, args ...any) error {
	_, err := s.change(query, args...)
	return err
}

func (s *fileSession) change(query string, args ...any) (int64, error) {
	st, err := s.stmt(query)
	if err != nil {
		return 0, err
	}
	r, err := st.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (s *fileSession) row(query string, args ...any) scanner {
	st, err := s.stmt(query)
	if err != nil {
		return failedRow{err}
	}
	return st.QueryRowContext(context.Background(), args...)
}

func (s *fileSession) update(query string, args ...any) error {
	n, err := s.change(query, args...)
	if err == nil && n != 1 {
		err = store.ErrConflict
	}
	return err
}

func (s *fileSession) later(read func(scanner) error, query string, args ...any) error {
	return read(s.row(query, args...))
}

func (s *fileSession) mark() mark { return mark{ran: s.ran} }

func (s *fileSession) forget(since mark) bool { return since == s.mark() }

func (s *fileSession) query(query string, args ...any) (rowsOf, error) {
	st, err := s.stmt(query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(context.Background(), args...)
}

func (s *fileSession) sync() error { return nil }

// force runs a statement that is not prepared: a setting takes effect while its statement is compiled.
func (s *fileSession) force(statement string) error {
	_, err := s.conn.ExecContext(context.Background(), statement)
	return err
}

func (s *fileSession) lost() bool { return false }

func (s *fileSession) close() error {
	for _, st := range s.stmts {
		_ = st.Close()
	}
	return errors.Join(s.conn.Close(), s.pool.Close())
}
