// Package trace follows sampled requests through the engine: the wait for the loop, the queue of a pool, the handler, the way
// back and the write. A [Recorder] samples requests, keeps the slowest of them with their stages, and reads and writes the
// fields traceparent, tracestate and baggage of the W3C.
//
// Make a Recorder with [New] and give it to rpc.PortOptions.Trace, http1.Options.Trace, http2.Options.Trace or, for a
// pipeline of your own, to [Messages]. admin.Server.WatchTraces shows its requests. A server without a Recorder runs
// none of this package's code.
//
// The package knows no tracing library. A [Tracer] makes the spans of one; the module github.com/go-eddy/eddy/otel has that
// of OpenTelemetry. docs/tracing.md tells more.
package trace
