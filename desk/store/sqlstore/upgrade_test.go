package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sqlite "modernc.org/sqlite"

	"github.com/go-eddy/eddy/internal/testkit"
)

// raw is a connection to a database of one file that need not outlast the machine.
func raw(t *testing.T, path string) *sql.Conn {
	t.Helper()
	o := Options{Path: path, BusyTimeout: far}
	db, err := sql.Open("sqlite", o.dsn("journal_mode(DELETE)", "synchronous(OFF)", "foreign_keys(1)"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(-1) // closed is closed
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func exec1(t *testing.T, conn *sql.Conn, queries ...string) {
	t.Helper()
	for _, query := range queries {
		if _, err := conn.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
}

func every(t *testing.T) []migration {
	t.Helper()
	all, err := loadMigrations(&sqliteDialect)
	if err != nil {
		t.Fatal(err)
	}
	if lives := lived(); len(lives) != len(all) {
		t.Fatalf("there are %d migrations, and lived says what %d versions have", len(all), len(lives))
	}
	return all
}

// images are databases of every version, by its place among all: aged ones were used with every version up to it, and blank ones with
// none.
type images struct{ aged, blank [][]byte }

func newImages(t *testing.T) (i images) {
	t.Helper()
	lives := lived()
	for _, c := range []struct {
		into *[][]byte
		rows bool
	}{{&i.aged, true}, {&i.blank, false}} {
		*c.into = append(*c.into, nil)
		path := filepath.Join(t.TempDir(), "desk.db")
		for n, m := range every(t) {
			conn := raw(t, path)
			if err := apply(t.Context(), conn, &sqliteDialect, m, time.UnixMilli(1)); err != nil {
				t.Fatal(err)
			}
			if l := lives[n]; c.rows {
				exec1(t, conn, slices.Concat(l.rows, l.gone)...)
			}
			content, err := os.ReadFile(closed(t, conn, path))
			if err != nil {
				t.Fatal(err)
			}
			*c.into = append(*c.into, content)
		}
	}
	return i
}

// file writes an image into a new directory.
func file(t *testing.T, image []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "desk.db")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// made makes a database that was begun with a version, with the rows that a database should have that was used with
// every version up to another one, and upgraded then.
func (i images) made(t *testing.T, version, rows int) string {
	t.Helper()
	path := file(t, i.blank[version])
	conn := raw(t, path)
	for n, l := range lived()[:version] {
		if rows >= l.of {
			exec1(t, conn, l.made...)
		}
		if n < rows {
			exec1(t, conn, l.rows...)
		}
		if n < rows && version < l.till {
			exec1(t, conn, l.gone...)
		}
	}
	return closed(t, conn, path)
}

func closed(t *testing.T, conn *sql.Conn, path string) string {
	t.Helper()
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// upgraded opens a database, and closes it when the search has all of it.
func upgraded(t *testing.T, path string) {
	t.Helper()
	db, err := Open(t.Context(), Options{Path: path, Wait: far, BusyTimeout: far, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the search to have everything", func() bool { return db.Stats().Unindexed == 0 })
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// dump returns a database as text: its schema, and every row of every table but those of the search, which the server
// makes.
func dump(t *testing.T, path string) (lines []string) {
	t.Helper()
	conn := raw(t, path)
	defer func() { closed(t, conn, path) }()
	for _, check := range []string{`PRAGMA integrity_check`, `PRAGMA foreign_key_check`} {
		if rows := texts(t, conn, check); len(rows) > 0 && rows[0] != "integrity_check=ok" {
			t.Errorf("%s: %s", check, rows)
		}
	}
	for _, object := range texts(t, conn, `SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'message_words%' AND sql IS NOT NULL ORDER BY type, name`) {
		lines = append(lines, "schema: "+strings.Join(strings.Fields(object), " "))
	}
	for _, table := range texts(t, conn, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'message_words%' AND name <> 'schema_version' ORDER BY name`) {
		name := strings.TrimPrefix(table, "name=")
		what := "*"
		if strings.HasPrefix(name, "rollup_") && strings.HasSuffix(name, "day") {
			what = "day" // the server packs days in the background
		}
		rows := texts(t, conn, `SELECT `+what+` FROM `+name)
		slices.Sort(rows)
		for _, row := range rows {
			lines = append(lines, name+": "+row)
		}
	}
	return lines
}

// texts returns the rows of a query as text, without numbers in the search.
func texts(t *testing.T, conn *sql.Conn, query string) (lines []string) {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(query, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		var parts []string
		for i, v := range values {
			if columns[i] != "doc" {
				parts = append(parts, fmt.Sprintf("%s=%v", columns[i], v))
			}
		}
		lines = append(lines, strings.Join(parts, " "))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(query, err)
	}
	return lines
}

func missing(t *testing.T, what string, got, want []string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s lacks %s", what, line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s has %s", what, line)
		}
	}
}

// TestUpgradeFromEveryVersion: a database of any version has after the upgrade what one has that was made with the newest
// version: the same schema, every row, and what the pages read of it.
func TestUpgradeFromEveryVersion(t *testing.T) {
	if raceEnabled {
		t.Skip("no goroutines, but much work for the race detector")
	}
	last, of := len(every(t)), newImages(t)
	for version := 1; version <= last; version++ {
		path := of.made(t, last, version)
		upgraded(t, path)
		want, pages := dump(t, path), shown(t, path)
		if version == last {
			checkShown(t, pages)
			checkIndexes(t, want)
		}
		for name, build := range map[string]func(*testing.T) string{
			"aged": func(t *testing.T) string { return file(t, of.aged[version]) }, "made": func(t *testing.T) string { return of.made(t, version, version) },
		} {
			t.Run(fmt.Sprint(name, version), func(t *testing.T) {
				path := build(t)
				before := dump(t, path)
				upgraded(t, path)
				after := dump(t, path)
				whole(t, before, after)
				missing(t, "the upgraded database", after, want)
				missing(t, "the upgraded store", shown(t, path), pages)
			})
		}
	}
}

// Before version 24 nothing was written down while nobody wanted to be told: whoever read before learns of the gap.
func TestOutboxBeforeItHadEverything(t *testing.T) {
	const floor = `SELECT value FROM setting WHERE key = 'outbox_floor'`
	of := newImages(t)
	for name, c := range map[string]struct {
		before []string
		floor  string
	}{
		"wanted by a webhook": {nil, "0"},
		"wanted by a key":     {[]string{`UPDATE api_key SET scopes = 'read,events'`, `DELETE FROM webhook`}, "0"},
		"wanted no more":      {[]string{`DELETE FROM webhook`}, "2"},
		"a key was revoked":   {[]string{`UPDATE api_key SET scopes = 'events', revoked = 1`, `DELETE FROM webhook`}, "2"},
		"never wanted":        {[]string{`DELETE FROM webhook`, `DELETE FROM outbox`, `DELETE FROM sqlite_sequence WHERE name = 'outbox'`}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			path := of.made(t, 23, 23)
			conn := raw(t, path)
			exec1(t, conn, c.before...)
			path = closed(t, conn, path)
			upgraded(t, path)
			conn = raw(t, path)
			defer closed(t, conn, path)
			if got := texts(t, conn, floor); !slices.Equal(got, []string{"value=" + c.floor}) {
				t.Errorf("the floor is %q, want %q", got, c.floor)
			}
			if got := texts(t, conn, `SELECT id FROM outbox WHERE id = ''`); len(got) != 0 {
				t.Errorf("%d rows about nothing", len(got))
			}
		})
	}
}

// checkIndexes: the newest version has the indexes of all, and no others.
func checkIndexes(t *testing.T, dump []string) {
	t.Helper()
	var has, want []string
	for _, line := range dump {
		if rest, ok := strings.CutPrefix(line, "schema: type=index name="); ok {
			name, _, _ := strings.Cut(rest, " ")
			has = append(has, name)
		}
	}
	for _, l := range lived() {
		want = append(want, l.indexes...)
	}
	missing(t, "the list of indexes", has, want)
}

// whole: no table has lost rows, besides those that were replaced on purpose.
func whole(t *testing.T, before, after []string) {
	t.Helper()
	count := func(lines []string) map[string]int {
		n := make(map[string]int)
		for _, line := range lines {
			table, _, _ := strings.Cut(line, ":")
			n[table]++
		}
		return n
	}
	has := count(after)
	for table, n := range count(before) {
		if has[table] < n && table != "outbox" && table != "sqlite_sequence" {
			t.Errorf("%s had %d rows, %d are left", table, n, has[table])
		}
	}
}

// dieEnv names the database that a second process upgrades until it is killed, the version and the statement.
const dieEnv = "EDDY_UPGRADE_DIES"

// TestUpgradeIsKilled: an upgrade whose process is killed anywhere leaves the version before it, or the one after it, and
// goes on with the next start as if nothing had been.
func TestUpgradeIsKilled(t *testing.T) {
	if place := os.Getenv(dieEnv); place != "" {
		upgradeAndDie(t, place)
		return
	}
	if raceEnabled {
		t.Skip("no goroutines, but much work for the race detector")
	}
	all, of := every(t), newImages(t)
	from := 8
	if testing.Short() {
		from = len(all) - 3
	}
	for place, m := range all {
		if place < from {
			continue
		}
		before := all[place-1].version
		path := of.made(t, len(all), place)
		upgraded(t, path)
		want := dump(t, path)
		n := len(statementsOf(m.sql))
		for _, at := range slices.Compact([]int{1, n / 2, n}) {
			t.Run(fmt.Sprintf("%d at %d of %d", m.version, at, n), func(t *testing.T) {
				path := file(t, of.aged[place])
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUpgradeIsKilled$")
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %s", dieEnv, place, at, path))
				out, err := cmd.CombinedOutput()
				if err == nil || !bytes.Contains(out, []byte("dies now")) {
					t.Fatalf("the process ended by itself: %v %s", err, out)
				}
				conn := raw(t, path)
				if got, err := schemaVersion(t.Context(), conn, &sqliteDialect, path, newest(all)); err != nil || got != before {
					t.Errorf("it was killed in the upgrade to version %d and left version %d, %v", m.version, got, err)
				}
				closed(t, conn, path)
				upgraded(t, path)
				missing(t, "the database", dump(t, path), want)
			})
		}
	}
}

// statementsOf returns the statements of a migration. Those of a trigger are one.
func statementsOf(text string) (all []string) {
	var one strings.Builder
	for line := range strings.Lines(text) {
		one.WriteString(line)
		code, _, _ := strings.Cut(line, "--")
		code = strings.TrimSpace(code)
		inTrigger := strings.Contains(one.String(), "CREATE TRIGGER") && !strings.HasSuffix(code, "END;")
		if strings.HasSuffix(code, ";") && !inTrigger {
			all = append(all, one.String())
			one.Reset()
		}
	}
	return all
}

// upgradeAndDie upgrades a database by one version in a process that ends without a word behind one of its statements.
func upgradeAndDie(t *testing.T, place string) {
	var n, at int
	var path string
	if _, err := fmt.Sscanf(place, "%d %d %s", &n, &at, &path); err != nil {
		t.Fatal(err)
	}
	sqlite.MustRegisterScalarFunction("die", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		fmt.Println("dies now")
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = p.Kill()
		}
		if err == nil {
			select {}
		}
		return nil, err
	})
	m := every(t)[n]
	parts := statementsOf(m.sql)
	m.sql = strings.Join(slices.Insert(parts, at, "SELECT die();"), "\n")
	t.Fatal(apply(context.Background(), raw(t, path), &sqliteDialect, m, time.UnixMilli(1)))
}

// TestRolledDatabaseIsOpened: a database that only rolling migrations have made newer is taken as it is.
func TestRolledDatabaseIsOpened(t *testing.T) {
	all, of := every(t), newImages(t)
	path := of.made(t, len(all), len(all))
	conn := raw(t, path)
	exec1(t, conn, fmt.Sprintf(`INSERT INTO schema_version (version, applied) VALUES (%d, 1)`, newest(all)+1), `CREATE TABLE later (x INTEGER) STRICT`)
	closed(t, conn, path)
	db, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if info, err := Inspect(t.Context(), path); err != nil || info.Schema != newest(all)+1 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestNewerDatabaseIsRefused: a database of any newer version is left as it is, and the error names both versions and
// what to do.
func TestNewerDatabaseIsRefused(t *testing.T) {
	all, of := every(t), newImages(t)
	known := newest(all)
	for _, version := range []int{known + 1, known + 100} {
		path := of.made(t, len(all), len(all))
		conn := raw(t, path)
		exec1(t, conn, fmt.Sprintf(`INSERT INTO schema_version (version, applied) VALUES (%d, 1)`, version),
			fmt.Sprintf(`INSERT OR REPLACE INTO setting (key, value) VALUES ('schema_least', '%d')`, version), `CREATE TABLE later (x INTEGER) STRICT`)
		closed(t, conn, path)
		before := dump(t, path)
		for range 2 {
			db, err := Open(t.Context(), Options{Path: path})
			want := fmt.Sprintf("has schema version %d, this program knows up to %d: start a newer eddy, or another data directory", version, known)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("version %d: %v", version, err)
			}
			if err == nil {
				_ = db.Close() // it should not have been opened
			}
		}
		missing(t, "a database that was refused", dump(t, path), before)
	}
}
