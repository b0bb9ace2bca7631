package websocket

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
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

// TestSecure: wss from the client to an independent server over crypto/tls, and
// to this package's own behind tlsx, by the Dialer's own TLS and by another one; a
// server that the system does not trust is refused.
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
	for i, addr := range []string{strings.TrimPrefix(other.URL, "https://"), own, own} {
		d := newDialer(t, Options{Compression: newCompression(t, CompressionOptions{Threshold: 1, ContextTakeover: true})})
		d.TLS = &tls.Config{RootCAs: roots}
		if i == 2 {
			if d.Secure, err = tlsx.Secure(d.TLS, tlsPool(t), tlsx.Options{Timeout: time.Hour}); err != nil {
				t.Fatal(err)
			}
			d.TLS = nil
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

// TestSecureAndEnd: the end of a Dialer ends its handshakes and what they run on, and wss is refused from then on.
// Where the end is refused, a handshake goes on.
func TestSecureAndEnd(t *testing.T) {
	cert, err := tlsx.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, end := range map[string]func(*Dialer) error{
		"Close":    (*Dialer).Close,
		"Shutdown": func(d *Dialer) error { _, err := d.Shutdown(over); return err }, // does not wait
	} {
		d := &Dialer{Engine: &eddy.Dialer{HandshakeTimeout: time.Hour, Group: &eddy.Group{Loops: 1}}, TLS: &tls.Config{InsecureSkipVerify: true}}
		if err := d.Engine.Group.Start(); err != nil {
			t.Fatal(err)
		}
		dialed := make(chan error, 1)
		dial := func() {
			_, err := d.Dial(testkit.Context(t), "wss://"+l.Addr().String(), newEcho())
			dialed <- err
		}
		go dial()
		peer := accept(t, l) // is silent yet
		refused := make(chan error, 1)
		if err := d.Engine.Group.Loop(0).Post(func() { refused <- end(d) }); err != nil {
			t.Fatal(err)
		}
		if err := testkit.Receive(t, "the refusal", refused); !errors.Is(err, eddy.ErrOnLoop) {
			t.Errorf("%s on a loop: %v", name, err)
		}
		if _, err := tls.Server(peer, &tls.Config{Certificates: []tls.Certificate{cert}}).Read(make([]byte, 1)); err != nil {
			t.Errorf("after a %s that was refused: %v", name, err)
		}
		if err := end(d); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if err := testkit.Receive(t, "the end of Dial", dialed); err == nil {
			t.Error("a connection")
		}
		if dial(); !errors.Is(<-dialed, eddy.ErrDialerClosed) {
			t.Errorf("dialed after %s", name)
		}
		if err := d.Engine.Group.Close(); err != nil {
			t.Error(err)
		}
		_ = peer.Close()
	}
}

// begun is a connection whose first byte has been looked at.
type begun struct {
	net.Conn
	all io.Reader
}

func (b begun) Read(p []byte) (int, error) { return b.all.Read(p) }

// accept takes a client that has begun its handshake.
func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1)
	if _, err := c.Read(first); err != nil {
		t.Fatal(err)
	}
	return begun{c, io.MultiReader(bytes.NewReader(first), c)}
}
