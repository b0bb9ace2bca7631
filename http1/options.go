package http1

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-eddy/eddy/trace"
)

// Options are the limits and deadlines of a [Factory]. The zero value is a
// working configuration: a zero field takes the default named beside it.
type Options struct {
	// MaxRequestLine is the longest request line in bytes, without its CRLF. A
	// longer one is answered 414, or 501 when the method alone fills the limit.
	// Default 8 KiB.
	MaxRequestLine int
	// MaxHeaderBytes bounds the header section in bytes: all field lines, their
	// CRLFs and the empty line. The trailer section and all chunk extensions of
	// one request together have the same bound. Beyond it: 431. Default 32 KiB.
	MaxHeaderBytes int
	// MaxHeaderCount is the largest number of field lines. Beyond it: 431.
	// Default 100.
	MaxHeaderCount int
	// MaxBody is the largest request body in bytes. Beyond it: 413, decided
	// from Content-Length or from the chunk size, before the bytes are read.
	// Default 8 MiB.
	MaxBody int64
	// BodyBuffer is how many bytes of a request body wait in memory for the
	// handler. When the buffer is full the connection is not read until the
	// handler has taken half of it. Default 64 KiB.
	BodyBuffer int
	// MaxRequests is how many requests one connection may send. The response to
	// the last one says Connection: close. Default 0: no limit.
	MaxRequests int
	// MaxDiscard is how many unread body bytes the server throws away to keep
	// the connection. With more to come the connection is closed instead.
	// Default 256 KiB.
	MaxDiscard int64

	// OnLoop is asked first about small requests, on the loop. The http.Handler
	// gets the requests that OnLoop does not answer. With OnLoop the handler and
	// the pool may both be nil; the other requests are then answered 404, 411 or
	// 413.
	OnLoop LoopHandler

	// Trace samples and records the requests that go to the handler. nil = none.
	Trace *trace.Recorder
	// TrustTrace takes the trace and the baggage that clients send: the header fields traceparent, tracestate and baggage.
	// Without it they are ignored and counted, because any client may decide by them what is sampled. Set it where only
	// your own services and proxies connect.
	TrustTrace bool

	// Route chooses the pool that runs a request, and whether its body is awaited.
	// Route runs on the loop, so it must not block. r has no body yet, and must not
	// be changed or kept. mux.Handler(r) gives the pattern of a mux. Default: the
	// pool of NewHandler runs all requests and bodies stream.
	Route func(r *http.Request) Route

	// The deadlines below replace those of the server of the same kind. The
	// server's HandlerTimeout stays: a request that misses it is answered 503, and
	// it is the deadline of the request's context.

	// HeaderTimeout is the time from the first byte of a request to the end of
	// its header section. Beyond it: 408. Default 10 s; negative: none.
	HeaderTimeout time.Duration
	// BodyTimeout is the time the client may take for the whole body. Time
	// during which the handler holds the client back by not reading does not
	// count. Beyond it: 408. Default 60 s; negative: none.
	BodyTimeout time.Duration
	// IdleTimeout is how long a connection may stay without a request in hand and
	// without a byte read or written, also before the first request. Default
	// 2 min; negative: none.
	IdleTimeout time.Duration
	// WriteTimeout is how long a client may take nothing of a queued response, or
	// less than Server.MinWriteRate. Then the connection is closed, and a blocked
	// Write of the handler returns the error. So a client that does not read cannot
	// hold a goroutine for ever. Default 60 s; negative: none.
	WriteTimeout time.Duration
}

const (
	defaultRequestLine = 8 << 10
	defaultHeaderBytes = 32 << 10
	defaultHeaderCount = 100
	defaultMaxBody     = 8 << 20
	defaultBodyBuffer  = 64 << 10
	defaultMaxDiscard  = 256 << 10

	defaultHeaderTimeout = 10 * time.Second
	defaultBodyTimeout   = 60 * time.Second
	defaultIdleTimeout   = 2 * time.Minute
	defaultWriteTimeout  = 60 * time.Second
)

// withDefaults returns o with every zero field filled in, or an error that names
// the field that is out of range.
func (o Options) withDefaults() (Options, error) {
	for _, f := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"MaxRequestLine", &o.MaxRequestLine, defaultRequestLine},
		{"MaxHeaderBytes", &o.MaxHeaderBytes, defaultHeaderBytes},
		{"MaxHeaderCount", &o.MaxHeaderCount, defaultHeaderCount},
		{"BodyBuffer", &o.BodyBuffer, defaultBodyBuffer},
	} {
		if *f.value < 0 || *f.value > 1<<30 {
			return o, fmt.Errorf("http1: Options.%s is %d, want 0 (default %d) up to %d", f.name, *f.value, f.zero, 1<<30)
		}
		if *f.value == 0 {
			*f.value = f.zero
		}
	}
	if o.MaxRequests < 0 {
		return o, fmt.Errorf("http1: Options.MaxRequests is %d, want 0 (no limit) or more", o.MaxRequests)
	}
	if o.MaxBody < 0 {
		return o, fmt.Errorf("http1: Options.MaxBody is %d, want 0 (default %d) or more", o.MaxBody, defaultMaxBody)
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.MaxDiscard < 0 {
		return o, fmt.Errorf("http1: Options.MaxDiscard is %d, want 0 (default %d) or more", o.MaxDiscard, defaultMaxDiscard)
	}
	if o.MaxDiscard == 0 {
		o.MaxDiscard = defaultMaxDiscard
	}
	for _, f := range []struct {
		value *time.Duration
		zero  time.Duration
	}{
		{&o.HeaderTimeout, defaultHeaderTimeout},
		{&o.BodyTimeout, defaultBodyTimeout},
		{&o.IdleTimeout, defaultIdleTimeout},
		{&o.WriteTimeout, defaultWriteTimeout},
	} {
		if *f.value == 0 {
			*f.value = f.zero
		}
	}
	return o, nil
}
