package http2

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/clienttls"
)

// Transport makes HTTP/2 requests on Eddy's loops. Use it as the http.RoundTripper of an http.Client, which adds redirects
// and cookies: http.Client{Transport: &http2.Transport{}}. Fill the fields before the first use; the zero value is ready and
// speaks HTTP/2 by prior knowledge to http URLs, and by TLS to https URLs. Close the Transport at the end.
//
// Do is the callback form. Do never blocks, and delivers the outcome on a loop. Begin is the form below net/http.
//
// The requests to a host share a connection. A further one is made when the server takes no more requests at once, up to
// MaxConnsPerHost; then requests wait in order. A request that the server has certainly not processed is sent again, at most
// three times, if its body can be. A Transport uses no proxy; see [ByALPN] for servers that may not speak HTTP/2.
type Transport struct {
	Group  *eddy.Group  // loops shared with servers; nil = one loop of its own
	Logger *slog.Logger // nil = slog.Default()

	MaxConns        int // open connections and attempts in all; beyond it requests wait. Default 512
	MaxConnsPerHost int // connections and attempts to one host that take requests; beyond it requests wait. Default 4
	MaxWaiting      int // requests that wait for a stream; beyond it the latest of the host with the most get ErrTransportBusy. Default 1024

	IdleTimeout           time.Duration // how long a connection is kept without a request. Default 90 s; negative: for ever
	ConnectTimeout        time.Duration // of each step: lookup, one address, TLS and the server's SETTINGS together. Default 30 s
	ResponseHeaderTimeout time.Duration // from the end of the request to the response's header. Default 0: no limit
	WriteTimeout          time.Duration // how long the server may take no byte of a request. Default 0: no limit
	ExpectContinueTimeout time.Duration // how long a body waits for the 100 Continue it asked for. Default 1 s; negative: for ever

	// PingInterval is how long a connection with requests may be silent until it is asked by a PING. Default 0: never.
	PingInterval time.Duration
	// PingTimeout is how long the answer to that PING may take. Then the connection ends. Default 15 s.
	PingTimeout time.Duration

	MaxHeaderBytes int // bytes of a response's header, and of its trailer, with 32 for each field. Default 64 KiB
	MaxHeaderCount int // fields of a response's header, and of its trailer. Default 200
	BodyBuffer     int // bytes of a response body under way or in memory: the window of a stream. Default 128 KiB

	// DisableCompression leaves out the Accept-Encoding that RoundTrip sends if the request names none and no Range. The
	// gzip body that such a request gets is decoded while it is read. Do never asks for gzip.
	DisableCompression bool

	// Lookup returns the addresses of a host, whose name may itself be an address. A new connection goes to one of these
	// addresses and to no other. Lookup runs on its own goroutine and has to end with ctx. nil = the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	// TLS configures https; nil = the certificates that the system trusts, TLS 1.2 or later. Without NextProtos it offers "h2"
	// and "http/1.1". Handshakes run on a pool of the Transport. Do not change the config afterwards.
	TLS *tls.Config

	// Secure takes the place of TLS. It adds to p the handlers that speak TLS to the named server, such as those of tlsx.Secure
	// on a pool of one's own, with "h2" in the NextProtos of its configuration. ready must be called once, on the loop, with the
	// outcome of the handshake. Secure runs on the loop.
	Secure func(p *eddy.Pipeline, serverName string, ready func(error)) error

	run   transportRun
	tls   clienttls.TLS
	conns transportConns
}

// transportRun is what a Transport makes when it is first used. It does not change afterwards.
type transportRun struct {
	once   sync.Once
	dialer *eddy.Dialer
	group  *eddy.Group
	base   context.Context // ends with Close
	halt   context.CancelFunc
	limits Options // of responses, and of floods
	hello  []byte  // the first bytes of each connection
	bad    error   // a field out of range, or the group that did not start

	looped atomic.Bool // Do was called
}

// TransportStats are the numbers of a Transport.
type TransportStats struct {
	Open     int    // connections, and attempts to connect
	Idle     int    // connections without a request
	Streams  int    // requests that have a stream
	Waiting  int    // requests that wait for a stream
	Requests uint64 // begun
	Retried  uint64 // sent once more because the server had not processed them
	Floods   uint64 // connections ended with ENHANCE_YOUR_CALM
}

