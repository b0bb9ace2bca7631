// Package hours says when people answer: hours of the week and holidays in a time zone.
//
//	s, problems := hours.Parse(hours.Hours{Zone: "Europe/Berlin", Week: [7]string{"09:00-12:00, 13:00-17:00"}})
//	open, until := s.At(time.Now())
package hours

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a machine without time zones of its own
	"unicode/utf8"
)

// Limits of what may be entered.
const (
	MaxSpans    = 8   // in a day
	MaxHolidays = 200 // entries
	MaxLine     = 200 // characters of a day or an entry
)

// Hours are hours as they are entered and stored. A day without hours is closed, but where no day has any, all of them
// are open from midnight to midnight, and only the holidays count.
type Hours struct {
	Zone     string    `json:"zone,omitempty"`     // IANA name
	Week     [7]string `json:"week"`               // Monday first, each as "09:00-12:00, 13:00-24:00"
	Holidays []string  `json:"holidays,omitempty"` // each as "2026-12-25", closed, or "2026-12-24 09:00-12:00"
}

// Set reports whether there are any hours or holidays. Without them it is always open.
func (h *Hours) Set() bool { return len(h.Holidays) > 0 || h.weekly() }

func (h *Hours) weekly() bool {
	return slices.ContainsFunc(h.Week[:], func(day string) bool { return strings.TrimSpace(day) != "" })
}

// Reasons of a Problem.
const (
	ReasonRequired = "required"
	ReasonZone     = "zone"     // Value is no time zone
	ReasonTime     = "time"     // Value is not an interval such as 09:00-17:00
	ReasonBackward = "backward" // the interval Value does not end after its beginning
	ReasonOverlap  = "overlap"  // the intervals in Value overlap
	ReasonDay      = "day"      // Value does not begin with a date such as 2026-12-24
	ReasonTwice    = "day_twice"
	ReasonMany     = "hours_many" // Value entries, and Limit is the largest number
	ReasonLong     = "hours_long" // Value characters, and Limit is the largest number
)

// Problem is one thing that is wrong with Hours.
type Problem struct {
	Field  string // "zone", "holidays", or the number of the day as "0" to "6"
	Reason string
	Value  string
	Limit  int
}

// Schedule is Hours that have been read. The nil Schedule is always open.
type Schedule struct {
	zone *time.Location
	week [7][]span
	days map[string][]span // holidays by date
}

// span is an interval of a day in minutes; to may be that of the next midnight.
type span struct{ from, to int }

const (
	dayMinutes = 24 * 60
	lookahead  = 400 // days in which the next opening is looked for
	merged     = 10  // days after which At says "open until" although it is open longer
)

// Parse reads hours. Without hours and holidays it returns nil, with problems also.
func Parse(h Hours) (*Schedule, []Problem) {
	if !h.Set() && h.Zone == "" {
		return nil, nil
	}
	s := &Schedule{days: make(map[string][]span)}
	var problems []Problem
	wrong := func(field string, p *Problem) {
		if p != nil {
			p.Field = field
			problems = append(problems, *p)
		}
	}
	var err error
	if s.zone, err = time.LoadLocation(h.Zone); h.Zone == "" {
		wrong("zone", &Problem{Reason: ReasonRequired})
	} else if err != nil || h.Zone == "Local" {
		wrong("zone", &Problem{Reason: ReasonZone, Value: shorten(h.Zone)})
	}
	for i, text := range h.Week {
		spans, p := parseDay(text)
		if !h.weekly() {
			spans = []span{{0, dayMinutes}}
		}
		s.week[i] = spans
		wrong(strconv.Itoa(i), p)
	}
	if n := len(h.Holidays); n > MaxHolidays {
		wrong("holidays", &Problem{Reason: ReasonMany, Value: strconv.Itoa(n), Limit: MaxHolidays})
	}
	for _, text := range h.Holidays[:min(len(h.Holidays), MaxHolidays)] {
		wrong("holidays", s.holiday(text))
	}
	if len(problems) > 0 || !h.Set() {
		return nil, problems
	}
	return s, nil
}

func (s *Schedule) holiday(text string) *Problem {
	date, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return &Problem{Reason: ReasonDay, Value: shorten(text)}
	}
	if _, twice := s.days[date]; twice {
		return &Problem{Reason: ReasonTwice, Value: date}
	}
	spans, p := parseDay(rest)
	s.days[date] = spans
	return p
}

// written takes what other keyboards write for blanks, commas, colons and dashes.
var written = strings.NewReplacer("，", ",", "、", ",", ";", ",", "；", ",", "：", ":", "–", "-", "—", "-", "－", "-", "～", "-", "~", "-", "\u3000", " ") // never changed

// parseDay reads the intervals of one day.
func parseDay(text string) ([]span, *Problem) {
	if n := utf8.RuneCountInString(text); n > MaxLine {
		return nil, &Problem{Reason: ReasonLong, Value: strconv.Itoa(n), Limit: MaxLine}
	}
	var spans []span
	for part := range strings.SplitSeq(written.Replace(text), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		from, to, ok := strings.Cut(part, "-")
		a, fine := minute(from)
		b, also := minute(to)
		switch {
		case !ok || !fine || !also || a == dayMinutes:
			return nil, &Problem{Reason: ReasonTime, Value: shorten(part)}
		case b <= a:
			return nil, &Problem{Reason: ReasonBackward, Value: span{a, b}.String()}
		}
		spans = append(spans, span{a, b})
	}
	if len(spans) > MaxSpans {
		return nil, &Problem{Reason: ReasonMany, Value: strconv.Itoa(len(spans)), Limit: MaxSpans}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	for i := 1; i < len(spans); i++ {
		if spans[i].from < spans[i-1].to {
			return nil, &Problem{Reason: ReasonOverlap, Value: spans[i-1].String() + ", " + spans[i].String()}
		}
	}
	return spans, nil
}

// minute reads a time such as 09:30, 9:30 or 9 as a minute of the day, 24:00 included.
func minute(text string) (int, bool) {
	hour, rest, colon := strings.Cut(strings.TrimSpace(text), ":")
	h, ok := digits(hour, 1)
	m := 0
	if colon {
		var fine bool
		m, fine = digits(rest, 2)
		ok = ok && fine
	}
	return h*60 + m, ok && m < 60 && h*60+m <= dayMinutes
}

// digits reads a number of at least so many digits and at most two.
func digits(s string, least int) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 8)
	return int(n), err == nil && len(s) >= least && len(s) <= 2
}

func (s span) String() string {
	return fmt.Sprintf("%02d:%02d-%02d:%02d", s.from/60, s.from%60, s.to/60, s.to%60)
}

// shorten cuts a text to what an error shows.
func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
