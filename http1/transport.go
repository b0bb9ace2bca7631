package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/clienttls"
	"github.com/go-eddy/eddy/internal/fairqueue"
)

// Transport makes HTTP/1.1 requests on Eddy's loops. Use it as the http.RoundTripper of an http.Client, which adds
// redirects and cookies: http.Client{Transport: &http1.Transport{}}. Fill the fields before the first use; the zero value
// is ready. Close the Transport at the end.
//
// Do is the callback form. Do never blocks, and delivers the outcome on a loop.
//
// Connections are kept and serve one request at a time. A Transport does not decompress bodies, speak HTTP/2 (see http2.ByALPN), or use
// proxies of the environment unless Proxy does.
type Transport struct {
	Group  *eddy.Group  // loops shared with servers; nil = one loop of its own
	Logger *slog.Logger // nil = slog.Default()

	MaxConns        int // open connections and attempts in all; beyond it requests wait. Default 512
	MaxConnsPerHost int // open connections and attempts to one host; beyond it requests wait. Default 64
	MaxIdlePerHost  int // connections to one host that are kept without a request. Default 16
	MaxWaiting      int // requests that wait for a connection; beyond it the latest of the host with the most get ErrTransportBusy. Default 1024

	IdleTimeout           time.Duration // how long a connection is kept without a request. Default 90 s; negative: for ever
	ConnectTimeout        time.Duration // of each step: lookup, one address, proxy and TLS handshake together. Default 30 s
	ResponseHeaderTimeout time.Duration // from the end of the request to the response's header. Default 0: no limit
	WriteTimeout          time.Duration // how long the server may take no byte of a request. Default 0: no limit
	ExpectContinueTimeout time.Duration // how long a body waits for the 100 Continue it asked for. Default 1 s; negative: for ever

	MaxHeaderBytes int // bytes of a response's header, and of its trailer. Default 64 KiB
	MaxHeaderCount int // fields of a response's header, and of its trailer. Default 200
	BodyBuffer     int // bytes of a response body in memory; when full, the connection is not read. Default 64 KiB

	// Proxy returns the proxy for a request, nil for none. A proxy is an http URL, perhaps with user and password.
	// Requests for http URLs go to the proxy in absolute form; connections for https URLs go through the proxy by CONNECT.
	Proxy func(*http.Request) (*url.URL, error)

	// Lookup returns the addresses of a host or proxy, whose name may itself be an address. Each new connection goes to one
	// of these addresses and to no other, so Lookup can refuse hosts that must not be reached. Lookup runs on its own
	// goroutine and has to end with ctx. An error ends the request. nil = the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	// TLS configures https; nil = the certificates that the system trusts, TLS 1.2 or later. Handshakes run on a pool of the
	// Transport. Do not change the config afterwards.
	TLS *tls.Config

	// Secure takes the place of TLS. It adds to p the handlers that speak TLS to the named server, such as those of tlsx.Secure
	// on a pool of one's own; the transport adds its own behind them. ready must be called once, on the loop, when the handshake
	// has succeeded or failed. Secure runs on the loop.
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
	limits Options // of responses
	bad    error   // a field out of range, or the group that did not start
	heads  sync.Pool
}

// transportConns are the connections of a Transport and what waits for one.
type transportConns struct {
	mu      sync.Mutex
	fresh   map[*eddy.Conn]*clientConn // made, and not yet taken by connOf
	hosts   map[hostKey]*host
	open    int // connections and attempts
	waiting fairqueue.Bound[*call]
	short   bool // MaxConns keeps a call waiting
	closed  bool
	stats   TransportStats
}

// TransportStats are the numbers of a Transport.
type TransportStats struct {
	Open     int    // connections, and attempts to connect
	Idle     int    // connections without a request
	Waiting  int    // requests that wait for a connection
	Requests uint64 // begun
	Reused   uint64 // sent on a kept connection
	Retried  uint64 // sent once more because the kept connection was closed
}

var (
	// ErrTransportClosed is the error of requests after Close, and of those that Close ends.
	ErrTransportClosed = errors.New("http1: the Transport is closed")
	// ErrTransportBusy is the error of a request when MaxWaiting others wait for a connection. Nothing was sent.
	ErrTransportBusy = errors.New("http1: too many requests wait for a connection")
	// ErrStale is the error of a request that cannot be sent once more after the server has closed its connection. No byte
	// of an answer had come.
	ErrStale = errors.New("http1: the server closed the connection before it answered")
)

