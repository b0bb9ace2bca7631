package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

//go:embed migrations/sqlite/*.sql migrations/postgres/*.sql
var migrations embed.FS

type migration struct {
	version int
	sql     string
	rolling bool // programs that know the version before go on beside it, and begin on it
}

// A migration is rolling if its first line begins so: it adds tables that nobody else needs, or columns with defaults.
const rollingMark = "-- rolling:"

// beforeRolling is the last version that all programs had to know.
const beforeRolling = 30

// loadMigrations returns the embedded migrations in order. A file is named NNNN_what.sql. Numbers may be left out for a while.
func loadMigrations(d *dialect) ([]migration, error) {
	entries, err := fs.ReadDir(migrations, d.migrations)
	if err != nil {
		return nil, err
	}
	var all []migration
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		version, err := strconv.Atoi(number)
		if last := newest(all); err != nil || version <= last {
			return nil, fmt.Errorf("migration %s has no number above %d", e.Name(), last)
		}
		text, err := fs.ReadFile(migrations, d.migrations+"/"+e.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, migration{version, string(text), strings.HasPrefix(string(text), rollingMark)})
	}
	return all, nil
}

// newest returns the number of the last migration.
func newest(all []migration) int {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].version
}

// migrate brings the schema to the newest version, each step in its own transaction. The place is for errors.
func migrate(ctx context.Context, conn *sql.Conn, d *dialect, place string, o *Options) error {
	all, err := loadMigrations(d)
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, conn, d, place, newest(all))
	if err != nil {
		return err
	}
	if have > 0 && have < newest(all) && o.Migrating != nil {
		o.Migrating(have, newest(all))
	}
	done, err := applied(ctx, conn, have)
	if err != nil {
		return err
	}
	for _, m := range all {
		if done[m.version] {
			continue
		}
		if err := apply(ctx, conn, d, m, o.now()); err != nil {
			return fmt.Errorf("migration %d: %w", m.version, err)
		}
	}
	return nil
}

// applied returns the numbers of the migrations that a database of a version has had. A number that was left out may come
// later.
func applied(ctx context.Context, conn *sql.Conn, version int) (map[int]bool, error) {
	done := make(map[int]bool)
	if version == 0 {
		return done, nil
	}
	found, err := conn.QueryContext(ctx, `SELECT version FROM schema_version`)
	if err != nil {
		return nil, err
	}
	all, err := collect(found, func(s scanner) (n int, err error) { return n, s.Scan(&n) })
	for _, n := range all {
		done[n] = true
	}
	return done, err
}

// schemaVersion returns the version of the schema, 0 for an empty database. A database of another program is an error, and one
// that is newer than newest by more than rolling migrations.
func schemaVersion(ctx context.Context, conn *sql.Conn, d *dialect, place string, newest int) (int, error) {
	var tables, ours int
	err := conn.QueryRowContext(ctx, d.tables).Scan(&tables, &ours)
	if err != nil || tables == 0 {
		return 0, err
	}
	if ours == 0 {
		return 0, &ownError{fmt.Sprintf("store: %s is a database of another program: choose another %s", place, d.elsewhere)}
	}
	var version int
	err = conn.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM schema_version`).Scan(&version)
	if err != nil || version <= newest {
		return version, err
	}
	var least int // that a program has to know
	err = conn.QueryRowContext(ctx, fmt.Sprintf(`SELECT coalesce((SELECT CAST(value AS BIGINT) FROM setting WHERE key = 'schema_least'), %d)`, beforeRolling)).Scan(&least)
	if err == nil && least > newest {
		err = &ownError{fmt.Sprintf("store: database %s has schema version %d, this program knows up to %d: start a newer eddy, or another %s",
			place, version, newest, d.elsewhere)}
	}
	return version, err
}

func apply(ctx context.Context, conn *sql.Conn, d *dialect, m migration, now time.Time) error {
	if _, err := conn.ExecContext(ctx, d.begin); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, d.versions)
	if err == nil {
		_, err = conn.ExecContext(ctx, m.sql)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, d.rewrite(`INSERT INTO schema_version (version, applied) VALUES (?, ?)`), m.version, now.UnixMilli())
	}
	if err == nil && !m.rolling {
		_, err = conn.ExecContext(ctx, d.rewrite(`INSERT INTO setting (key, value) VALUES ('schema_least', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`), strconv.Itoa(m.version))
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, `COMMIT`)
	}
	if err != nil {
		_, _ = conn.ExecContext(ctx, `ROLLBACK`)
	}
	return err
}
