package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"
)

// Info describes a database.
type Info struct {
	ID     string // identity of the data, "" if the file was never opened
	Schema int    // version of its schema, 0 = empty
	Newest int    // version that this program brings it to
	Size   int64  // in bytes
}

// Inspect describes a database file and changes nothing. A missing file is os.ErrNotExist. A file that is damaged, of
// another program or of a newer version is an error that names the file and the remedy. Any goroutine may call Inspect,
// also while a server has the file open.
func Inspect(ctx context.Context, path string) (Info, error) {
	all, err := loadMigrations(&sqliteDialect)
	if err != nil {
		return Info{}, err
	}
	info := Info{Newest: newest(all)}
	stat, err := os.Stat(path)
	if err != nil {
		return info, err
	}
	info.Size = stat.Size()
	if info.Size == 0 {
		return info, nil
	}
	err = readOnly(ctx, path, func(conn *sql.Conn) error {
		if info.Schema, err = schemaVersion(ctx, conn, &sqliteDialect, path, info.Newest); err != nil || info.Schema == 0 {
			return err
		}
		err := conn.QueryRowContext(ctx, `SELECT value FROM setting WHERE key = 'store_id'`).Scan(&info.ID)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return info, err
}

// Check reads the whole file and returns an error that names the file if anything in it is damaged. That takes as long
// as reading the file.
func Check(ctx context.Context, path string) error {
	return readOnly(ctx, path, func(conn *sql.Conn) error {
		var result string
		if err := conn.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&result); err != nil {
			return err
		}
		if result != "ok" {
			return &ownError{corrupt(path, result).Error()}
		}
		return nil
	})
}

// Snapshot writes the database as it is at one moment into a new file, also while a server writes to it. The new file
// needs no other file beside it. If the snapshot fails, the new file is removed.
func Snapshot(ctx context.Context, path, to string) error {
	if err := createPrivate(to); err != nil {
		return err
	}
	err := onFile(ctx, path, func(conn *sql.Conn) error { // query_only would refuse VACUUM INTO, although that changes nothing
		_, err := conn.ExecContext(ctx, `VACUUM INTO ?`, to)
		return err
	})
	if err == nil {
		err = syncFile(to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// Renew gives a database that nobody has open a new identity and returns it. Clients of the database that it was copied
// from then do not take it for the same. It may lack events that they have seen.
func Renew(ctx context.Context, path string) (id string, err error) {
	o := Options{Path: path}
	o.fill()
	pool, err := sql.Open("sqlite", o.dsn("synchronous(FULL)"))
	if err != nil {
		return "", explain(path, err)
	}
	id = uuid.NewString()
	_, err = pool.ExecContext(ctx, `INSERT INTO setting (key, value) VALUES ('store_id', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, id)
	if err = errors.Join(err, pool.Close()); err != nil {
		return "", explain(path, err)
	}
	return id, syncFile(path)
}

// readOnly runs f on one connection that cannot change anything.
func readOnly(ctx context.Context, path string, f func(*sql.Conn) error) error {
	return onFile(ctx, path, f, "query_only(1)")
}

// onFile runs f on one connection of its own.
func onFile(ctx context.Context, path string, f func(*sql.Conn) error, pragmas ...string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	o := Options{Path: path}
	o.fill()
	pool, err := sql.Open("sqlite", o.dsn(pragmas...))
	if err != nil {
		return explain(path, err)
	}
	defer func() { _ = pool.Close() }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return explain(path, err)
	}
	defer func() { _ = conn.Close() }()
	if err := f(conn); err != nil {
		return explain(path, err)
	}
	return nil
}

// syncFile makes a file and its name durable.
func syncFile(path string) error {
	for _, name := range []string{path, filepath.Dir(path)} {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = f.Sync()
		if name != path {
			err = nil // a directory cannot be synced on every system
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
