package http2

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

// The names of this package's handlers in a pipeline.
const (
	decoderName = "http2"
	eitherName  = "http2.either"
)

// Factory builds the pipelines of one HTTP/2 server. All its connections share it.
type Factory struct {
	opts    Options
	handler http.Handler
	pool    *executor.Pool
	decoder *decoder
	blank   *http.Request // copied by WithContext for each request, never changed
	limits  atomic.Pointer[limits]
	hello   []byte // the first frames of each connection

	date     atomic.Pointer[dateValue]
	buffers  sync.Pool // *buffers
	sections sync.Pool // *fields
	loops    sync.Pool // *loopExchange
	stats    counters
}

// NewHandler returns a factory whose connections run h on pool, or on the pool that Options.Route names. With
// Options.OnLoop or Options.Calls both h and pool may be nil. NewHandler panics when one of them is missing, or when an option is out of
// range; the panic names the option.
func NewHandler(h http.Handler, pool *executor.Pool, o Options) *Factory {
	if (h == nil || pool == nil) && (o.OnLoop == nil && o.Calls == nil || h != nil) {
		panic("http2: NewHandler needs a handler and a pool, or Options.OnLoop or Calls")
	}
	o, err := o.withDefaults()
	if err != nil {
		panic(err.Error())
	}
	f := &Factory{opts: o, handler: h, pool: pool, blank: new(http.Request)}
	if o.Trace != nil && h != nil {
		f.trace()
	}
	f.decoder = &decoder{f}
	f.hello = o.appendHello(nil)
	f.buffers.New = func() any { return newBuffers() }
	f.loops.New = func() any { return new(loopExchange) }
	f.sections.New = func() any { return &fields{pooled: true} }
	return f
}

// Init adds the handler to a new connection's pipeline, for clients that are known to speak HTTP/2: by ALPN, or by prior
// knowledge. Set Init as eddy.Server.Init, which runs on the connection's loop.
func (f *Factory) Init(p *eddy.Pipeline) error { return p.Add(decoderName, f.decoder) }

// Replace puts the handler in the place of the one named old, for a port that finds out what its client speaks. The
// connection's bytes must begin with Preface. On the loop only. Errors: those of eddy.Pipeline.Replace.
func (f *Factory) Replace(p *eddy.Pipeline, old string) error {
	return p.Replace(old, decoderName, f.decoder)
}

// Stats are the numbers of a factory since it was made. Each number is exact, but they are read one after the other.
type Stats struct {
	Requests       uint64    // complete header sections of requests
	Responses      [6]uint64 // by status class; [1] counts informational ones
	Busy           uint64    // requests answered 503 because the pool took no more, in all or of the client
	Refused        uint64    // requests beyond MaxStreams, and those of a draining connection
	Resets         uint64    // requests that the client has reset
	ProtocolErrors uint64    // requests refused as malformed or too large, and connections ended for such a reason
	Timeouts       uint64    // requests whose body, handler or client was too slow
	Floods         uint64    // connections ended with ENHANCE_YOUR_CALM
	Tunnels        uint64    // streams handed to another protocol, such as WebSocket
	InvalidFields  uint64    // response header fields dropped because they cannot be sent
}

type counters struct {
	requests, busy, refused, resets, protocolErrors, timeouts, floods, tunnels, invalidFields atomic.Uint64

	responses [6]atomic.Uint64
}

// Stats returns the numbers. Any goroutine.
func (f *Factory) Stats() Stats {
	s := Stats{
		Requests:       f.stats.requests.Load(),
		Busy:           f.stats.busy.Load(),
		Refused:        f.stats.refused.Load(),
		Resets:         f.stats.resets.Load(),
		ProtocolErrors: f.stats.protocolErrors.Load(),
		Timeouts:       f.stats.timeouts.Load(),
		Floods:         f.stats.floods.Load(),
		Tunnels:        f.stats.tunnels.Load(),
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

// appendHello appends the server's connection preface: its settings, and a larger window for the connection (RFC 9113
// section 3.4).
func (o *Options) appendHello(b []byte) []byte {
	var p []byte
	p = appendSetting(p, settingMaxStreams, uint32(o.MaxStreams))
	p = appendSetting(p, settingWindow, uint32(o.BodyBuffer))
	p = appendSetting(p, settingMaxHeaderList, uint32(o.MaxHeaderBytes))
	if o.Connect {
		p = appendSetting(p, settingConnectProtocol, 1)
	}
	p = appendSetting(p, settingNoPriorities, 1)
	b = append(appendFrame(b, len(p), frameSettings, 0, 0), p...)
	return appendWindowUpdate(b, 0, connWindow-firstWindow)
}

// dateValue is the formatted Date field of one second.
type dateValue struct {
	unix int64
	text string
}

// dateText returns the value of the Date field (RFC 9110 section 6.6.1) by the clock of the connection's loop. It is formatted
// once per second. Any goroutine.
func (sc *serverConn) dateText() string {
	f, now := sc.f, sc.conn.Loop().Now()
	d := f.date.Load()
	if d == nil || d.unix != now.Unix() {
		d = &dateValue{now.Unix(), now.UTC().Format(http.TimeFormat)}
		f.date.Store(d)
	}
	return d.text
}

// limits caches the deadlines of HTTP/2 connections: own is base with those of Options in place of the server's. The
// handler deadline is that of a stream, which must not end the others.
type limits struct{ base, own eddy.Deadlines }

// limitsOver returns base with the deadlines of Options put in. The connections of a server share one value.
func (f *Factory) limitsOver(base eddy.Deadlines) *eddy.Deadlines {
	if l := f.limits.Load(); l != nil && l.base == base {
		return &l.own
	}
	l := &limits{base: base, own: base}
	l.own.Read = f.opts.HeaderTimeout
	l.own.Body = f.opts.BodyTimeout
	l.own.Idle = f.opts.IdleTimeout
	l.own.Write = f.opts.WriteTimeout
	l.own.Handler = 0
	f.limits.Store(l)
	return &l.own
}
