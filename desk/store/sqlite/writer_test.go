package sqlite

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
	conv := r.open(false)
	before := r.Stats()
	release := lockWriter(t, r.o.Path)
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
				return store.Outcome{}, tx.exec(`INSERT INTO site (id) VALUES (NULL)`)
			}
		}
		if i == 11 {
			run = func(*tx) (store.Outcome, error) { panic("boom") }
		}
		r.work.submit(run, time.Now().Add(time.Minute), func(out store.Outcome) { results[i] <- out })
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
