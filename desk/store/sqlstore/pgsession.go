package sqlstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-eddy/eddy/desk/store"
)

// maxHeld bounds the statements that wait for the next answer.
const maxHeld = 256

// pgSession is a session of PostgreSQL. Every answer takes a way through the network, so statements whose result nobody
// needs yet wait and go with the next one.
type pgSession struct {
	conn  *pgx.Conn
	stale bool // the server takes no writes any more
	held  []heldStatement
	sent  int               // ways to the database
	words map[string]string // statements of this package in those of PostgreSQL
}

// heldStatement is a statement that waits.
type heldStatement struct {
	query string
	args  []any
	take  func(pgx.BatchResults) error // takes the result, nil = nobody needs it
}

func (s *pgSession) rewrite(query string) string {
	words, ok := s.words[query]
	if !ok {
		words = postgresDialect.rewrite(query)
		s.words[query] = words
	}
	return words
}

// hold lets a statement wait, together with at most maxHeld others.
func (s *pgSession) hold(take func(pgx.BatchResults) error, query string, args []any) error {
	s.held = append(s.held, heldStatement{s.rewrite(query), postgresTexts(args), take})
	if len(s.held) < maxHeld {
		return nil
	}
	return s.sync()
}

func (s *pgSession) exec(query string, args ...any) error { return s.hold(nil, query, args) }

// update lets the server find out that no row has changed: whatever waits behind the statement, such as a COMMIT, does not
// run then.
func (s *pgSession) update(query string, args ...any) error {
	return s.hold(func(r pgx.BatchResults) error {
		_, err := r.Exec()
		if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == pgNoneChanged {
			return store.ErrConflict
		}
		return err
	}, `WITH changed AS (`+query+` RETURNING 1) SELECT 1 / count(*) FROM changed`, args)
}

func (s *pgSession) later(read func(scanner) error, query string, args ...any) error {
	return s.hold(func(r pgx.BatchResults) error { return read(r.QueryRow()) }, query, args)
}

// sync sends what waits and takes the results. Behind one that is an error nothing has run.
func (s *pgSession) sync() (err error) {
	if len(s.held) == 0 {
		return nil
	}
	var batch pgx.Batch
	for _, st := range s.held {
		batch.Queue(st.query, st.args...)
	}
	s.sent++
	results := s.conn.SendBatch(context.Background(), &batch)
	for i := 0; err == nil && i < len(s.held); i++ {
		if take := s.held[i].take; take != nil {
			err = take(results)
		} else {
			_, err = results.Exec()
		}
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	s.drop(0)
	return s.failed(err)
}

// now sends a statement with those that wait, and takes its result.
func (s *pgSession) now(take func(pgx.BatchResults) error, query string, args []any) error {
	if err := s.hold(take, query, args); err != nil {
		return err
	}
	return s.sync()
}

func (s *pgSession) change(query string, args ...any) (n int64, err error) {
	err = s.now(func(r pgx.BatchResults) error {
		done, err := r.Exec()
		n = done.RowsAffected()
		return err
	}, query, args)
	return n, err
}

// failed takes note of a server that has become a standby: another connection may lead to the primary.
func (s *pgSession) failed(err error) error {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == pgReadOnly {
		s.stale = true
	}
	return err
}

func (s *pgSession) row(query string, args ...any) scanner { return pgRow{s, query, args} }

// pgRow is a row that is asked for when it is scanned.
type pgRow struct {
	s     *pgSession
	query string
	args  []any
}

// Scan implements scanner.
func (r pgRow) Scan(dest ...any) error {
	return r.s.now(func(results pgx.BatchResults) error { return results.QueryRow().Scan(dest...) }, r.query, r.args)
}

func (s *pgSession) mark() mark { return mark{s.sent, len(s.held)} }

func (s *pgSession) forget(since mark) bool {
	if since.ran != s.sent {
		return false
	}
	s.drop(since.held)
	return true
}

// drop forgets the statements behind the first n that wait.
func (s *pgSession) drop(n int) {
	clear(s.held[n:])
	s.held = s.held[:n]
}

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

func (s *pgSession) force(statement string) error {
	s.drop(0)
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
