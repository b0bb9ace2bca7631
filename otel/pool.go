package otel

import (
	"context"

	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/go-eddy/eddy/executor"
)

// Call runs f in a span of the kind client, such as a statement of a database. name has few values: the operation and the
// table, and no values of users. In a request that is not sampled it runs f alone.
func (t *Tracer) Call(ctx context.Context, name string, f func(ctx context.Context) error) error {
	if unsampled(ctx) {
		return f(ctx)
	}
	ctx, span := t.tracer.Start(ctx, name, oteltrace.WithSpanKind(oteltrace.SpanKindClient))
	ended := errPanicked
	defer func() { over(span, ended) }()
	ended = f(ctx)
	return ended
}

// Go runs f on a pool, as executor.Pool.SubmitContext does. In a sampled trace f has a span of this name, and the time before
// it is a span "queue wait". A task may outlive the request that has submitted it.
func (t *Tracer) Go(ctx context.Context, pool *executor.Pool, name string, f func(ctx context.Context)) error {
	if unsampled(ctx) {
		return pool.SubmitContext(ctx, f)
	}
	_, wait := t.tracer.Start(ctx, "queue wait", oteltrace.WithAttributes(attrWhere.String(pool.Name())))
	err := pool.SubmitContext(ctx, func(ctx context.Context) {
		wait.End()
		ctx, span := t.tracer.Start(ctx, name, oteltrace.WithAttributes(attrWhere.String(pool.Name())))
		err := errPanicked
		defer func() { over(span, err) }()
		f(ctx)
		err = nil
	})
	if err != nil {
		over(wait, err)
	}
	return err
}
