package http1

import (
	"context"
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
)

// Transport makes HTTP/1.1 requests on Eddy's loops. It is an http.RoundTripper: http.Client{Transport: &http1.Transport{}}
// works, and does redirects and cookies. Connections are kept and used for one request at a time. Fill the fields before
// the first use; the zero value is ready. Close it at the end.
//
// Do is the callback form: nothing in it blocks, and the outcome is delivered on a loop.
//
// It does not decompress bodies, speak HTTP/2 or use proxies of the environment unless Proxy says so.
type Transport struct {
	Group  *eddy.Group  // loops shared with servers; nil = one loop of its own
	Logger *slog.Logger // nil = slog.Default()

	MaxConns        int // open connections in all; beyond it requests wait. Default 512
	MaxConnsPerHost int // open connections to one host; beyond it requests wait. Default 64
	MaxIdlePerHost  int // connections to one host that are kept without a request. Default 16
	MaxWaiting      int // requests that wait for a connection; beyond it ErrTransportBusy. Default 1024

	IdleTimeout           time.Duration // how long a connection is kept without a request. Default 90 s; negative: for ever
	ConnectTimeout        time.Duration // for one address, the handshake of TLS or a proxy. Default 30 s
	ResponseHeaderTimeout time.Duration // from the whole request to the response's header. Default 0: no limit
	WriteTimeout          time.Duration // while the server takes no byte of a request. Default 0: no limit
	ExpectContinueTimeout time.Duration // how long a body waits for 100 Continue that it asked for. Default 1 s; negative: for ever

	MaxHeaderBytes int // of a response, and of its trailer. Default 64 KiB
	MaxHeaderCount int // fields of a response. Default 200
	BodyBuffer     int // bytes of a response body in memory; when they are full the connection is not read. Default 64 KiB

	// Proxy returns the proxy for a request, nil for none: an http URL, perhaps with user and password. Requests for
	// http URLs are sent to it as they are, connections for https URLs go through it by CONNECT.
	Proxy func(*http.Request) (*url.URL, error)

	// Lookup returns the addresses of a host or proxy, which may be written as an address itself: each new connection goes to
	// one of those it returns and to no other, so that it can refuse what must not be reached. It runs on a goroutine of its
	// own and has to end with ctx; an error of it ends the request. nil = the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	// Secure makes https possible: it adds to p the handlers that speak TLS to the named server; the transport's own
	// follow them. ready is to be called once, on the loop, when the handshake is over or has failed. Secure runs on the
	// loop. Without it requests for https URLs fail with ErrNoTLS.
	Secure func(p *eddy.Pipeline, serverName string, ready func(error)) error

	once   sync.Once
	dialer *eddy.Dialer
	group  *eddy.Group
	base   context.Context // ends with Close
	halt   context.CancelFunc
	limits Options // of responses
	bad    error   // why the fields make no sense
	heads  sync.Pool

	mu      sync.Mutex
	fresh   map[*eddy.Conn]*clientConn // made, and not yet asked for
	hosts   map[hostKey]*host
	open    int // connections and attempts
	waiting waitList
	closed  bool
	stats   TransportStats
}

// TransportStats are the numbers of a Transport.
type TransportStats struct {
	Open     int    // connections, and attempts to connect
	Idle     int    // connections without a request
	Waiting  int    // requests that wait for a connection
	Requests uint64 // begun
	Reused   uint64 // sent on a connection that had served before
	Retried  uint64 // sent once more, because the connection was found closed
}

var (
	// ErrNoTLS is what a request for an https URL ends with on a Transport without Secure.
	ErrNoTLS = errors.New("http1: the Transport has no TLS: set Secure")
	// ErrTransportClosed is what requests end with after Close.
	ErrTransportClosed = errors.New("http1: the Transport is closed")
	// ErrTransportBusy is what a request ends with when MaxWaiting others wait for a connection.
	ErrTransportBusy = errors.New("http1: too many requests wait for a connection")
	// ErrStale is what a request ends with whose connection the server closed before it answered anything, if the request
	// cannot be sent once more.
	ErrStale = errors.New("http1: the server closed the connection before it answered")
)

