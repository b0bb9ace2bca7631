package sqlstore

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// ears is what a store's feed has told.
type ears struct {
	mu   sync.Mutex
	last int64 // that was heard of
	own  int   // parts with something in them
	wake int   // parts without
}

func (e *ears) of(db *DB) *ears {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last, _ = db.Follow(func(p *store.Fed) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.last = max(e.last, p.Last)
		if p.First > p.Last {
			e.wake++
		} else {
			e.own++
		}
	})
	return e
}

func (e *ears) heard() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

func lastOf(t *testing.T, db *DB) int64 {
	t.Helper()
	p, err := db.Hot().Outbox(t.Context(), 1<<62, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p.Last
}

// TestPostgresHears: a process hears what another one commits, and reads it; its own commits it is told as ever. That goes on after the
// connection that listens was lost, and also if the other one does not tell.
func TestPostgresHears(t *testing.T) {
	url := freshPostgres(t)
	a, b, quiet := onPostgres(t, Options{URL: url}), onPostgres(t, Options{URL: url}), onPostgres(t, Options{URL: url, Alone: true})
	atA, atB := new(ears).of(a), new(ears).of(b)
	n := 0
	commits := func(db *DB) {
		t.Helper()
		n++
		if _, err := db.CreateGroup(t.Context(), store.Group{Name: fmt.Sprint("group ", n)}); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(what string) {
		t.Helper()
		last := lastOf(t, a)
		testkit.Eventually(t, what, func() bool { return atA.heard() == last && atB.heard() == last })
	}
	commits(a)
	hears("what the other one commits")
	p, err := b.Hot().Fed(t.Context(), lastOf(t, a)-1, 10)
	if err != nil || len(p.All) != 1 || !p.All[0].Setup {
		t.Errorf("it reads %+v %v", p, err)
	}
	commits(b)
	commits(b)
	hears("the other way round")
	news := b.OutboxNews()
	commits(a)
	testkit.Receive(t, "news of the other one", news)

	raw, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	testkit.Eventually(t, "all three to listen", func() bool {
		var n int
		err := raw.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '%' || $1`, pgListens).Scan(&n)
		return err == nil && n == 3
	})
	var ended int
	if err := raw.QueryRow(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '%' || $1`, pgListens).Scan(&ended); err != nil || ended != 3 {
		t.Errorf("%d connections ended, %v", ended, err)
	}
	commits(a)
	hears("what was committed while nobody listened")
	commits(quiet)
	hears("what nobody tells")
	commits(b)
	hears("what is told again")
	atA.mu.Lock()
	defer atA.mu.Unlock()
	if atA.own != 3 || atA.wake < 3 {
		t.Errorf("told %d own parts, woken %d times", atA.own, atA.wake)
	}
}

// TestPostgresOwnNotifications: what this process tells others it does not hear itself: it may not have told its own followers yet.
func TestPostgresOwnNotifications(t *testing.T) {
	db := onPostgres(t, Options{})
	heard := make(chan int64, 100)
	stop := db.on.listen("me", func(last int64) { heard <- last })
	defer stop()
	if last := testkit.Receive(t, "the first look", heard); last != 0 {
		t.Errorf("the first look tells %d", last)
	}
	raw, err := sql.Open("pgx", db.o.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	for _, payload := range []string{"me 7", "", "other", "other x", "other 8"} {
		if _, err := raw.Exec(`SELECT pg_notify($1, $2)`, pgChannel, payload); err != nil {
			t.Fatal(err)
		}
	}
	for {
		switch last := testkit.Receive(t, "what the other one tells", heard); last {
		case 8:
			return
		case 7:
			t.Error("it hears itself")
		}
	}
}

// TestPostgresNumbersAreCommitOrder: while a transaction that has a number is not committed, nobody else gets one. So a reader misses nothing
// that is committed late.
func TestPostgresNumbersAreCommitOrder(t *testing.T) {
	url := freshPostgres(t)
	db := onPostgres(t, Options{URL: url, BusyTimeout: far})
	raw, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	other, err := raw.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var last, clock int64
	if err := other.QueryRow(postgresDialect.last).Scan(&last, &clock); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := db.CreateGroup(t.Context(), store.Group{Name: "late"})
		done <- err
	}()
	testkit.Eventually(t, "the second writer to wait for the first", func() bool {
		var waits int
		err := raw.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits)
		return err == nil && waits == 1
	})
	if p, err := db.Hot().Fed(t.Context(), last, 10); err != nil || len(p.All) != 0 || p.Last != last {
		t.Errorf("read before anything is committed: %+v %v", p, err)
	}
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO outbox (seq, id, type, site, conversation, contact, event, tags, created, target, first) VALUES (%d, 'first', 'setup', '', '', '', 0, '', %d, '', %[1]d)`, last+1, time.Now().UnixMilli()),
		fmt.Sprintf(`UPDATE setting SET value = '%d' WHERE key = 'outbox_last'`, last+1),
	} {
		if _, err := other.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	p, err := db.Hot().Outbox(t.Context(), last, 10)
	if err != nil || len(p.Rows) != 2 || p.Rows[0].ID != "first" || p.Rows[1].Seq != last+2 {
		t.Errorf("%+v %v", p, err)
	}
}

// TestPostgresBeatHears: a process that can open no connection to listen on hears of what others have committed when it says that it lives.
func TestPostgresBeatHears(t *testing.T) {
	url := freshPostgres(t)
	a, b := onPostgres(t, Options{URL: url, Several: true}), onPostgres(t, Options{URL: url, Several: true})
	a.deaf()
	atA := new(ears).of(a)
	if _, err := b.CreateGroup(t.Context(), store.Group{Name: "a group"}); err != nil {
		t.Fatal(err)
	}
	last := lastOf(t, a)
	if atA.heard() == last {
		t.Fatal("it was heard without a connection")
	}
	if _, err := a.Beat(t.Context(), time.Hour, 0, store.About{}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "to hear of it", func() bool { return atA.heard() == last })
}
