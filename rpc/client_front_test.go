package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// secured is a server that speaks TLS, and what its clients trust.
type secured struct {
	addr   string
	pool   *executor.Pool
	roots  *x509.CertPool
	called chan struct{}
}

func serveSecure(t *testing.T) *secured {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Workers: 2, Queue: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	cert, err := tlsx.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	layer, err := tlsx.Server(&tls.Config{Certificates: []tls.Certificate{cert}}, pool, tlsx.Options{Timeout: time.Hour, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := &secured{pool: pool, roots: x509.NewCertPool(), called: make(chan struct{}, 100)}
	s.roots.AddCert(cert.Leaf)
	srv := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{
		Front: func(p *eddy.Pipeline) error { return p.Add("tls", layer) },
	}}}), newService(t, testKey.String(), Raw("Echo", func(_ context.Context, body []byte) ([]byte, error) {
		s.called <- struct{}{}
		return body, nil
	})))
	s.addr = srv.Addr("port0").String()
	return s
}

// options are those of a client that trusts roots.
func (s *secured) options(t *testing.T, roots *x509.CertPool) (o ClientOptions) {
	t.Helper()
	var err error
	if o.Secure, err = tlsx.Secure(&tls.Config{RootCAs: roots}, s.pool, tlsx.Options{Timeout: time.Hour, Logger: quiet}); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestClientSecure: the first calls by TLS wait for the handshake, however many they are and however long.
func TestClientSecure(t *testing.T) {
	s := serveSecure(t)
	o := s.options(t, s.roots)
	o.ConnsPerAddr = 2
	cl := client(t, o, s.addr)
	body := make([]byte, 200_000)
	var calls []*Future[[]byte]
	for range 50 {
		calls = append(calls, InvokeAsync[[]byte](testkit.Context(t), cl, testKey, "Echo", body))
	}
	for _, f := range calls {
		if got, err := f.Wait(testkit.Context(t)); err != nil || len(*got) != len(body) {
			t.Fatal(err)
		}
	}
}

// TestClientSecureFails: a server whose certificate the client does not trust gets no call, nor does one that does not finish
// its handshake. The caller is told why.
func TestClientSecureFails(t *testing.T) {
	s := serveSecure(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	plain := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}))
	for name, c := range map[string]struct {
		addr, text string
		limit      time.Duration
	}{
		"a stranger's certificate": {s.addr, "certificate", testkit.Patience},
		"a server without TLS":     {plain.Addr("port0").String(), "TLS with", testkit.Patience},
		"no answer":                {silent.Addr().String(), "deadline", 200 * time.Millisecond}, // enough to connect
	} {
		t.Run(name, func(t *testing.T) {
			o := s.options(t, x509.NewCertPool())
			o.DialTimeout = c.limit
			if _, err := Invoke[[]byte](testkit.Context(t), client(t, o, c.addr), testKey, "Echo", []byte("x")); !errors.Is(err, ErrConnection) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %q", err, c.text)
			}
		})
	}
	if len(s.called) > 0 {
		t.Error("a call reached the server without a handshake")
	}
}

// upset is a handler whose writes fail.
type upset struct{}

func (upset) HandleWrite(*eddy.Context, any) error { return errors.New("no word for it") }

// TestClientFront: a Front that fails and one that cannot write end the connection, and the caller is told why.
func TestClientFront(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}))
	for text, front := range map[string]func(p *eddy.Pipeline) error{
		"no front":       func(*eddy.Pipeline) error { return errors.New("no front") },
		"no word for it": func(p *eddy.Pipeline) error { return p.Add("upset", upset{}) },
	} {
		for _, body := range [][]byte{[]byte("x"), make([]byte, 100_000), make([]byte, 500_000)} {
			cl := client(t, ClientOptions{Front: front}, s.Addr("port0").String())
			if _, err := Invoke[[]byte](testkit.Context(t), cl, testKey, "Echo", body); !errors.Is(err, ErrConnection) || !strings.Contains(err.Error(), text) {
				t.Errorf("%d bytes: %v, want %q", len(body), err, text)
			}
		}
	}
	cl := client(t, ClientOptions{Front: func(p *eddy.Pipeline) error { return p.Add("upset", upset{}) }}, s.Addr("port0").String())
	if err := Send(testkit.Context(t), cl, testKey, "Echo", []byte("x")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the one-way request is counted as dropped", func() bool { return cl.Stats().OneWayDropped == 1 })
	if st := cl.Stats(); st.OneWays != 0 || st.Active != 0 {
		t.Errorf("%+v", st)
	}
}
