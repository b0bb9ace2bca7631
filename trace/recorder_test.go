package trace

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// clock is a time that tests set.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) add(d time.Duration) { c.now = c.now.Add(d) }

func (c *clock) Now() time.Time { return c.now }

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"Sample is -0.1": {Sample: -0.1}, "Sample is 1.1": {Sample: 1.1}, "Sample is NaN": {Sample: math.NaN()},
		"Keep is -1": {Keep: -1}, "Keep is 10001": {Keep: maxKeep + 1}, "Within is -1ns": {Within: -1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "Options."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSample: the share that is sampled is the one of the options, and a valid trace decides before it.
func TestSample(t *testing.T) {
	for _, share := range []float64{0, 0.01, 0.5, 1} {
		rec := newRecorder(t, Options{Sample: share})
		n := 0
		for range 100_000 {
			if rec.Sample(&Parent{}) {
				n++
			}
		}
		if got := float64(n) / 100_000; math.Abs(got-share) > 0.01 || share == 0 && n > 0 || share == 1 && n < 100_000 {
			t.Errorf("of a share of %v, %v were sampled", share, got)
		}
		for _, sampled := range []bool{true, false} {
			if got := rec.Sample(&Parent{Trace: TraceID{1}, Span: SpanID{1}, Sampled: sampled}); got != sampled {
				t.Errorf("with a share of %v, a trace that is sampled: %t became %t", share, sampled, got)
			}
		}
	}
}

// TestStages: a request's stages lie one behind the other from its arrival to its end, and its reason is the longest.
func TestStages(t *testing.T) {
	c := newClock()
	rec := newRecorder(t, Options{Sample: 1, Now: c.Now})
	r := rec.Begin(Parent{}, About{Protocol: "frame", Name: "demo/Hello", Waited: 3 * time.Millisecond})
	c.add(time.Millisecond)
	r.Enter(QueueWait, "business")
	c.add(90 * time.Millisecond)
	r.Enter(Handler, "Hello")
	c.add(5 * time.Millisecond)
	r.Enter(Hop, "")
	r.Enter(Write, "")
	c.add(time.Millisecond)
	r.Rename("demo/Hello2")
	r.Fail(nil)
	r.Fail(errors.New("first"))
	r.Fail(errors.New("second"))
	r.End()
	r.End()
	r.Enter(Handler, "late")
	list := rec.Slowest()
	if len(list) != 1 || list[0] != rec.Find(1) || rec.Find(2) != nil {
		t.Fatalf("%v", list)
	}
	s := list[0]
	if s.Took != 100*time.Millisecond || s.Reason() != "queue wait (business): 90 %" || s.Failed != "first" || s.About.Name != "demo/Hello2" || !s.Self.Valid() || !s.Self.Sampled {
		t.Errorf("%+v: %s", s, s.Reason())
	}
	at := time.Duration(0)
	for _, p := range s.Stages {
		if p.At != at {
			t.Errorf("%v begins at %v, the one before ends at %v", p.Stage, p.At, at)
		}
		at += p.Took
	}
	if at != s.Took || len(s.Stages) != 6 {
		t.Errorf("%d stages last %v", len(s.Stages), at)
	}
	if n := rec.Stats(); n != (Stats{Sampled: 1, Ended: 1}) {
		t.Errorf("%+v", n)
	}
}

// TestNotSampled: a request that is not sampled records nothing and hands on the decision.
func TestNotSampled(t *testing.T) {
	rec := newRecorder(t, Options{})
	from := rec.Receive(true, Fields{Traceparent: good[:53] + "00"})
	for _, r := range []*Request{rec.Unsampled(from), rec.Unsampled(Parent{}), nil} {
		r.Enter(Handler, "")
		r.Rename("x")
		r.Fail(errors.New("x"))
		r.Done(nil)
		r.Written(nil)
		r.End()
		if r.Sampled() || len(rec.Slowest()) > 0 {
			t.Error("it was recorded")
		}
	}
	if got := rec.Unsampled(from).Self(); got.Traceparent() != good[:53]+"00" {
		t.Errorf("what goes on is %q", got.Traceparent())
	}
	if first, second := rec.Unsampled(Parent{}), rec.Unsampled(Parent{}); first != second {
		t.Error("requests without a trace are not one")
	}
}

// TestCrowdedRequest: a request has a bounded number of stages, and the rest is counted.
func TestCrowdedRequest(t *testing.T) {
	rec := newRecorder(t, Options{})
	r := rec.Begin(Parent{}, About{})
	for range 100 {
		r.Enter(Handler, "")
	}
	r.End()
	if n := len(rec.Find(1).Stages); n != maxMarks || rec.Stats().Crowded != 101-maxMarks {
		t.Errorf("%d stages, %d not recorded", n, rec.Stats().Crowded)
	}
}

// endTracer is a Tracer that is told when spans end.
type endTracer struct {
	plain
	end func(*Summary)
}

func (e endTracer) End(_ context.Context, s *Summary) { e.end(s) }

// TestEndedIsListed: a request that counts as ended is in the list and in the histograms, and its span has ended.
func TestEndedIsListed(t *testing.T) {
	var rec *Recorder
	told := 0
	rec = newRecorder(t, Options{Tracer: endTracer{end: func(s *Summary) {
		told++
		all := rec.Times()
		if n := rec.Stats(); n.Ended != 0 || n.Sampled != 1 || rec.Find(s.Number) != s || all[len(all)-1].Count != 1 {
			t.Errorf("%+v; listed %t, %d in the histogram", n, rec.Find(s.Number) == s, all[len(all)-1].Count)
		}
	}}})
	rec.Begin(Parent{}, About{}).End()
	if n := rec.Stats(); n.Ended != 1 || told != 1 {
		t.Errorf("%+v, %d spans have ended", n, told)
	}
}

// TestNoHandler: a request that no handler has seen has failed.
func TestNoHandler(t *testing.T) {
	rec := newRecorder(t, Options{})
	rec.Begin(Parent{}, About{}).End()
	if s := rec.Find(1); !strings.Contains(s.Failed, "no handler") {
		t.Errorf("%+v", s)
	}
}

// TestSlowest: the list keeps the slowest, up to its bound, and forgets what is old.
func TestSlowest(t *testing.T) {
	c := newClock()
	rec := newRecorder(t, Options{Keep: 3, Within: time.Hour, Now: c.Now})
	add := func(took time.Duration) {
		r := rec.Begin(Parent{}, About{})
		r.served = true
		c.add(took)
		r.End()
	}
	wants := func(want ...time.Duration) {
		t.Helper()
		list := rec.Slowest()
		if len(list) != len(want) {
			t.Fatalf("%d are kept, want %v", len(list), want)
		}
		for i, s := range list {
			if s.Took != want[i] {
				t.Errorf("number %d took %v, want %v", i, s.Took, want)
			}
		}
	}
	for _, took := range []time.Duration{5, 1, 9, 3, 2, 7} {
		add(took * time.Second)
	}
	wants(9*time.Second, 7*time.Second, 5*time.Second)
	c.add(time.Hour - 8*time.Second) // the one of 5 s ended 22 s before that of 7 s
	wants(7 * time.Second)
	add(time.Second)
	wants(7*time.Second, time.Second)
	c.add(2 * time.Hour)
	wants()
	if rec.Find(6) != nil {
		t.Error("an old one is found")
	}
}

// TestTimes: the histograms count every stage once a request, and name the last request of each bucket.
func TestTimes(t *testing.T) {
	c := newClock()
	rec := newRecorder(t, Options{Now: c.Now})
	var ids []TraceID
	for _, took := range []time.Duration{40 * time.Microsecond, 50 * time.Microsecond, time.Millisecond, time.Minute} {
		r := rec.Begin(Parent{}, About{})
		r.Enter(Handler, "")
		c.add(took / 2)
		r.Enter(Handler, "again")
		c.add(took / 2)
		r.End()
		ids = append(ids, r.Self().Trace)
	}
	list := rec.Times()
	all, handler := list[len(list)-1], list[Handler]
	if !all.All || handler.All || handler.Stage != Handler || list[QueueWait].Count != 0 {
		t.Errorf("%+v", list)
	}
	for _, h := range []Times{all, handler} {
		if h.Count != 4 || math.Abs(h.Sum-60.00109) > 1e-9 {
			t.Errorf("%+v", h)
		}
		last := h.Buckets[len(h.Buckets)-1]
		if h.Buckets[0].Bound != 50e-6 || h.Buckets[0].Count != 2 || h.Buckets[0].Last.Trace != ids[1] || last.Count != 4 || last.Last.Trace != ids[3] || last.Last.Value != 60 {
			t.Errorf("%+v", h.Buckets)
		}
	}
}
