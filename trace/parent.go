package trace

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// The names of the fields that carry a trace, in lower case. They are those of headers and of metadata alike.
const (
	FieldTraceparent = "traceparent"
	FieldTracestate  = "tracestate"
	FieldBaggage     = "baggage"
)

// Bounds of what a client may send. Longer values are ignored and counted as oversized.
const (
	maxTraceparent = 256 // bytes; version 00 has 55, later ones may have more
	maxTracestate  = 512
	maxMembers     = 32 // of tracestate
	maxBaggage     = 8192
)

// TraceID identifies a trace. The zero value stands for none.
type TraceID [16]byte

// String returns the id as 32 hexadecimal digits.
func (id TraceID) String() string { return hex.EncodeToString(id[:]) }

// SpanID identifies a span of a trace. The zero value stands for none.
type SpanID [8]byte

// String returns the id as 16 hexadecimal digits.
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// Parent is the trace that a request belongs to, as its client has said or as a Tracer has begun it. The zero value stands
// for a request without one.
type Parent struct {
	Trace   TraceID
	Span    SpanID
	Sampled bool
	State   string // tracestate, checked in size and characters only
	Baggage string // as State
}

// Valid reports whether there is a trace.
func (p *Parent) Valid() bool { return p.Trace != TraceID{} && p.Span != SpanID{} }

// Traceparent returns the value of the field traceparent, "" without a trace.
func (p *Parent) Traceparent() string {
	if !p.Valid() {
		return ""
	}
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, p.Trace[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, p.Span[:])
	if p.Sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}

// Fields are the values of the fields that carry a trace, as a request has them. "" stands for a field that is missing.
type Fields struct {
	Traceparent, Tracestate, Baggage string

	twice bool // traceparent came more than once
}

// FieldsOf returns the fields of a header, whose keys are canonical. http.Header is one.
func FieldsOf(h map[string][]string) Fields {
	var f Fields
	if v := h["Traceparent"]; len(v) > 0 {
		f.Traceparent, f.twice = v[0], len(v) > 1
	}
	f.Tracestate = joined(h["Tracestate"])
	f.Baggage = joined(h["Baggage"])
	return f
}

// joined returns the values of a list that may come in several fields.
func joined(values []string) string {
	switch len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	}
	return strings.Join(values, ",")
}

// Add adds a field of a request, whose name is in lower case. Other names are passed over.
func (f *Fields) Add(name, value string) {
	switch name {
	case FieldTraceparent:
		f.twice = f.twice || f.Traceparent != ""
		f.Traceparent = value
	case FieldTracestate:
		f.Tracestate = and(f.Tracestate, value)
	case FieldBaggage:
		f.Baggage = and(f.Baggage, value)
	}
}

func and(list, more string) string {
	if list == "" {
		return more
	}
	return list + "," + more
}

// empty reports whether no field is there.
func (f *Fields) empty() bool { return f.Traceparent == "" && f.Tracestate == "" && f.Baggage == "" }

// The kinds of values that are ignored.
var (
	errOversized = errors.New("over the limit")
	errMalformed = errors.New("malformed")
)

// parse returns the trace of the fields. A tracestate or a baggage that is wrong is left out; a traceparent that is wrong
// leaves the tracestate out, too. The errors tell what was left out.
func (f *Fields) parse() (p Parent, wrong []error) {
	note := func(err error) bool {
		if err != nil {
			wrong = append(wrong, err)
		}
		return err == nil
	}
	if f.Traceparent != "" && note(f.parseParent(&p)) && f.Tracestate != "" && note(checkList(FieldTracestate, f.Tracestate, maxTracestate, maxMembers)) {
		p.State = f.Tracestate
	}
	if f.Baggage != "" && note(checkList(FieldBaggage, f.Baggage, maxBaggage, maxBaggage)) {
		p.Baggage = f.Baggage
	}
	return p, wrong
}

// parseParent reads traceparent: 00-TRACE-SPAN-FLAGS, in lower-case hexadecimal digits. A later version may go on behind a
// further dash.
func (f *Fields) parseParent(p *Parent) error {
	v := f.Traceparent
	switch {
	case len(v) > maxTraceparent:
		return fmt.Errorf("%w of %d bytes: traceparent has %d", errOversized, maxTraceparent, len(v))
	case f.twice:
		return fmt.Errorf("%w: traceparent came more than once", errMalformed)
	case len(v) < 55, v[2] != '-', v[35] != '-', v[52] != '-', !isHex(v[:2]), v[:2] == "ff",
		v[:2] == "00" && len(v) > 55, len(v) > 55 && v[55] != '-', !isHex(v[53:55]):
		return fmt.Errorf("%w: traceparent", errMalformed)
	}
	read := Parent{Baggage: p.Baggage}
	if !isHex(v[3:35]) || !isHex(v[36:52]) {
		return fmt.Errorf("%w: traceparent", errMalformed)
	}
	_, _ = hex.Decode(read.Trace[:], []byte(v[3:35])) // isHex has checked both
	_, _ = hex.Decode(read.Span[:], []byte(v[36:52]))
	if !read.Valid() {
		return fmt.Errorf("%w: traceparent with an id of zeros", errMalformed)
	}
	read.Sampled = (v[54]-'0')&1 == 1 && v[54] <= '9' || v[54] >= 'a' && (v[54]-'a')&1 == 1
	*p = read
	return nil
}

// isHex reports whether s has lower-case hexadecimal digits only.
func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// checkList checks a list of key=value members in size and characters. What the members mean is for the tracing library.
func checkList(name, v string, size, members int) error {
	if len(v) > size {
		return fmt.Errorf("%w of %d bytes: %s has %d", errOversized, size, name, len(v))
	}
	if n := 1 + strings.Count(v, ","); n > members {
		return fmt.Errorf("%w of %d members: %s has %d", errOversized, members, name, n)
	}
	for i := range len(v) {
		if v[i] < ' ' && v[i] != '\t' || v[i] > '~' {
			return fmt.Errorf("%w: %s has the byte %#02x", errMalformed, name, v[i])
		}
	}
	for member := range strings.SplitSeq(v, ",") {
		if member = strings.Trim(member, " \t"); member != "" && strings.IndexByte(member, '=') < 1 {
			return fmt.Errorf("%w: a member of %s without a key or a value", errMalformed, name)
		}
	}
	return nil
}
