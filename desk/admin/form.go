package admin

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
)

// form holds the values that were entered, and what is wrong with them.
type form struct {
	values url.Values
	errs   map[string]string // by field
}

func (f *form) wrong(field, text string) {
	if f.errs == nil {
		f.errs = make(map[string]string)
	}
	if f.errs[field] == "" {
		f.errs[field] = text
	}
}

func (f *form) set(field string, values ...string) {
	if f.values == nil {
		f.values = make(url.Values)
	}
	f.values[field] = values
}

// fill sets fields to the values that are stored, or usual.
func (f *form) fill(shown url.Values) {
	for field, values := range shown {
		f.set(field, values...)
	}
}

// Value returns the value of the field.
func (f *form) Value(field string) string { return f.values.Get(field) }

// Error returns what is wrong with the field.
func (f *form) Error(field string) string { return f.errs[field] }

// Has reports whether the field has a value among others.
func (f *form) Has(field, value string) bool { return slices.Contains(f.values[field], value) }

// line returns a text without the blanks around it.
func (f *form) line(field string) string { return strings.TrimSpace(f.Value(field)) }

// block returns a text of several lines, as the browser sends it.
func (f *form) block(field string) string {
	return strings.TrimSpace(strings.ReplaceAll(f.Value(field), "\r\n", "\n"))
}

// lines returns the lines of a text that are not empty.
func (f *form) lines(field string) []string {
	var all []string
	for line := range strings.SplitSeq(f.block(field), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// number reads a whole number; an empty field is 0. The rules of the store check the range.
func (q *request) number(field string) int64 { return q.numberOf(field, field) }

// numberOf is number for a field whose error stands at a group of fields.
func (q *request) numberOf(group, field string) int64 {
	s := q.line(field)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		q.wrong(group, q.T("reason.number"))
		return 0
	}
	return n
}

// input is one field with its label, help and error, as the templates draw it.
type input struct {
	*request
	Name, Kind, Label, Help string
	Required                bool
	Max                     int
}

// Input describes a field: kind "text", "number", "area" or "code".
func (q *request) Input(name, kind, key string, required bool, limit int) input {
	in := input{request: q, Name: name, Kind: kind, Label: q.T(key), Required: required, Max: limit}
	if hasText(key + ".help") {
		in.Help = q.T(key+".help", usual(name)...)
	}
	return in
}

// usual returns what an empty field means, for its help: a number in the unit of the field, nothing where the help
// names none.
func usual(field string) []any {
	switch field {
	case "idle_bot":
		return []any{int(store.DefaultIdleBot.Minutes())}
	case "idle_wait":
		return []any{int(store.DefaultIdleWait.Minutes())}
	case "idle_chat":
		return []any{int(store.DefaultIdleChat.Minutes())}
	case "warn_for":
		return []any{int(store.DefaultWarnFor.Minutes())}
	case "away_after":
		return []any{int(store.DefaultAwayAfter.Minutes())}
	case "sticky_days":
		return []any{store.DefaultStickyDays}
	case "away":
		return []any{int(store.DefaultAway.Minutes())}
	case "relax":
		return []any{int(store.DefaultRelax.Seconds())}
	case "target_share":
		return []any{store.DefaultTargetShare}
	case "sticky_wait":
		return []any{int(store.DefaultStickyWait.Seconds())}
	}
	return nil
}
