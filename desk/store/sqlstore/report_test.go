package sqlstore

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Reads that hold every connection of the background, in the middle of a transaction, keep neither commits nor the
// reads of others from going on; a report that finds no connection ends with its deadline.
func TestLongReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		conv := r.open(true)
		for range backgroundReaders {
			rows, err := r.back.db.QueryContext(t.Context(), `SELECT a.id FROM message a, message b`)
			if err != nil || !rows.Next() {
				t.Fatal(err)
			}
			defer func() { _ = rows.Close() }()
		}
		for range 300 { // more than one checkpoint would move out of the way of
			r.must(text(conv.ID, r.contact.Actor(), "still here"))
		}
		for name, reader := range map[string]store.Reader{"hot": r.Hot(), "cold": r.Cold()} {
			if c, err := reader.Conversation(t.Context(), conv.ID); err != nil || c.LastSeq != 301 {
				t.Errorf("%s: %d events %v", name, c.LastSeq, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if rows, err := r.Background().Report(ctx, store.ReportQuery{From: 0, To: 1, By: store.ByAll}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a report without a connection: %v %v", rows, err)
		}
	})
}

// A statement that would run for minutes is cut off in the middle.
func TestReportIsCutOff(t *testing.T) {
	r := newRig(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var n int64
	err := r.back.db.QueryRowContext(ctx, `WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 1000000000000) SELECT count(*) FROM c`).Scan(&n)
	if err == nil || ctx.Err() == nil {
		t.Errorf("%d rows were counted: %v", n, err)
	}
	if _, err := r.Background().Report(t.Context(), store.ReportQuery{From: 0, To: 1, By: store.ByAll}); err != nil {
		t.Errorf("the next report: %v", err)
	}
}

// Roll-ups that somebody has damaged are made anew, those of tags too, and of conversations that are gone.
func TestRecount(t *testing.T) {
	l := newLives(t)
	l.live("a word")
	conv, customer := l.begin("a word", true, false)
	l.do(store.Tag{Conv: conv, By: l.agents[0], Add: []string{"VIP"}})
	l.do(store.Move{Conv: conv, Trigger: store.CustomerClose, By: customer})
	l.do(store.Rate{Conv: conv, By: customer, Score: 2})
	second, _ := l.begin("a word", true, false)
	l.do(store.Tag{Conv: second, By: l.agents[0], Add: []string{"vip"}})
	if _, err := l.DropClosed(t.Context(), l.site.ID, l.now.Add(time.Hour).UnixMilli(), 1_000); err != nil {
		t.Fatal(err)
	}
	reports := func() (all [][]store.ReportRow) {
		for _, by := range store.Kinds() {
			rows, err := l.Background().Report(t.Context(), store.ReportQuery{By: by, From: l.now.Add(-24 * time.Hour).UnixMilli(), To: l.now.Add(time.Hour).UnixMilli()})
			if err != nil || len(rows) == 0 {
				t.Fatal(by, rows, err)
			}
			all = append(all, rows)
		}
		return all
	}
	want := reports()
	if n, err := l.Recount(t.Context()); err != nil || n != 0 {
		t.Fatalf("%d numbers are wrong at first, %v", n, err)
	}
	for _, query := range []string{
		`UPDATE rollup_15m SET n = n + 1 WHERE measure = 'opened'`, `DELETE FROM rollup_15m WHERE measure = 'rated'`, `DELETE FROM rollup_tag_15m`,
		`UPDATE rollup_tag_15m SET total = 99 WHERE measure = 'abandoned'`, `INSERT INTO rollup_15m VALUES (900000, 'x', '', '', 'opened', 0, 5, 0)`,
	} {
		if err := l.write(t.Context(), func(tx *tx) error { return tx.exec(query) }); err != nil {
			t.Fatal(query, err)
		}
		n, err := l.Recount(t.Context())
		if got := reports(); err != nil || n == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d were wrong, %v, the reports are\n%+v, want\n%+v", query, n, err, got, want)
		}
	}
}
