package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// lockPostgres keeps the writers of a database away until the returned function is called.
func lockPostgres(t *testing.T, url string) (release func()) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err == nil {
		_, err = tx.Exec(`SELECT value FROM setting WHERE key = 'outbox_last' FOR UPDATE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(tx.Rollback(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestPostgresGroup: as TestGroupCommitAndSavepoints, where statements wait for the next one.
func TestPostgresGroup(t *testing.T) {
	url := freshPostgres(t)
	r := rigOn(t, onPostgres(t, Options{URL: url, BusyTimeout: far}))
	testGroup(t, r, func() (release func()) { return lockPostgres(t, url) })
}

// TestMessagesTogether: messages to many conversations share a savepoint, until one fails.
func TestMessagesTogether(t *testing.T) {
	for name, faulty := range faults {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{Logger: quiet})
			testMessages(t, r, func() (release func()) { return lockWriter(t, r.o.Path) }, faulty)
		})
	}
}

// TestPostgresMessagesTogether: as TestMessagesTogether, where nothing runs before it has to.
func TestPostgresMessagesTogether(t *testing.T) {
	for name, faulty := range faults {
		t.Run(name, func(t *testing.T) {
			url := freshPostgres(t)
			r := rigOn(t, onPostgres(t, Options{URL: url, BusyTimeout: far, Several: true, Logger: quiet}))
			testMessages(t, r, func() (release func()) { return lockPostgres(t, url) }, faulty)
		})
	}
}

var quiet = slog.New(slog.DiscardHandler) // of panics

// faults are ways of a message to fail after it has been written.
var faults = map[string]func(*tx) (store.Outcome, error){
	"none":    nil,
	"refused": func(*tx) (store.Outcome, error) { return store.Outcome{}, store.ErrForbidden },
	"panic":   func(*tx) (store.Outcome, error) { panic("boom") },
	"statement": func(t *tx) (store.Outcome, error) {
		return store.Outcome{}, t.exec(`INSERT INTO site (id) VALUES (NULL)`)
	},
	"read": func(t *tx) (store.Outcome, error) {
		var n int
		return store.Outcome{}, errors.Join(t.row(`SELECT 1`).Scan(&n), store.ErrForbidden)
	},
	"conflict": func(t *tx) (store.Outcome, error) {
		return store.Outcome{}, t.update(`UPDATE site SET name = name WHERE id = ?`, "of nobody")
	},
}

// cutOff is a session that loses its connection when something is to be taken back.
type cutOff struct{ session }

var errCut = errors.New("cut off")

func (c cutOff) exec(query string, args ...any) error {
	if strings.HasPrefix(query, "ROLLBACK TO") {
		return errCut
	}
	return c.session.exec(query, args...)
}

func (c cutOff) force(statement string) error {
	if strings.HasPrefix(statement, "ROLLBACK TO") {
		return errCut
	}
	return c.session.force(statement)
}

// TestRefusedAsTheConnectionIsLost: a command is refused, and the connection is lost before it has been taken back. None of the commands beside it
// gets its refusal, which would be for good: all may be tried again.
func TestRefusedAsTheConnectionIsLost(t *testing.T) {
	r := newRig(t, Options{Logger: quiet})
	testRefusedAndLost(t, r, func() (release func()) { return lockWriter(t, r.o.Path) })
}

// TestPostgresRefusedAsTheConnectionIsLost: as TestRefusedAsTheConnectionIsLost.
func TestPostgresRefusedAsTheConnectionIsLost(t *testing.T) {
	url := freshPostgres(t)
	r := rigOn(t, onPostgres(t, Options{URL: url, BusyTimeout: far, Several: true, Logger: quiet}))
	testRefusedAndLost(t, r, func() (release func()) { return lockPostgres(t, url) })
}

func testRefusedAndLost(t *testing.T, r *rig, lock func() (release func())) {
	conv := r.open(true)
	for name, refused := range map[string]*op{
		"a change":  {run: func(*tx) (store.Outcome, error) { return store.Outcome{}, store.ErrConflict }},
		"a message": {ahead: &appending{Append: text(conv.ID, r.contact.Actor(), "refused")}, run: faults["conflict"]},
	} {
		whole := func(t *tx) error { t.session = cutOff{t.session}; return nil }
		if err := r.write(t.Context(), whole); err != nil {
			t.Fatal(err)
		}
		results := make(chan store.Outcome, 4)
		release := lock()
		taken := make(chan struct{})
		r.work.enqueue(&op{run: func(*tx) (store.Outcome, error) { return store.Outcome{}, nil }, done: func(store.Outcome) { close(taken) }}, time.Now().Add(time.Minute))
		testkit.Eventually(t, "the writer to wait for the lock, so that what follows is one group", func() bool { return r.work.waiting() == 0 })
		refused.done = func(out store.Outcome) { results <- out }
		r.work.enqueue(refused, time.Now().Add(time.Minute))
		r.Do(text(conv.ID, r.contact.Actor(), "behind "+name), time.Now().Add(time.Minute), refused.done)
		release()
		<-taken
		for range 2 {
			if out := <-results; !errors.Is(out.Err, store.ErrUnavailable) || errors.Is(out.Err, store.ErrConflict) {
				t.Errorf("%s: %v", name, out.Err)
			}
		}
		mended := func(t *tx) error { t.session = t.session.(cutOff).session; return nil }
		if err := r.write(t.Context(), mended); err != nil {
			t.Fatal(err)
		}
		r.must(text(conv.ID, r.contact.Actor(), "behind "+name))
	}
}

// testMessages runs messages, of which every seventh fails, in few transactions: some end with another command, some with a
// second message to a conversation. What has failed leaves nothing, and everything else is stored, told and found.
func testMessages(t *testing.T, r *rig, lock func() (release func()), faulty func(*tx) (store.Outcome, error)) {
	const n = 40
	convs, people := make([]store.Conversation, n), make([]store.Actor, n)
	for i := range convs {
		r.contact = r.visitor()
		people[i], convs[i] = r.contact.Actor(), r.open(false)
	}
	fails := func(i int) bool { return faulty != nil && i%7 == 3 }
	at, parts := r.follow()
	before := r.Stats()
	release := lock()
	var results []chan store.Outcome
	add := func(o *op) {
		result := make(chan store.Outcome, 2)
		results = append(results, result)
		o.done = func(out store.Outcome) { result <- out }
		r.work.enqueue(o, time.Now().Add(time.Minute))
	}
	say := func(i int, body string) *op {
		a := &appending{Append: text(convs[i].ID, people[i], body)}
		return &op{ahead: a, run: a.run}
	}
	var want []string
	for i := range n {
		o := say(i, fmt.Sprintf("needle %02d", i))
		if fails(i) {
			run := o.run
			o.run = func(t *tx) (store.Outcome, error) {
				if out, err := run(t); err != nil {
					return out, err
				}
				return faulty(t)
			}
		} else {
			want = append(want, fmt.Sprintf("needle %02d", i))
		}
		add(o)
		if i == n/4 {
			add(&op{run: func(t *tx) (store.Outcome, error) { return store.Outcome{}, t.exec(`UPDATE site SET name = name`) }})
		}
		if i == n/2 {
			add(say(i, "needle again"))
		}
	}
	want = append(want, "needle again")
	release()
	failed := 0
	for _, c := range results {
		if out := <-c; out.Err != nil {
			failed++
		}
	}
	if stored := len(results) - 1 - failed; stored != len(want) {
		t.Fatalf("%d messages stored, want %d", stored, len(want))
	}
	after := r.Stats()
	if commits := after.Commits - before.Commits; commits > 2 || after.Failures != before.Failures {
		t.Errorf("%d commits for %d commands, %d of them failed", commits, len(results), after.Failures-before.Failures)
	}
	for i := range convs {
		for k, e := range r.events(convs[i].ID, store.StaffSide) {
			if e.Seq != uint64(k+1) || k > 0 && fails(i) {
				t.Errorf("conversation %d, event %d: %+v", i, k, e)
			}
		}
	}
	var told []string
	for range want {
		part := <-parts
		if part.First != at+1 {
			t.Errorf("part %d comes after %d", part.First, at)
		}
		at = part.Last
		told = append(told, part.Events[0].Body)
	}
	found := r.all("needle")
	slices.Sort(want)
	slices.Sort(told)
	slices.Sort(found)
	if !slices.Equal(told, want) || !slices.Equal(found, want) {
		t.Errorf("told %q\nfound %q\nwant %q", told, found, want)
	}
}

// TestPostgresWays: a transaction of messages takes two ways to the database, also if one is refused.
func TestPostgresWays(t *testing.T) {
	url := freshPostgres(t)
	r := rigOn(t, onPostgres(t, Options{URL: url, BusyTimeout: far, Several: true, Logger: quiet}))
	var convs []store.Conversation
	var people []store.Actor
	for range 30 {
		r.contact = r.visitor()
		people, convs = append(people, r.contact.Actor()), append(convs, r.open(true))
		r.must(text(convs[len(convs)-1].ID, r.contact.Actor(), "first")) // which is counted
	}
	r.must(store.Move{Conv: convs[7].ID, Trigger: store.CustomerClose, By: people[7]})
	people[7] = r.agent.Actor() // who must not write to a closed chat
	s := r.work.tx.session.(*pgSession)
	before, release := r.Stats(), lockPostgres(t, url)
	ways := s.sent
	results := make(chan store.Outcome, 2*len(convs))
	for i := range convs {
		r.Do(text(convs[i].ID, people[i], "second"), time.Now().Add(time.Minute), func(out store.Outcome) { results <- out })
	}
	release()
	refused := 0
	for range convs {
		if out := <-results; errors.Is(out.Err, store.ErrClosed) {
			refused++
		} else if out.Err != nil {
			t.Error(out.Err)
		}
	}
	r.follow() // the writer has gone on, by a command that takes three ways
	if took, commits := s.sent-ways-3, int(r.Stats().Commits-before.Commits)-1; refused != 1 || commits > 2 || took != 2*commits {
		t.Errorf("%d refused, %d ways for %d transactions", refused, took, commits)
	}
}
