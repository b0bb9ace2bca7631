package store

import (
	"context"
	"math"
	"slices"
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
	MeasureRated     = "rated"     // conversations with a score that are not kept any more; the scores instead of a time
)

// Slots of the roll-ups in milliseconds.
const (
	SlotMinute  = 60_000
	SlotQuarter = 15 * SlotMinute
)

// MaxReportDays is the longest period of one report.
const MaxReportDays = 400

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
	BySite  By = "site"
	ByGroup By = "group"
	ByAgent By = "agent"
)

// Valid reports whether there is such a report.
func (b By) Valid() bool { return slices.Contains([]By{ByAll, ByDay, BySite, ByGroup, ByAgent}, b) }

// ReportQuery asks for a report. From and To are Unix milliseconds, To excluded. Days begin at midnight of a place that
// is Offset milliseconds ahead of UTC.
type ReportQuery struct {
	From, To int64
	Offset   int64
	By       By
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
	Key  string `json:"key"`  // id, or the day as 2006-01-02; "" = none
	Name string `json:"name"` // of the site, group or agent

	Opened    int64   `json:"opened"`
	Arrived   int64   `json:"arrived"`
	Abandoned int64   `json:"abandoned"`
	Closed    int64   `json:"closed"`
	Contained int64   `json:"contained"`
	Handoff   int64   `json:"handoff"`
	Wait      Spread  `json:"wait"`
	First     Spread  `json:"first"`
	Handle    Spread  `json:"handle"`
	Rated     int64   `json:"rated"`
	Score     float64 `json:"score"` // mean of the ratings
}

// Minute is what happened in one minute in one group.
type Minute struct {
	At      int64 // its first millisecond
	Group   string
	Arrived int64
	Left    int64 // the queue to an agent
	Waited  int64 // milliseconds, all of them together
}

// Reports read roll-ups, and closed conversations for their ratings, but never messages. Methods block and honour ctx.
type Reports interface {
	// Report returns the rows of a report in the order of their names, days in order. The error is ErrConflict if the
	// period is not valid or longer than MaxReportDays.
	Report(ctx context.Context, q ReportQuery) ([]ReportRow, error)
	// Minutes returns what happened since a time, at most some hours ago, in order.
	Minutes(ctx context.Context, since int64) ([]Minute, error)
}

// Tally collects the buckets of durations.
type Tally struct {
	n, total int64
	buckets  []bucket
}

type bucket struct {
	at       int
	n, total int64
}

// Add counts n durations of one bucket.
func (t *Tally) Add(at int, n, total int64) {
	t.n += n
	t.total += total
	t.buckets = append(t.buckets, bucket{at, n, total})
}

// Spread returns mean, median and ninth decile. The last two are means of their buckets.
func (t *Tally) Spread() Spread {
	if t.n == 0 {
		return Spread{}
	}
	slices.SortFunc(t.buckets, func(a, b bucket) int { return a.at - b.at })
	return Spread{N: t.n, Mean: t.total / t.n, Median: t.quantile(0.5), P90: t.quantile(0.9)}
}

func (t *Tally) quantile(q float64) int64 {
	rank := max(int64(math.Ceil(q*float64(t.n))), 1)
	for i := 0; i < len(t.buckets); {
		at, n, total := t.buckets[i].at, int64(0), int64(0)
		for ; i < len(t.buckets) && t.buckets[i].at == at; i++ {
			n, total = n+t.buckets[i].n, total+t.buckets[i].total
		}
		if rank -= n; rank <= 0 {
			return total / n
		}
	}
	return 0
}
