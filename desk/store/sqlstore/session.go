package sqlstore

import (
	"context"
	"database/sql"
	"errors"
)

// session is the writing connection. It runs statements in the words of this package, in their order, and prepares each
// once. Only the writer's goroutine calls it.
type session interface {
	// exec runs a statement whose result nobody needs. It may return before the database has seen the statement; the next
	// call of another method then has its error.
	exec(query string, args ...any) error
	// change runs a statement and returns the number of rows it changed.
	change(query string, args ...any) (int64, error)
	// row reads one row. Scan has to be called.
	row(query string, args ...any) scanner
	// pair reads a row of each of two statements, which takes one way to the database. Scan has to be called on both, in their
	// order.
	pair(first, second statement) (scanner, scanner)
	query(query string, args ...any) (rowsOf, error)
	// sync waits until everything has run.
	sync() error
	// force runs a statement at once. Those that have not run are forgotten.
	force(statement string) error
	// lost reports whether the connection has ended by itself.
	lost() bool
	close() error
}

// statement is a query with its arguments.
type statement struct {
	query string
	args  []any
}

// fileSession is a session of SQLite. It runs each statement at once.
type fileSession struct {
	pool  *sql.DB // of conn alone
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func (s *fileSession) stmt(query string) (*sql.Stmt, error) {
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

func (s *fileSession) pair(first, second statement) (scanner, scanner) {
	return s.row(first.query, first.args...), &laterRow{func() scanner { return s.row(second.query, second.args...) }}
}

// laterRow is a row that is asked for when it is scanned.
type laterRow struct{ ask func() scanner }

// Scan implements scanner.
func (r *laterRow) Scan(dest ...any) error { return r.ask().Scan(dest...) }

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
