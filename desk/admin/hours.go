package admin

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/hours"
)

// dayField returns the field with the hours of a day; 0 is Monday.
func dayField(day int) string { return "hours_" + strconv.Itoa(day) }

// HourFields returns the fields of business hours.
func (q *request) HourFields() []input {
	fields := []input{q.Input("hours_zone", "text", "hours.zone", false, 64)}
	for day := range 7 {
		fields = append(fields, q.Input(dayField(day), "text", "hours.day."+strconv.Itoa(day), false, hours.MaxLine))
	}
	return append(fields, q.Input("hours_holidays", "area", "hours.holidays", false, 0))
}

// hoursEntered returns the hours of the form as they were entered.
func (q *request) hoursEntered() hours.Hours {
	h := hours.Hours{Zone: q.line("hours_zone"), Holidays: q.lines("hours_holidays")}
	for day := range h.Week {
		h.Week[day] = q.line(dayField(day))
	}
	return h
}

// showHours sets the fields of hours.
func showHours(shown url.Values, h *hours.Hours) {
	shown.Set("hours_zone", h.Zone)
	shown.Set("hours_holidays", strings.Join(h.Holidays, "\n"))
	for day, text := range h.Week {
		shown.Set(dayField(day), text)
	}
}
