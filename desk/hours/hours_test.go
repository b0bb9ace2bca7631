package hours

import (
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"time"
)

func week(days ...string) (w [7]string) {
	copy(w[:], days)
	return w
}

func every(day string) [7]string { return [7]string(slices.Repeat([]string{day}, 7)) }

func parse(t *testing.T, h Hours) *Schedule {
	t.Helper()
	s, problems := Parse(h)
	if s == nil || len(problems) > 0 {
		t.Fatalf("%+v: %+v", h, problems)
	}
	return s
}

// What is entered wrongly is named: the field, why, and what was entered.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		h    Hours
		want Problem
	}{
		"no zone":             {Hours{Week: every("9-17")}, Problem{"zone", ReasonRequired, "", 0}},
		"no such zone":        {Hours{Zone: "Europe/Atlantis", Week: every("9-17")}, Problem{"zone", ReasonZone, "Europe/Atlantis", 0}},
		"the machine's own":   {Hours{Zone: "Local", Week: every("9-17")}, Problem{"zone", ReasonZone, "Local", 0}},
		"a path":              {Hours{Zone: "../etc/passwd", Week: every("9-17")}, Problem{"zone", ReasonZone, "../etc/passwd", 0}},
		"a long zone":         {Hours{Zone: strings.Repeat("x", 99), Week: every("9-17")}, Problem{"zone", ReasonZone, strings.Repeat("x", 40) + "…", 0}},
		"a bad zone alone":    {Hours{Zone: "Nowhere"}, Problem{"zone", ReasonZone, "Nowhere", 0}},
		"no interval":         {Hours{Zone: "UTC", Week: week("9-17", "open")}, Problem{"1", ReasonTime, "open", 0}},
		"an hour too many":    {Hours{Zone: "UTC", Week: week("9-25")}, Problem{"0", ReasonTime, "9-25", 0}},
		"a minute too many":   {Hours{Zone: "UTC", Week: week("09:60-17:00")}, Problem{"0", ReasonTime, "09:60-17:00", 0}},
		"after midnight":      {Hours{Zone: "UTC", Week: week("23:00-24:01")}, Problem{"0", ReasonTime, "23:00-24:01", 0}},
		"begins at midnight":  {Hours{Zone: "UTC", Week: week("24:00-24:00")}, Problem{"0", ReasonTime, "24:00-24:00", 0}},
		"a sign":              {Hours{Zone: "UTC", Week: week("+9-17")}, Problem{"0", ReasonTime, "+9-17", 0}},
		"backward":            {Hours{Zone: "UTC", Week: week("", "", "22:00-6")}, Problem{"2", ReasonBackward, "22:00-06:00", 0}},
		"empty":               {Hours{Zone: "UTC", Week: week("9-9")}, Problem{"0", ReasonBackward, "09:00-09:00", 0}},
		"overlap":             {Hours{Zone: "UTC", Week: week("12:00-14:00, 9-12:01")}, Problem{"0", ReasonOverlap, "09:00-12:01, 12:00-14:00", 0}},
		"too many":            {Hours{Zone: "UTC", Week: week("0-1,1-2,2-3,3-4,4-5,5-6,6-7,7-8,8-9")}, Problem{"0", ReasonMany, "9", MaxSpans}},
		"too long":            {Hours{Zone: "UTC", Week: week(strings.Repeat(" ", 201) + "9-17")}, Problem{"0", ReasonLong, "205", MaxLine}},
		"no date":             {Hours{Zone: "UTC", Holidays: []string{"Christmas"}}, Problem{"holidays", ReasonDay, "Christmas", 0}},
		"no such date":        {Hours{Zone: "UTC", Holidays: []string{"2026-02-29"}}, Problem{"holidays", ReasonDay, "2026-02-29", 0}},
		"twice":               {Hours{Zone: "UTC", Holidays: []string{"2026-12-25", "2026-12-25 9-12"}}, Problem{"holidays", ReasonTwice, "2026-12-25", 0}},
		"a holiday's hours":   {Hours{Zone: "UTC", Holidays: []string{"2026-12-24 till noon"}}, Problem{"holidays", ReasonTime, "till noon", 0}},
		"too many holidays":   {Hours{Zone: "UTC", Holidays: slices.Repeat([]string{""}, 201)[:201]}, Problem{"holidays", ReasonMany, "201", MaxHolidays}},
		"backward on holiday": {Hours{Zone: "UTC", Holidays: []string{"2026-12-24 12-9"}}, Problem{"holidays", ReasonBackward, "12:00-09:00", 0}},
	} {
		s, problems := Parse(c.h)
		if s != nil || len(problems) == 0 || problems[0] != c.want {
			t.Errorf("%s: %+v, want %+v", name, problems, c.want)
		}
	}
	_, all := Parse(Hours{Zone: "x", Week: week("x", "9-17", "y"), Holidays: []string{"z"}})
	if len(all) != 4 {
		t.Errorf("all that is wrong: %+v", all)
	}
}

