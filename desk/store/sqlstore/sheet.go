package sqlstore

import (
	"fmt"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// sheet is a report that is being put together.
type sheet struct {
	q     *store.ReportQuery
	spans []store.Span
	tag   string // of the query, folded
	rows  map[string]*draftRow
	total draftRow

	places []place // of takeDay

	at  int64     // the slot that was added last
	now *draftRow // its row, in a report by day or hour
}

func newSheet(q *store.ReportQuery) *sheet {
	return &sheet{q: q, spans: q.Spans(), tag: store.FoldTag(q.Tag), rows: make(map[string]*draftRow), at: -1}
}

// place is where the facts of an origin go, once it is known.
type place struct {
	row       *draftRow
	known, ok bool
}

// take counts a fact, if the query selects it.
func (s *sheet) take(o *origin, f *fact) {
	if row, ok := s.place(o); ok {
		s.add(row, f)
	}
}

// takeDay counts what the query selects of a day.
func (s *sheet) takeDay(u *unpacked) {
	s.places = append(s.places[:0], make([]place, len(u.origins))...)
	for i := range u.facts {
		f := &u.facts[i]
		if f.slot < s.q.From || f.slot >= s.q.To {
			continue
		}
		at := &s.places[f.of]
		if !at.known {
			at.row, at.ok = s.place(&u.origins[f.of])
			at.known = true
		}
		if at.ok {
			s.add(at.row, &f.fact)
		}
	}
}

// place returns the row of what has an origin, nil if that depends on the time. ok is false if the query leaves it out.
func (s *sheet) place(o *origin) (row *draftRow, ok bool) {
	is := func(want, has string) bool { return want == "" || want == has }
	if !is(s.q.Site, o.site) || !is(s.q.Group, o.group) || !is(s.q.Agent, o.agent) || s.tag != "" && s.tag != store.FoldTag(o.tag) {
		return nil, false
	}
	switch s.q.By {
	case store.BySite:
		return s.row(o.site), true
	case store.ByGroup:
		return s.row(o.group), true
	case store.ByAgent:
		return s.row(o.agent), true
	case store.ByTag: // two writings of a tag are one
		row = s.row(store.FoldTag(o.tag))
		if row.Name == "" || o.tag < row.Name {
			row.Name = o.tag
		}
		return row, true
	case store.ByDay, store.ByHour:
		return nil, true
	}
	return s.row(""), true
}

func (s *sheet) row(key string) *draftRow {
	if s.rows[key] == nil {
		s.rows[key] = &draftRow{}
	}
	return s.rows[key]
}

// add counts a fact in its row and in the total.
func (s *sheet) add(row *draftRow, f *fact) {
	if row == nil {
		row = s.rowAt(f.slot)
	}
	row.count(f)
	s.total.count(f)
}

// rowAt returns the row of a day or an hour. Facts of one slot come together.
func (s *sheet) rowAt(slot int64) *draftRow {
	if s.now == nil || s.at != slot {
		s.at, s.now = slot, s.row(s.timeKey(slot))
	}
	return s.now
}

func (s *sheet) timeKey(slot int64) string {
	i := 0
	for i+1 < len(s.spans) && slot >= s.spans[i].To {
		i++
	}
	at := time.UnixMilli(slot + s.spans[i].Offset).UTC()
	if s.q.By == store.ByHour {
		return fmt.Sprintf("%02d", at.Hour())
	}
	return at.Format(time.DateOnly)
}

// done returns the rows in order. names are those of sites, groups or agents.
func (s *sheet) done(names map[string]string) []store.ReportRow {
	all := make([]store.ReportRow, 0, len(s.rows))
	for key, row := range s.rows {
		if s.q.By == store.ByTag {
			key = row.Name
		} else {
			row.Name = names[key]
		}
		row.Key = key
		all = append(all, row.done())
	}
	return inOrder(s.q.By, all)
}

// draftRow is a row of a sheet.
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

func (d *draftRow) count(f *fact) {
	switch f.measure {
	case store.MeasureOpened:
		d.Opened += f.n
	case store.MeasureArrived:
		d.Arrived += f.n
	case store.MeasureAbandoned:
		d.Abandoned += f.n
	case store.MeasureClosed:
		d.Closed += f.n
	case store.MeasureContained:
		d.Contained += f.n
	case store.MeasureHandoff:
		d.Handoff += f.n
	case store.MeasureWait:
		d.wait.Add(f.bucket, f.n, f.total)
	case store.MeasureFirst:
		d.first.Add(f.bucket, f.n, f.total)
	case store.MeasureTarget:
		d.Targeted, d.Within = d.Targeted+f.n, d.Within+f.total
	case store.MeasureRated:
		d.Rated, d.scores = d.Rated+f.n, d.scores+f.total
		if f.bucket > 0 && f.bucket <= len(d.Scores) { // older ones of conversations that are gone have none
			d.Scores[f.bucket-1] += f.n
		}
	case store.MeasureHandled:
		d.handle.Add(f.bucket, f.n, f.total)
	}
}
