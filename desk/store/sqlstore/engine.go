package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/go-eddy/eddy/desk/store"
)

// engine opens connections to a database.
type engine interface {
	dialect() *dialect
	// session opens the writing connection. The first one brings the schema up to date; it changes nothing in a database
	// that cannot be used.
	session(ctx context.Context) (session, error)
	// reader returns a pool of n connections that cannot change anything.
	reader(n int, class readerClass) (*sql.DB, error)
	// listen calls heard with the last number of the outbox when another process has committed. heard must not block.
	listen(me string, heard func(last int64)) (stop func())
	// explain turns an error into one line that names the database and the remedy.
	explain(err error) error
}

// readerClass is what a pool of readers is for.
type readerClass int

const (
	hotReads readerClass = iota
	coldReads
	backgroundReads
)

// ownError is an error whose text already names the database and the remedy.
type ownError struct{ text string }

func (e *ownError) Error() string { return e.text }

// exists makes store.ErrExists of the error of a row that is there already.
func exists(what string, err error) error {
	if se, ok := errors.AsType[*sqlite.Error](err); ok && (se.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || se.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY) {
		return fmt.Errorf("%w: %s", store.ErrExists, what)
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Code == pgUnique {
		return fmt.Errorf("%w: %s", store.ErrExists, what)
	}
	return err
}

// classify marks errors of the database that a retry may cure.
func classify(err error) error {
	if se, ok := errors.AsType[*sqlite.Error](err); ok {
		switch se.Code() & 0xff {
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY:
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
	}
	if pgTrouble(err) {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// diskFull reports whether a database failed because its disk is full.
func diskFull(err error) bool {
	if se, ok := errors.AsType[*sqlite.Error](err); ok {
		return se.Code()&0xff == sqlite3.SQLITE_FULL
	}
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.Code == pgDiskFull
}

// failedRead reports whether a read failed because of the database or the machine.
func failedRead(err error) bool {
	if se, ok := errors.AsType[*sqlite.Error](err); ok {
		switch se.Code() & 0xff {
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM:
			return true
		}
	}
	return pgTrouble(err)
}
