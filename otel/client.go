package otel

import (
	"context"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/trace"
)

// ClientInterceptor returns an interceptor for rpc.ClientOptions and rpc.GRPCOptions: each call of a sampled request has
// a span of the kind client, and takes trace and baggage of its context along.
func (t *Tracer) ClientInterceptor() rpc.Interceptor {
	return func(ctx context.Context, call *rpc.CallInfo, req any, next func(context.Context, any) (any, error)) (any, error) {
		if unsampled(ctx) {
			call.Metadata = append(call.Metadata, pairs(ctx)...)
			return next(ctx, req)
		}
		ctx, span := t.tracer.Start(ctx, call.Key.Interface+"/"+call.Method, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(
			attribute.String("rpc.service", call.Key.Interface), attribute.String("rpc.method", call.Method)))
		ended := errPanicked
		defer func() { over(span, ended) }()
		call.Metadata = append(call.Metadata, pairs(ctx)...)
		resp, err := next(ctx, req)
		ended = err
		return resp, err
	}
}

// unsampled reports whether a context belongs to a request that is not sampled. A context of no request at all does not.
func unsampled(ctx context.Context) bool {
	c := oteltrace.SpanContextFromContext(ctx)
	return c.IsValid() && !c.IsSampled()
}

// Metadata returns the pairs that carry the trace and the baggage of a context, for calls that no interceptor sees, such as
// those that stream: rpc.CallMetadata(otel.Metadata(ctx)...).
func Metadata(ctx context.Context) []rpc.Pair { return pairs(ctx) }

func pairs(ctx context.Context) []rpc.Pair {
	var list []rpc.Pair
	parent, state, bag := fields(ctx)
	for _, p := range []rpc.Pair{{Key: trace.FieldTraceparent, Value: parent}, {Key: trace.FieldTracestate, Value: state}, {Key: trace.FieldBaggage, Value: bag}} {
		if p.Value != "" {
			list = append(list, p)
		}
	}
	return list
}

// Transport returns a RoundTripper that sends requests by next, such as an http1.Transport: each request of a sampled one
// has a span of the kind client, which ends with the header of the response. Trace and baggage go along as header fields.
// So do those of a WebSocket handshake, whose header is Header.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper { return &transport{t, next} }

type transport struct {
	t    *Tracer
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if unsampled(r.Context()) {
		r = r.Clone(r.Context())
		Header(r.Context(), r.Header)
		return t.next.RoundTrip(r)
	}
	ctx, span := t.t.tracer.Start(r.Context(), r.Method, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Host)))
	ended := errPanicked
	defer func() { over(span, ended) }()
	r = r.Clone(ctx)
	Header(ctx, r.Header)
	resp, err := t.next.RoundTrip(r)
	if ended = err; err == nil {
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
		if resp.StatusCode >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "status "+strconv.Itoa(resp.StatusCode))
		}
	}
	return resp, err
}

// BeginCall implements trace.Caller: a span of the kind client, below a trace that may have begun in another process.
func (t *Tracer) BeginCall(below trace.Parent, name, host string) (trace.Parent, func(error)) {
	ctx := oteltrace.ContextWithRemoteSpanContext(context.Background(), remoteOf(&below))
	_, span := t.tracer.Start(ctx, name, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(
		attribute.String("http.request.method", name), attribute.String("server.address", host)))
	return parentOf(span.SpanContext()), func(err error) { over(span, err) }
}

// Header sets the fields that carry the trace and the baggage of a context, and removes them where there are none.
func Header(ctx context.Context, h http.Header) {
	parent, state, bag := fields(ctx)
	for name, value := range map[string]string{trace.FieldTraceparent: parent, trace.FieldTracestate: state, trace.FieldBaggage: bag} {
		if value == "" {
			h.Del(name)
		} else {
			h.Set(name, value)
		}
	}
}
