package sqlite

import "context"

const (
	factColumns   = `slot, site, grp, agent, measure, bucket, n, total, `
	factSelected  = ` WHERE slot >= ?1 AND slot < ?2 AND (?3 = '' OR site = ?3) AND (?4 = '' OR grp = ?4) AND (?5 = '' OR agent = ?5) AND n <> 0`
	sqlRolled     = `SELECT ` + factColumns + `'' FROM rollup_15m` + factSelected
	sqlRolledTags = `SELECT ` + factColumns + `tag FROM rollup_tag_15m` + factSelected
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

// readFacts puts into a sheet what the roll-ups have: of all conversations, or once for each tag of theirs.
func (r *reader) readFacts(ctx context.Context, s *sheet, tags bool) error {
	query := sqlRolled
	if tags {
		query = sqlRolledTags
	}
	found, err := r.db.QueryContext(ctx, query, s.q.From, s.q.To, s.q.Site, s.q.Group, s.q.Agent)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var o origin
		var f fact
		if err := found.Scan(&f.slot, &o.site, &o.group, &o.agent, &f.measure, &f.bucket, &f.n, &f.total, &o.tag); err != nil {
			return err
		}
		if row, ok := s.place(&o); ok {
			s.add(row, &f)
		}
	}
	return found.Err()
}
