package http1

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

// The names of this package's handlers in a pipeline.
const (
	decoderName    = "http1"
	dispatcherName = "http1.dispatch"
)

// Factory builds the pipelines of one HTTP server. All its connections share it.
type Factory struct {
	opts    Options
	handler http.Handler
	pool    *executor.Pool

	decoder    *decoder
	dispatcher *dispatcher
	blank      *http.Request // copied by WithContext for each request, never changed
	limits     atomic.Pointer[limits]
	chains     bool          // requests that a client pipelines are chained
	chainTime  time.Duration // of a worker

	date    atomic.Pointer[dateLine]
	heads   sync.Pool // *head
	buffers sync.Pool // *buffers
	headers sync.Pool // http.Header of responses that are over, empty
	loops   sync.Pool // *loopExchange
	stats   counters
}

// NewHandler returns a factory whose connections run h on pool, or on the pool that Options.Route names. With
// Options.OnLoop both h and pool may be nil. NewHandler panics when one of them is missing, or when an option is out of
// range; the panic names the option.
func NewHandler(h http.Handler, pool *executor.Pool, o Options) *Factory {
	if (h == nil || pool == nil) && (o.OnLoop == nil || h != nil || pool != nil) {
		panic("http1: NewHandler needs a handler and a pool, or Options.OnLoop")
	}
	o, err := o.withDefaults()
	if err != nil {
		panic(err.Error())
	}
	f := &Factory{opts: o, handler: h, pool: pool, blank: new(http.Request), chains: o.OnLoop == nil && o.Trace == nil, chainTime: chainTime}
	if o.Trace != nil && h != nil {
		f.trace()
	}
	f.decoder = &decoder{f}
	f.dispatcher = &dispatcher{f}
	f.heads.New = func() any { return new(head) }
	f.loops.New = func() any { return new(loopExchange) }
	f.buffers.New = func() any { return newBuffers() }
	f.headers.New = func() any { return make(http.Header) }
	return f
}

// Init adds the HTTP handlers to a new connection's pipeline. Set Init as
// eddy.Server.Init, which runs on the connection's loop.
func (f *Factory) Init(p *eddy.Pipeline) error {
	if err := p.Add(decoderName, f.decoder); err != nil {
		return err
	}
	return p.Add(dispatcherName, f.dispatcher)
}

// Replace puts the HTTP handlers in the place of the one named old, for a port that finds out what its client speaks. On the
// loop only. Errors: those of eddy.Pipeline.Replace and AddAfter.
func (f *Factory) Replace(p *eddy.Pipeline, old string) error {
	if err := p.Replace(old, decoderName, f.decoder); err != nil {
		return err
	}
	return p.AddAfter(decoderName, dispatcherName, f.dispatcher)
}

// Refuse returns the answer to a client whose connection is not taken, a 503 with Retry-After. Set it as
// eddy.Admission.Busy, with eddy.DecisionBusy, unless the server speaks TLS. Any goroutine.
func (f *Factory) Refuse(r eddy.Refusal) []byte {
	retry := fmt.Sprintf("Retry-After: %.0f\r\n", math.Ceil(r.RetryAfter.Seconds()))
	return f.appendPlain(nil, plain{status: http.StatusServiceUnavailable, text: "the server is busy", extra: retry, closing: true})
}

// Stats are the numbers of a factory since it was made. Each number is exact,
// but they are read one after the other.
type Stats struct {
	Requests       uint64    // complete request heads
	Responses      [6]uint64 // by status class; [1] counts informational ones
	Busy           uint64    // requests answered 503 because the pool took no more, in all or of the client
	ProtocolErrors uint64    // requests refused as malformed or too large
	Timeouts       uint64    // connections ended because a head, a body or the handler was too slow
	Upgrades       uint64    // connections handed to another protocol
	InvalidFields  uint64    // response header fields dropped because they cannot be sent
}

type counters struct {
	requests, busy, protocolErrors, timeouts, upgrades, invalidFields atomic.Uint64

	responses [6]atomic.Uint64
}

// Stats returns the numbers. Any goroutine.
func (f *Factory) Stats() Stats {
	s := Stats{
		Requests:       f.stats.requests.Load(),
		Busy:           f.stats.busy.Load(),
		ProtocolErrors: f.stats.protocolErrors.Load(),
		Timeouts:       f.stats.timeouts.Load(),
		Upgrades:       f.stats.upgrades.Load(),
		InvalidFields:  f.stats.invalidFields.Load(),
	}
	for i := range s.Responses {
		s.Responses[i] = f.stats.responses[i].Load()
	}
	return s
}

func (f *Factory) countStatus(status int) {
	if class := status / 100; class >= 1 && class <= 5 {
		f.stats.responses[class].Add(1)
	}
}

// dateLine is the formatted Date field of one second.
type dateLine struct {
	unix int64
	line []byte
}

// appendDate appends the Date field (RFC 9110 section 6.6.1), which is
// formatted once per second.
func (f *Factory) appendDate(b []byte, now time.Time) []byte {
	d := f.date.Load()
	if d == nil || d.unix != now.Unix() {
		line := now.UTC().AppendFormat([]byte("Date: "), http.TimeFormat)
		d = &dateLine{now.Unix(), append(line, "\r\n"...)}
		f.date.Store(d)
	}
	return append(b, d.line...)
}

// plain is a complete response with a short text.
type plain struct {
	status  int
	text    string
	extra   string // header lines with their CRLF
	closing bool   // the connection ends with the response
	isHead  bool   // the text is not sent
}

// appendPlain appends a complete response.
func (f *Factory) appendPlain(b []byte, p plain) []byte {
	f.countStatus(p.status)
	b = appendStatus(b, p.status)
	b = f.appendDate(b, time.Now())
	b = append(b, p.extra...)
	if p.closing {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(p.text)+1), 10)
	b = append(b, "\r\n\r\n"...)
	if p.isHead {
		return b
	}
	return append(append(b, p.text...), '\n')
}

func appendStatus(b []byte, status int) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	return append(b, "\r\n"...)
}