// What people type means the same, however their keyboards write it.
func TestWritten(t *testing.T) {
	for _, text := range []string{"09:00-12:00, 13:00-17:30", " 13:00 - 17:30 ; 9-12 ", "9：00–12：00，13：00～17：30", "9:00-12:00、13-17:30"} {
		spans, p := parseDay(text)
		if p != nil || !slices.Equal(spans, []span{{540, 720}, {780, 1050}}) {
			t.Errorf("%q: %v, %+v", text, spans, p)
		}
	}
}

// change is what At has to say at one time.
type change struct{ at, until string } // local times; a + in front means that it is open

func check(t *testing.T, h Hours, cases ...change) {
	t.Helper()
	s := parse(t, h)
	for _, c := range cases {
		text, open := strings.CutPrefix(c.at, "+")
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		is, until := s.At(at)
		shown := ""
		if !until.IsZero() {
			shown = until.In(s.zone).Format(time.RFC3339)
		}
		if is != open || shown != c.until {
			t.Errorf("%s: open %v until %q, want %v until %q", text, is, shown, open, c.until)
		}
	}
}

func TestWeek(t *testing.T) {
	check(t, Hours{Zone: "Europe/Berlin", Week: week("09:00-12:00, 13:00-17:00", "22:00-24:00", "00:00-02:00, 9-12"), Holidays: []string{"2026-11-30", "2026-12-01 10:00-11:00"}},
		change{"2026-11-23T08:59:59+01:00", "2026-11-23T09:00:00+01:00"},
		change{"+2026-11-23T09:00:00+01:00", "2026-11-23T12:00:00+01:00"},
		change{"+2026-11-23T11:59:59+01:00", "2026-11-23T12:00:00+01:00"},
		change{"2026-11-23T12:00:00+01:00", "2026-11-23T13:00:00+01:00"},
		change{"2026-11-23T17:00:00+01:00", "2026-11-24T22:00:00+01:00"},
		change{"+2026-11-24T21:30:00Z", "2026-11-25T02:00:00+01:00"}, // over midnight in one piece
		change{"+2026-11-25T01:59:59+01:00", "2026-11-25T02:00:00+01:00"},
		change{"2026-11-25T12:00:00+01:00", "2026-12-01T10:00:00+01:00"}, // Monday is a holiday
		change{"+2026-12-01T10:30:00+01:00", "2026-12-01T11:00:00+01:00"},
		change{"2026-12-01T22:30:00+01:00", "2026-12-02T00:00:00+01:00"}, // the holiday has its own hours only
	)
	check(t, Hours{Zone: "Asia/Shanghai", Holidays: []string{"2027-02-06", "2027-02-07"}}, // open always, but for these
		change{"+2027-02-05T23:00:00+08:00", "2027-02-06T00:00:00+08:00"},
		change{"2027-02-06T12:00:00+08:00", "2027-02-08T00:00:00+08:00"},
	)
	check(t, Hours{Zone: "UTC", Week: week("9-10"), Holidays: mondays(60)}, change{"2026-11-22T00:00:00Z", ""}) // not in the next year
	always := parse(t, Hours{Zone: "Europe/Berlin", Week: every("0-24")})
	at := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	if open, until := always.At(at); !open || until.Sub(at) < 7*24*time.Hour {
		t.Errorf("open always: %v until %v", open, until)
	}
	var none *Schedule
	if open, until := none.At(at); !open || !until.IsZero() {
		t.Errorf("without hours: %v until %v", open, until)
	}
	if s, problems := Parse(Hours{Zone: "Europe/Berlin"}); s != nil || problems != nil {
		t.Errorf("a zone alone: %v %v", s, problems)
	}
}

// mondays returns so many Mondays as holidays.
func mondays(n int) (all []string) {
	for i := range n {
		all = append(all, time.Date(2026, 11, 23+7*i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly))
	}
	return all
}

