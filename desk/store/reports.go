package store

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"
)

// Measures of the roll-ups. They are written in the same transaction as the change that they count.
const (
	MeasureOpened    = "opened"    // conversations that began or began again
	MeasureArrived   = "arrived"   // conversations that entered the queue
	MeasureWait      = "wait"      // conversations that left the queue to an agent; the time since they entered the queue
	MeasureAbandoned = "abandoned" // conversations closed in the queue; the time since they entered it
	MeasureFirst     = "first"     // an agent's first text; the time since the conversation entered the queue, or was taken
	MeasureHandled   = "handled"   // the time for which an agent had the conversation
	MeasureClosed    = "closed"    // conversations closed by anybody
	MeasureContained = "contained" // conversations closed while the bot had them
	MeasureHandoff   = "handoff"   // conversations passed on by the bot, or taken from it
	MeasureRated     = "rated"     // conversations with a score, in the slot of their close; scores are buckets and times
	MeasureTarget    = "target"    // first answers that the group has a target for, and customers who left after it; 1 instead of a time if it was met
)

// Slots of the roll-ups in milliseconds.
const (
	SlotMinute  = 60_000
	SlotQuarter = 15 * SlotMinute
)

// MaxReportDays is the longest period of one report, and MaxReportTags the largest number of its rows by tag: those with
// the most conversations.
const (
	MaxReportDays = 400
	MaxReportTags = 200
)

const maxBucket = 90

// BucketOf returns the bucket of a duration in milliseconds. Above a second there are four buckets for each doubling, so
// that a median is right to a tenth.
func BucketOf(ms int64) int {
	if ms < 1000 {
		return 0
	}
	return min(1+int(4*math.Log2(float64(ms)/1000)), maxBucket)
}

// By says what the rows of a report stand for.
type By string

// Rows of reports.
const (
	ByAll   By = "all" // one row
	ByDay   By = "day"
	ByHour  By = "hour" // of the day, those of all days together
	BySite  By = "site"
	ByGroup By = "group"
	ByAgent By = "agent"
	ByTag   By = "tag" // a conversation counts in the row of each of its tags, and in none without one
)

// Kinds returns the names of the reports, ByAll last.
func Kinds() []By { return []By{ByDay, ByHour, BySite, ByGroup, ByAgent, ByTag, ByAll} }

// Valid reports whether there is such a report.
func (b By) Valid() bool { return slices.Contains(Kinds(), b) }

// ReportQuery asks for a report. From and To are Unix milliseconds, To excluded. Days and hours are those of Zone, or of a
// place that is always Offset milliseconds ahead of UTC if Zone is nil. Site, Group and Agent are ids that narrow the
// report to what belongs to all of them, and Tag narrows it to conversations with this tag in any writing. "" = all.
type ReportQuery struct {
	From, To int64
	Offset   int64
	Zone     *time.Location
	By       By

	Site, Group, Agent, Tag string
}

// FoldTag returns what all writings of a tag have in common.
func FoldTag(tag string) string { return strings.ToLower(tag) }

// Valid reports whether the query can be answered.
func (q *ReportQuery) Valid() bool {
	const day = int64(24 * time.Hour / time.Millisecond)
	return q.By.Valid() && q.From >= 0 && q.From < q.To && q.To-q.From <= MaxReportDays*day && max(q.Offset, -q.Offset) <= day
}

// Span is a part of a period in which the clocks of a place are not changed.
type Span struct {
	From, To int64 // Unix milliseconds, To excluded
	Offset   int64 // milliseconds ahead of UTC
}

// Spans returns the parts of the period between the changes of the clocks. Slots lie in one part each, because clocks
// change at a quarter of an hour.
func (q *ReportQuery) Spans() []Span {
	if q.Zone == nil {
		return []Span{{q.From, q.To, q.Offset}}
	}
	var spans []Span
	for at := q.From; at < q.To; {
		t := time.UnixMilli(at).In(q.Zone)
		_, ahead := t.Zone()
		end := q.To
		if _, change := t.ZoneBounds(); !change.IsZero() {
			end = min(end, change.UnixMilli())
		}
		spans = append(spans, Span{at, end, int64(ahead) * 1000})
		at = end
	}
	return spans
}

// Spread are durations in milliseconds.
type Spread struct {
	N      int64 `json:"n"`
	Mean   int64 `json:"mean"`
	Median int64 `json:"median"`
	P90    int64 `json:"p90"`
}

// ReportRow is one row of a report.
type ReportRow struct {
	Key  string `json:"key"`  // id, tag, the day as 2006-01-02 or the hour as 15; "" = none
	Name string `json:"name"` // of the site, group or agent, or the tag

	Opened    int64           `json:"opened"`
	Arrived   int64           `json:"arrived"`
	Abandoned int64           `json:"abandoned"`
	Closed    int64           `json:"closed"`
	Contained int64           `json:"contained"`
	Handoff   int64           `json:"handoff"`
	Wait      Spread          `json:"wait"`
	First     Spread          `json:"first"`
	Handle    Spread          `json:"handle"`
	Rated     int64           `json:"rated"`
	Score     float64         `json:"score"`    // mean of the ratings
	Scores    [MaxScore]int64 `json:"scores"`   // how many gave 1 to 5
	Targeted  int64           `json:"targeted"` // first answers that had a target
	Within    int64           `json:"within"`   // of those, how many met it
}

// Minute is what happened in one minute in one group.
type Minute struct {
	At      int64 // its first millisecond
	Group   string
	Arrived int64
	Left    int64 // the queue to an agent
	Waited  int64 // milliseconds, all of them together
}

// Reports read roll-ups, and never messages. Methods block and honour ctx.
type Reports interface {
	// Report returns the rows of a report in the order of their names, days and hours in order. The error is ErrConflict
	// if the query is not valid.
	Report(ctx context.Context, q ReportQuery) ([]ReportRow, error)
	// ReportTotal is Report with the one row of ByAll for the same query.
	ReportTotal(ctx context.Context, q ReportQuery) (rows []ReportRow, total ReportRow, err error)
	// Minutes returns what happened since a time, at most some hours ago, in order.
	Minutes(ctx context.Context, since int64) ([]Minute, error)
}

// ReportWrites are the changes of roll-ups that no command makes.
type ReportWrites interface {
	// Recount makes the roll-ups anew from what each conversation has counted, and returns how many of their numbers were
	// wrong. Commands wait meanwhile.
	Recount(ctx context.Context) (int, error)
}

// Tally collects the buckets of durations.
type Tally struct {
	n, total int64
	buckets  []bucket // by their numbers, as far as there are any
}

type bucket struct{ n, total int64 }

// Add counts n durations of one bucket.
func (t *Tally) Add(at int, n, total int64) {
	at = min(max(at, 0), maxBucket)
	if more := at + 1 - len(t.buckets); more > 0 {
		t.buckets = append(t.buckets, make([]bucket, more)...)
	}
	t.n += n
	t.total += total
	t.buckets[at].n += n
	t.buckets[at].total += total
}

// Spread returns mean, median and ninth decile. The last two are means of their buckets.
func (t *Tally) Spread() Spread {
	if t.n == 0 {
		return Spread{}
	}
	return Spread{N: t.n, Mean: t.total / t.n, Median: t.quantile(0.5), P90: t.quantile(0.9)}
}

func (t *Tally) quantile(q float64) int64 {
	rank := max(int64(math.Ceil(q*float64(t.n))), 1)
	for _, b := range t.buckets {
		if rank -= b.n; rank <= 0 && b.n > 0 {
			return b.total / b.n
		}
	}
	return 0
}
