package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

func (r *rig) search(query string) []store.Hit {
	r.t.Helper()
	hits, _, err := r.Cold().Search(r.t.Context(), store.Scope{All: true}, query, store.Filter{}, "", 50)
	if err != nil {
		r.t.Fatal(query, err)
	}
	return hits
}

// forget takes messages out of the index, as they are in a database that is older than it.
func forgetDocs(t *testing.T, path string) {
	t.Helper()
	execOn(t, path, `DELETE FROM message_words WHERE rowid IN (SELECT doc FROM message WHERE doc IS NOT NULL)`)
	execOn(t, path, `UPDATE message SET doc = NULL`)
}

// What version 1 of the schema has stored is found after the migration.
func TestSearchAfterMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	version1(t, path)
	r := &rig{DB: open(t, Options{Path: path}), t: t}
	testkit.Eventually(t, "every message to be in the search", func() bool { return r.Stats().Unindexed == 0 })
	if hits := r.search("hello"); len(hits) != 1 || hits[0].Event.Conv != "assigned" || hits[0].Event.Seq != 2 {
		t.Errorf("%+v", hits)
	}
}

// Older messages are indexed in batches; a stop in between loses nothing and does nothing twice, and what is written
// meanwhile is found at once and is newer.
func TestOldMessagesAreIndexed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	r := newRig(t, Options{Path: path})
	conv := r.open(true)
	const old = 3*indexBatch + 10
	for i := range old {
		r.DB.Do(text(conv.ID, r.contact.Actor(), fmt.Sprint("needle ", i)), time.Now().Add(time.Minute), func(out store.Outcome) {
			if out.Err != nil {
				t.Error(out.Err)
			}
		})
	}
	r.must(text(conv.ID, r.contact.Actor(), "👍")) // no word in it
	testkit.Eventually(t, "every message to be in the search", func() bool { return r.Stats().Unindexed == 0 })
	if n := len(r.all("needle")); n != old {
		t.Fatalf("%d found before", n)
	}
	forgetDocs(t, path)
	if n := len(r.all("needle")); n != 0 {
		t.Fatalf("%d found in an empty index", n)
	}
	r.must(text(conv.ID, r.contact.Actor(), "needle new"))

	half := newIndexer(r.DB) // one batch, then the end
	if n, err := half.batch(); n != indexBatch || err != nil {
		t.Fatal(n, err)
	}
	half.stop()
	if n := len(r.all("needle")); n <= 1 || n >= old {
		t.Errorf("%d found after one batch", n)
	}
	again := newIndexer(r.DB)
	again.start()
	testkit.Eventually(t, "the second run to find nothing left", func() bool { return again.left.Load() == 0 })
	again.stop()
	bodies := r.all("needle")
	if len(bodies) != old+1 || bodies[0] != "needle new" {
		t.Errorf("%d found, first %q", len(bodies), bodies[0])
	}
	var last int
	for i, b := range bodies[1:] {
		var n int
		if _, err := fmt.Sscanf(b, "needle %d", &n); err != nil || i > 0 && n != last-1 {
			t.Fatalf("%q is behind %d", b, last)
		}
		last = n
	}
	rest := newIndexer(r.DB)
	defer rest.stop()
	if rest, err := rest.batch(); rest != 0 || err != nil {
		t.Errorf("%d were left, %v", rest, err)
	}
}

// all reads every page.
func (r *rig) all(query string) (bodies []string) {
	r.t.Helper()
	for cursor := ""; ; {
		hits, next, err := r.Cold().Search(r.t.Context(), store.Scope{All: true}, query, store.Filter{}, cursor, 50)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, h := range hits {
			bodies = append(bodies, h.Event.Body)
		}
		if cursor = next; next == "" {
			return bodies
		}
	}
}

