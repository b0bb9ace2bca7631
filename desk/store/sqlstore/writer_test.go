package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// lockWriter takes SQLite's write lock from outside until the returned function is called.
func lockWriter(t *testing.T, path string) (release func()) {
	t.Helper()
	o := Options{Path: path}
	o.fill()
	db, err := sql.Open("sqlite", o.dsn())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err == nil {
		_, err = conn.ExecContext(context.Background(), `BEGIN IMMEDIATE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(context.Background(), `ROLLBACK`); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		_ = db.Close()
	}
}

// What queued while the writer was held goes into one transaction; a failing command in the middle fails alone.
func TestGroupCommitAndSavepoints(t *testing.T) {
	r := newRig(t, Options{})
	testGroup(t, r, func() (release func()) { return lockWriter(t, r.o.Path) })
}

// follow returns where the feed is when everything that was done before has been told, and what it tells then.
func (r *rig) follow() (at int64, parts chan *store.Fed) {
	r.t.Helper()
	nothing := func(*tx) error { return nil }
	if err := r.write(r.t.Context(), nothing); err != nil { // it blocks, so it returns behind what was told
		r.t.Fatal(err)
	}
	parts = make(chan *store.Fed, 100)
	at, stop := r.Follow(func(part *store.Fed) { parts <- part })
	r.t.Cleanup(stop)
	return at, parts
}

func testGroup(t *testing.T, r *rig, lock func() (release func())) {
	conv := r.open(false)
	at, parts := r.follow()
	before := r.Stats()
	release := lock()
	const n = 20
	results := make([]chan store.Outcome, n)
	for i := range results {
		results[i] = make(chan store.Outcome, 2)
		msg := text(conv.ID, r.contact.Actor(), fmt.Sprint(i))
		run := func(tx *tx) (store.Outcome, error) { return tx.execute(msg) }
		if i == 7 { // writes something, then fails
			run = func(tx *tx) (store.Outcome, error) {
				if _, err := tx.execute(msg); err != nil {
					return store.Outcome{}, err
				}
				if err := tx.flush(); err != nil { // its rows are taken back, too
					return store.Outcome{}, err
				}
				return store.Outcome{}, tx.exec(`INSERT INTO site (id) VALUES (NULL)`)
			}
		}
		if i == 11 {
			run = func(*tx) (store.Outcome, error) { panic("boom") }
		}
		r.work.enqueue(&op{run: run, done: func(out store.Outcome) { results[i] <- out }}, time.Now().Add(time.Minute))
	}
	release()
	for i, c := range results {
		if out := <-c; (out.Err != nil) != (i == 7 || i == 11) {
			t.Errorf("command %d: %v", i, out.Err)
		}
	}
	after := r.Stats()
	if commits := after.Commits - before.Commits; commits > 2 {
		t.Errorf("%d commits for %d commands", commits, n)
	}
	events := r.events(conv.ID, store.StaffSide)
	if len(events) != 1+n-2 {
		t.Fatalf("%d events", len(events))
	}
	for k, e := range events {
		if e.Seq != uint64(k+1) {
			t.Fatalf("event %d has seq %d", k, e.Seq)
		}
	}
	if rows, err := r.Cold().Outbox(t.Context(), at, 100); err != nil || len(rows.Rows) != n-2 {
		t.Errorf("%d rows for %d messages, %v", len(rows.Rows), n-2, err)
	}
	for range n - 2 {
		part := <-parts
		if part.First != at+1 {
			t.Errorf("part %d comes after %d", part.First, at)
		}
		at = part.Last
	}
}

// Of a transaction that fails as a whole nothing is told, and its numbers are used again.
func TestFailedTransactionIsNotTold(t *testing.T) {
	r := newRig(t, Options{})
	conv := r.open(false)
	at, parts := r.follow()
	fail := func(tx *tx) error {
		if _, err := tx.execute(text(conv.ID, r.contact.Actor(), "lost")); err != nil {
			return err
		}
		return tx.exec(`ROLLBACK`)
	}
	if err := r.write(t.Context(), fail); !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
	out := doOn(r.DB, text(conv.ID, r.contact.Actor(), "kept"))
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	if part := <-parts; part.First != at+1 || part.Last != out.Fed || len(part.Events) != 1 || part.Events[0].Body != "kept" {
		t.Errorf("behind %d: %+v", at, part)
	}
}

// Another process that writes beside the server, as the commands of users do, takes no number twice, and the feed shows that
// there is something between.
func TestTwoProcessesShareTheOutbox(t *testing.T) {
	r := newRig(t, Options{})
	conv := r.open(false)
	at, parts := r.follow()
	other, err := Open(t.Context(), Options{Path: r.o.Path, Wait: far, BusyTimeout: far})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	said := text(conv.ID, r.contact.Actor(), "elsewhere")
	there := doOn(other, said)
	here := doOn(r.DB, text(conv.ID, r.contact.Actor(), "here"))
	if there.Err != nil || here.Err != nil || there.Fed != at+1 || here.Fed != at+2 {
		t.Fatalf("behind %d: %+v, %+v", at, there, here)
	}
	if part := <-parts; part.First != at+2 {
		t.Errorf("%+v", part)
	}
	if page, err := r.Hot().Fed(t.Context(), at, 10); err != nil || len(page.All) != 2 || page.All[0].Events[0].Body != "elsewhere" {
		t.Errorf("%+v %v", page, err)
	}
}

// What is deleted in the transaction that has written it about is not left in the outbox.
func TestRowsGoWithTheirConversation(t *testing.T) {
	r := newRig(t, Options{})
	conv := r.open(true)
	lin := store.Actor{Kind: store.Agent, ID: "lin", Name: "Lin"}
	doOn(r.DB, store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: r.contact.Actor()})
	err := r.write(t.Context(), func(tx *tx) error {
		if _, err := tx.execute(store.Tag{Conv: conv.ID, By: lin, Add: []string{"secret"}}); err != nil {
			return err
		}
		d, err := tx.load(conv.ID)
		if err != nil {
			return err
		}
		if _, _, err := tx.dropParts(conv.ID, 1000); err != nil {
			return err
		}
		return tx.dropHead(&d.Conversation)
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := r.Cold().Outbox(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range page.Rows {
		if len(row.Tags.Added) > 0 {
			t.Errorf("%+v", row)
		}
	}
}

func TestDeadlineAnswersUnavailableAndLateCommitIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		conv := r.open(false)
		before := r.Stats().Latency
		r.o.Wait = 20 * time.Millisecond
		release := lockWriter(t, r.o.Path)
		outcomes := make(chan store.Outcome, 8)
		msg := text(conv.ID, r.contact.Actor(), "in flight")
		r.Do(msg, time.Now().Add(2*time.Second), func(out store.Outcome) { outcomes <- out })
		testkit.Eventually(t, "the command to be in a transaction", func() bool { return r.Stats().Waiting == 0 }) // in a transaction, waiting for the lock
		queued := make(chan store.Outcome, 2)
		r.Do(text(conv.ID, r.contact.Actor(), "queued"), time.Now().Add(50*time.Millisecond), func(out store.Outcome) { queued <- out })
		if out := <-queued; !errors.Is(out.Err, store.ErrUnavailable) {
			t.Fatalf("queued command: %+v", out)
		}
		if out := <-outcomes; !errors.Is(out.Err, store.ErrUnavailable) || out.Late {
			t.Fatalf("running command: %+v", out)
		}
		if r.Ready() == nil {
			t.Error("ready while a commit hangs")
		}
		release()
		if out := <-outcomes; out.Err != nil || !out.Late || len(out.Events) != 1 {
			t.Fatalf("late outcome: %+v", out)
		}
		if out := r.must(msg); !out.Dup {
			t.Fatalf("re-send: %+v", out)
		}
		if now := r.Stats().Latency; now.Count-before.Count != 3 || now.Sum-before.Sum < 2*time.Second {
			t.Errorf("two commands were refused and one done, latency was %+v and is %+v", before, now)
		}
		if events := r.events(conv.ID, store.StaffSide); len(events) != 2 {
			t.Fatalf("the expired command was executed: %+v", events)
		}
		testkit.Eventually(t, "the store to be ready", func() bool { return r.Ready() == nil })
	})
}

func TestWriteQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Queue: 4})
		conv := r.open(false)
		release := lockWriter(t, r.o.Path)
		outcomes := make(chan store.Outcome, 100)
		send := func() {
			r.Do(text(conv.ID, r.contact.Actor(), "x"), time.Now().Add(time.Minute), func(out store.Outcome) { outcomes <- out })
		}
		send()
		testkit.Eventually(t, "the command to be in a transaction", func() bool { return r.Stats().Waiting == 0 }) // in a transaction, waiting for the lock
		for range 4 + 15 {
			send()
		}
		busy := 0
		for range 15 {
			if out := <-outcomes; errors.Is(out.Err, store.ErrBusy) {
				busy++
			}
		}
		release()
		if busy != 15 {
			t.Errorf("%d refused, want 15", busy)
		}
	})
}
