package hessian

import (
	"strings"
	"testing"
)

// TestException: values that the decoder could not make do not hide what an exception says, because nobody decodes them. The limits do.
func TestException(t *testing.T) {
	head := classDef("\x01x", "cause", "detailMessage")
	const end = "\x02norest"
	for name, c := range map[string]struct{ cause, message, rest string }{
		"none":                          {"N", "no", "rest"},
		"a collection without a length": {"U\x0deddy.test.SetNZ", "no", "rest"},
		"a list of a type by number":    {"\x70\x99", "no", "rest"},
		"a map of a type by number":     {"M\x99\x01aNZ", "no", "rest"},
		"a class of other fields":       {strings.TrimSuffix(classDef(nodeClass, "children"), "\x60") + "\x61\x90", "no", "rest"},
		"itself":                        {"\x51\x90", "no", "rest"},
		"one of its class":              {"\x60N\x01y", "no", "rest"},
		"no value":                      {"\xff", "", ""},
		"more levels than allowed":      {strings.Repeat("\x79", 65) + "N", "", ""},
		"more values than allowed":      {"\x57" + strings.Repeat("N", 1<<16) + "Z", "", ""},
		"more classes than allowed":     {"\x57" + strings.Repeat("C\x01y\x90\x60", 300) + "Z", "", ""},
	} {
		got, rest, err := Exception([]byte(head+c.cause+end), Limits{})
		if want := (Thrown{Class: "x", Message: c.message}); err != nil || got != want || string(rest) != c.rest {
			t.Errorf("%s: %+v, %q, %v, want %q and %q", name, got, rest, err, c.message, c.rest)
		}
	}
}
