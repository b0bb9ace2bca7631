package hessian

import (
	"bytes"
	"strings"
	"testing"
)

const (
	nodeClass      = "\x0eeddy.test.Node"
	throwableClass = "\x13java.lang.Throwable"
)

// classDef returns the definition of a class and the tag of an object of it, the first in the message.
func classDef(class string, fields ...string) string {
	b := "C" + class + string([]byte{0x90 + byte(len(fields))})
	for _, f := range fields {
		b += string([]byte{byte(len(f))}) + f
	}
	return b + "\x60"
}

// refused are messages that the decoder cannot be trusted with, and what the errors say.
var refused = map[string]struct{ b, says string }{
	"nothing":                             {"", "offset 0: cut short"},
	"an unknown tag":                      {"\x79@", "tag 0x40"},
	"an end":                              {"Z", "tag 0x5a"},
	"a list of too many":                  {"\x58\x99N", "9 elements in the 1 bytes"},
	"a list of 2^31-1":                    {"\x58I\x7f\xff\xff\xff", "elements"},
	"a list of less than none":            {"\x58\x8f", "negative"},
	"a length that is none":               {"\x58N", "number of elements"},
	"a long as length":                    {"\x58\xe0", "number of elements"},
	"a negative reference":                {"\x51\x8f", "negative"},
	"a reference by null":                 {"\x51N", "reference"},
	"a negative class":                    {"O\x8f", "negative"},
	"a class that is not defined":         {"\x60", "class 0 of the 0"},
	"a definition without object":         {"C\x01x\x90N", "behind the definition"},
	"definitions in a row":                {"C\x01x\x90C\x01y\x90\x60", "behind the definition"},
	"a class twice":                       {"\x7aC\x01x\x90\x60C\x01x\x90\x61", "second time"},
	"more fields than bytes":              {"C\x01x\x93\x01a\x01b\x01c\x60NN", "3 fields"},
	"a number as the name of a class":     {"C\x90\x90\x60", "name of one piece"},
	"null as the name of a field":         {"C\x01x\x91N\x60N", "name of one piece"},
	"an odd map":                          {"HNZ", "tag 0x5a"},
	"a list as key":                       {"H\x78NZ", "a key"},
	"a map as key":                        {"HHZNZ", "a key"},
	"binary data as key":                  {"H\x20NZ", "a key"},
	"a reference to a map as key":         {"H\x51\x90NZ", "cannot be a key"},
	"a reference to nothing as key":       {"H\x51\x99NZ", "cannot be a key"},
	"null as key of a map with a type":    {"M\x01xNNZ", "null is a key"},
	"a number as name of a field":         {"M" + nodeClass + "\x90NZ", "name of a field"},
	"the same, by number":                 {"\x7aM" + nodeClass + "ZM\x90\x90NZ", "name of a field"},
	"a continuation byte":                 {"\x01\x80", "neither UTF-8"},
	"a character of four bytes":           {"\x02\xf0\x9f\x98\x80", "four bytes"},
	"a high surrogate alone":              {"\x01\xed\xa0\xbd", "surrogates"},
	"a low surrogate alone":               {"\x01\xed\xb8\x80", "surrogates"},
	"a pair beyond the end":               {"\x01\xed\xa0\xbd\xed\xb8\x80", "surrogates"},
	"a pair in two pieces":                {"R\x00\x01\xed\xa0\xbd\x01\xed\xb8\x80", "surrogates"},
	"a string that goes on as a number":   {"R\x00\x01a\x90", "more of a string"},
	"binary data that goes on as text":    {"A\x00\x01a\x00", "more binary data"},
	"a type that is a number":             {"\x70\x02-5", "is a number"},
	"a negative type":                     {"\x70\x8f", "negative"},
	"a type that is not defined":          {"\x70\x90", "not defined"},
	"the type of a map for a list":        {"\x7aM\x01xZ\x70\x90", "from a list to a map"},
	"the type of a list for a map":        {"\x7a\x70\x01xM\x90Z", "from a list to a map"},
	"a name of both, by number":           {"\x7bM\x01xZ\x70\x01x\x70\x91", "not defined"},
	"a type in the long form":             {"\x7a\x70\x01x\x70I\x00\x00\x00\x00", "long form"},
	"null as type":                        {"\x70N", "tag 0x4e"},
	"a collection without a length":       {"U\x0deddy.test.SetNZ", "collection"},
	"a collection as an object":           {classDef("\x0deddy.test.Set"), "collection"},
	"a number as an object":               {classDef("\x11java.lang.Integer"), "does not decode"},
	"an enum without fields":              {classDef("\x10eddy.test.Colour"), "of which the decoder reads one"},
	"a number as enum":                    {classDef("\x10eddy.test.Colour", "name") + "I\x90\x58\x7f\xff", "name of a constant"},
	"a number as enum that panics":        {classDef("\x16eddy.test.StrictColour", "name") + "\x90", "name of a constant"},
	"text as date":                        {classDef("\x0djava.sql.Date", "value") + "\x00", "a date"},
	"a date without fields":               {classDef("\x0djava.sql.Date"), "of which the decoder reads one"},
	"a decimal that is none":              {classDef("\x14java.math.BigDecimal", "value") + "\x05GREEN", "decimal number"},
	"null as decimal":                     {classDef("\x14java.math.BigDecimal", "value") + "N", "decimal number"},
	"a decimal without value":             {classDef("\x14java.math.BigDecimal", "other") + "\x011", "is not \"value\""},
	"text in a slice":                     {classDef(throwableClass, "stackTrace") + "\x06WWWWWW", "place of a list"},
	"text in a slice, embedded spelling":  {classDef(nodeClass, "Children") + "\x06WWWWWW", "place of a list"},
	"text in a map":                       {classDef(nodeClass, "table") + "\x06WWWWWW", "place of a map"},
	"null as key of a Go map":             {classDef(nodeClass, "table") + "HNNZ", "null is a key"},
	"a map by reference in a slice":       {"H\x01b" + classDef(throwableClass, "stackTrace") + "\x51\x90Z", "place of a list"},
	"a set in a slice":                    {classDef(nodeClass, "children") + "\x70\x0deddy.test.Set", "collection"},
	"a field that is not exported":        {classDef(nodeClass, "secret") + "\x90", "does not export"},
	"an exception that is not registered": {classDef("\x01x", "cause", "stackTrace", "detailMessage", "suppressedExceptions") + "NNNN", "not registered"},
	"the type of a list of 65 dimensions": {"\x70\x30\x44" + strings.Repeat("[", 65) + "int", "Limits.Depth"},
}

