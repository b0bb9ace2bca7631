package trace

import (
	"context"
	"errors"
	"testing"
	"time"
)

// spans is a Tracer that makes spans of calls.
type spans struct {
	below      Parent
	name, host string
	outcome    error
}

func (*spans) Begin(*Request) (context.Context, Parent) { return context.Background(), Parent{} }
func (*spans) End(context.Context, *Summary)            {}

func (s *spans) BeginCall(below Parent, name, host string) (Parent, func(error)) {
	s.below, s.name, s.host = below, name, host
	below.Span = SpanID{7}
	return below, func(err error) { s.outcome = err }
}

// TestCall: a request to another service has a span below that of the traceparent, if the Tracer makes one; otherwise the traceparent
// goes along as it is.
func TestCall(t *testing.T) {
	s := new(spans)
	rec := newRecorder(t, Options{Tracer: s})
	self, end := rec.Call(good, "POST", "shop.example")
	end(errors.New("on purpose"))
	if want := "00-" + goodTrace + "-0700000000000000-01"; self != want || s.below.Traceparent() != good || s.name != "POST" || s.host != "shop.example" || s.outcome == nil {
		t.Errorf("%s goes along, want %s: %+v", self, want, s)
	}
	for name, rec := range map[string]*Recorder{"nil": nil, "no Tracer": newRecorder(t, Options{}), "a Tracer without calls": newRecorder(t, Options{Tracer: plain{}})} {
		self, end := rec.Call(good, "POST", "shop.example")
		if end(nil); self != good {
			t.Errorf("%s: %s goes along", name, self)
		}
	}
	if self, end := rec.Call("00-xyz", "POST", "shop.example"); self != "00-xyz" {
		t.Errorf("%s goes along", self)
	} else {
		end(nil)
	}
}

type plain struct{}

func (plain) Begin(*Request) (context.Context, Parent) { return context.Background(), Parent{} }
func (plain) End(context.Context, *Summary)            {}

type key struct{}

// TestWithin: a context within a request has the request, and the end and the values of its own.
func TestWithin(t *testing.T) {
	rec := newRecorder(t, Options{Sample: 1})
	r := rec.Begin(Parent{}, About{})
	parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "own"), time.Hour)
	ctx := r.Within(parent)
	if _, has := ctx.Deadline(); !has || FromContext(ctx) != r || ctx.Value(key{}) != "own" {
		t.Errorf("%v: %v", ctx, FromContext(ctx))
	}
	cancel()
	if ctx.Err() == nil {
		t.Error("it has not ended")
	}
}
