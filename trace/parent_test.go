package trace

import (
	"strings"
	"testing"
)

const (
	goodTrace = "0af7651916cd43dd8448eb211c80319c"
	goodSpan  = "b7ad6b7169203331"
	good      = "00-" + goodTrace + "-" + goodSpan + "-01"
)

func newRecorder(t *testing.T, o Options) *Recorder {
	t.Helper()
	rec, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestReceive: what parses is taken, what does not is counted and ignored, and nothing is taken from clients that are not
// trusted.
func TestReceive(t *testing.T) {
	for _, c := range []struct {
		name    string
		f       Fields
		trace   bool
		sampled bool
		state   string
		baggage string
		stats   Stats
	}{
		{name: "none"},
		{name: "good", f: Fields{Traceparent: good}, trace: true, sampled: true, stats: Stats{Received: 1}},
		{name: "not sampled", f: Fields{Traceparent: good[:53] + "00"}, trace: true, stats: Stats{Received: 1}},
		{name: "other flags", f: Fields{Traceparent: good[:53] + "fe"}, trace: true, stats: Stats{Received: 1}},
		{name: "all flags", f: Fields{Traceparent: good[:53] + "ff"}, trace: true, sampled: true, stats: Stats{Received: 1}},
		{name: "odd letter", f: Fields{Traceparent: good[:53] + "0b"}, trace: true, sampled: true, stats: Stats{Received: 1}},
		{name: "later version", f: Fields{Traceparent: "cc" + good[2:] + "-more"}, trace: true, sampled: true, stats: Stats{Received: 1}},
		{name: "later version without a dash", f: Fields{Traceparent: "cc" + good[2:] + "more"}, stats: Stats{Malformed: 1}},
		{name: "version ff", f: Fields{Traceparent: "ff" + good[2:]}, stats: Stats{Malformed: 1}},
		{name: "more than version 00 has", f: Fields{Traceparent: good + "-more"}, stats: Stats{Malformed: 1}},
		{name: "short", f: Fields{Traceparent: good[:54]}, stats: Stats{Malformed: 1}},
		{name: "upper case", f: Fields{Traceparent: strings.ToUpper(good)}, stats: Stats{Malformed: 1}},
		{name: "no hexadecimal flags", f: Fields{Traceparent: good[:53] + "0g"}, stats: Stats{Malformed: 1}},
		{name: "zero trace", f: Fields{Traceparent: "00-" + strings.Repeat("0", 32) + "-" + goodSpan + "-01"}, stats: Stats{Malformed: 1}},
		{name: "zero span", f: Fields{Traceparent: "00-" + goodTrace + "-" + strings.Repeat("0", 16) + "-01"}, stats: Stats{Malformed: 1}},
		{name: "twice", f: FieldsOf(map[string][]string{"Traceparent": {good, good}}), stats: Stats{Malformed: 1}},
		{name: "huge", f: Fields{Traceparent: "cc" + good[2:] + "-" + strings.Repeat("a", maxTraceparent)}, stats: Stats{Oversized: 1}},
		{name: "state", f: Fields{Traceparent: good, Tracestate: "a=1,b=2"}, trace: true, sampled: true, state: "a=1,b=2", stats: Stats{Received: 1}},
		{name: "state in two fields", f: FieldsOf(map[string][]string{"Traceparent": {good}, "Tracestate": {"a=1", "b=2"}}),
			trace: true, sampled: true, state: "a=1,b=2", stats: Stats{Received: 1}},
		{name: "state without a trace", f: Fields{Tracestate: "a=1"}},
		{name: "state too long", f: Fields{Traceparent: good, Tracestate: "a=" + strings.Repeat("x", maxTracestate)}, trace: true, sampled: true, stats: Stats{Received: 1, Oversized: 1}},
		{name: "state of many", f: Fields{Traceparent: good, Tracestate: strings.Repeat("a=1,", maxMembers) + "b=2"}, trace: true, sampled: true, stats: Stats{Received: 1, Oversized: 1}},
		{name: "state with control characters", f: Fields{Traceparent: good, Tracestate: "a=\x01"}, trace: true, sampled: true, stats: Stats{Received: 1, Malformed: 1}},
		{name: "baggage", f: Fields{Baggage: "user=alice"}, baggage: "user=alice"},
		{name: "baggage beside a malformed trace", f: Fields{Traceparent: "x", Baggage: "user=alice"}, baggage: "user=alice", stats: Stats{Malformed: 1}},
		{name: "baggage beside a trace", f: Fields{Traceparent: good, Baggage: "user=alice"}, trace: true, sampled: true, baggage: "user=alice", stats: Stats{Received: 1}},
		{name: "baggage too long", f: Fields{Baggage: "a=" + strings.Repeat("x", maxBaggage)}, stats: Stats{Oversized: 1}},
		{name: "baggage without a key", f: Fields{Baggage: "=1"}, stats: Stats{Malformed: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := newRecorder(t, Options{})
			p := rec.Receive(true, c.f)
			if p.Valid() != c.trace || p.Sampled != c.sampled || p.State != c.state || p.Baggage != c.baggage {
				t.Errorf("%+v: valid %t", p, p.Valid())
			}
			if c.trace && (p.Trace.String() != goodTrace || p.Span.String() != goodSpan) {
				t.Errorf("%v %v", p.Trace, p.Span)
			}
			if s := rec.Stats(); s != c.stats {
				t.Errorf("counted %+v, want %+v", s, c.stats)
			}
			without := newRecorder(t, Options{Sample: 1})
			if p := without.Receive(false, c.f); p != (Parent{}) {
				t.Errorf("without trust: %+v", p)
			}
			want := uint64(1)
			if c.f.empty() {
				want = 0
			}
			if s := without.Stats(); s != (Stats{Untrusted: want}) {
				t.Errorf("without trust: counted %+v", s)
			}
		})
	}
}

// TestTraceparent: what is written is what was read.
func TestTraceparent(t *testing.T) {
	for _, v := range []string{good, good[:53] + "00"} {
		p, wrong := (&Fields{Traceparent: v}).parse()
		if got := p.Traceparent(); got != v || wrong != nil {
			t.Errorf("%q became %q, %v", v, got, wrong)
		}
	}
	if got := new(Parent).Traceparent(); got != "" {
		t.Errorf("without a trace: %q", got)
	}
}

func FuzzFields(f *testing.F) {
	f.Add(good, "a=1", "b=2")
	f.Add("cc"+good[2:]+"-x", ",", "=")
	f.Fuzz(func(t *testing.T, parent, state, baggage string) {
		p, _ := (&Fields{Traceparent: parent, Tracestate: state, Baggage: baggage}).parse()
		if p.Valid() != (p.Traceparent() != "") {
			t.Fatalf("%+v", p)
		}
		if !p.Valid() && p.State != "" {
			t.Fatalf("a state without a trace: %+v", p)
		}
		again, wrong := (&Fields{Traceparent: p.Traceparent(), Tracestate: p.State, Baggage: p.Baggage}).parse()
		if wrong != nil || again != p {
			t.Fatalf("%+v became %+v, %v", p, again, wrong)
		}
	})
}