var (
	// ErrNotHTTP2 is the error of a request to an https server that has not chosen HTTP/2 by ALPN. Nothing was sent.
	ErrNotHTTP2 = errors.New("http2: the server has not chosen HTTP/2")
	// ErrTransportClosed is the error of requests after Close, and of those that Close ends.
	ErrTransportClosed = errors.New("http2: the Transport is closed")
	// ErrTransportBusy is the error of a request when MaxWaiting others wait for a stream. Nothing was sent.
	ErrTransportBusy = errors.New("http2: too many requests wait for a stream")
	// ErrStale is the error of a request whose connection takes no more requests, and that could not be sent on another.
	ErrStale = errors.New("http2: the connection ended before the request was answered")
)

func (t *Transport) start() error {
	t.run.once.Do(func() {
		if t.run.bad = t.fill(); t.run.bad != nil {
			return
		}
		t.conns.mu.Lock() // for Stats, which may come at any time
		t.conns.hosts = make(map[hostKey]*host)
		t.conns.mu.Unlock()
		t.run.base, t.run.halt = context.WithCancel(context.Background())
		t.run.group = t.Group
		if t.run.group == nil {
			t.run.group = &eddy.Group{Name: "http2", Loops: 1, Logger: t.Logger}
		}
		if t.run.bad = t.run.group.Start(); t.run.bad != nil {
			return
		}
		t.run.dialer = &eddy.Dialer{
			Group: t.run.group, Logger: t.Logger, ConnectTimeout: t.ConnectTimeout,
			IdleTimeout: max(t.IdleTimeout, 0), WriteTimeout: max(t.WriteTimeout, 0), CloseOnEOF: true,
		}
	})
	return t.run.bad
}

// fill puts in the defaults, or returns an error that names the field that is out of range.
func (t *Transport) fill() error {
	for _, f := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"MaxConns", &t.MaxConns, 512}, {"MaxConnsPerHost", &t.MaxConnsPerHost, 4}, {"MaxWaiting", &t.MaxWaiting, 1024},
		{"MaxHeaderBytes", &t.MaxHeaderBytes, 64 << 10}, {"MaxHeaderCount", &t.MaxHeaderCount, 200}, {"BodyBuffer", &t.BodyBuffer, defaultBodyBuffer},
	} {
		if *f.value < 0 || *f.value > 1<<30 {
			return fmt.Errorf("http2: Transport.%s is %d, want 0 (default %d) up to %d", f.name, *f.value, f.zero, 1<<30)
		}
		if *f.value == 0 {
			*f.value = f.zero
		}
	}
	for _, f := range []struct {
		name     string
		value    *time.Duration
		zero     time.Duration
		negative bool // means no limit
	}{
		{"IdleTimeout", &t.IdleTimeout, 90 * time.Second, true}, {"ConnectTimeout", &t.ConnectTimeout, 30 * time.Second, false},
		{"ExpectContinueTimeout", &t.ExpectContinueTimeout, time.Second, true}, {"PingInterval", &t.PingInterval, 0, false},
		{"PingTimeout", &t.PingTimeout, 15 * time.Second, false},
	} {
		if *f.value < 0 && !f.negative {
			return fmt.Errorf("http2: Transport.%s is %v: it must not be negative", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.zero
		}
	}
	var err error
	t.run.limits, err = Options{MaxHeaderBytes: t.MaxHeaderBytes, MaxHeaderCount: t.MaxHeaderCount}.withDefaults()
	t.run.hello = t.appendHello(nil)
	return err
}

// appendHello appends the client's connection preface: no push, the window of a stream, the limit of a header section and a
// larger window for the connection (RFC 9113 section 3.4).
func (t *Transport) appendHello(b []byte) []byte {
	var p []byte
	p = appendSetting(p, settingPush, 0)
	p = appendSetting(p, settingWindow, uint32(t.BodyBuffer))
	p = appendSetting(p, settingMaxHeaderList, uint32(t.MaxHeaderBytes))
	b = append(b, Preface...)
	b = append(appendFrame(b, len(p), frameSettings, 0, 0), p...)
	return appendWindowUpdate(b, 0, connWindow-firstWindow)
}

