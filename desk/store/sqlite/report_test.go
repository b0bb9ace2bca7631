package sqlite

import (
	"context"
	"errors"
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
