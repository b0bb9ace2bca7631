package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/internal/nearest"
)

// Error is one thing that is wrong in a file, and where.
type Error struct {
	File    string
	Line    int    // from 1
	Key     string // the path to it, such as protocols.frame.threads; "" for what concerns the file
	Value   string // as it stands in the file, cut when long; "" where there is none
	Problem string // what is wrong: the limit, or what there is to choose from
	Err     error  // ErrNotLinked, or nil
}

// ErrNotLinked is in the errors about a registry or protocol of a module that Engines does not have. Their text names the module.
var ErrNotLinked = errors.New("config: the engine is not linked")

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Error implements error: "config: FILE:LINE: KEY: VALUE PROBLEM".
func (e *Error) Error() string { return "config: " + e.text() }

func (e *Error) text() string {
	s := fmt.Sprintf("%s:%d: ", e.File, e.Line)
	if e.Key != "" {
		s += e.Key + ": "
	}
	if e.Value != "" {
		s += e.Value + " "
	}
	return s + e.Problem
}

// maxErrors bounds how many errors of one file are collected.
const maxErrors = 20

// reader walks the nodes of a file and collects what is wrong in it, instead of stopping at the first error.
type reader struct {
	file     string
	engines  Engines
	errs     []error
	warnings []string
	more     int                   // warnings beyond the bound
	keys     int                   // of a file of Dubbo's form
	over     []overlay             // what the config center has
	below    bool                  // the one that is read stands below what is there
	origins  map[*yaml.Node]string // the names of texts that nodes are of; those of the file are not in it
	warned   map[string]bool       // the reasons for which a key has no effect that were told, by its name
}

func (r *reader) full() bool { return len(r.errs) >= maxErrors }

// fail notes an error. n is the node of the value, or of the key where the value does not matter.
func (r *reader) fail(n *yaml.Node, key, value, format string, args ...any) {
	r.note(&Error{File: r.origins[n], Line: n.Line, Key: key, Value: value, Problem: fmt.Sprintf(format, args...)})
}

func (r *reader) note(e *Error) {
	if !r.full() {
		e.File, e.Line = cmp.Or(e.File, r.file), max(e.Line, 1)
		r.errs = append(r.errs, e)
	}
}

func (r *reader) warn(n *yaml.Node, key, format string, args ...any) {
	if len(r.warnings) == maxErrors {
		r.more++
		return
	}
	r.warnings = append(r.warnings, (&Error{File: cmp.Or(r.origins[n], r.file), Line: max(n.Line, 1), Key: key, Problem: fmt.Sprintf(format, args...)}).text())
}

// told returns the warnings, the last of which counts those for which there was no room.
func (r *reader) told() []string {
	if r.more == 0 {
		return r.warnings
	}
	return append(r.warnings, fmt.Sprintf("%s: %d more keys have no effect or an old spelling", r.file, r.more))
}

// shown returns a node's value as errors show it.
func shown(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" && n.Value == "" {
		return "nothing"
	}
	return quoted(n.Value)
}

// quoted returns text from the file in quotes, cut to what an error has room for.
func quoted(s string) string {
	const room = 60
	if len(s) > room {
		n := room
		for !utf8.RuneStart(s[n]) {
			n--
		}
		return strconv.Quote(s[:n]) + "…"
	}
	return strconv.Quote(s)
}

// named resolves an alias. Aliases of aliases cost little, since nodes are read only as deep as the known keys go.
func named(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// field is a key that a mapping may have.
type field struct {
	name  string
	also  string // another spelling
	old   string // a spelling that still works, with a warning
	idle  string // why the key has no effect; then there is no parse
	parse func(n *yaml.Node, key string)
}

// fields reads a mapping whose keys are known, and returns the node of each key's value by the documented name.
func (r *reader) fields(n *yaml.Node, path string, known []field) map[string]*yaml.Node {
	seen := map[string]*yaml.Node{}
	r.pairs(n, path, func(key, value *yaml.Node, name string) {
		at := slices.IndexFunc(known, func(f field) bool {
			return name == f.name || f.also != "" && name == f.also || f.old != "" && name == f.old
		})
		if at < 0 {
			r.unknown(key, path, name, known)
			return
		}
		f := known[at]
		if name == f.old {
			r.warn(key, join(path, name), "is an old spelling: write %s", f.name)
		}
		if first, ok := seen[f.name]; ok {
			r.fail(key, join(path, name), "", "is there twice: as %s in line %d, too", f.name, first.Line)
			return
		}
		seen[f.name] = value
		if f.idle != "" {
			r.idle(key, join(path, name), name, f.idle)
			return
		}
		f.parse(value, join(path, name))
	})
	return seen
}

// unknown refuses a key that is none, with the nearest that is one.
func (r *reader) unknown(key *yaml.Node, path, name string, known []field) {
	var names, all []string
	for _, f := range known {
		all = append(all, f.name)
		if f.idle == "" {
			names = append(names, f.name)
		}
	}
	r.fail(key, join(path, name), "", "is no key here%s: known are %s", meant(name, all), strings.Join(names, ", "))
}

// meant asks for the name that was probably meant, if there is one.
func meant(name string, known []string) string {
	if len(name) > maxName {
		return ""
	}
	if best := nearest.Name(name, slices.Clone(known)); best != "" {
		return " (did you mean " + best + "?)"
	}
	return ""
}

// idle warns of a key without effect, once for each name and reason.
func (r *reader) idle(key *yaml.Node, path, name, why string) {
	if r.warned == nil {
		r.warned = map[string]bool{}
	}
	if !r.warned[name+why] {
		r.warned[name+why] = true
		r.warn(key, path, "has no effect: %s", why)
	}
}

// pairs reads a mapping and refuses keys that are there twice.
func (r *reader) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node, name string)) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, path, shown(n), "is no mapping of keys to values")
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content) && !r.full() && r.keys <= maxSettings; i += 2 {
		key := named(n.Content[i])
		value := n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Value == "" || key.Tag == "!!merge" {
			r.fail(key, path, shown(key), "is no key: keys are text, and merging is not supported")
			continue
		}
		name := key.Value
		if at, ok := lines[name]; ok {
			r.fail(key, join(path, name), "", "is there twice: in line %d, too", at)
			continue
		}
		lines[name] = key.Line
		if v := named(value); v != value { // errors name the line where the alias is used
			copied := *v
			copied.Line = value.Line
			value = &copied
		}
		each(key, value, name)
	}
}

