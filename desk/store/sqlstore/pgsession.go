package sqlstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// maxHeld bounds the statements that wait for the next answer.
const maxHeld = 64

// pgSession is a session of PostgreSQL. Every answer takes a way through the network, so statements without a result wait
// and go with the next one that has one.
type pgSession struct {
	conn  *pgx.Conn
	stale bool // the server takes no writes any more
	held  pgx.Batch
	words map[string]string // statements of this package in those of PostgreSQL
}

func (s *pgSession) rewrite(query string) string {
	words, ok := s.words[query]
	if !ok {
		words = postgresDialect.rewrite(query)
		s.words[query] = words
	}
	return words
}

func (s *pgSession) exec(query string, args ...any) error {
	s.held.Queue(s.rewrite(query), postgresTexts(args)...)
	if s.held.Len() < maxHeld {
		return nil
	}
	return s.sync()
}

// send sends what waits. The results of that are read: the next one is that of the statement that was added last, if it
// was added for this.
func (s *pgSession) send(before int) (pgx.BatchResults, error) {
	batch := s.held
	s.held = pgx.Batch{}
	results := s.conn.SendBatch(context.Background(), &batch)
	for range before {
		if _, err := results.Exec(); err != nil {
			return nil, s.failed(errors.Join(err, results.Close()))
		}
	}
	return results, nil
}

func (s *pgSession) change(query string, args ...any) (int64, error) {
	before := s.held.Len()
	if before == 0 {
		done, err := s.conn.Exec(context.Background(), s.rewrite(query), postgresTexts(args)...)
		return done.RowsAffected(), s.failed(err)
	}
	s.held.Queue(s.rewrite(query), postgresTexts(args)...)
	results, err := s.send(before)
	if err != nil {
		return 0, err
	}
	done, err := results.Exec()
	if err == nil {
		err = results.Close()
	} else {
		_ = results.Close() // has the same error
	}
	return done.RowsAffected(), s.failed(err)
}

// failed takes note of a server that has become a standby: another connection may lead to the primary.
func (s *pgSession) failed(err error) error {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == pgReadOnly {
		s.stale = true
	}
	return err
}

func (s *pgSession) row(query string, args ...any) scanner {
	before := s.held.Len()
	if before == 0 {
		return s.conn.QueryRow(context.Background(), s.rewrite(query), postgresTexts(args)...)
	}
	s.held.Queue(s.rewrite(query), postgresTexts(args)...)
	results, err := s.send(before)
	if err != nil {
		return failedRow{err}
	}
	return lastRow{s, results}
}

// lastRow is the row of the last statement of a batch.
type lastRow struct {
	s       *pgSession
	results pgx.BatchResults
}

// Scan implements scanner.
func (r lastRow) Scan(dest ...any) error {
	err := r.results.QueryRow().Scan(dest...)
	if closed := r.results.Close(); err == nil {
		err = closed
	}
	return r.s.failed(err)
}

func (s *pgSession) pair(first, second statement) (scanner, scanner) {
	before := s.held.Len()
	for _, st := range []statement{first, second} {
		s.held.Queue(s.rewrite(st.query), postgresTexts(st.args)...)
	}
	results, err := s.send(before)
	if err != nil {
		return failedRow{err}, failedRow{err}
	}
	return firstRow{s, results}, lastRow{s, results}
}

// firstRow is the row of a statement of a batch that is not the last.
type firstRow lastRow

// Scan implements scanner.
func (r firstRow) Scan(dest ...any) error { return r.s.failed(r.results.QueryRow().Scan(dest...)) }

func (s *pgSession) query(query string, args ...any) (rowsOf, error) {
	if err := s.sync(); err != nil {
		return nil, err
	}
	rows, err := s.conn.Query(context.Background(), s.rewrite(query), postgresTexts(args)...)
	return pgRows{rows}, err
}

// pgRows are rows whose end says no more than Err.
type pgRows struct{ pgx.Rows }

// Close implements rowsOf.
func (r pgRows) Close() error {
	r.Rows.Close()
	return nil
}

func (s *pgSession) sync() error {
	n := s.held.Len()
	if n == 0 {
		return nil
	}
	results, err := s.send(n)
	if err != nil {
		return err
	}
	return s.failed(results.Close())
}

func (s *pgSession) force(statement string) error {
	s.held = pgx.Batch{}
	_, err := s.conn.Exec(context.Background(), statement)
	return err
}

func (s *pgSession) lost() bool { return s.stale || s.conn.IsClosed() }

// close gives back what the session holds before it ends the connection: the server notices that end a little later, and
// whoever starts at that moment would find the database in use.
func (s *pgSession) close() error {
	if !s.conn.IsClosed() {
		_ = s.force(`SELECT pg_advisory_unlock_all()`) // else the server does that by itself
	}
	return s.conn.Close(context.Background())
}
