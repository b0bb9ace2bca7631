package http2

import (
	"errors"
	"maps"
	"net/http"
	"sync"

	"github.com/go-eddy/eddy/http1"
)

// ByALPN is an http.RoundTripper that speaks HTTP/2 to the https servers that choose it, and HTTP/1.1 to all others. Both
// Transports are needed. Where they have a TLS or Secure, HTTP2 offers "h2" and "http/1.1", and HTTP1 "http/1.1" alone, as
// they do by default.
//
//	rt := &http2.ByALPN{HTTP1: &http1.Transport{}, HTTP2: &http2.Transport{}}
//	client := &http.Client{Transport: rt}
//
// The first request to a host dials with HTTP2. If the server does not choose h2, that connection is closed, the host is
// remembered and the request goes to HTTP1, which dials again: a connection cannot pass from one Transport to the other. A
// request for which HTTP1.Proxy names a proxy always goes to HTTP1. Both versions ask for gzip and decode it, unless
// HTTP2.DisableCompression is set.
type ByALPN struct {
	HTTP1 *http1.Transport
	HTTP2 *Transport

	mu    sync.Mutex
	older map[string]struct{} // host:port of servers that do not speak HTTP/2
}

// mostOlder bounds the hosts that a ByALPN remembers; one of them is forgotten for each beyond it.
const mostOlder = 4096

// RoundTrip implements http.RoundTripper. Any goroutine but a loop of the groups, where the error is eddy.ErrOnLoop.
func (b *ByALPN) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL == nil || r.URL.Scheme != "https" || b.knownOlder(withPort(r.URL)) {
		return b.old(r)
	}
	if b.HTTP1.Proxy != nil {
		if u, err := b.HTTP1.Proxy(r); err != nil || u != nil {
			return b.old(r)
		}
	}
	resp, err := b.HTTP2.roundTrip(r, true)
	if !errors.Is(err, ErrNotHTTP2) {
		return resp, err
	}
	b.remember(withPort(r.URL))
	return b.old(r)
}

// old sends r by HTTP/1.1.
func (b *ByALPN) old(r *http.Request) (*http.Response, error) {
	if b.HTTP2.DisableCompression || !asksGzip(r) {
		return b.HTTP1.RoundTrip(r)
	}
	asking := r.WithContext(r.Context()) // a copy that shares the trailer
	asking.Header = make(http.Header, len(r.Header)+1)
	maps.Copy(asking.Header, r.Header)
	asking.Header.Set("Accept-Encoding", "gzip")
	resp, err := b.HTTP1.RoundTrip(asking)
	if err != nil {
		return nil, err
	}
	resp.Request = r
	gunzip(resp)
	return resp, nil
}

func (b *ByALPN) knownOlder(addr string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.older[addr]
	return ok
}

func (b *ByALPN) remember(addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.older == nil {
		b.older = make(map[string]struct{})
	}
	for old := range b.older {
		if len(b.older) < mostOlder {
			break
		}
		delete(b.older, old)
	}
	b.older[addr] = struct{}{}
}

// CloseIdleConnections closes the connections of both Transports that serve no request. http.Client calls it.
func (b *ByALPN) CloseIdleConnections() {
	b.HTTP1.CloseIdleConnections()
	b.HTTP2.CloseIdleConnections()
}

// Close closes both Transports.
func (b *ByALPN) Close() error { return errors.Join(b.HTTP1.Close(), b.HTTP2.Close()) }
