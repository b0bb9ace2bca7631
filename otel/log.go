package otel

import (
	"context"
	"log/slog"

	oteltrace "go.opentelemetry.io/otel/trace"
)

// The keys of the trace in log lines.
const (
	LogTrace = "trace_id"
	LogSpan  = "span_id"
)

// LogHandler returns a handler that adds trace_id and span_id to the lines of sampled requests, those that are logged with
// a context: slog.InfoContext and its like.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

type logHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if c := oteltrace.SpanContextFromContext(ctx); c.IsSampled() {
		r = r.Clone()
		r.AddAttrs(slog.String(LogTrace, c.TraceID().String()), slog.String(LogSpan, c.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
