package sqlstore

import (
	"context"

	"github.com/go-eddy/eddy/desk/store"
)

// origin is whose a number is. The tag is "" in the roll-ups of all conversations.
type origin struct{ site, group, agent, tag string }

// fact is one row of the roll-ups, without its origin.
type fact struct {
	slot     int64
	measure  string
	bucket   int
	n, total int64
}

// Statements on the roll-ups of all conversations, and on those of tags. sqlRolled reads the days of a period, each packed or row
// by row, in one look at the database.
const (
	factColumns = `, r.slot, r.site, r.grp, r.agent, r.measure, r.bucket, r.n, r.total, `
	factWhere   = ` AND (?3 = '' OR r.site = ?3) AND (?4 = '' OR r.grp = ?4) AND (?5 = '' OR r.agent = ?5) AND r.n <> 0`
	ofDays      = ` WHERE d.day BETWEEN CAST(?1 AS BIGINT) / 86400000 AND (CAST(?2 AS BIGINT) - 1) / 86400000 AND d.facts IS `
	daysPacked  = `SELECT d.day, d.facts, -1, '', '', '', '', 0, 0, 0, '' FROM `
	rowsOfDay   = ` r ON r.slot >= greatest(CAST(?1 AS BIGINT), d.day * 86400000) AND r.slot < least(CAST(?2 AS BIGINT), d.day * 86400000 + 86400000)`

	sqlRolled = daysPacked + `rollup_day d` + ofDays + `NOT NULL UNION ALL
		SELECT d.day, NULL` + factColumns + `'' FROM rollup_day d CROSS JOIN rollup_15m` + rowsOfDay + ofDays + `NULL` + factWhere
	sqlRolledTags = daysPacked + `rollup_tag_day d` + ofDays + `NOT NULL UNION ALL
		SELECT d.day, NULL` + factColumns + `r.tag FROM rollup_tag_day d CROSS JOIN rollup_tag_15m` + rowsOfDay + ofDays + `NULL` + factWhere

	sqlRows     = `SELECT 0, NULL` + factColumns + `'' FROM rollup_15m r WHERE r.slot >= ?1 AND r.slot < ?2` + factWhere
	sqlTagRows  = `SELECT 0, NULL` + factColumns + `r.tag FROM rollup_tag_15m r WHERE r.slot >= ?1 AND r.slot < ?2` + factWhere
	sqlToPack   = `SELECT day, rev FROM rollup_day WHERE facts IS NULL AND day < ? ORDER BY day DESC LIMIT 1`
	sqlToPackT  = `SELECT day, rev FROM rollup_tag_day WHERE facts IS NULL AND day < ? ORDER BY day DESC LIMIT 1`
	sqlPacked   = `UPDATE rollup_day SET facts = ?3 WHERE day = ?1 AND rev = ?2`
	sqlPackedT  = `UPDATE rollup_tag_day SET facts = ?3 WHERE day = ?1 AND rev = ?2`
	sqlForgets  = `UPDATE rollup_day SET rev = rev + 1, facts = NULL`
	sqlForgetsT = `UPDATE rollup_tag_day SET rev = rev + 1, facts = NULL`
	sqlDays     = `INSERT INTO rollup_day (day, rev) SELECT DISTINCT slot / 86400000, 1 FROM rollup_15m WHERE true ON CONFLICT DO NOTHING`
	sqlDaysT    = `INSERT INTO rollup_tag_day (day, rev) SELECT DISTINCT slot / 86400000, 1 FROM rollup_tag_15m WHERE true ON CONFLICT DO NOTHING`
)

// rollups are the statements on one of the two.
type rollups struct{ rolled, rows, toPack, packed string }

func rollupsOf(tags bool) rollups {
	if tags {
		return rollups{sqlRolledTags, sqlTagRows, sqlToPackT, sqlPackedT}
	}
	return rollups{sqlRolled, sqlRows, sqlToPack, sqlPacked}
}

// readFacts puts into a sheet what the roll-ups have: of all conversations, or once for each tag of theirs.
func (r *reader) readFacts(ctx context.Context, s *sheet, tags bool) error {
	sql := rollupsOf(tags)
	var u unpacked
	var broken []int64
	err := r.eachFact(ctx, sql.rolled, s.q, func(day int64, facts []byte, o *origin, f *fact) {
		switch {
		case f.slot >= 0:
			s.take(o, f)
		case u.unpack(day, facts):
			s.takeDay(&u)
		default:
			broken = append(broken, day)
		}
	})
	for i := 0; err == nil && i < len(broken); i++ { // the rows have it, too
		q := *s.q
		q.From, q.To = max(q.From, broken[i]*dayMS), min(q.To, (broken[i]+1)*dayMS)
		err = r.eachFact(ctx, sql.rows, &q, func(_ int64, _ []byte, o *origin, f *fact) { s.take(o, f) })
	}
	return err
}

// eachFact calls do with each row of a statement on the roll-ups: one fact, or a packed day and a fact whose slot is -1.
func (r *reader) eachFact(ctx context.Context, query string, q *store.ReportQuery, do func(day int64, facts []byte, o *origin, f *fact)) error {
	found, err := r.db.QueryContext(ctx, query, q.From, q.To, q.Site, q.Group, q.Agent)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var day int64
		var facts []byte
		var o origin
		var f fact
		if err := found.Scan(&day, &facts, &f.slot, &o.site, &o.group, &o.agent, &f.measure, &f.bucket, &f.n, &f.total, &o.tag); err != nil {
			return err
		}
		do(day, facts, &o, &f)
	}
	return found.Err()
}
