package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

// rig is a store with a site, a contact and an agent.
type rig struct {
	*DB
	t       *testing.T
	site    store.Site
	contact store.Contact
	agent   store.AgentAccount
}

func open(t *testing.T, o Options) *DB {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "desk.db")
	}
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

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{DB: open(t, o), t: t}
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
	s.Do(cmd, time.Now().Add(20*time.Second), func(out store.Outcome) { result <- out })
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

func TestOpenAppendRead(t *testing.T) {
	r := newRig(t, Options{})
	opened := r.must(store.Open{Contact: r.contact, Page: "https://x"})
	if len(opened.Events) != 1 || opened.Events[0].Change.Event != "opened" || opened.Conv.State != store.InBot || opened.Conv.Owner.Name != "Eddy" || opened.Conv.Epoch != 1 {
		t.Fatalf("opened: %+v", opened)
	}
	again := r.must(store.Open{Contact: r.contact})
	if !again.Existing || again.Conv.ID != opened.Conv.ID || len(again.Events) != 0 {
		t.Fatalf("second open: %+v", again)
	}
	sent := r.must(text(opened.Conv.ID, r.contact.Actor(), "hello"))
	if e := sent.Events[0]; e.Seq != 2 || e.PSeq != 2 || e.Body != "hello" || e.ID == "" {
		t.Fatalf("sent: %+v", e)
	}
	head, err := r.Hot().Conversation(t.Context(), opened.Conv.ID)
	if err != nil || head.LastSeq != 2 || head.Preview != "hello" || head.PreviewFrom != store.Customer || head.ContactName != r.contact.Name {
		t.Fatalf("head: %+v %v", head, err)
	}
	if events := r.events(opened.Conv.ID, store.CustomerSide); len(events) != 2 || events[1].Body != "hello" {
		t.Fatalf("events: %+v", events)
	}
}

func TestDedupeReturnsTheFirstAck(t *testing.T) {
	var later atomic.Int64 // hours
	r := newRig(t, Options{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load()) * time.Hour) }})
	conv := r.open(false)
	msg := text(conv.ID, r.contact.Actor(), "once")
	first := r.must(msg)
	r.must(text(conv.ID, r.contact.Actor(), "between"))
	msg.Body = "another body"
	second := r.must(msg)
	if !second.Dup || second.Events[0].ID != first.Events[0].ID || second.Events[0].Seq != first.Events[0].Seq || second.Events[0].Body != "once" {
		t.Fatalf("dup: %+v, first: %+v", second, first)
	}
	r.must(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: r.contact.Actor()})
	if out := r.do(msg); out.Err != nil || !out.Dup {
		t.Fatalf("dup after close: %+v", out)
	}
	later.Store(24)
	if out := r.do(text(conv.ID, r.contact.Actor(), "late")); !errors.Is(out.Err, store.ErrClosed) || out.Conv.State != store.Closed {
		t.Fatalf("send after close: %+v", out)
	}
}

func TestCommandsRefuse(t *testing.T) {
	r := newRig(t, Options{})
	stranger, lin := r.visitor().Actor(), r.agent.Actor()
	other := store.Actor{Kind: store.Agent, ID: "someone", Name: "Someone"}
	conv := r.open(true)
	for name, c := range map[string]struct {
		cmd  store.Command
		want error
	}{
		"unknown conversation":  {text("nope", r.contact.Actor(), "x"), store.ErrNotFound},
		"another customer":      {text(conv.ID, stranger, "x"), store.ErrNotFound},
		"another's close":       {store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: stranger}, store.ErrNotFound},
		"agent not owner":       {text(conv.ID, lin, "x"), store.ErrConflict},
		"agent closes queued":   {store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: lin}, store.ErrConflict},
		"stale revision":        {store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: lin, Rev: 7}, store.ErrConflict},
		"unknown agent":         {store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: other}, store.ErrNotFound},
		"bot no longer owner":   {store.BotTurn{Conv: conv.ID, Epoch: 1, Turn: "t", Say: []store.Say{{Body: "x"}}}, store.ErrConflict},
		"bot says too much":     {store.BotTurn{Conv: conv.ID, Turn: "t", Say: make([]store.Say, 6)}, nil},
		"open on unknown site":  {store.Open{Contact: store.Contact{ID: "x", Site: "y"}}, store.ErrNotFound},
		"open for ghost person": {store.Open{Contact: store.Contact{ID: "x", Site: r.site.ID}}, nil},
	} {
		out := r.do(c.cmd)
		if out.Err == nil || (c.want != nil && !errors.Is(out.Err, c.want)) {
			t.Errorf("%s: %v, want %v", name, out.Err, c.want)
		}
	}
	if events := r.events(conv.ID, store.StaffSide); len(events) != 1 {
		t.Fatalf("refused commands left %d events", len(events)-1)
	}
}