// The statements of searches and of the lists go by indexes; none reads the messages from one end to the other.
func TestReadPlans(t *testing.T) {
	r := newRig(t, Options{})
	a := accessArgs(store.Scope{Agent: "x"})
	for name, c := range map[string]struct {
		query string
		args  []any
		want  []string
	}{
		"search":             {sqliteDialect.search, append([]any{`"x"`, 1, 1}, a...), []string{"message_words VIRTUAL TABLE", "SEARCH m USING INDEX message_doc", "SEARCH c USING PRIMARY KEY"}},
		"unindexed":          {sqlUnindexed, []any{1}, []string{"message_unindexed"}},
		"last doc":           {sqlLastDoc, []any{1}, []string{"message_doc"}},
		"expired":            {sqlExpired, []any{"x", 1}, []string{"SEARCH c USING INDEX conversation_kept"}},
		"its files":          {sqlDropFiles, []any{"x", 1}, []string{"attachment_conversation"}},
		"its turns":          {sqlDropTurns, []any{"x", 1}, []string{"bot_turn_conversation"}},
		"all conversations":  {sqlConvs, []any{1, "x", 0, 1}, []string{"SEARCH c USING INDEX conversation_opened (opened_at>? AND (opened_at,id)<(?,?))"}},
		"those of one state": {sqlConvsIn, []any{"closed", 1, "x", 0, 1}, []string{"SEARCH c USING INDEX conversation_state (state=? AND opened_at>? AND (opened_at,id)<(?,?))"}},
		"API key":            {sqlKey, []any{"x"}, []string{"SEARCH api_key USING INDEX"}},
		"API keys":           {sqlKeys, []any{1}, []string{"api_key_revoked"}},
		"revoked API keys":   {sqlRevoked, []any{1}, []string{"api_key_revoked"}},
		"history":            {sqlHistory, append(a, "x", 1, "x", 0, 1), []string{"SEARCH c USING INDEX conversation_contact"}},
		"tag":                {sqlListTag, append(a, "x", 1, "x", 0, 1), []string{"SEARCH t USING", "conversation_tag_opened (tag=? AND opened", "SEARCH c USING PRIMARY KEY"}},
		"agent":              {sqlListAgent, append(a, "x", 1, "x", 0, 1), []string{"SEARCH c USING INDEX conversation_agent (last_agent=? AND opened_at"}},
		"open":               {sqlListOpen, append(a, 1, "x", 0, 1), []string{"SEARCH c USING INDEX conversation_open (opened_at"}},
		"state":              {sqlListState, append(a, "closed", 1, "x", 0, 1), []string{"SEARCH c USING INDEX conversation_state (state=? AND opened_at"}},
		"all":                {sqlListAll, append(a, 1, "x", 0, 1), []string{"SEARCH c USING INDEX conversation_opened (opened_at"}},
		"queue":              {sqlQueue, []any{1}, []string{"conversation_queue"}},
		"last of the queue":  {sqlLastQueued, []any{1}, []string{"conversation_behind (priority=?"}},
	} {
		rows, err := r.cold.db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+c.query, c.args...)
		if err != nil {
			t.Fatal(name, err)
		}
		plan, err := collect(rows, func(s scanner) (line string, err error) {
			var x int
			return line, s.Scan(&x, &x, &x, &line)
		})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in the plan:\n%s", name, want, text)
			}
		}
		if strings.Contains(text, "SCAN m\n") || strings.Contains(text, "SCAN c\n") || strings.Contains(text, "SCAN message\n") {
			t.Errorf("%s reads everything:\n%s", name, text)
		}
		if strings.Contains(text, "B-TREE FOR ORDER BY") {
			t.Errorf("%s sorts what it has read:\n%s", name, text)
		}
	}
}