func (t *Transport) start() error {
	t.run.once.Do(func() {
		for _, f := range []struct {
			name  string
			value *int
			zero  int
		}{
			{"MaxConns", &t.MaxConns, 512}, {"MaxConnsPerHost", &t.MaxConnsPerHost, 64}, {"MaxIdlePerHost", &t.MaxIdlePerHost, 16},
			{"MaxWaiting", &t.MaxWaiting, 1024}, {"MaxHeaderBytes", &t.MaxHeaderBytes, 64 << 10}, {"MaxHeaderCount", &t.MaxHeaderCount, 200},
			{"BodyBuffer", &t.BodyBuffer, defaultBodyBuffer},
		} {
			if *f.value < 0 || *f.value > 1<<30 {
				t.run.bad = fmt.Errorf("http1: Transport.%s is %d, want 0 (default %d) up to %d", f.name, *f.value, f.zero, 1<<30)
				return
			}
			if *f.value == 0 {
				*f.value = f.zero
			}
		}
		if t.ConnectTimeout < 0 {
			t.run.bad = fmt.Errorf("http1: Transport.ConnectTimeout is %v: it must not be negative", t.ConnectTimeout)
			return
		}
		t.orDefault(&t.IdleTimeout, 90*time.Second)
		t.orDefault(&t.ConnectTimeout, 30*time.Second)
		t.orDefault(&t.ExpectContinueTimeout, time.Second)
		t.run.limits = Options{MaxRequestLine: t.MaxHeaderBytes, MaxHeaderBytes: t.MaxHeaderBytes, MaxHeaderCount: t.MaxHeaderCount, MaxBody: math.MaxInt64}
		t.run.heads.New = func() any { return new(head) }
		t.conns.mu.Lock() // for Stats, which may come at any time
		t.conns.hosts = make(map[hostKey]*host)
		t.conns.fresh = make(map[*eddy.Conn]*clientConn)
		t.conns.mu.Unlock()
		t.run.base, t.run.halt = context.WithCancel(context.Background())
		t.run.group = t.Group
		if t.run.group == nil {
			t.run.group = &eddy.Group{Name: "http1", Loops: 1, Logger: t.Logger}
		}
		if t.run.bad = t.run.group.Start(); t.run.bad != nil {
			return
		}
		t.run.dialer = &eddy.Dialer{
			Group: t.run.group, Logger: t.Logger, ConnectTimeout: t.ConnectTimeout,
			IdleTimeout: max(t.IdleTimeout, 0), WriteTimeout: max(t.WriteTimeout, 0),
			CloseOnEOF: true, Init: t.initConn,
		}
	})
	return t.run.bad
}

func (t *Transport) orDefault(d *time.Duration, zero time.Duration) {
	if *d == 0 {
		*d = zero
	}
}

// RoundTrip implements http.RoundTripper and returns when the header of the response has come. The body streams while it is
// read. Any goroutine but a loop of the group, where RoundTrip returns eddy.ErrOnLoop.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	type outcome struct {
		resp *http.Response
		err  error
	}
	result := make(chan outcome, 1)
	c := t.newCall(r, func(resp *http.Response, err error) { result <- outcome{resp, err} })
	err := c.check()
	if err == nil && t.onLoop() {
		err = eddy.ErrOnLoop
	}
	if err != nil {
		c.closeBody()
		return nil, err
	}
	c.begin()
	o := <-result // comes at the latest soon after the end of the request's context
	return o.resp, o.err
}

// Do begins a request and returns at once. Do calls done exactly once, on a loop of the group (R239): with the response
// when its header has come, or with the error. An error that meets a full loop or an ended group is the exception: done
// then runs on the goroutine that found the error. done must not read the body, which may block; use ReadBody, or read the
// body on another goroutine. If Do returns an error, done is not called. The end of the request's context ends the request
// at every stage. Any goroutine, a loop as well.
func (t *Transport) Do(r *http.Request, done func(*http.Response, error)) error {
	if done == nil {
		return errors.New("http1: Do without a function to call")
	}
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

// onLoop reports whether the caller is on a loop of the group.
func (t *Transport) onLoop() bool {
	for i := 0; ; i++ {
		l := t.run.group.Loop(i)
		if l == nil || l.In() {
			return l != nil
		}
	}
}

// CloseIdleConnections closes the connections that serve no request. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	t.conns.mu.Lock()
	var idle []*clientConn
	for _, h := range t.conns.hosts {
		idle = append(idle, h.idle...)
		h.idle = nil
	}
	t.conns.mu.Unlock()
	for _, cc := range idle {
		cc.conn.Close(eddy.CloseNormal)
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

// Stats returns the numbers. Any goroutine.
func (t *Transport) Stats() TransportStats {
	t.conns.mu.Lock()
	defer t.conns.mu.Unlock()
	s := t.conns.stats
	s.Open, s.Waiting = t.conns.open, t.conns.waiting.Len()
	for _, h := range t.conns.hosts {
		s.Idle += len(h.idle)
	}
	return s
}

// timeoutError says which limit of the Transport has passed. As a net.Error its Timeout reports true; errors.Is finds
// context.DeadlineExceeded in it.
type timeoutError struct {
	what  string
	limit time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("http1: %s in time (limit %v)", e.what, e.limit)
}
func (e *timeoutError) Timeout() bool   { return true }
func (e *timeoutError) Temporary() bool { return true }
func (e *timeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded
}
