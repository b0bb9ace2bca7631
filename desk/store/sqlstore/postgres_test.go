package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/desk/store/storetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// freshPostgres is the address of an empty database with the schema.
func freshPostgres(t testing.TB) string {
	t.Helper()
	return pgtest.Database(t, Blank)
}

func TestConformancePostgres(t *testing.T) {
	if raceEnabled {
		t.Skip("TestConformance looks for races: what differs here runs on one goroutine")
	}
	storetest.Run(t, storetest.Backend{
		New: freshPostgres,
		Open: func(ctx context.Context, place string, now func() time.Time) (store.Store, error) {
			return Open(ctx, Options{URL: place, Mail: true, Now: now, Readers: 2})
		},
		Settle:    func(ctx context.Context, s store.Store) error { return s.(*DB).PackDays(ctx) },
		Rounds:    100,
		Customers: burstCustomers,
		Quick:     testing.Short(),
	})
}

// onPostgres opens a database with the schema, and closes it after the test.
func onPostgres(t *testing.T, o Options) *DB {
	t.Helper()
	if o.URL == "" {
		o.URL = freshPostgres(t)
	}
	o.Wait = cmp.Or(o.Wait, far)
	db, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// TestPostgresAlone: one process with Alone at a time, or any number with Several, beside any number of others.
func TestPostgresAlone(t *testing.T) {
	url := freshPostgres(t)
	first := onPostgres(t, Options{URL: url, Alone: true})
	refused := func(o Options) {
		t.Helper()
		o.URL = url
		if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "in use by another Desk") {
			t.Errorf("%+v beside another: %v", o, err)
		}
	}
	refused(Options{Alone: true})
	refused(Options{Several: true})
	other := onPostgres(t, Options{URL: url})
	ticket := store.Token{1}
	for range 2 {
		if err := first.SpendTicket(t.Context(), ticket, first.Now().Add(time.Hour)); err != nil {
			t.Errorf("a ticket where nobody else could take it: %v", err)
		}
	}
	if first.ID() != other.ID() {
		t.Errorf("the identities are %s and %s", first.ID(), other.ID())
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	several := []*DB{onPostgres(t, Options{URL: url, Several: true}), onPostgres(t, Options{URL: url, Several: true})}
	refused(Options{Alone: true})
	for _, db := range several {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	onPostgres(t, Options{URL: url, Alone: true})
}

// TestPostgresUsedByOlder: the schema of a database that a Desk uses is left alone. When that one has stopped, it is brought up to date.
func TestPostgresUsedByOlder(t *testing.T) {
	url := freshPostgres(t)
	all, err := loadMigrations(&postgresDialect)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Alone: true}, {Several: true}} {
		o.URL = url
		older := onPostgres(t, o)
		if err := older.write(t.Context(), func(tx *tx) error { // as an older program has it
			return errors.Join(tx.exec(`DELETE FROM schema_version WHERE version > 28`), tx.exec(`DROP TABLE offer`), tx.exec(`DROP TABLE spent`), tx.exec(`ALTER TABLE node DROP COLUMN about`), tx.exec(`DROP INDEX spent_ticket_expires`),
				tx.exec(`ALTER TABLE outbox DROP COLUMN trace`), tx.exec(`ALTER TABLE hook_event DROP COLUMN trace`))
		}); err != nil {
			t.Fatal(err)
		}
		for _, newer := range []Options{{}, {Several: true}, {Alone: true}} {
			newer.URL = url
			if _, err := Open(t.Context(), newer); err == nil || !strings.Contains(err.Error(), "schema version 28") || !strings.Contains(err.Error(), "stop that one") {
				t.Errorf("%+v beside an older one: %v", newer, err)
			}
		}
		if err := older.Close(); err != nil {
			t.Error(err)
		}
		var from, to int
		newer := onPostgres(t, Options{URL: url, Several: true, Migrating: func(a, b int) { from, to = a, b }})
		if _, err := newer.Cold().Offers(t.Context()); err != nil || from != 28 || to != newest(all) {
			t.Errorf("from %d to %d, %v", from, to, err)
		}
		if err := newer.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPostgresRolls: a newer program whose migrations are rolling begins beside one that runs, which goes on. The older one can begin again.
func TestPostgresRolls(t *testing.T) {
	url := freshPostgres(t)
	all, err := loadMigrations(&postgresDialect)
	if err != nil {
		t.Fatal(err)
	}
	older := onPostgres(t, Options{URL: url, Several: true})
	r := rigOn(t, older)
	works := func(when string) {
		t.Helper()
		if err := older.SetHere(t.Context(), []store.Here{{Contact: r.contact.ID}}); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if _, err := older.Claim(t.Context(), "work", time.Hour); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if there, err := older.Hot().Presences(t.Context()); err != nil || len(there) != 1 {
			t.Errorf("%s: %v, %v", when, there, err)
		}
	}
	works("before")
	if err := older.write(t.Context(), func(tx *tx) error { // as an older program has it
		return errors.Join(tx.exec(`DELETE FROM schema_version WHERE version > 32`), tx.exec(`DROP INDEX spent_ticket_expires`),
			tx.exec(`ALTER TABLE outbox DROP COLUMN trace`), tx.exec(`ALTER TABLE hook_event DROP COLUMN trace`))
	}); err != nil {
		t.Fatal(err)
	}
	var from, to int
	newer := onPostgres(t, Options{URL: url, Several: true, Migrating: func(a, b int) { from, to = a, b }})
	if from != 32 || to != newest(all) {
		t.Errorf("from %d to %d", from, to)
	}
	works("after")
	for _, db := range []*DB{older, newer} {
		if _, err := db.CreateSite(t.Context(), store.Site{Key: db.Node(), Name: "Shop"}); err != nil {
			t.Error(err)
		}
	}
	if err := older.write(t.Context(), func(tx *tx) error {
		return tx.exec(`INSERT INTO schema_version (version, applied) VALUES (?, 1)`, newest(all)+1)
	}); err != nil {
		t.Fatal(err)
	}
	again := onPostgres(t, Options{URL: url, Several: true}) // beside a newer one
	if all, err := again.Cold().Sites(t.Context()); err != nil || len(all) != 3 {
		t.Errorf("%d sites, %v", len(all), err)
	}
}

// TestPostgresCrashes: while the server is gone commands are refused in time and Ready says so; when it is back the store
// goes on by itself, with everything that was acknowledged.
func TestPostgresCrashes(t *testing.T) {
	r := rigOn(t, onPostgres(t, Options{Alone: true}))
	conv := r.open(false)
	r.must(text(conv.ID, r.contact.Actor(), "before"))
	pgtest.Stop(t)
	stopped := true
	defer func() {
		if stopped {
			pgtest.Start(t)
		}
	}()
	lost := text(conv.ID, r.contact.Actor(), "meanwhile")
	if out := r.do(lost); !errors.Is(out.Err, store.ErrUnavailable) {
		t.Errorf("a command without a server: %v", out.Err)
	}
	if err := r.Ready(); err == nil {
		t.Error("ready without a server")
	}
	if _, err := r.Hot().Conversation(t.Context(), conv.ID); err == nil {
		t.Error("a read without a server")
	}
	pgtest.Start(t)
	stopped = false
	testkit.Eventually(t, "the store goes on", func() bool { return r.do(lost).Err == nil })
	if out := r.must(lost); !out.Dup {
		t.Error("it was stored twice")
	}
	var said []string
	for _, e := range r.events(conv.ID, store.StaffSide) {
		if e.Body != "" {
			said = append(said, e.Body)
		}
	}
	if !slices.Equal(said, []string{"before", "meanwhile"}) {
		t.Errorf("stored: %q", said)
	}
	testkit.Eventually(t, "ready again", func() bool {
		_, err := r.Cold().Conversation(t.Context(), conv.ID)
		return err == nil && r.Ready() == nil
	})
}

// TestPostgresForgets: a statement that waits is not carried into the next transaction.
func TestPostgresForgets(t *testing.T) {
	s := onPostgres(t, Options{}).work.tx.session
	if err := s.exec(`INSERT INTO setting (key, value) VALUES (?, ?)`, "forgotten", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.force(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := errors.Join(s.sync(), s.row(`SELECT count(*) FROM setting WHERE key = 'forgotten'`).Scan(&n)); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestPostgresHangs: a command that the server does not answer is refused in time, and the connection is given up.
func TestPostgresHangs(t *testing.T) {
	url := freshPostgres(t)
	r := rigOn(t, onPostgres(t, Options{URL: url, answer: 3 * time.Second}))
	conv := r.open(false)
	locker, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locker.Close() }()
	tx, err := locker.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = tx.Exec(`LOCK TABLE conversation`)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out := r.do(text(conv.ID, r.contact.Actor(), "hello")); !errors.Is(out.Err, store.ErrUnavailable) {
		t.Errorf("a command that waits for ever: %v", out.Err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	again := text(conv.ID, r.contact.Actor(), "hello again")
	testkit.Eventually(t, "the store goes on", func() bool { return r.do(again).Err == nil }) // the server ends the transaction of before when it notices
}

// TestCopy: everything arrives, also when the copy is interrupted; what is incomplete is not opened, and nothing is
// copied over other data.
func TestCopy(t *testing.T) {
	images := newImages(t)
	path := file(t, images.aged[len(images.aged)-1])
	upgraded(t, path)
	empty := func() string { return pgtest.Database(t, nil) }

	interrupted := empty()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Copy(ctx, path, interrupted, func(table string, _, _ int64) {
		if table == "message" {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{URL: interrupted}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("opened half a copy: %v", err)
	}
	for _, url := range []string{interrupted, empty()} {
		done, err := Copy(t.Context(), path, url, func(string, int64, int64) {})
		if err != nil || done.Rows == 0 || (done.New == done.Rows) == (url == interrupted) {
			t.Fatalf("%+v %v", done, err)
		}
		if _, err := Copy(t.Context(), path, url, nil); err == nil || !strings.Contains(err.Error(), "the-id already") {
			t.Errorf("copied over it: %v", err)
		}
		db := onPostgres(t, Options{URL: url})
		if db.ID() != "the-id" {
			t.Errorf("the identity is %s", db.ID())
		}
		hits, _, err := db.Hot().Search(t.Context(), store.Scope{Agent: "lin", All: true}, "order", store.Filter{}, "", 10)
		if err != nil || len(hits) != 1 {
			t.Errorf("found %+v %v", hits, err)
		}
		if err := store.Record(t.Context(), db, store.Audit{Action: store.AuditLogin}); err != nil {
			t.Error(err)
		}
		contact, err := db.Hot().Contact(t.Context(), "d")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.PatchContact(t.Context(), store.ContactPatch{Contact: contact.ID, Name: "Dana"}); err != nil {
			t.Error(err)
		}
		if found, _, err := db.Cold().Contacts(t.Context(), store.ContactQuery{Words: "dana"}); err != nil || len(found) != 1 {
			t.Errorf("found %+v %v", found, err)
		}
	}
}

// TestCopyIsCompared: a row that is not the same in both databases is found.
func TestCopyIsCompared(t *testing.T) {
	images := newImages(t)
	path := file(t, images.aged[len(images.aged)-1])
	upgraded(t, path)
	url := pgtest.Database(t, nil)
	target, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = target.Close() }()
	_, err = Copy(t.Context(), path, url, func(table string, _, _ int64) {
		if table == "grp" {
			if _, err := target.Exec(`UPDATE grp SET name = name || '.'`); err != nil {
				t.Error(err)
			}
		}
	})
	if err == nil || !strings.Contains(err.Error(), "table grp: ") || !strings.Contains(err.Error(), "another check sum") {
		t.Errorf("copied: %v", err)
	}
}

// TestCopiedTables: a copy has every table that there is.
func TestCopiedTables(t *testing.T) {
	db := onPostgres(t, Options{})
	rows, err := db.hot.db.QueryContext(t.Context(), `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := collect(rows, func(s scanner) (name string, err error) { return name, s.Scan(&name) })
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(copied), "setting", "schema_version", "message_words", "lease", "node", "presence", "spent") // which belong to running servers
	slices.Sort(all)
	slices.Sort(want)
	if !slices.Equal(all, want) {
		t.Errorf("the tables are %q, a copy has %q", all, want)
	}
}

// TestPostgresBecomesStandby: a connection to a server that takes no writes any more is given up for one to a server that does.
func TestPostgresBecomesStandby(t *testing.T) {
	url := freshPostgres(t)
	r := rigOn(t, onPostgres(t, Options{URL: url}))
	conv := r.open(false)
	if err := r.work.tx.force(`SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	if out := r.do(text(conv.ID, r.contact.Actor(), "hello")); !errors.Is(out.Err, store.ErrUnavailable) {
		t.Errorf("a command on a standby: %v", out.Err)
	}
	r.must(text(conv.ID, r.contact.Actor(), "hello again"))
}

// TestPostgresClock: the data have the time of the database, whatever this machine's clock says, and when it jumps.
func TestPostgresClock(t *testing.T) {
	var off atomic.Int64
	machine := func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	near := func(at time.Time) bool {
		return at.After(time.Now().Add(-time.Minute)) && at.Before(time.Now().Add(time.Minute))
	}
	between := &clock{machine: machine, began: time.Now()} // two transactions
	r := rigOn(t, onPostgres(t, Options{Machine: machine}))
	for _, jump := range []time.Duration{10 * time.Minute, -10 * time.Minute, 0} {
		between.set(time.Now().Add(jump).UnixMicro(), time.Now())
		if at := between.now(); near(at) != (jump == 0) {
			t.Errorf("a database that is off by %v: %v", jump, at)
		}
		between.set(time.Now().UnixMicro(), time.Now())
		off.Store(int64(jump))
		if a, b := between.now(), r.Now(); !near(a) || !near(b) {
			t.Errorf("a machine that is off by %v: %v, %v", jump, a, b)
		}
		r.clock.set(time.Now().Add(jump).UnixMicro(), time.Now())
		if conv := r.open(false); !near(time.UnixMilli(conv.OpenedAt)) || !near(r.Now()) {
			t.Errorf("opened at %v, now is %v", time.UnixMilli(conv.OpenedAt), r.Now())
		}
	}
}

// TestPostgresTrouble: what a retry may cure is told from what it cannot.
func TestPostgresTrouble(t *testing.T) {
	for code, want := range map[string]bool{
		"08006": true, "40P01": true, "53100": true, "53300": true, "55P03": true, "57P01": true, "57P03": true, "58030": true, "25006": true, "XX000": true,
		"57014": false, "23505": false, "42601": false, "22021": false,
	} {
		err := fmt.Errorf("it failed: %w", &pgconn.PgError{Code: code})
		if got := errors.Is(classify(err), store.ErrUnavailable); got != want {
			t.Errorf("%s: unavailable is %v, want %v", code, got, want)
		}
	}
	for err, want := range map[error]bool{
		&pgconn.ConnectError{}: true, io.ErrUnexpectedEOF: true, os.ErrDeadlineExceeded: true, net.ErrClosed: true,
		context.DeadlineExceeded: false, context.Canceled: false, store.ErrConflict: false,
	} {
		if got := pgTrouble(err); got != want {
			t.Errorf("%v: trouble is %v, want %v", err, got, want)
		}
	}
}

// TestPostgresExplains: errors name the database, without the password, and the remedy.
func TestPostgresExplains(t *testing.T) {
	url := freshPostgres(t)
	missing := strings.Replace(url, "/d", "/no_such_d", 1)
	for address, want := range map[string][]string{
		missing: {"no_such_d", "createdb"},
		"postgres://desk:secret@127.0.0.1:1/desk?sslmode=disable": {"postgres://desk@127.0.0.1:1/desk", "can be reached"},
	} {
		_, err := Open(t.Context(), Options{URL: address})
		if err == nil || strings.Contains(err.Error(), "secret") || slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
			t.Errorf("%s: %v", address, err)
		}
	}
	address := pgtest.Database(t, nil)
	other, err := sql.Open("pgx", address)
	if err == nil {
		defer func() { _ = other.Close() }()
		_, err = other.Exec(`CREATE TABLE a_table_of_others (x integer)`)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{URL: address}); err == nil || !strings.Contains(err.Error(), "another program") || !strings.Contains(err.Error(), "another database") {
		t.Errorf("a database of another program: %v", err)
	}
	if err := CheckURL("mysql://x"); err == nil || !strings.Contains(err.Error(), "postgres://") {
		t.Errorf("%v", err)
	}
	if _, err := Open(t.Context(), Options{URL: url, Path: "x"}); err == nil {
		t.Error("two databases at once")
	}
}

// TestPostgresTexts: texts that PostgreSQL does not take are no reason to refuse anything.
func TestPostgresTexts(t *testing.T) {
	r := rigOn(t, onPostgres(t, Options{}))
	conv := r.open(false)
	for sent, want := range map[string]string{"a\x00b": "a\ufffdb", "c\xffd": "c\ufffdd", "e\ufffdf": "e\ufffdf", "": ""} {
		if got := r.must(text(conv.ID, r.contact.Actor(), "."+sent)).Events[0].ID; got == "" {
			t.Error("no event")
		}
		if events := r.events(conv.ID, store.StaffSide); events[len(events)-1].Body != "."+want {
			t.Errorf("%q is stored as %q", sent, events[len(events)-1].Body)
		}
	}
	if _, err := r.Hot().SiteByKey(t.Context(), "no\x00site"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a key with the character 0: %v", err)
	}
	attributes := map[string]string{"order": "x\x00\x00y 4711", "path": `c:\u0000`, "both": "\\\x00\\\\"}
	if _, err := r.PatchContact(t.Context(), store.ContactPatch{Contact: r.contact.ID, Attributes: attributes}); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"4711", "xy", `c:\u0000`} {
		if found, _, err := r.Cold().Contacts(t.Context(), store.ContactQuery{Words: words}); err != nil || len(found) != 1 {
			t.Errorf("%q finds %+v %v", words, found, err)
		}
	}
}
