package safehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/tlsx"
	"github.com/go-eddy/eddy/trace"
)

// Options configure a Client. Group and Handshakes are required.
type Options struct {
	Group        *eddy.Group    // loops of the connections; it must outlive the Client
	Handshakes   *executor.Pool // runs TLS handshakes
	AllowPrivate bool           // see CheckAddr and CheckURL
	TLS          *tls.Config    // default: the roots of the system, TLS 1.2 and newer
	Resolver     Resolver       // default net.DefaultResolver
	Logger       *slog.Logger   // default slog.Default()

	// Trace makes spans of requests that have a traceparent, if its Tracer can. Default none: the traceparent goes along as it is.
	Trace *trace.Recorder

	connectTimeout time.Duration // for a connection with its handshake, default 5 s; tests move it far away
}

// Resolver turns names into addresses. *net.Resolver is one. It must honour ctx.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Client makes requests by the rules of the package. Any goroutine, a loop as well, may use it. Two clients share no
// connections, so that one cannot reach what only the other may.
type Client struct {
	o         Options
	transport *http1.Transport

	mu     sync.Mutex
	used   bool
	closed bool
}

const (
	idleTimeout = 4 * time.Second // less than most servers wait, so that they do not close a connection under a request
	maxHeader   = 16 << 10
)

// New returns a Client. It opens nothing before the first request.
func New(o Options) (*Client, error) {
	if o.Group == nil || o.Handshakes == nil {
		return nil, errors.New("safehttp: Options.Group and Options.Handshakes are required")
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.connectTimeout == 0 {
		o.connectTimeout = 5 * time.Second
	}
	if o.TLS == nil {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	secure, err := tlsx.Secure(o.TLS, o.Handshakes, tlsx.Options{Timeout: o.connectTimeout, Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("safehttp: %w", err)
	}
	c := &Client{o: o}
	c.transport = &http1.Transport{
		Group: o.Group, Logger: o.Logger, Secure: secure, Lookup: c.lookup,
		ConnectTimeout: o.connectTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	return c, nil
}

// lookup resolves a host and returns its addresses if every one of them may be connected to. A name with a forbidden
// address among others is refused as a whole.
func (c *Client) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, CheckAddr(ip, c.o.AllowPrivate)
	}
	if numeric(host) {
		return nil, fmt.Errorf("%w: %q is a number", ErrForbidden, host)
	}
	ips, err := c.o.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("safehttp: %w", err)
	}
	for _, ip := range ips {
		if err := CheckAddr(ip, c.o.AllowPrivate); err != nil {
			return nil, fmt.Errorf("%w (address of %s)", err, host)
		}
	}
	return ips, nil
}

// ErrTooLong ends a request whose answer is longer than allowed.
var ErrTooLong = errors.New("safehttp: the answer is too long")

// Response is the answer of a server.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Open sends a request and calls done with its answer, whose body is still to be read. done runs as that of Do does.
// Reading waits, so read on a goroutine of your own, bound what you read, and close the body.
func (c *Client) Open(r *http.Request, done func(*http.Response, error)) {
	done = c.traced(r, done)
	_, err := CheckURL(r.URL.String(), c.o.AllowPrivate)
	if err == nil {
		err = c.use()
	}
	if err == nil {
		err = c.transport.Do(r, done)
	}
	if err != nil {
		done(nil, err)
	}
}

// traced begins the span of a request that belongs to a trace. The span ends with the header of the answer.
func (c *Client) traced(r *http.Request, done func(*http.Response, error)) func(*http.Response, error) {
	parent := r.Header.Get(trace.FieldTraceparent)
	if parent == "" {
		return done
	}
	self, end := c.o.Trace.Call(parent, r.Method, r.URL.Host)
	r.Header.Set(trace.FieldTraceparent, self)
	return func(resp *http.Response, err error) {
		if err == nil && resp.StatusCode >= http.StatusInternalServerError {
			end(fmt.Errorf("status %d", resp.StatusCode))
		} else {
			end(err)
		}
		done(resp, err)
	}
}

// Do sends a request and collects the answer, whose body may have at most limit bytes. A redirect is an answer like any
// other. Do returns at once. done is called exactly once, on a loop or on any goroutine, also when the request could not
// be sent, and must not block. When the request's context ends, so does the request.
func (c *Client) Do(r *http.Request, limit int64, done func(Response, error)) {
	c.Open(r, func(resp *http.Response, err error) {
		if err != nil {
			done(Response{}, err)
			return
		}
		read := http1.ReadBody(resp, limit, func(body []byte, err error) {
			if errors.Is(err, http1.ErrBodyTooLong) {
				err = fmt.Errorf("%w: the limit is %d bytes", ErrTooLong, limit)
			}
			done(Response{resp.StatusCode, resp.Header, body}, err)
		})
		if read != nil {
			done(Response{}, read)
		}
	})
}

// use notes that there is something to close.
func (c *Client) use() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return http1.ErrTransportClosed
	}
	c.used = true
	return nil
}

// Stats returns the numbers of the connections.
func (c *Client) Stats() http1.TransportStats { return c.transport.Stats() }

// Close ends every request and connection. Later requests fail with http1.ErrTransportClosed. Do not call Close on a
// loop, where it returns eddy.ErrOnLoop.
func (c *Client) Close() error {
	c.mu.Lock()
	used := c.used
	c.closed = true
	c.mu.Unlock()
	if !used {
		return nil // the transport would start the loops to end nothing
	}
	return c.transport.Close()
}
