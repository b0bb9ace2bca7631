package hours

import "time"

// At reports whether it is open at a moment, and until when that stays so. The zero time means that no change is known.
// Something that is open for many days in a row may be open longer than that.
//
// An interval begins at the first moment of its day at which the clock on the wall shows its beginning or more, and ends
// at the first such moment for its end. So it is open without a gap where a clock is set back, and shorter or not at all
// where a clock leaps over it.
func (s *Schedule) At(t time.Time) (open bool, until time.Time) {
	if s == nil {
		return true, time.Time{}
	}
	y, m, d := t.In(s.zone).Date()
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	for i := range lookahead {
		for _, span := range s.on(day) {
			from, to := s.reached(day, span.from), s.reached(day, span.to)
			switch {
			case !to.After(from), !to.After(t): // leapt over, or past
			case open && from.After(until):
				return true, until
			case open:
				until = to
			case from.After(t):
				return false, from
			default:
				open, until = true, to
			}
		}
		if open && (i >= merged || !until.After(s.reached(day, dayMinutes-1))) {
			return true, until
		}
		day = day.AddDate(0, 0, 1)
	}
	return open, until
}

// on returns the intervals of a day, which is given as its midnight in UTC.
func (s *Schedule) on(day time.Time) []span {
	if spans, holiday := s.days[day.Format(time.DateOnly)]; holiday {
		return spans
	}
	return s.week[(day.Weekday()+6)%7]
}

// reached returns the first moment at which the clock shows a minute of a day, or more.
func (s *Schedule) reached(day time.Time, minute int) time.Time {
	shown := day.Add(time.Duration(minute) * time.Minute) // the clock, read as if it were UTC
	for t := shown.Add(-2 * dayMinutes * time.Minute); ; {
		local := t.In(s.zone)
		_, offset := local.Zone()
		_, end := local.ZoneBounds()
		at := shown.Add(-time.Duration(offset) * time.Second)
		if at.Before(t) {
			at = t // the clock has leapt over it
		}
		if end.IsZero() || at.Before(end) {
			return at
		}
		t = end
	}
}