func (t *Transport) start() error {
	t.once.Do(func() {
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
				t.bad = fmt.Errorf("http1: Transport.%s is %d, want 0 (default %d) up to %d", f.name, *f.value, f.zero, 1<<30)
				return
			}
			if *f.value == 0 {
				*f.value = f.zero
			}
		}
		if t.ConnectTimeout < 0 {
			t.bad = fmt.Errorf("http1: Transport.ConnectTimeout is %v: it must not be negative", t.ConnectTimeout)
			return
		}
		t.orDefault(&t.IdleTimeout, 90*time.Second)
		t.orDefault(&t.ConnectTimeout, 30*time.Second)
		t.orDefault(&t.ExpectContinueTimeout, time.Second)
		t.limits = Options{MaxRequestLine: t.MaxHeaderBytes, MaxHeaderBytes: t.MaxHeaderBytes, MaxHeaderCount: t.MaxHeaderCount, MaxBody: math.MaxInt64}
		t.heads.New = func() any { return new(head) }
		t.mu.Lock() // for Stats, which may come at any time
		t.hosts = make(map[hostKey]*host)
		t.fresh = make(map[*eddy.Conn]*clientConn)
		t.mu.Unlock()
		t.base, t.halt = context.WithCancel(context.Background())
		t.group = t.Group
		if t.group == nil {
			t.group = &eddy.Group{Name: "http1", Loops: 1, Logger: t.Logger}
		}
		if t.bad = t.group.Start(); t.bad != nil {
			return
		}
		t.dialer = &eddy.Dialer{
			Group: t.group, Logger: t.Logger, ConnectTimeout: t.ConnectTimeout,
			IdleTimeout: max(t.IdleTimeout, 0), WriteTimeout: max(t.WriteTimeout, 0),
			CloseOnEOF: true, Init: t.initConn,
		}
	})
	return t.bad
}

func (t *Transport) orDefault(d *time.Duration, zero time.Duration) {
	if *d == 0 {
		*d = zero
	}
}

// RoundTrip implements http.RoundTripper. It returns when the header of the response has come; the body follows while it is
// read. It must not be called on a loop of the group: there it returns eddy.ErrOnLoop.
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
	o := <-result // comes soon after the request's context has ended
	return o.resp, o.err
}

// Do begins a request and returns at once. done is called exactly once, on a loop of the group (R239): with the response
// when its header has come, or with the error. There it must not read the body, which may block; ReadBody collects it, or a
// goroutine may read it. An error that Do returns means that done is not called. Any goroutine, a loop as well. The end of
// the request's context ends the request at every stage.
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

// deliver runs f on a loop: this one or, for errors that came up elsewhere, the first.
func (t *Transport) deliver(f func()) {
	if t.onLoop() || t.group.Loop(0).Post(f) != nil { // a full queue, or the end of the group: better here than never
		f()
	}
}

// onLoop reports whether the caller is on a loop of the group.
func (t *Transport) onLoop() bool {
	for i := 0; ; i++ {
		l := t.group.Loop(i)
		if l == nil || l.In() {
			return l != nil
		}
	}
}

// CloseIdleConnections closes the connections that serve no request. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	var idle []*clientConn
	for _, h := range t.hosts {
		idle = append(idle, h.idle...)
		h.idle = nil
	}
	t.mu.Unlock()
	for _, cc := range idle {
		cc.conn.Close(eddy.CloseNormal)
	}
}

// Close ends every connection and request, which fail with ErrTransportClosed. Not on a loop of the group, where it returns
// eddy.ErrOnLoop.
func (t *Transport) Close() error {
	if t.start() != nil {
		return nil // nothing was ever begun
	}
	if t.onLoop() {
		return eddy.ErrOnLoop
	}
	t.mu.Lock()
	t.closed = true
	left := t.waiting.takeAll()
	t.mu.Unlock()
	t.halt()
	for _, c := range left {
		c.fail(ErrTransportClosed)
	}
	err := t.dialer.Close()
	if t.Group == nil {
		err = errors.Join(err, t.group.Close())
	}
	return err
}

// Stats returns the numbers. Any goroutine.
func (t *Transport) Stats() TransportStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Open, s.Waiting = t.open, t.waiting.len()
	for _, h := range t.hosts {
		s.Idle += len(h.idle)
	}
	return s
}

// timeoutError says which limit of the Transport has passed. It is a net.Error with Timeout, and context.DeadlineExceeded.
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
