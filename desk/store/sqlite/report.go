package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// backgroundReaders is how many reports run at once. Others wait for a connection until their deadline.
const backgroundReaders = 2

// Background implements store.Store.
func (db *DB) Background() store.Reports { return db.back }

const dayMS = int64(24 * time.Hour / time.Millisecond)

// reportKey returns the expression for the rows of a report. ?6 is what the place is ahead of UTC.
func reportKey(by store.By) string {
	switch by {
	case store.ByDay:
		return `(slot + ?6) / 86400000`
	case store.ByHour:
		return `(slot + ?6) / 3600000 % 24`
	case store.BySite:
		return `site`
	case store.ByGroup:
		return `grp`
	case store.ByAgent:
		return `agent`
	case store.ByTag:
		return `tag`
	}
	return `''`
}

// sqlReport returns the statement of a report, a constant for each kind.
func sqlReport(by store.By) string {
	table := `rollup_15m`
	if by == store.ByTag {
		table = `rollup_tag_15m`
	}
	return `SELECT ` + reportKey(by) + `, measure, bucket, sum(n), sum(total) FROM ` + table + ` WHERE slot >= ?1 AND slot < ?2
		AND (?3 = '' OR site = ?3) AND (?4 = '' OR grp = ?4) AND (?5 = '' OR agent = ?5) AND ?6 IS NOT NULL GROUP BY 1, 2, 3 HAVING sum(n) <> 0`
}

// draftRow is a row of a report that is being put together.
type draftRow struct {
	store.ReportRow
	wait, first, handle store.Tally
	scores              int64 // sum
}

// done computes the parts of the row that are not counts.
func (d *draftRow) done() store.ReportRow {
	d.Score = float64(d.scores) / float64(max(d.Rated, 1))
	d.Wait, d.First, d.Handle = d.wait.Spread(), d.first.Spread(), d.handle.Spread()
	return d.ReportRow
}

// Report implements store.Reports.
func (r *reader) Report(ctx context.Context, q store.ReportQuery) ([]store.ReportRow, error) {
	rows, _, err := r.ReportTotal(ctx, q)
	return rows, err
}

// ReportTotal implements store.Reports.
func (r *reader) ReportTotal(ctx context.Context, q store.ReportQuery) ([]store.ReportRow, store.ReportRow, error) {
	var none store.ReportRow
	if !q.Valid() {
		return nil, none, fmt.Errorf("%w: no period of at most %d days, or no such report", store.ErrConflict, store.MaxReportDays)
	}
	rows, total := make(map[string]*draftRow), &draftRow{}
	spans := []store.Span{{From: q.From, To: q.To}}
	if q.By == store.ByDay || q.By == store.ByHour {
		spans = q.Spans()
	}
	for _, span := range spans {
		if err := r.countRollups(ctx, &q, span, rows, total); err != nil {
			return nil, none, err
		}
	}
	if q.By == store.ByTag { // the rows of tags are not the parts of a whole
		whole := q
		total, whole.By = &draftRow{}, store.ByAll
		if err := r.countRollups(ctx, &whole, spans[0], make(map[string]*draftRow), total); err != nil {
			return nil, none, err
		}
	}
	names, err := r.reportNames(ctx, q.By)
	if err != nil {
		return nil, none, err
	}
	all := make([]store.ReportRow, 0, len(rows))
	for key, row := range rows {
		if q.By == store.ByTag {
			key = row.Name
		} else {
			row.Name = names[key]
		}
		row.Key = key
		all = append(all, row.done())
	}
	return inOrder(q.By, all), total.done(), nil
}

// inOrder sorts rows by their names. Of too many tags it leaves those with the most conversations.
func inOrder(by store.By, all []store.ReportRow) []store.ReportRow {
	if by == store.ByTag && len(all) > store.MaxReportTags {
		slices.SortFunc(all, func(a, b store.ReportRow) int {
			return cmp.Or(cmp.Compare(b.Opened, a.Opened), cmp.Compare(a.Key, b.Key))
		})
		all = all[:store.MaxReportTags]
	}
	slices.SortFunc(all, func(a, b store.ReportRow) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key)) })
	return all
}

func draftOf(rows map[string]*draftRow, key string) *draftRow {
	if rows[key] == nil {
		rows[key] = &draftRow{}
	}
	return rows[key]
}