func TestCapacityIsNeverExceeded(t *testing.T) {
	r := newRig(t, Options{})
	var convs []store.Conversation
	for range 8 {
		r.contact = r.visitor()
		convs = append(convs, r.open(true))
	}
	results := make(chan error, len(convs))
	for _, c := range convs {
		go func() {
			results <- doOn(r.DB, store.Move{Conv: c.ID, Trigger: store.TakeOver, By: r.agent.Actor()}).Err
		}()
	}
	taken, refused := 0, 0
	for range convs {
		switch err := <-results; {
		case err == nil:
			taken++
		case errors.Is(err, store.ErrCapacity):
			refused++
		default:
			t.Error(err)
		}
	}
	if taken != 5 || refused != 3 {
		t.Fatalf("taken %d, refused %d, capacity 5", taken, refused)
	}
	mine, err := r.Cold().OfAgent(t.Context(), r.agent.ID)
	if err != nil || len(mine) != 5 {
		t.Fatalf("%d assigned, %v", len(mine), err)
	}
}

func TestOneOfTwoAgentsWins(t *testing.T) {
	rounds := takeRounds
	if testing.Short() {
		rounds = 100
	}
	r := newRig(t, Options{})
	var agents [2]store.Actor
	for i := range agents {
		a, err := r.CreateAgent(t.Context(), store.AgentAccount{Login: fmt.Sprint("a", i), Name: "A", Password: "x"})
		if err != nil {
			t.Fatal(err)
		}
		agents[i] = a.Actor()
	}
	for round := range rounds {
		conv := r.open(true)
		results := make(chan store.Outcome, 2)
		for _, a := range agents {
			go func() {
				results <- doOn(r.DB, store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: a, Rev: conv.Rev})
			}()
		}
		x, y := <-results, <-results
		if x.Err != nil {
			x, y = y, x
		}
		if x.Err != nil || !errors.Is(y.Err, store.ErrConflict) {
			t.Fatalf("round %d: %v, %v", round, x.Err, y.Err)
		}
		if !y.Conv.Owner.Is(x.Conv.Owner) || y.Conv.State != store.Assigned {
			t.Fatalf("round %d: the loser's head is %+v", round, y.Conv)
		}
		r.must(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: r.contact.Actor()})
	}
}

func TestBotTurnIsAppliedOnceAndOnlyInItsEpoch(t *testing.T) {
	r := newRig(t, Options{})
	conv := r.open(false)
	turn := store.BotTurn{Conv: conv.ID, Epoch: conv.Epoch, Turn: "opening", Say: []store.Say{{Body: "hi", Buttons: []store.Button{{Label: "Person", Value: "human"}}}, {Body: "ask"}}}
	if out := r.must(turn); len(out.Events) != 2 || out.Events[0].From.Name != "Eddy" {
		t.Fatalf("%+v", out)
	}
	if out := r.must(turn); !out.Dup || len(out.Events) != 0 {
		t.Fatalf("second run: %+v", out)
	}
	late := store.BotTurn{Conv: conv.ID, Epoch: conv.Epoch, Turn: "late", Say: []store.Say{{Body: "too late"}}}
	if out := r.must(store.BotTurn{Conv: conv.ID, Epoch: conv.Epoch, Turn: "bye", Say: []store.Say{{Body: "a person comes"}}, Handoff: true, Reason: "asked"}); out.Conv.State != store.Queued || len(out.Events) != 2 {
		t.Fatalf("hand-off: %+v", out)
	}
	if out := r.do(late); !errors.Is(out.Err, store.ErrConflict) {
		t.Fatalf("late answer: %+v", out)
	}
	events := r.events(conv.ID, store.CustomerSide)
	if len(events) != 5 || events[1].Buttons[0].Value != "human" || events[4].Change.Reason != "asked" {
		t.Fatalf("%+v", events)
	}
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

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("condition not met in 10 s")
		}
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
