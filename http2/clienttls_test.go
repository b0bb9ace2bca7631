package http2

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/clienttlstest"
)

func trusting(t *testing.T, protocols ...string) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(testCert().Leaf)
	return &tls.Config{RootCAs: roots, NextProtos: protocols}
}

// TestHTTPS: https needs no more than its URL, with net/http and below it; whoever trusts other certificates than the system's says so.
func TestHTTPS(t *testing.T) {
	base := theirServer(t, clientSite(), true, true)
	tr := transport(t, &Transport{TLS: trusting(t)})
	for range 2 {
		o := fetch(tr, request(t, "POST", base+"/echo", strings.NewReader("abc")))
		if o.err != nil || o.body != "abc" || o.resp.Header.Get("X-Proto") != "HTTP/2.0" {
			t.Errorf("%v %q %v", o.err, o.body, o.resp)
		}
	}
	if s := tr.Stats(); s.Open != 1 {
		t.Errorf("%d connections for two requests", s.Open)
	}
	below := transport(t, &Transport{TLS: trusting(t)})
	addr, h := strings.TrimPrefix(base, "https://"), newHeard()
	r := &Request{Secure: true, Addr: addr, Answer: h, Fields: []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":path", Value: "/echo"}, {Name: ":authority", Value: addr},
	}}
	if err := below.Begin(r); err != nil {
		t.Fatal(err)
	}
	if err := h.ended(t); err != nil {
		t.Error(err)
	}
}

// TestHTTPSUntrusted: a certificate that the system does not trust ends the request with the reason.
func TestHTTPSUntrusted(t *testing.T) {
	tr := transport(t, &Transport{})
	_, err := tr.RoundTrip(request(t, "GET", theirServer(t, clientSite(), true, true), nil))
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("%v", err)
	}
}

// TestHTTPSOfTheOlderVersion: a server that does not speak HTTP/2 is told apart from one that fails, and by ALPN it is asked by HTTP/1.1. Protocols that
// a config names are those that are offered.
func TestHTTPSOfTheOlderVersion(t *testing.T) {
	base := theirServer(t, clientSite(), true, false)
	tr := transport(t, &Transport{TLS: trusting(t)})
	if _, err := tr.RoundTrip(request(t, "GET", base, nil)); !errors.Is(err, ErrNotHTTP2) {
		t.Errorf("%v", err)
	}
	b := &ByALPN{HTTP1: &http1.Transport{TLS: trusting(t)}, HTTP2: tr}
	defer func() { _ = b.HTTP1.Close() }()
	if o := fetch(b, request(t, "POST", base+"/echo", struct{ io.Reader }{strings.NewReader("abc")})); o.err != nil || o.body != "abc" || o.resp.Header.Get("X-Proto") != "HTTP/1.1" {
		t.Errorf("by ALPN: %v %q %v", o.err, o.body, o.resp)
	}
	only := transport(t, &Transport{TLS: trusting(t, "h2")})
	if _, err := only.RoundTrip(request(t, "GET", base, nil)); err == nil || errors.Is(err, ErrNotHTTP2) {
		t.Errorf("with h2 alone the handshake ends with %v", err)
	}
}

// TestHTTPSAndClose: Close ends the handshakes and what they ran on, and https is refused from then on as http is.
func TestHTTPSAndClose(t *testing.T) {
	clienttlstest.Close(t, func(config *tls.Config) (clienttlstest.Client, func() int) {
		tr := &Transport{TLS: config}
		return tr, func() int { return tr.Stats().Open }
	}, ErrTransportClosed)
}
