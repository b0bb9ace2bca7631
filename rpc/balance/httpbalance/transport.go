// Package httpbalance spreads the requests of an http.Client over the instances of a service, leaves out those that fail, and makes requests again as
// far as that is safe. It works over any http.RoundTripper: those of packages http1 and http2, or net/http's.
package httpbalance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/attempts"
	"github.com/go-eddy/eddy/rpc/internal/follow"
)

// Errors of RoundTrip, beside those of Options.Base.
var (
	// ErrUnavailable is the error of a request for which no instance is known.
	ErrUnavailable = errors.New("httpbalance: unavailable")
	// ErrBroken is the error of a request that was not made because the breaker of its host is open.
	ErrBroken = errors.New("httpbalance: the circuit breaker is open")
	// ErrClosed is the error of requests after Close.
	ErrClosed = errors.New("httpbalance: closed")
)

// Options say how a Transport makes requests. Resolver is required.
type Options struct {
	// Resolver says where the instances are. No answer of it makes requests fail that could be made.
	Resolver discovery.Resolver
	// Base makes the requests; its owner closes it. nil = http.DefaultTransport.
	Base http.RoundTripper

	Balance  balance.Options  // which instance a request goes to, and which are left out because they fail
	Attempts balance.Attempts // how often a request is made; the breaker is that of the host in the URL

	// Idempotent says which requests may be executed more than once. nil = those whose method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE.
	// A request with a body that has no GetBody is made once.
	Idempotent func(*http.Request) bool
	// Key returns the key of a request, for balance.Hash; empty is none. nil = none.
	Key func(*http.Request) string
	// DeadlineHeader names a header that tells the server the milliseconds that are left of the context, as the request is sent. Empty = none.
	DeadlineHeader string

	Logger *slog.Logger // nil = slog.Default()
}

// Transport is an http.RoundTripper. The host of a request's URL names the service: it is sent as the Host, and the request goes to an instance. For https,
// Base must take the certificate of an instance for its address, or know the name of the service.
type Transport struct {
	o     Options
	book  *follow.Book
	maker *attempts.Maker
}

// New returns a Transport that follows the resolver until Close. The error names the option that makes no sense.
func New(o Options) (*Transport, error) {
	if o.Resolver == nil {
		return nil, errors.New("httpbalance: Options.Resolver is nil")
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	if o.Idempotent == nil {
		o.Idempotent = idempotent
	}
	t := &Transport{o: o}
	var err error
	if t.maker, err = attempts.New(o.Attempts); err != nil {
		return nil, fmt.Errorf("httpbalance: Options.Attempts: %w", err)
	}
	if t.book, err = follow.NewBook(o.Balance); err != nil {
		return nil, fmt.Errorf("httpbalance: Options.Balance: %w", err)
	}
	t.book.Follow(o.Resolver, cmp.Or(o.Logger, slog.Default()), nil, nil)
	return t, nil
}

// Close ends following the resolver. Requests that have begun go on; later ones go to the instances that are known, and fail with ErrClosed if there
// are none. Any goroutine; a second call does nothing.
func (t *Transport) Close() error {
	t.book.Close()
	return nil
}

// Stats returns the numbers of the instances and attempts. Any goroutine, also after Close.
func (t *Transport) Stats() balance.Stats {
	var s balance.Stats
	t.book.Put(&s)
	t.maker.Put(&s)
	return s
}

// idempotent says which methods are, by RFC 9110, section 9.2.2.
func idempotent(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// request is a request and the attempts at it.
type request struct {
	t    *Transport
	r    *http.Request
	hash uint64
	sent atomic.Bool // an attempt has taken the body of r

	mu    sync.Mutex
	tried []*balance.Node
}

// RoundTrip implements http.RoundTripper. Any goroutine.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	q := &request{t: t, r: r}
	if t.o.Key != nil {
		if key := t.o.Key(r); key != "" {
			q.hash = balance.Key(key)
		}
	}
	defer q.closeBody()
	ctx := r.Context()
	if t.maker == nil || r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return q.attempt(ctx)
	}
	resp, err := attempts.Do(ctx, t.maker, &attempts.Call[*http.Response]{
		Service: r.URL.Host, Idempotent: t.o.Idempotent(r), Attempt: q.attempt, Judge: judge,
		Drop: func(resp *http.Response) {
			if resp != nil {
				_ = resp.Body.Close() // its request is given up
			}
		},
		Keep: func(resp *http.Response, end context.CancelFunc) {
			if resp == nil {
				end()
				return
			}
			onClose(resp, end)
		},
	})
	if err == attempts.ErrBroken { //nolint:errorlint // returned bare
		return nil, fmt.Errorf("%w: requests to %s fail", ErrBroken, r.URL.Host)
	}
	return resp, err //nolint:wrapcheck // says what is wrong
}

