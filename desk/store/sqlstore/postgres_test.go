package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/desk/store/storetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// freshPostgres is the address of an empty database with the schema.
func freshPostgres(t testing.TB) string {
	t.Helper()
	return pgtest.Database(t, func(url string) error {
		db, err := Open(context.Background(), Options{URL: url, Wait: far, BusyTimeout: far})
		if err != nil {
			return err
		}
		err = db.write(context.Background(), func(t *tx) error { return t.exec(`DELETE FROM setting WHERE key = 'store_id'`) })
		return errors.Join(err, db.Close())
	})
}

func TestConformancePostgres(t *testing.T) {
	rounds := takeRounds
	if testing.Short() {
		rounds = 100
	}
	storetest.Run(t, storetest.Backend{
		New: freshPostgres,
		Open: func(ctx context.Context, place string, now func() time.Time) (store.Store, error) {
			return Open(ctx, Options{URL: place, Mail: true, Now: now, Readers: 2})
		},
		Settle:    func(ctx context.Context, s store.Store) error { return s.(*DB).PackDays(ctx) },
		Rounds:    rounds,
		Customers: burstCustomers,
		Quick:     raceEnabled,
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

// TestPostgresAlone: one process with Alone at a time, beside any number of others.
func TestPostgresAlone(t *testing.T) {
	url := freshPostgres(t)
	first := onPostgres(t, Options{URL: url, Alone: true})
	if _, err := Open(t.Context(), Options{URL: url, Alone: true}); err == nil || !strings.Contains(err.Error(), "in use by another Desk") {
		t.Errorf("a second one: %v", err)
	}
	other := onPostgres(t, Options{URL: url})
	if first.ID() != other.ID() {
		t.Errorf("the identities are %s and %s", first.ID(), other.ID())
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	onPostgres(t, Options{URL: url, Alone: true})
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

// TestPostgresHangs: a command that the server does not answer is refused in time, and the connection is given up.
func TestPostgresHangs(t *testing.T) {
	url := freshPostgres(t)
	r := rigOn(t, onPostgres(t, Options{URL: url, answer: time.Second}))
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
	r.must(text(conv.ID, r.contact.Actor(), "hello again"))
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
	want := append(slices.Clone(copied), "setting", "schema_version", "message_words")
	slices.Sort(all)
	slices.Sort(want)
	if !slices.Equal(all, want) {
		t.Errorf("the tables are %q, a copy has %q", all, want)
	}
}