// maxName bounds the names of keys that are shown as they are.
const maxName = 60

func join(path, name string) string {
	if len(name) > maxName || !printable(name) {
		name = quoted(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return !strconv.IsPrint(c) })
}

// items reads a list, or one item that stands for a list of one.
func (r *reader) items(n *yaml.Node, path string, most int) []*yaml.Node {
	n = named(n)
	if n.Kind != yaml.SequenceNode {
		return []*yaml.Node{n}
	}
	if len(n.Content) > most {
		r.fail(n, path, fmt.Sprint(len(n.Content), " items"), "are too many: at most %d", most)
		return nil
	}
	list := make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		copied := *named(c)
		copied.Line = c.Line
		list[i] = &copied
	}
	return list
}

// text takes a scalar as it is written: a version 1.10 does not become the number 1.1.
func text(r *reader, dst *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			r.fail(n, key, shown(n), "is no text")
			return
		}
		*dst = n.Value
	}
}

func boolean(r *reader, dst *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(dst) != nil {
			r.fail(n, key, shown(n), "is neither true nor false")
		}
	}
}

func integer(r *reader, dst *int, least, most int) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		var v int64
		switch {
		case n.Kind != yaml.ScalarNode || n.Tag != "!!int":
			r.fail(n, key, shown(n), "is no whole number from %d to %d", least, most)
		case n.Decode(&v) != nil || v < int64(least) || v > int64(most):
			r.fail(n, key, shown(n), "is out of range: %d to %d", least, most)
		default:
			*dst = int(v)
		}
	}
}

// longest bounds every duration, because the wire counts milliseconds in 32 bits.
const longest = 24 * time.Hour

// duration takes 3s and 1m30s, and a number of milliseconds.
func duration(r *reader, dst *time.Duration, least time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		var d time.Duration
		var ok bool
		if n.Kind == yaml.ScalarNode {
			d, ok = parseDuration(n)
		}
		switch {
		case !ok:
			r.fail(n, key, shown(n), "is no duration: write 3s or 500ms; a number is milliseconds")
		case d < least || d > longest:
			r.fail(n, key, shown(n), "is out of range: %v to %v", least, longest)
		default:
			*dst = d
		}
	}
}

func parseDuration(n *yaml.Node) (time.Duration, bool) {
	switch n.Tag {
	case "!!int":
		var ms int64
		if n.Decode(&ms) != nil {
			return 0, false
		}
		if ms > int64(longest/time.Millisecond) {
			return longest + 1, true
		}
		return time.Duration(max(ms, -1)) * time.Millisecond, true
	case "!!str":
		d, err := time.ParseDuration(n.Value)
		return d, err == nil
	}
	return 0, false
}

// choice takes one of names.
func choice[T any](r *reader, dst *T, parse func(string) (T, error), names []string) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		if n.Kind == yaml.ScalarNode {
			if v, err := parse(n.Value); err == nil {
				*dst = v
				return
			}
		}
		r.fail(n, key, shown(n), "is none of %s", strings.Join(names, ", "))
	}
}

// among returns a parser for choice.
func among[T any](names []string, values []T) func(string) (T, error) {
	return func(s string) (T, error) {
		if at := slices.Index(names, s); at >= 0 {
			return values[at], nil
		}
		var none T
		return none, errors.New("none of them")
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\s*)?line (\d+): `)

// syntax turns an error of the YAML library into an *Error.
func (r *reader) syntax(err error) error {
	e := &Error{File: r.file, Line: 1, Problem: strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Line = max(e.Line, 1)
		e.Problem = strings.TrimPrefix(err.Error(), m[0])
	}
	e.Problem = "is no YAML: " + strings.Join(strings.Fields(e.Problem), " ")
	return e
}

func list[T any](s []T, name func(T) string) string {
	const most = 10
	var b strings.Builder
	for i, v := range s {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(s)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name(v))
	}
	return b.String()
}

// names takes a list of names, or one text of names with commas between them.
func names(r *reader, dst *[]string) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			for name := range strings.SplitSeq(n.Value, ",") {
				*dst = append(*dst, strings.TrimSpace(name))
			}
			return
		}
		if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
			r.fail(n, key, shown(n), "is no list of names")
			return
		}
		for i, item := range r.items(n, key, maxAddresses) {
			var name string
			text(r, &name)(item, fmt.Sprintf("%s[%d]", key, i))
			*dst = append(*dst, name)
		}
	}
}
