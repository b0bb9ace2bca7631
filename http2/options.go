package http2

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/trace"
)

// Options are the limits and deadlines of a [Factory]. The zero value is a working configuration: a zero field takes the
// default named beside it.
type Options struct {
	// MaxStreams is how many requests a client may have open, and how many handlers of one connection may run, those of
	// requests that the client has reset included. Beyond it: REFUSED_STREAM. Default 128.
	MaxStreams int
	// MaxHeaderBytes bounds a decoded header or trailer section in bytes, with 32 bytes for each field (RFC 9113 section
	// 6.5.2). Beyond it: 431. A section that takes more than twice as many bytes before it is decoded ends the connection.
	// Default 32 KiB.
	MaxHeaderBytes int
	// MaxHeaderCount is the largest number of fields in a section. Beyond it: 431. Default 100.
	MaxHeaderCount int
	// MaxBody is the largest request body in bytes. Beyond it: 413. Default 8 MiB; negative: no limit.
	MaxBody int64
	// BodyBuffer is how many bytes of a request body may be under way or in memory for the handler: the window of a stream.
	// Default 128 KiB, at least 64 KiB.
	BodyBuffer int
	// ResponseBuffer is how many bytes of a response wait for the client's windows; then the handler's Write blocks. Default
	// 64 KiB.
	ResponseBuffer int

	// ControlBurst and ControlRate bound what costs the server more than the client: SETTINGS, PING and PRIORITY_UPDATE
	// frames, tiny and empty frames, window updates that no data has used, requests that are refused, reset or malformed.
	// ControlBurst is how many may come at once, ControlRate how many a second go on from there. An answered request gives
	// one back. Beyond it the connection ends with ENHANCE_YOUR_CALM. Defaults 1000 and 100.
	ControlBurst int
	ControlRate  int

	// OnLoop is asked first about requests without a body, and about those whose whole body, of up to BodyBuffer bytes, has
	// come. The http.Handler gets the requests that OnLoop does not answer. With OnLoop the handler and the pool may both be
	// nil; the other requests are then answered 404 or 413.
	OnLoop http1.LoopHandler

	// Trace samples and records the requests that go to the handler. nil = none.
	Trace *trace.Recorder
	// TrustTrace takes the trace and the baggage that clients send: the header fields traceparent, tracestate and baggage.
	// Without it they are ignored and counted, because any client may decide by them what is sampled. Set it where only
	// your own services and proxies connect.
	TrustTrace bool

	// Route chooses the pool that runs a request, and whether its body is awaited, as in package http1. Default: the pool of
	// NewHandler runs all requests and bodies stream.
	Route func(r *http.Request) http1.Route

	// Connect tells clients that the handler takes CONNECT with a :protocol (RFC 8441), which comes as the header field
	// ":protocol". Browsers then open WebSockets as streams of a connection that they have, so set it where every handler of a
	// WebSocket upgrades by package websocket. Without it browsers open WebSockets by HTTP/1.1.
	Connect bool

	// Calls is asked first about each request by a server that works below net/http, such as one of remote calls. A request
	// for which it names no Call is served as ever. On the loop.
	Calls func(h Head) Followed

	// HeaderTimeout is the time from the first byte of a frame or header section to its end. Default 10 s; negative: none.
	HeaderTimeout time.Duration
	// BodyTimeout is the longest silence of a client whose handler waits for its body. A handler that has begun to answer
	// may wait for any time. Beyond it: 408. Default 60 s; negative: none.
	BodyTimeout time.Duration
	// IdleTimeout is how long a connection may stay without a request in flight and without a byte read or written. Default
	// 2 min; negative: none.
	IdleTimeout time.Duration
	// WriteTimeout is how long the client's windows may let nothing of a waiting response through, or less than
	// Server.MinWriteRate over that time. Then the stream is reset. The same time holds for a client that takes nothing of
	// what is queued on the connection, which then closes. Default 60 s; negative: none.
	WriteTimeout time.Duration

	// MaxAge is how long a connection takes requests, a tenth more or less, so that clients come back to a balancer and not
	// all at once. Then the client is told GOAWAY, and the connection ends with its requests. Default 0: no limit.
	MaxAge time.Duration
	// MaxAgeGrace is how long the requests in flight may take after MaxAge. Then they are reset. Default 0: no limit.
	MaxAgeGrace time.Duration
}

const (
	defaultMaxStreams     = 128
	defaultHeaderBytes    = 32 << 10
	defaultHeaderCount    = 100
	defaultMaxBody        = 8 << 20
	defaultBodyBuffer     = 128 << 10
	defaultResponseBuffer = 64 << 10
	defaultControlBurst   = 1000
	defaultControlRate    = 100

	defaultHeaderTimeout = 10 * time.Second
	defaultBodyTimeout   = 60 * time.Second
	defaultIdleTimeout   = 2 * time.Minute
	defaultWriteTimeout  = 60 * time.Second
)

// withDefaults returns o with every zero field filled in, or an error that names the field that is out of range.
func (o Options) withDefaults() (Options, error) {
	for _, f := range []struct {
		name  string
		value *int
		zero  int
		least int
		most  int
	}{
		{"MaxStreams", &o.MaxStreams, defaultMaxStreams, 1, 1 << 20},
		{"MaxHeaderBytes", &o.MaxHeaderBytes, defaultHeaderBytes, 1, 1 << 28},
		{"MaxHeaderCount", &o.MaxHeaderCount, defaultHeaderCount, 1, 1 << 20},
		{"BodyBuffer", &o.BodyBuffer, defaultBodyBuffer, 64 << 10, 1 << 30}, // a client may count on as much before it has the settings
		{"ResponseBuffer", &o.ResponseBuffer, defaultResponseBuffer, 1 << 10, 1 << 30},
		{"ControlBurst", &o.ControlBurst, defaultControlBurst, 10, 1 << 30},
		{"ControlRate", &o.ControlRate, defaultControlRate, 1, 1 << 30},
	} {
		if *f.value == 0 {
			*f.value = f.zero
		}
		if *f.value < f.least || *f.value > f.most {
			return o, fmt.Errorf("http2: Options.%s is %d, want 0 (default %d) or %d up to %d", f.name, *f.value, f.zero, f.least, f.most)
		}
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
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
		*f.value = max(*f.value, 0)
	}
	o.MaxAge, o.MaxAgeGrace = max(o.MaxAge, 0), max(o.MaxAgeGrace, 0)
	return o, nil
}