// closeBody closes the body of a request that no attempt has taken, as a RoundTripper must.
func (q *request) closeBody() {
	if q.r.Body != nil && !q.sent.Load() {
		_ = q.r.Body.Close() // nobody will read it
	}
}

// attempt makes the request once.
func (q *request) attempt(ctx context.Context) (*http.Response, error) {
	n, err := q.pick(ctx)
	if err != nil {
		return nil, err
	}
	r := q.r.WithContext(ctx)
	to := *q.r.URL
	r.URL, r.Host = &to, cmp.Or(q.r.Host, to.Host)
	to.Host = n.Instance.Addr
	if q.t.o.DeadlineHeader != "" {
		if by, ok := ctx.Deadline(); ok {
			r.Header = r.Header.Clone()
			r.Header.Set(q.t.o.DeadlineHeader, strconv.FormatInt(max(1, time.Until(by).Milliseconds()), 10))
		}
	}
	if q.sent.Swap(true) && r.GetBody != nil {
		if r.Body, err = r.GetBody(); err != nil {
			return nil, err //nolint:wrapcheck // the caller's
		}
	}
	n.Begin()
	begun := time.Now()
	resp, err := q.t.o.Base.RoundTrip(r)
	n.Observe(time.Since(begun), judge(resp, err).Outcome)
	if err != nil {
		n.End()
		if ctx.Err() == nil {
			q.t.book.Refresh()
		}
		return nil, err //nolint:wrapcheck // Base's
	}
	onClose(resp, n.End)
	return resp, nil
}

// pick returns the instance for an attempt.
func (q *request) pick(ctx context.Context) (*balance.Node, error) {
	q.mu.Lock()
	tried := slices.Clone(q.tried)
	q.mu.Unlock()
	n, err := q.t.book.PickOrWait(ctx, time.Time{}, q.hash, tried)
	switch {
	case err == nil:
		q.mu.Lock()
		q.tried = append(q.tried, n)
		q.mu.Unlock()
		return n, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == follow.ErrEnded: //nolint:errorlint // returned bare
		return nil, ErrClosed
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// judge says what a response, or the error in place of one, means.
func judge(resp *http.Response, err error) attempts.Verdict {
	if err != nil {
		return judgeError(err)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds >= 0 {
			return attempts.Verdict{Outcome: balance.Refused, Again: attempts.IfIdempotent, After: time.Duration(min(seconds, 3600)) * time.Second}
		}
		if resp.StatusCode == http.StatusTooManyRequests {
			return attempts.Verdict{Outcome: balance.Refused, Again: attempts.IfIdempotent}
		}
		return attempts.Verdict{Outcome: balance.Failed, Again: attempts.IfIdempotent}
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return attempts.Verdict{Outcome: balance.Failed, Again: attempts.IfIdempotent}
	case http.StatusInternalServerError:
		return attempts.Verdict{Outcome: balance.Failed}
	}
	return attempts.Verdict{Outcome: balance.Succeeded}
}

func judgeError(err error) attempts.Verdict {
	dial, ok := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
		return attempts.Verdict{Outcome: balance.Unknown}
	case errors.Is(err, context.DeadlineExceeded):
		return attempts.Verdict{Outcome: balance.Failed}
	case ok && dial.Op == "dial":
		return attempts.Verdict{Outcome: balance.Failed, Again: attempts.Yes}
	}
	return attempts.Verdict{Outcome: balance.Failed, Again: attempts.IfIdempotent}
}

// onClose has f called when the body of a response is read to its end or closed, once.
func onClose(resp *http.Response, f func()) {
	b := &body{ReadCloser: resp.Body, ended: sync.OnceFunc(f)}
	resp.Body = b
	if w, ok := b.ReadCloser.(io.Writer); ok { // after 101 Switching Protocols
		resp.Body = struct {
			*body
			io.Writer
		}{b, w}
	}
}

// body is the body of a response whose end somebody wants to know of.
type body struct {
	io.ReadCloser
	ended func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.ended()
	}
	return n, err //nolint:wrapcheck // io.EOF must stay bare
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.ended()
	return b.ReadCloser.Close() //nolint:wrapcheck // as it was
}