// A search ends with its context, also in the middle of a statement.
func TestSearchHonoursItsContext(t *testing.T) {
	r := newRig(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := r.Cold().Search(ctx, store.Scope{}, "x", store.Filter{}, "", 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// sayings makes texts of about the length and variety of chats, in English and Chinese.
type sayings struct {
	rng   *rand.Rand
	words []string
}

func newSayings() *sayings {
	s := &sayings{rng: rand.New(rand.NewPCG(1, 2))}
	for range 5000 {
		b := make([]byte, 3+s.rng.IntN(7))
		for i := range b {
			b[i] = 'a' + byte(s.rng.IntN(26))
		}
		s.words = append(s.words, string(b))
	}
	return s
}

// next returns a text; common words are much more common than others.
func (s *sayings) next() string {
	var b strings.Builder
	if s.rng.IntN(2) == 0 {
		for range 5 + s.rng.IntN(10) {
			b.WriteString(s.words[int(float64(len(s.words))*s.rng.Float64()*s.rng.Float64()*s.rng.Float64())])
			b.WriteByte(' ')
		}
		return b.String()
	}
	for range 8 + s.rng.IntN(20) {
		b.WriteRune(0x4e00 + rune(3000*s.rng.Float64()*s.rng.Float64()))
	}
	return b.String()
}

const fillBatch = 1000

// store writes n texts into a conversation, beginning with seq.
func (s *sayings) store(t *tx, conv string, seq *int, n int) error {
	for range n {
		e := store.Event{Conv: conv, Kind: store.KindText, Body: s.next(), Time: t.now()}
		doc, err := t.index(&e)
		if err != nil {
			return err
		}
		if err := t.exec(sqlInsertMsg, conv, *seq, *seq, fmt.Sprint("m", *seq), e.Kind, "customer", "x", "x", "", e.Body, "{}", 1, e.Time, doc); err != nil {
			return err
		}
		*seq++
	}
	return nil
}

// A hundred thousand messages: every kind of query stays within a bounded multiple of what it took with a tenth of them.
func TestSearchStaysFlat(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("100,000 messages")
	}
	r := newRig(t, Options{})
	conv := r.open(true)
	s := newSayings()
	seq := 0
	fill := func(n int) { // as the writer does it, with fewer commits
		t.Helper()
		for range n / fillBatch {
			if err := r.write(t.Context(), func(t *tx) error { return s.store(t, conv.ID, &seq, fillBatch) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	queries := []string{s.words[0], s.words[0] + " " + s.words[1], s.words[4999], "一", "一丁", "一丁七", string(rune(0x4e00 + 2900)), s.words[0] + " 一", "needle", s.words[0] + " needle"}
	measure := func(scope store.Scope) (median, p99 time.Duration) {
		t.Helper()
		var all []time.Duration
		for range 10 {
			for _, q := range queries {
				began := time.Now()
				if _, _, err := r.Cold().Search(t.Context(), scope, q, store.Filter{}, "", 20); err != nil {
					t.Fatal(err)
				}
				all = append(all, time.Since(began))
			}
		}
		slices.Sort(all)
		return all[len(all)/2], all[len(all)*99/100]
	}
	r.must(text(conv.ID, r.contact.Actor(), "needle"))                                 // 2
	r.must(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.second().Actor()}) // 3: nothing of it is lin's
	seq = 4
	mine, nothing := store.Scope{All: true}, store.Scope{Agent: r.agent.ID}
	fill(10_000)
	small, _ := measure(mine)
	fill(90_000)
	large, slowest := measure(mine)
	hidden, hiddenSlowest := measure(nothing)
	t.Logf("a search among 10,000 messages: %v (median); among 100,000: %v, p99 %v; when all of them are another agent's: %v, p99 %v",
		small, large, slowest, hidden, hiddenSlowest)
	if limit := max(20*small, 2*time.Second); large > limit || hidden > limit {
		t.Errorf("a search takes %v and %v, with a tenth of the messages %v", large, hidden, small)
	}
	if hits := r.search("needle"); len(hits) != 1 {
		t.Errorf("%d needles", len(hits))
	}
}

func (r *rig) second() store.AgentAccount {
	r.t.Helper()
	a, err := r.CreateAgent(r.t.Context(), store.AgentAccount{Login: "moe", Name: "Moe", Password: "x", Capacity: store.MaxCapacity})
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// BenchmarkIndex compares the writer with and without the search index, in one run: the metric is the ratio.
func BenchmarkIndex(b *testing.B) {
	s := newSayings()
	var texts []string
	for range 1000 {
		texts = append(texts, s.next())
	}
	var took [2]time.Duration
	var dbs [2]*DB
	var convs [2]store.Conversation
	var contacts [2]store.Contact
	for i := range dbs {
		db, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), fmt.Sprint(i, ".db"))})
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		db.o.noIndex = i == 0
		site, err := db.CreateSite(b.Context(), store.Site{Key: "demo", Name: "Demo"})
		if err != nil {
			b.Fatal(err)
		}
		if contacts[i], err = db.CreateVisitor(b.Context(), site, store.Token{}, time.Now().Add(time.Hour)); err != nil {
			b.Fatal(err)
		}
		dbs[i], convs[i] = db, doOn(db, store.Open{Contact: contacts[i]}).Conv
	}
	const round = 256
	for n := 0; n < b.N; n += round {
		for i, db := range dbs {
			began := time.Now()
			done := make(chan error, round)
			for k := range round {
				db.Do(text(convs[i].ID, contacts[i].Actor(), texts[(n+k)%len(texts)]), time.Now().Add(time.Minute), func(out store.Outcome) { done <- out.Err })
			}
			for range round {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "with/without")
	b.ReportMetric(float64(took[1].Microseconds())/float64(b.N), "us/message")
}

// A command that fails leaves nothing in the index, and neither does one that panics; those beside it in the transaction do.
func TestFailedCommandIsNotIndexed(t *testing.T) {
	r := newRig(t, Options{})
	conv := r.open(true)
	say := func(t *tx, body string) error {
		_, err := t.execute(text(conv.ID, r.contact.Actor(), body))
		return err
	}
	wrong := errors.New("wrong")
	if err := r.write(t.Context(), func(t *tx) error { return errors.Join(say(t, "needle one"), wrong) }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	if err := r.write(t.Context(), func(t *tx) error { _ = say(t, "needle two"); panic("boom") }); err == nil {
		t.Error("no error")
	}
	if err := r.write(t.Context(), func(t *tx) error { return say(t, "needle three") }); err != nil {
		t.Error(err)
	}
	if got := r.all("needle"); !slices.Equal(got, []string{"needle three"}) {
		t.Errorf("%q", got)
	}
	var rows int
	if err := r.cold.db.QueryRowContext(t.Context(), `SELECT count(*) FROM message_words_docsize`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d messages in the index, %v", rows, err)
	}
}
