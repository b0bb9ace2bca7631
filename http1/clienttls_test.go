package http1

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-eddy/eddy/internal/clienttlstest"
)

// secured is a server of net/http that speaks HTTP/2 as well, and the certificates that it needs.
func secured(t *testing.T) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshakes that fail
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	return srv, roots
}

// TestHTTPS: https needs no more than its URL; whoever trusts other certificates than the system's says so.
func TestHTTPS(t *testing.T) {
	srv, roots := secured(t)
	tr := transport(t, &Transport{TLS: &tls.Config{RootCAs: roots}})
	for range 2 {
		resp, err := tr.RoundTrip(request(t, "GET", srv.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != "HTTP/1.1" { // although the server would take HTTP/2
			t.Errorf("%q, %v", body, err)
		}
	}
	if st := tr.Stats(); st.Reused != 1 {
		t.Errorf("%d of two requests on a kept connection", st.Reused)
	}
}

// TestHTTPSUntrusted: a certificate that the system does not trust ends the request with the reason.
func TestHTTPSUntrusted(t *testing.T) {
	srv, _ := secured(t)
	tr := transport(t, &Transport{})
	_, err := tr.RoundTrip(request(t, "GET", srv.URL, nil))
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("%v", err)
	}
}

// TestHTTPSAndClose: Close ends the handshakes and what they ran on, and https is refused from then on as http is.
func TestHTTPSAndClose(t *testing.T) {
	clienttlstest.Close(t, func(config *tls.Config) (clienttlstest.Client, func() int) {
		tr := &Transport{TLS: config}
		return tr, func() int { return tr.Stats().Open }
	}, ErrTransportClosed)
}

// TestHTTPSConfigRefused: a config that a client cannot use is told at the first request.
func TestHTTPSConfigRefused(t *testing.T) {
	tr := transport(t, &Transport{TLS: &tls.Config{Renegotiation: tls.RenegotiateFreelyAsClient}})
	if _, err := tr.RoundTrip(request(t, "GET", "https://127.0.0.1:1", nil)); err == nil || tr.Stats().Open != 0 {
		t.Errorf("%v with %d connections", err, tr.Stats().Open)
	}
}