func TestClockChanges(t *testing.T) {
	check(t, Hours{Zone: "Europe/Berlin", Week: every("01:30-02:30, 02:45-04:00")}, // 02:00 → 03:00 in March
		change{"+2026-03-29T01:45:00+01:00", "2026-03-29T04:00:00+02:00"}, // both intervals meet at the leap
		change{"+2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"},
		change{"2026-03-29T04:00:00+02:00", "2026-03-30T01:30:00+02:00"},
	)
	check(t, Hours{Zone: "Europe/Berlin", Week: every("02:10-02:50")}, // leapt over
		change{"2026-03-29T01:59:00+01:00", "2026-03-30T02:10:00+02:00"},
		change{"2026-03-29T03:00:00+02:00", "2026-03-30T02:10:00+02:00"},
	)
	check(t, Hours{Zone: "Europe/Berlin", Week: every("02:30-03:30")}, // 03:00 → 02:00 in October
		change{"+2026-10-25T02:45:00+02:00", "2026-10-25T03:30:00+01:00"},
		change{"+2026-10-25T02:15:00+01:00", "2026-10-25T03:30:00+01:00"}, // the second time, without a gap
	)
	check(t, Hours{Zone: "Europe/Berlin", Week: every("00:00-02:30")}, // it ends at the first 02:30
		change{"+2026-10-25T02:29:00+02:00", "2026-10-25T02:30:00+02:00"},
		change{"2026-10-25T02:15:00+01:00", "2026-10-26T00:00:00+01:00"},
	)
	check(t, Hours{Zone: "America/Sao_Paulo", Week: every("00:00-01:30, 22:00-24:00")}, // midnight → 01:00, and back to 23:00
		change{"+2018-11-03T23:30:00-03:00", "2018-11-04T01:30:00-02:00"},
		change{"+2018-11-04T01:00:00-02:00", "2018-11-04T01:30:00-02:00"},
		change{"+2018-02-17T23:30:00-02:00", "2018-02-18T01:30:00-03:00"}, // 23:00 comes twice
		change{"+2018-02-17T23:30:00-03:00", "2018-02-18T01:30:00-03:00"},
	)
	check(t, Hours{Zone: "Pacific/Apia", Week: every("09:00-24:00")}, // there was no 30 December 2011
		change{"+2011-12-29T20:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		change{"2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"},
	)
}

// Minute by minute around the changes of clocks, At says what the definition says, and until is when that changes.
func TestAtMinuteByMinute(t *testing.T) {
	for zone, day := range map[string]time.Time{
		"Europe/Berlin":       time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC),
		"America/New_York":    time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC),
		"America/Sao_Paulo":   time.Date(2018, 2, 17, 0, 0, 0, 0, time.UTC),
		"America/Havana":      time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC),
		"Australia/Lord_Howe": time.Date(2026, 4, 4, 0, 0, 0, 0, time.UTC),
		"America/St_Johns":    time.Date(2010, 11, 6, 0, 0, 0, 0, time.UTC), // one minute after midnight
		"Asia/Kathmandu":      time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC),
	} {
		s := parse(t, Hours{Zone: zone, Week: every("00:00-00:45, 01:15-01:45, 01:50-02:20, 23:00-24:00")})
		begin := day.Add(-20 * time.Hour)
		shown := make([]time.Time, 4*dayMinutes) // by the clock, read as UTC
		for i := range shown {
			local := begin.Add(time.Duration(i) * time.Minute).In(s.zone)
			_, offset := local.Zone()
			shown[i] = local.UTC().Add(time.Duration(offset) * time.Second)
		}
		first := func(clock time.Time) int {
			return slices.IndexFunc(shown, func(at time.Time) bool { return !at.Before(clock) })
		}
		open := make([]bool, len(shown))
		for d := range 3 {
			for _, span := range s.week[0] {
				midnight := day.AddDate(0, 0, d)
				from, to := first(midnight.Add(time.Duration(span.from)*time.Minute)), first(midnight.Add(time.Duration(span.to)*time.Minute))
				for i := max(from, 0); i < to; i++ {
					open[i] = true
				}
			}
		}
		last := first(day.AddDate(0, 0, 2))
		for i := first(day); i < last; i++ {
			is, until := s.At(begin.Add(time.Duration(i) * time.Minute))
			if is != open[i] {
				t.Fatalf("%s, clock %s: open %v, want %v", zone, shown[i], is, open[i])
			}
			n := int(until.Sub(begin) / time.Minute)
			if n <= i || slices.Contains(open[i:n], !is) || open[n] == is {
				t.Fatalf("%s, clock %s: open %v until %s", zone, shown[i], is, until.In(s.zone))
			}
		}
	}
}

// A machine without time zones of its own knows them: they are in the program.
func TestZonesAreInTheProgram(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "hours.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var imports []string
	for _, i := range f.Imports {
		imports = append(imports, i.Path.Value)
	}
	if !slices.Contains(imports, `"time/tzdata"`) {
		t.Errorf("imports %s", fmt.Sprint(imports))
	}
}