// RoundTrip implements http.RoundTripper and returns when the header of the response has come. The body streams while it is
// read, and the request's body may still be on its way. Any goroutine but a loop of the group, where RoundTrip returns
// eddy.ErrOnLoop.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.roundTrip(r, false) }

// roundTrip is RoundTrip. keepBody leaves the body of a request open that fails with ErrNotHTTP2.
func (t *Transport) roundTrip(r *http.Request, keepBody bool) (*http.Response, error) {
	type outcome struct {
		resp *http.Response
		err  error
	}
	result := make(chan outcome, 1)
	c := t.newCall(r, func(resp *http.Response, err error) { result <- outcome{resp, err} })
	c.keepBody = keepBody
	c.plan.gzip = !t.DisableCompression && asksGzip(r)
	err := c.check()
	if err == nil && t.onLoop() {
		err = eddy.ErrOnLoop
	}
	if err != nil {
		c.closeBody()
		return nil, err
	}
	if err := c.gather(); err != nil {
		c.closeBody()
		return nil, err
	}
	c.begin()
	o := <-result // comes at the latest soon after the end of the request's context
	if o.err == nil && c.plan.gzip {
		gunzip(o.resp)
	}
	return o.resp, o.err
}

// Do begins a request and returns at once. Do calls done exactly once, on a loop of the group: with the response when its
// header has come, or with the error. An error that meets a full loop or an ended group is the exception: done then runs on
// the goroutine that found the error. done must not read the body, which may block; use ReadBody, or read the body on
// another goroutine. If Do returns an error, done is not called. The end of the request's context ends the request at every
// stage. Any goroutine, a loop as well.
func (t *Transport) Do(r *http.Request, done func(*http.Response, error)) error {
	if done == nil {
		return errors.New("http2: Do without a function to call")
	}
	t.run.looped.Store(true)
	c := t.newCall(r, func(resp *http.Response, err error) { t.deliver(func() { done(resp, err) }) })
	if err := c.check(); err != nil {
		c.closeBody()
		return err
	}
	c.begin()
	return nil
}

// deliver runs f on the present loop of the group or, on any other goroutine, posts f to the group's first loop.
func (t *Transport) deliver(f func()) {
	if t.onLoop() || t.run.group.Loop(0).Post(f) != nil { // a full queue or the end of the group: run f here rather than never
		f()
	}
}

// OnLoop reports whether the caller runs on a loop of the group, where nothing may wait for a response.
func (t *Transport) OnLoop() bool { return t.start() == nil && t.onLoop() }

// onLoop is OnLoop of a Transport that has begun. Nobody else's code runs on loops of the Transport's own before
// Do was called.
func (t *Transport) onLoop() bool {
	if t.Group == nil && !t.run.looped.Load() {
		return false
	}
	for i := 0; ; i++ {
		l := t.run.group.Loop(i)
		if l == nil || l.In() {
			return l != nil
		}
	}
}

// Close ends every connection and request; the requests fail with ErrTransportClosed. Any goroutine but a loop of the group,
// where Close returns eddy.ErrOnLoop.
func (t *Transport) Close() error {
	if t.start() != nil {
		return nil // nothing was ever begun
	}
	if t.onLoop() {
		return eddy.ErrOnLoop
	}
	left := t.shut()
	t.run.halt()
	for _, c := range left {
		c.fail(ErrTransportClosed)
	}
	err := t.run.dialer.Close()
	if t.Group == nil {
		err = errors.Join(err, t.run.group.Close())
	}
	t.tls.Close(ErrTransportClosed)
	return err
}

// timeoutError says which limit of the Transport has passed. As a net.Error its Timeout reports true; errors.Is finds
// context.DeadlineExceeded in it.
type timeoutError struct {
	what  string
	limit time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("http2: %s in time (limit %v)", e.what, e.limit)
}
func (e *timeoutError) Timeout() bool   { return true }
func (e *timeoutError) Temporary() bool { return true }
func (e *timeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded
}
