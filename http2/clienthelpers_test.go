package http2

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// transport returns a Transport that ends with the test, and holds nothing then.
func transport(t *testing.T, tr *Transport) *Transport {
	t.Helper()
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		testkit.Eventually(t, "the pool to be empty", func() bool {
			s := tr.Stats()
			return s.Open == 0 && s.Streams == 0 && s.Waiting == 0
		})
	})
	return tr
}

// transportOnClock returns tr as transport does; its time is the test's.
func transportOnClock(t *testing.T, tr *Transport) (*Transport, *enginetest.Clock) {
	t.Helper()
	tr.Group = &eddy.Group{Loops: 1}
	clock := enginetest.NewClock(t, tr.Group)
	if err := tr.Group.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Group.Close() })
	return transport(t, tr), clock
}

// request makes a request that ends with the test's patience.
func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(testkit.Context(t), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// outcome is how a request has ended, with the body of its response.
type outcome struct {
	resp *http.Response
	body string
	err  error
}

// ask makes a request on a goroutine of its own.
func ask(tr http.RoundTripper, r *http.Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() { done <- fetch(tr, r) }()
	return done
}

// fetch makes a request and reads the whole response.
func fetch(tr http.RoundTripper, r *http.Request) (o outcome) {
	if o.resp, o.err = tr.RoundTrip(r); o.err != nil {
		return o
	}
	defer func() { _ = o.resp.Body.Close() }()
	b, err := io.ReadAll(o.resp.Body)
	o.body, o.err = string(b), err
	return o
}

func bigText(n int) string { return strings.Repeat("0123456789abcdef", (n+15)/16)[:n] }

var testCert = sync.OnceValue(func() tls.Certificate {
	c, err := tlsx.SelfSigned("localhost", "127.0.0.1")
	if err != nil {
		panic(err)
	}
	return c
})

func handlerPool(t *testing.T, workers int) *executor.Pool {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Workers: workers, Queue: 1024, OnPanic: func(any, []byte) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Shutdown(context.Background()); err != nil {
			t.Errorf("pool: %v", err)
		}
	})
	return pool
}

// secure returns the client's side of TLS with these protocols.
func secure(t *testing.T, protocols ...string) func(*eddy.Pipeline, string, func(error)) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(testCert().Leaf)
	f, err := tlsx.Secure(&tls.Config{RootCAs: roots, NextProtos: protocols}, handlerPool(t, 2), tlsx.Options{Timeout: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// ourServer serves h by this package and returns the base URL.
func ourServer(t *testing.T, h http.Handler) string {
	t.Helper()
	f := NewHandler(h, handlerPool(t, 64), Options{HeaderTimeout: time.Hour, BodyTimeout: time.Hour, IdleTimeout: time.Hour, WriteTimeout: time.Hour})
	return "http://" + enginetest.Serve(t, &eddy.Server{Loops: 2, Init: f.Init})
}

// theirServer serves h by net/http, with the protocols that it is told and perhaps TLS.
func theirServer(t *testing.T, h http.Handler, withTLS, h2 bool) string {
	t.Helper()
	srv := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(!h2)
	srv.Protocols.SetHTTP2(h2)
	srv.Protocols.SetUnencryptedHTTP2(h2)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	base := "http://" + ln.Addr().String()
	if withTLS {
		base = "https://" + ln.Addr().String()
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{testCert()}}
		srv.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
		go func() { done <- srv.ServeTLS(ln, "", "") }()
	} else {
		go func() { done <- srv.Serve(ln) }()
	}
	t.Cleanup(func() {
		_ = srv.Close()
		if err := testkit.Receive(t, "the server to end", done); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return base
}

// http1Server serves h by package http1.
func http1Server(t *testing.T, h http.Handler) string {
	t.Helper()
	f := http1.NewHandler(h, handlerPool(t, 8), http1.Options{})
	return "http://" + enginetest.Serve(t, &eddy.Server{Loops: 1, Init: f.Init})
}

// peer is the server's end of one connection, which speaks frames as its script says.
type peer struct {
	t    *testing.T
	n    int // connections before this one
	conn net.Conn
	*wire.Framer
	enc   *hpack.Encoder
	block bytes.Buffer
}

// script runs f for each connection of a server, on goroutines that end with the test, and returns the base URL. A script
// that has returned goes on reading until the client has ended the connection.
func script(t *testing.T, f func(p *peer), settings ...wire.Setting) string {
	t.Helper()
	return "http://" + listen(t, func(p *peer) {
		if !p.hello(settings...) {
			return
		}
		f(p)
		_, _ = io.Copy(io.Discard, p.conn)
	})
}

func listen(t *testing.T, f func(p *peer)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			p := &peer{t: t, n: n, conn: c, Framer: wire.NewFramer(c, c)}
			p.SetReuseFrames()
			p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			p.AllowIllegalWrites = true
			p.enc = hpack.NewEncoder(&p.block)
			wg.Go(func() {
				defer stop()
				defer func() { _ = c.Close() }()
				f(p)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		cancel()
		wg.Wait()
	})
	return ln.Addr().String()
}

// hello reads the client's preface and sends the server's.
func (p *peer) hello(settings ...wire.Setting) bool {
	b := make([]byte, len(Preface))
	if _, err := io.ReadFull(p.conn, b); err != nil || string(b) != Preface {
		return false
	}
	return p.WriteSettings(settings...) == nil
}

// next returns the next frame that is not about the connection's windows or settings, nil at the end.
func (p *peer) next() wire.Frame {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return nil
		}
		switch f := f.(type) {
		case *wire.SettingsFrame:
			if !f.IsAck() {
				_ = p.WriteSettingsAck()
			}
			continue
		case *wire.WindowUpdateFrame:
			continue
		}
		return f
	}
}

// until returns the next frame of a kind, nil at the end.
func until[F wire.Frame](p *peer) (f F) {
	for {
		switch got := p.next().(type) {
		case nil:
			return f
		case F:
			return got
		}
	}
}

// takes returns the stream of the next request, 0 at the end.
func (p *peer) takes() uint32 {
	f := until[*wire.MetaHeadersFrame](p)
	if f == nil {
		return 0
	}
	return f.StreamID
}

// answers sends a header section of names and values.
func (p *peer) answers(id uint32, end bool, fields ...string) error {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return p.WriteHeaders(wire.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndHeaders: true, EndStream: end})
}

// serves answers every request with the body until the client ends the connection.
func (p *peer) serves(body string) {
	for id := p.takes(); id != 0; id = p.takes() {
		_ = p.answers(id, false, ":status", "200")
		_ = p.WriteData(id, true, []byte(body))
	}
}

func newHTTP1(t *testing.T) *http1.Transport {
	t.Helper()
	tr := &http1.Transport{Secure: secure(t, "http/1.1")}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}