func TestCheckRefuses(t *testing.T) {
	for name, c := range refused {
		_, err := Check([]byte(c.b), 1, Limits{})
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "offset ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestCheckAccepts(t *testing.T) {
	for name, b := range map[string]string{
		"every short list":                     "\x7f\x78\x79N\x70\x00\x71\x01xN\x57Z\x55\x01yNZV\x01z\x90",
		"types by number":                      "\x7c\x70\x01xM\x01yZ\x71\x90NM\x91TNZ",
		"a reference to nothing":               "\x51\x99",
		"a list that contains itself":          "\x79\x51\x90",
		"a map that contains itself":           "HN\x51\x90Z",
		"a type of both":                       "\x7c\x70\x01xM\x01xZM\x01xZ\x71\x90N",
		"objects and references to them, keys": "HC\x01c\x90\x60N\x51\x91TZ",
		"an object as key of a type":           "M\x01x" + classDef(nodeClass) + "N\x51\x91TZ",
		"a registered map with numbers":        "\x7aM\x0deddy.test.Map\x90\x90ZM\x90\x91\x90Z",
		"a struct as map":                      "M" + nodeClass + "\x04Name\x01xZ",
		"an unknown field":                     classDef(throwableClass, "novel") + "\x06WWWWWW",
		"an empty piece":                       "R\x00\x00R\x00\x00\x00",
	} {
		if rest, err := Check([]byte(b), 1, Limits{}); err != nil || len(rest) != 0 {
			t.Errorf("%s: rest %q, error %v", name, rest, err)
		}
		if out := decode([]byte(b)); out.foul != "" {
			t.Errorf("%s: %s", name, out.foul)
		}
	}
	exception := classDef("\x10eddy.test.Raised", "cause", "stackTrace", "detailMessage", "suppressedExceptions", "code") + "NNNNN"
	if rest, err := Check([]byte(exception), 1, Limits{Exceptions: true}); err != nil || len(rest) != 0 {
		t.Errorf("exception: rest %q, error %v", rest, err)
	}
	text := bytes.Replace([]byte(exception), []byte("NNNNN"), []byte("N\x00NNN"), 1)
	if _, err := Check(text, 1, Limits{Exceptions: true}); err == nil {
		t.Error("exception: accepts text in a slice")
	}
}

func TestCheckBoundsNovelFields(t *testing.T) {
	message := func(i int) []byte {
		return []byte(classDef("\x0feddy.test.Empty", "novel"+string([]byte{'0' + byte(i/10), '0' + byte(i%10)})) + "N")
	}
	for i := range mostFields {
		if _, err := Check(message(i), 1, Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Check(message(mostFields), 1, Limits{}); err == nil || !strings.Contains(err.Error(), "not in the Go type") {
		t.Errorf("error %v", err)
	}
	if _, err := Check(message(0), 1, Limits{}); err != nil {
		t.Error(err)
	}
}

// TestDecoderAllocates shows what the comment of Limits says about the memory for each value.
func TestDecoderAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget")
	}
	const n = 5000
	for name, unit := range map[string]string{
		"objects": "\x60", "lists": "\x78", "typed lists": "\x70\x00", "maps": "HZ", "entries": "HNNZ", "binary data": "\x20", "strings": "\x00",
	} {
		b := []byte("\x57C\x01x\x90\x60" + strings.Repeat(unit, n) + "Z")
		if _, err := Check(b, 1, Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if out := decode(b); !out.ok || out.allocated > 1024*n {
			t.Errorf("%s: decoded %v, %d bytes for each", name, out.ok, out.allocated/n)
		}
	}
}
