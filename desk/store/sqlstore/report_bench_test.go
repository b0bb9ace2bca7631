package sqlstore

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// old stores 10,000 conversations that were closed in the last 90 days, with 1,000,000 messages, three sites, five groups,
// 25 agents and 60 tags, and what they have counted.
func old(b *testing.B, db *DB, now int64) {
	b.Helper()
	site, err := db.CreateSite(b.Context(), store.Site{Key: "demo", Name: "Demo"})
	if err != nil {
		b.Fatal(err)
	}
	contact, err := db.CreateVisitor(b.Context(), site, store.Token{}, time.Now().Add(time.Hour))
	if err != nil {
		b.Fatal(err)
	}
	const chats = `WITH RECURSIVE k (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM k WHERE i < 9999) `
	const begun = `?1 - 90 * 86400000 + i * 90 * 8640`
	const counted = chats + `INSERT INTO counted SELECT printf('c%06d', i), slot, 's' || (i % 3), 'g' || (i % 5), agent, measure, bucket, 1, total FROM (
		SELECT i, (at - at % 900000) AS slot, agent, measure, bucket, total FROM (
			SELECT i, ` + begun + ` AS at, '' AS agent, 'opened' AS measure, 0 AS bucket, 0 AS total FROM k
			UNION ALL SELECT i, ` + begun + `, '', 'handoff', 0, 0 FROM k
			UNION ALL SELECT i, ` + begun + `, '', 'arrived', 0, 0 FROM k
			UNION ALL SELECT i, ` + begun + ` + i % 9 * 60000, 'a' || (i % 25), 'wait', 20 + i % 9, i % 9 * 60000 FROM k
			UNION ALL SELECT i, ` + begun + ` + i % 7 * 90000, 'a' || (i % 25), 'first', 20 + i % 7, i % 7 * 90000 FROM k
			UNION ALL SELECT i, ` + begun + ` + i % 7 * 90000, 'a' || (i % 25), 'target', 0, i % 2 FROM k
			UNION ALL SELECT i, ` + begun + ` + i % 31 * 600000, 'a' || (i % 25), 'handled', 30 + i % 31, i % 31 * 600000 FROM k
			UNION ALL SELECT i, ` + begun + ` + i % 31 * 600000, 'a' || (i % 25), 'closed', 0, 0 FROM k
			UNION ALL SELECT i, ` + begun + ` + i % 31 * 600000, 'a' || (i % 25), 'rated', 1 + i % 5, 1 + i % 5 FROM k))`
	err = db.write(b.Context(), func(t *tx) error {
		if err := t.exec(chats+`INSERT INTO conversation (id, workspace, site, contact, state, owner_kind, owner_id, owner_name, epoch, rev, last_seq, last_pseq,
				opened_at, queued_at, assigned_at, closed_at, close_reason, page, preview, preview_from, at, last_agent, score, acted_at)
			SELECT printf('c%06d', i), 'main', ?2, ?3, 'closed', '', '', '', 1, 2, 100, 100, `+begun+`, 0, `+begun+`, `+begun+` + 600000, '', '', 'bye', 'customer', 0,
				'a' || (i % 25), 1 + i % 5, 1 FROM k`, now, site.ID, contact.ID); err != nil {
			return err
		}
		if err := t.exec(`WITH RECURSIVE m (s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM m WHERE s < 100)
			INSERT INTO message (conversation, seq, pseq, id, kind, sender_kind, sender_id, sender_name, body, meta, epoch, created)
			SELECT id, s, s, id || s, 'text', 'customer', contact, '', 'Where is my order? It has not come yet.', '{}', 1, opened_at + s FROM conversation, m`); err != nil {
			return err
		}
		if err := t.exec(`INSERT INTO conversation_tag (conversation, tag, opened) SELECT id, 'tag ' || (rowid % 60), opened_at FROM (SELECT id, opened_at, row_number() OVER () AS rowid FROM conversation)
			UNION ALL SELECT id, 'other ' || (rowid % 20), opened_at FROM (SELECT id, opened_at, row_number() OVER () AS rowid FROM conversation)`); err != nil {
			return err
		}
		if err := t.exec(counted, now); err != nil {
			return err
		}
		_, err := t.recount()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkReports reads reports of 90 days and lists over 10,000 closed conversations with 1,000,000 messages. The metric is
// the time that one of a hundred takes at least.
func BenchmarkReports(b *testing.B) {
	db, err := Open(b.Context(), Options{Path: filepath.Join(b.TempDir(), "desk.db"), Wait: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	now := time.Now().UnixMilli()
	old(b, db, now)
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	measure := func(name string, f func() (int, error)) {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if n, err := f(); n == 0 || err != nil {
					b.Fatal(n, err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
	byTag := store.ReportQuery{From: now - 91*dayMS, To: now + dayMS, Zone: zone, By: store.ByTag}
	measure("report by tag, no day packed", func() (int, error) {
		rows, _, err := db.Background().ReportTotal(b.Context(), byTag)
		return len(rows), err
	})
	began := time.Now()
	if err := db.PackDays(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Logf("91 days were packed in %v", time.Since(began).Round(time.Millisecond))
	for name, only := range map[string]store.ReportQuery{"site": {Site: "s1"}, "site and tag": {Site: "s0", Tag: "TAG 7"}, "agent and group": {Agent: "a3", Group: "g3"}} {
		only.From, only.To, only.Zone, only.By = byTag.From, byTag.To, zone, store.ByTag
		measure("report by tag of "+name, func() (int, error) {
			rows, _, err := db.Background().ReportTotal(b.Context(), only)
			return len(rows), err
		})
	}
	for _, by := range store.Kinds() {
		q := store.ReportQuery{From: now - 91*dayMS, To: now + dayMS, Zone: zone, By: by}
		measure("report by "+string(by), func() (int, error) {
			rows, _, err := db.Background().ReportTotal(b.Context(), q)
			return len(rows), err
		})
	}
	for name, f := range map[string]store.Filter{"closed": {State: store.Closed}, "tag": {Tag: "tag 7"}, "rated 1": {ScoreTo: 1}, "agent": {Agent: "a3", ScoreTo: 4}} {
		measure("list of "+name, func() (int, error) {
			page, _, err := db.Cold().History(b.Context(), store.Scope{All: true}, f, "", 20)
			return len(page), err
		})
	}
}
