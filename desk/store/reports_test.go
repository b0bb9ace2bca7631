package store

import (
	"testing"
	"time"
)

// The parts of a period meet at the changes of the clocks, and a day of each place is found by the offset of its part.
func TestSpans(t *testing.T) {
	hour := time.Hour.Milliseconds()
	for _, c := range []struct {
		zone, from, to string
		offsets        []float64 // hours
		ends           []string  // of all but the last
	}{
		{"UTC", "2026-03-01T00:00:00Z", "2027-04-01T00:00:00Z", []float64{0}, nil},
		{"Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", []float64{1, 2}, []string{"2026-03-29T01:00:00Z"}},
		{"Europe/Berlin", "2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z", []float64{1, 2, 1}, []string{"2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"}},
		{"Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z", []float64{2}, nil},
		{"Asia/Kathmandu", "2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z", []float64{5.75}, nil},
		{"Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-06T00:00:00Z", []float64{11, 10.5}, []string{"2026-04-04T15:00:00Z"}},
		{"Pacific/Apia", "2011-12-30T00:00:00Z", "2011-12-31T00:00:00Z", []float64{-10, 14}, []string{"2011-12-30T10:00:00Z"}},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at := func(text string) int64 {
			when, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatal(err)
			}
			return when.UnixMilli()
		}
		q := ReportQuery{From: at(c.from), To: at(c.to), Zone: zone}
		spans := q.Spans()
		if len(spans) != len(c.offsets) || spans[0].From != q.From || spans[len(spans)-1].To != q.To {
			t.Errorf("%s from %s: %+v", c.zone, c.from, spans)
			continue
		}
		for i, s := range spans {
			if s.Offset != int64(c.offsets[i]*float64(hour)) || i > 0 && (s.From != spans[i-1].To || s.From != at(c.ends[i-1])) || s.From%SlotQuarter != 0 {
				t.Errorf("%s from %s: part %d is %+v", c.zone, c.from, i, s)
			}
		}
	}
}