// keyShown turns the number of a day into its date, and that of an hour into two digits.
func keyShown(by store.By, key any) string {
	n, ok := key.(int64)
	switch {
	case ok && by == store.ByDay:
		return time.UnixMilli(n * dayMS).UTC().Format(time.DateOnly)
	case ok && by == store.ByHour:
		return fmt.Sprintf("%02d", n)
	}
	return fmt.Sprint(key)
}

// countRollups adds what the roll-ups have of one part of the period to the rows and to the total.
func (r *reader) countRollups(ctx context.Context, q *store.ReportQuery, s store.Span, rows map[string]*draftRow, total *draftRow) error {
	found, err := r.db.QueryContext(ctx, sqlReport(q.By), s.From, s.To, q.Site, q.Group, q.Agent, s.Offset)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var key any
		var measure string
		var bucket int
		var n, sum int64
		if err := found.Scan(&key, &measure, &bucket, &n, &sum); err != nil {
			return err
		}
		total.count(measure, bucket, n, sum)
		shown := keyShown(q.By, key)
		if q.By != store.ByTag {
			draftOf(rows, shown).count(measure, bucket, n, sum)
			continue
		}
		d := draftOf(rows, strings.ToLower(shown)) // two writings of a tag are one
		if d.Name == "" || shown < d.Name {
			d.Name = shown
		}
		d.count(measure, bucket, n, sum)
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
	case store.MeasureTarget:
		d.Targeted, d.Within = d.Targeted+n, d.Within+total
	case store.MeasureRated:
		d.Rated, d.scores = d.Rated+n, d.scores+total
		if bucket > 0 && bucket <= len(d.Scores) { // older ones of conversations that are gone have none
			d.Scores[bucket-1] += n
		}
	case store.MeasureHandled:
		d.handle.Add(bucket, n, total)
	}
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

// sqlRight is what each roll-up has to be, and wrongKeys the keys of a table's rows that are something else.
const (
	sqlRight = `SELECT ` + rollKey + `, sum(n) AS n, sum(total) AS total FROM (
		SELECT ` + rollKey + `, n, total FROM counted UNION ALL SELECT ` + rollKey + `, n, total FROM rollup_gone WHERE tag = '') GROUP BY ` + rollKey
	sqlRightTags = `SELECT tag, ` + rollKey + `, sum(n) AS n, sum(total) AS total FROM (
		SELECT t.tag, ` + soloKey + `, l.n, l.total` + tagRows + ` UNION ALL SELECT tag, ` + rollKey + `, n, total FROM rollup_gone WHERE tag <> '') GROUP BY tag, ` + rollKey
	sqlHave     = `SELECT ` + rollKey + `, n, total FROM rollup_15m WHERE n <> 0`
	sqlHaveTags = `SELECT tag, ` + rollKey + `, n, total FROM rollup_tag_15m WHERE n <> 0`
)

func sqlWrong(key, have, right string) string {
	return `SELECT count(*) FROM (SELECT ` + key + ` FROM (SELECT * FROM (` + have + `) EXCEPT SELECT * FROM (` + right + `))
		UNION SELECT ` + key + ` FROM (SELECT * FROM (` + right + `) EXCEPT SELECT * FROM (` + have + `)))`
}

// Recount implements store.ReportWrites.
func (db *DB) Recount(ctx context.Context) (int, error) {
	wrong := make(chan int, 1)
	err := db.write(ctx, func(t *tx) error {
		n, err := t.recount()
		wrong <- n
		return err
	})
	if err != nil {
		return 0, err
	}
	return <-wrong, nil
}

func (t *tx) recount() (wrong int, err error) {
	for _, table := range []struct{ name, key, have, right string }{
		{`rollup_15m`, rollKey, sqlHave, sqlRight}, {`rollup_tag_15m`, `tag, ` + rollKey, sqlHaveTags, sqlRightTags},
	} {
		var n int
		if err := t.row(sqlWrong(table.key, table.have, table.right)).Scan(&n); err != nil {
			return 0, err
		}
		if wrong += n; n == 0 {
			continue
		}
		if err := t.exec(`DELETE FROM ` + table.name); err != nil {
			return 0, err
		}
		if err := t.exec(`INSERT INTO ` + table.name + ` (` + table.key + `, n, total) ` + table.right); err != nil {
			return 0, err
		}
	}
	return wrong, nil
}
