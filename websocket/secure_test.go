package websocket

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	coder "github.com/coder/websocket"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

func tlsPool(t *testing.T) *executor.Pool {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Workers: 2, Queue: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

// wss: the client to an independent server over crypto/tls, and to this package's
// own behind tlsx; a server that is not trusted is refused.
func TestSecure(t *testing.T) {
	other := httptest.NewTLSServer(coderServer(coder.CompressionContextTakeover))
	defer other.Close()
	cert, err := tlsx.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(other.Certificate())
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(leaf)
	own := startSecure(t, cert)
	for _, addr := range []string{strings.TrimPrefix(other.URL, "https://"), own} {
		d := newDialer(t, Options{Compression: newCompression(t, CompressionOptions{Threshold: 1, ContextTakeover: true})})
		if d.Secure, err = tlsx.Secure(&tls.Config{RootCAs: roots}, tlsPool(t), tlsx.Options{Timeout: time.Hour}); err != nil {
			t.Fatal(err)
		}
		m := newMessages()
		c, err := d.Dial(t.Context(), "wss://"+addr+"/", m)
		if err != nil {
			t.Fatal(err)
		}
		for _, msg := range slices.Concat(samples(), []string{strings.Repeat("large ", 50000)}) {
			if err := c.Write(Binary, []byte(msg)); err != nil {
				t.Fatal(err)
			}
			m.want(t, "binary "+msg)
		}
		if err := c.Close(1000, ""); err != nil {
			t.Fatal(err)
		}
		if e := <-m.closed; e.code != 1000 {
			t.Errorf("%+v", e)
		}
		d = newDialer(t, Options{})
		if d.Secure, err = tlsx.Secure(&tls.Config{}, tlsPool(t), tlsx.Options{Timeout: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Dial(t.Context(), "wss://"+addr+"/", newEcho()); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("a server that is not trusted: %v", err)
		}
		testkit.Eventually(t, "the end", func() bool { return d.Engine.Stats().Active == 0 })
	}
}

// startSecure starts an echo behind TLS.
func startSecure(t *testing.T, cert tls.Certificate) string {
	t.Helper()
	layer, err := tlsx.Server(&tls.Config{Certificates: []tls.Certificate{cert}}, tlsPool(t), tlsx.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	u, err := NewUpgrader(Options{Compression: newCompression(t, CompressionOptions{Threshold: 1})})
	if err != nil {
		t.Fatal(err)
	}
	pages := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = u.Upgrade(w, r, quiet{}) }), tlsPool(t), http1.Options{HeaderTimeout: time.Hour})
	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error {
		if err := p.Add("tls", layer); err != nil {
			return err
		}
		return pages.Init(p)
	}}
	return enginetest.Serve(t, srv)
}
