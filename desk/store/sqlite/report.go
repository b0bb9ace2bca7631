package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// backgroundReaders is how many reports run at once. Others wait for a connection until their deadline.
const backgroundReaders = 2

// Background implements store.Store.
func (db *DB) Background() store.Reports { return db.back }

const dayMS = int64(24 * time.Hour / time.Millisecond)

// reportKeys returns the expressions for the rows of a report: one for roll-ups, and one for closed conversations.
func reportKeys(by store.By) (rollup, conv string) {
	switch by {
	case store.ByDay:
		return `(slot + ?3) / ?4`, `(closed_at + ?3) / ?4`
	case store.BySite:
		return `site`, `site`
	case store.ByGroup:
		return `grp`, `grp`
	case store.ByAgent:
		return `agent`, `last_agent`
	}
	return `''`, `''`
}

// draftRow is a row of a report that is being put together.
type draftRow struct {
	store.ReportRow
	wait, first, handle store.Tally
	scores              int64 // sum
}

// Report implements store.Reports.
func (r *reader) Report(ctx context.Context, q store.ReportQuery) ([]store.ReportRow, error) {
	if !q.By.Valid() || q.From >= q.To || q.To-q.From > store.MaxReportDays*dayMS || q.From < 0 || max(q.Offset, -q.Offset) > dayMS {
		return nil, fmt.Errorf("%w: no period of at most %d days, or no such report", store.ErrConflict, store.MaxReportDays)
	}
	rows := make(map[string]*draftRow)
	rollup, conv := reportKeys(q.By)
	if err := r.countRollups(ctx, q, rollup, rows); err != nil {
		return nil, err
	}
	if err := r.countRatings(ctx, q, conv, rows); err != nil {
		return nil, err
	}
	names, err := r.reportNames(ctx, q.By)
	if err != nil {
		return nil, err
	}
	all := make([]store.ReportRow, 0, len(rows))
	for key, row := range rows {
		row.Key, row.Name = key, names[key]
		row.Score = float64(row.scores) / float64(max(row.Rated, 1))
		row.Wait, row.First, row.Handle = row.wait.Spread(), row.first.Spread(), row.handle.Spread()
		all = append(all, row.ReportRow)
	}
	slices.SortFunc(all, func(a, b store.ReportRow) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key)) })
	return all, nil
}

func draftOf(rows map[string]*draftRow, key string) *draftRow {
	if rows[key] == nil {
		rows[key] = &draftRow{}
	}
	return rows[key]
}

// reportKey turns the number of a day into its date.
func reportKey(by store.By, key string) string {
	if by != store.ByDay {
		return key
	}
	var day int64
	if _, err := fmt.Sscan(key, &day); err != nil {
		return key
	}
	return time.UnixMilli(day * dayMS).UTC().Format(time.DateOnly)
}

// reportArgs returns the arguments of a report's statements. The day expressions use all four.
func reportArgs(q store.ReportQuery) []any {
	if q.By == store.ByDay {
		return []any{q.From, q.To, q.Offset, dayMS}
	}
	return []any{q.From, q.To}
}

func (r *reader) countRollups(ctx context.Context, q store.ReportQuery, key string, rows map[string]*draftRow) error {
	found, err := r.db.QueryContext(ctx, `SELECT CAST(`+key+` AS TEXT), measure, bucket, sum(n), sum(total) FROM rollup_15m
		WHERE slot >= ?1 AND slot < ?2 GROUP BY 1, 2, 3`, reportArgs(q)...)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var key, measure string
		var bucket int
		var n, total int64
		if err := found.Scan(&key, &measure, &bucket, &n, &total); err != nil {
			return err
		}
		draftOf(rows, reportKey(q.By, key)).count(measure, bucket, n, total)
	}
	return found.Err()
}

func (d *draftRow) count(measure string, bucket int, n, total int64) {
	switch measure {
	case store.MeasureOpened:
		d.Opened += n
	case store.MeasureArrived:
		d.Arrived += n
	case store.MeasureAbandoned:
		d.Abandoned += n
	case store.MeasureClosed:
		d.Closed += n
	case store.MeasureContained:
		d.Contained += n
	case store.MeasureHandoff:
		d.Handoff += n
	case store.MeasureWait:
		d.wait.Add(bucket, n, total)
	case store.MeasureFirst:
		d.first.Add(bucket, n, total)
	case store.MeasureRated:
		d.Rated, d.scores = d.Rated+n, d.scores+total
	case store.MeasureHandled:
		d.handle.Add(bucket, n, total)
	}
}

// countRatings reads the scores of the conversations closed in the period that are still kept, by the index of their close.
func (r *reader) countRatings(ctx context.Context, q store.ReportQuery, key string, rows map[string]*draftRow) error {
	found, err := r.db.QueryContext(ctx, `SELECT CAST(`+key+` AS TEXT), count(*), sum(score) FROM conversation
		WHERE state = 'closed' AND closed_at >= ?1 AND closed_at < ?2 AND score > 0 AND acted_at > 0 GROUP BY 1`, reportArgs(q)...)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var key string
		var n, total int64
		if err := found.Scan(&key, &n, &total); err != nil {
			return err
		}
		draftOf(rows, reportKey(q.By, key)).count(store.MeasureRated, 0, n, total)
	}
	return found.Err()
}

func (r *reader) reportNames(ctx context.Context, by store.By) (map[string]string, error) {
	table := map[store.By]string{store.BySite: "site", store.ByGroup: "grp", store.ByAgent: "agent"}[by]
	if table == "" {
		return nil, nil
	}
	type pair struct{ id, name string }
	all, err := list(ctx, r.db, func(s scanner) (p pair, err error) {
		err = s.Scan(&p.id, &p.name)
		return p, err
	}, `SELECT id, name FROM `+table)
	names := make(map[string]string, len(all))
	for _, p := range all {
		names[p.id] = p.name
	}
	return names, err
}

// Minutes implements store.Reports.
func (r *reader) Minutes(ctx context.Context, since int64) ([]store.Minute, error) {
	return list(ctx, r.db, func(s scanner) (m store.Minute, err error) {
		err = s.Scan(&m.At, &m.Group, &m.Arrived, &m.Left, &m.Waited)
		return m, err
	}, `SELECT slot, grp, sum(iif(measure = 'arrived', n, 0)), sum(iif(measure = 'wait', n, 0)), sum(iif(measure = 'wait', total, 0))
		FROM rollup_1m WHERE slot >= ? GROUP BY slot, grp ORDER BY slot, grp`, since)
}
