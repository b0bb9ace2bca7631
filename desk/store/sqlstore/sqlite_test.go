package sqlstore

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/pgtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(pgtest.Closing{M: m}, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

// rig is a store with a site, a contact and an agent.
type rig struct {
	*DB
	t       *testing.T
	site    store.Site
	contact store.Contact
	agent   store.AgentAccount
}

var empty = sync.OnceValues(Empty)

// fresh is the path of an empty database.
func fresh(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "desk.db")
	content, err := empty()
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// far is a deadline that no machine is too slow for.
const far = time.Hour

func open(t *testing.T, o Options) *DB {
	t.Helper()
	if o.Path == "" {
		o.Path = fresh(t)
	}
	o.Wait, o.BusyTimeout = cmp.Or(o.Wait, far), cmp.Or(o.BusyTimeout, far)
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

func newRig(t *testing.T, o Options) *rig { t.Helper(); return rigOn(t, open(t, o)) }

func rigOn(t *testing.T, db *DB) *rig {
	t.Helper()
	r := &rig{DB: db, t: t}
	var err error
	if r.site, err = r.CreateSite(t.Context(), store.Site{Key: "demo", Name: "Demo", BotName: "Eddy"}); err != nil {
		t.Fatal(err)
	}
	r.contact = r.visitor()
	if r.agent, err = r.CreateAgent(t.Context(), store.AgentAccount{Login: "lin", Name: "Lin", Password: "x", Capacity: 5}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) visitor() store.Contact {
	r.t.Helper()
	id := uuid.New()
	var token store.Token
	copy(token[:], id[:])
	c, err := r.CreateVisitor(r.t.Context(), r.site, token, time.Now().Add(time.Hour))
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) do(cmd store.Command) store.Outcome {
	r.t.Helper()
	return doOn(r.DB, cmd)
}

func doOn(s store.Store, cmd store.Command) store.Outcome {
	result := make(chan store.Outcome, 2)
	s.Do(cmd, time.Now().Add(far), func(out store.Outcome) { result <- out })
	return <-result
}

// must runs a command that has to succeed.
func (r *rig) must(cmd store.Command) store.Outcome {
	r.t.Helper()
	out := r.do(cmd)
	if out.Err != nil {
		r.t.Fatalf("%T: %v", cmd, out.Err)
	}
	return out
}

func (r *rig) open(human bool) store.Conversation {
	r.t.Helper()
	return r.must(store.Open{Contact: r.contact, Human: human}).Conv
}

func (r *rig) events(conv string, side store.Side) []store.Event {
	r.t.Helper()
	events, more, err := r.Cold().Events(r.t.Context(), conv, side, 0, 1_000_000, 1<<30)
	if err != nil || more {
		r.t.Fatal(err, more)
	}
	return events
}

func text(conv string, from store.Actor, body string) store.Append {
	return store.Append{Conv: conv, From: from, ClientID: uuid.NewString(), Body: body}
}

// Many senders at once: both sequences stay contiguous, each message is there once, and groups form.
func TestSequencesUnderConcurrency(t *testing.T) {
	r := newRig(t, Options{})
	const convs, senders, each = 4, 4, 25
	ids := make([]store.Conversation, convs)
	people := make([]store.Actor, convs)
	for i := range ids {
		r.contact = r.visitor()
		people[i], ids[i] = r.contact.Actor(), r.open(false)
	}
	var wg sync.WaitGroup
	for i := range convs {
		for s := range senders {
			wg.Go(func() {
				for n := range each {
					msg := text(ids[i].ID, people[i], fmt.Sprint(s, ".", n))
					for range 2 { // every message is sent twice
						if out := doOn(r.DB, msg); out.Err != nil {
							t.Error(out.Err)
						}
					}
				}
			})
		}
	}
	wg.Wait()
	for i := range convs {
		events := r.events(ids[i].ID, store.StaffSide)
		if len(events) != 1+senders*each {
			t.Fatalf("%d events, want %d", len(events), 1+senders*each)
		}
		last := map[string]int{}
		for k, e := range events {
			if e.Seq != uint64(k+1) || e.PSeq != uint64(k+1) {
				t.Fatalf("event %d has seq %d, pseq %d", k, e.Seq, e.PSeq)
			}
			if e.Kind != store.KindText {
				continue
			}
			var s, n int
			if _, err := fmt.Sscanf(e.Body, "%d.%d", &s, &n); err != nil {
				t.Fatal(err)
			}
			if key := fmt.Sprint(s); last[key] != n {
				t.Fatalf("sender %d: message %d where %d was due", s, n, last[key])
			}
			last[fmt.Sprint(s)]++
		}
	}
	if s := r.Stats(); s.Commits >= s.Commands {
		t.Errorf("no groups: %d commits for %d commands", s.Commits, s.Commands)
	}
}

func BenchmarkAppend(b *testing.B) {
	db, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "desk.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	site, err := db.CreateSite(b.Context(), store.Site{Key: "demo", Name: "Demo", BotName: "Eddy"})
	if err != nil {
		b.Fatal(err)
	}
	contact, err := db.CreateVisitor(b.Context(), site, store.Token{}, time.Now().Add(time.Hour))
	if err != nil {
		b.Fatal(err)
	}
	conv := doOn(db, store.Open{Contact: contact}).Conv.ID
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if out := doOn(db, text(conv, contact.Actor(), "hello")); out.Err != nil {
				b.Error(out.Err)
			}
		}
	})
	s := db.Stats()
	b.ReportMetric(float64(s.Commands)/float64(max(s.Commits, 1)), "commands/commit")
}
