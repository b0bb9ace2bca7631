package sqlstore

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
	s := newSheet(&q)
	if err := r.readFacts(ctx, s, q.By == store.ByTag || q.Tag != ""); err != nil {
		return nil, none, err
	}
	if q.By == store.ByTag && q.Tag == "" { // the rows of tags are not the parts of a whole
		all := q
		all.By = store.ByAll
		whole := newSheet(&all)
		if err := r.readFacts(ctx, whole, false); err != nil {
			return nil, none, err
		}
		s.total = whole.total
	}
	names, err := r.reportNames(ctx, q.By)
	if err != nil {
		return nil, none, err
	}
	return s.done(names), s.total.done(), nil
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
	}, `SELECT slot, grp, sum(CASE measure WHEN 'arrived' THEN n ELSE 0 END), sum(CASE measure WHEN 'wait' THEN n ELSE 0 END),
		sum(CASE measure WHEN 'wait' THEN total ELSE 0 END)
		FROM rollup_1m WHERE slot >= ? GROUP BY slot, grp ORDER BY slot, grp`, since)
}

// sqlRight is what each roll-up has to be, and wrongKeys the keys of a table's rows that are something else.
const (
	sqlRight = `SELECT ` + rollKey + `, sum(n) AS n, sum(total) AS total FROM (
		SELECT ` + rollKey + `, n, total FROM counted UNION ALL SELECT ` + rollKey + `, n, total FROM rollup_gone WHERE tag = '') x GROUP BY ` + rollKey
	sqlRightTags = `SELECT ` + tagKey + `, sum(n) AS n, sum(total) AS total FROM (
		SELECT t.tag, ` + soloKey + `, l.n, l.total` + tagRows + ` UNION ALL SELECT ` + tagKey + `, n, total FROM rollup_gone WHERE tag <> '') x GROUP BY ` + tagKey
	sqlHave     = `SELECT ` + rollKey + `, n, total FROM rollup_15m WHERE n <> 0`
	sqlHaveTags = `SELECT ` + tagKey + `, n, total FROM rollup_tag_15m WHERE n <> 0`
)

func sqlWrong(key, have, right string) string {
	return `SELECT count(*) FROM (SELECT ` + key + ` FROM (SELECT * FROM (` + have + `) h EXCEPT SELECT * FROM (` + right + `) r) a
		UNION SELECT ` + key + ` FROM (SELECT * FROM (` + right + `) r EXCEPT SELECT * FROM (` + have + `) h) b) c`
}

// Recount implements store.ReportWrites.
func (db *DB) Recount(ctx context.Context) (int, error) {
	wrong := make(chan int, 1)
	err := db.write(ctx, func(t *tx) error {
		if whole := db.on.dialect().whole; whole != "" {
			if err := t.exec(whole); err != nil {
				return err
			}
		}
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
		{`rollup_15m`, rollKey, sqlHave, sqlRight}, {`rollup_tag_15m`, tagKey, sqlHaveTags, sqlRightTags},
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
	for _, query := range []string{sqlForgets, sqlForgetsT, sqlDays, sqlDaysT} { // days are packed anew from the rows
		if err := t.exec(query); err != nil {
			return 0, err
		}
	}
	return wrong, nil
}
