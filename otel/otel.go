// Package otel makes spans of OpenTelemetry of what package trace records, and follows calls to other services: by
// package rpc, by HTTP, to pools and in log lines.
//
// Make a Tracer of a TracerProvider and give it to trace.Options.Tracer. Each sampled request then has a span of the kind
// server, with an event or a span below it for each stage. What a method does through ClientInterceptor, Transport, Call and Go
// continues the trace. docs/tracing.md shows a whole program.
package otel

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/go-eddy/eddy/trace"
)

// scope is the name of the instrumentation.
const scope = "github.com/go-eddy/eddy/otel"

// The attributes of Eddy's own. The others are those of OpenTelemetry's semantic conventions.
const (
	attrMicros   = attribute.Key("eddy.duration_us") // of a stage that is an event
	attrWhere    = attribute.Key("eddy.where")       // the pool or the handler
	attrReason   = attribute.Key("eddy.reason")
	attrProtocol = attribute.Key("eddy.protocol")
	attrPeer     = attribute.Key("network.peer.address")
)

// Tracer makes spans of the requests of a trace.Recorder. It implements trace.Tracer. Any goroutine may use it.
type Tracer struct {
	tracer oteltrace.Tracer
	o      Options
	ends   ends
	none   oteltrace.SpanContext // of requests that are not sampled and continue no trace
}

// Options configure a Tracer.
type Options struct {
	// StageSpans makes a span of each stage, below that of the request. Without it each stage is an event at its begin, which
	// costs less: see docs/tracing.md.
	StageSpans bool
}

var (
	_ trace.Tracer = (*Tracer)(nil)
	_ trace.Caller = (*Tracer)(nil)
)

// New returns a Tracer. The Recorder decides what is sampled, so the provider's sampler should be the default, which follows
// the parent and takes what has none. p must not be nil. Call Flush before the provider's Shutdown.
func New(p oteltrace.TracerProvider, o Options) *Tracer {
	if p == nil {
		panic("otel: New of a nil TracerProvider")
	}
	t := &Tracer{tracer: p.Tracer(scope), o: o}
	var c oteltrace.SpanContextConfig
	_, _ = rand.Read(c.TraceID[:]) // never fails
	_, _ = rand.Read(c.SpanID[:])
	t.none = oteltrace.NewSpanContext(c)
	t.ends.finish = t.finish
	return t
}

// Flush ends the spans of all requests that are over. Call it before the provider's Shutdown, when the servers have stopped.
// It blocks as the provider's processors do. Not on a loop.
func (t *Tracer) Flush() { t.ends.flush() }

// Dropped returns how many requests have no span because 8192 waited for an exporter that is too slow.
func (t *Tracer) Dropped() uint64 { return t.ends.dropped.Load() }

// Begin implements trace.Tracer.
func (t *Tracer) Begin(r *trace.Request) (context.Context, trace.Parent) {
	from := r.From()
	ctx := context.Background()
	if from.Baggage != "" {
		if b, err := baggage.Parse(from.Baggage); err == nil {
			ctx = baggage.ContextWithBaggage(ctx, b)
		}
	}
	remote := remoteOf(&from)
	if !r.Sampled() {
		if !remote.IsValid() {
			remote = t.none
		}
		self := from
		self.Trace, self.Span = trace.TraceID(remote.TraceID()), trace.SpanID(remote.SpanID())
		return oteltrace.ContextWithSpanContext(ctx, remote), self
	}
	if remote.IsValid() {
		ctx = oteltrace.ContextWithRemoteSpanContext(ctx, remote)
	}
	about := r.About()
	ctx, span := t.tracer.Start(ctx, about.Name, oteltrace.WithSpanKind(oteltrace.SpanKindServer), oteltrace.WithTimestamp(r.Began()),
		oteltrace.WithAttributes(attrProtocol.String(about.Protocol)))
	if about.Peer.IsValid() {
		span.SetAttributes(attrPeer.String(about.Peer.Addr().String()))
	}
	self := parentOf(span.SpanContext())
	self.Baggage = from.Baggage
	return ctx, self
}

// End implements trace.Tracer. The span ends within moments, on another goroutine.
func (t *Tracer) End(ctx context.Context, s *trace.Summary) { t.ends.add(ended{ctx, s}) }

// finish ends the span of a request.
func (t *Tracer) finish(one ended) {
	ctx, s := one.ctx, one.s
	span := oteltrace.SpanFromContext(ctx)
	if span.IsRecording() {
		for i := range s.Stages {
			t.stage(ctx, span, s.Began, &s.Stages[i])
		}
		span.SetName(s.About.Name)
		span.SetAttributes(attrReason.String(s.Reason()))
		if s.Failed != "" {
			span.SetStatus(codes.Error, s.Failed)
		}
	}
	span.End(oteltrace.WithTimestamp(s.Began.Add(s.Took)))
}

// stage tells of a stage of a request that began at that time.
func (t *Tracer) stage(ctx context.Context, span oteltrace.Span, began time.Time, p *trace.Span) {
	at := oteltrace.WithTimestamp(began.Add(p.At))
	attrs := make([]attribute.KeyValue, 0, 2)
	if p.Where != "" {
		attrs = append(attrs, attrWhere.String(p.Where))
	}
	if !t.o.StageSpans {
		span.AddEvent(p.Stage.String(), at, oteltrace.WithAttributes(append(attrs, attrMicros.Int64(p.Took.Microseconds()))...))
		return
	}
	_, stage := t.tracer.Start(ctx, p.Stage.String(), at, oteltrace.WithAttributes(attrs...))
	stage.End(oteltrace.WithTimestamp(began.Add(p.At + p.Took)))
}

// remoteOf returns the trace that a client has sent, invalid for none.
func remoteOf(p *trace.Parent) oteltrace.SpanContext {
	if !p.Valid() {
		return oteltrace.SpanContext{}
	}
	c := oteltrace.SpanContextConfig{TraceID: oteltrace.TraceID(p.Trace), SpanID: oteltrace.SpanID(p.Span), Remote: true}
	if p.Sampled {
		c.TraceFlags = oteltrace.FlagsSampled
	}
	if s, err := oteltrace.ParseTraceState(p.State); err == nil {
		c.TraceState = s
	}
	return oteltrace.NewSpanContext(c)
}

// parentOf returns the trace of a span as package trace has it.
func parentOf(c oteltrace.SpanContext) trace.Parent {
	return trace.Parent{Trace: trace.TraceID(c.TraceID()), Span: trace.SpanID(c.SpanID()), Sampled: c.IsSampled(), State: c.TraceState().String()}
}

// fields returns the fields of the trace that a context belongs to, for a request to another service.
func fields(ctx context.Context) (parent, state, bag string) {
	p := parentOf(oteltrace.SpanContextFromContext(ctx))
	return p.Traceparent(), p.State, baggage.FromContext(ctx).String()
}

// over ends the span of a call with its outcome.
func over(span oteltrace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

var errPanicked = errors.New("it panicked")
