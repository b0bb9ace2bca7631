package tlsx_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// The times of tests on a clock. A tick is more than the loops look up deadlines in.
const (
	timeout = time.Minute
	tick    = 20 * time.Millisecond
)

// cert is made once: it takes a while under the race detector.
var cert = sync.OnceValue(func() tls.Certificate {
	c, err := tlsx.SelfSigned("localhost", "127.0.0.1")
	if err != nil {
		panic(err)
	}
	return c
})

func roots(certs ...tls.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c.Leaf)
	}
	return p
}

func serverConfig() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{cert()}} }

func clientConfig() *tls.Config {
	return &tls.Config{ServerName: "localhost", RootCAs: roots(cert())}
}

// versions are the client configurations of both protocols.
func versions() map[string]*tls.Config {
	v12, v13 := clientConfig(), clientConfig()
	v12.MaxVersion, v13.MinVersion = tls.VersionTLS12, tls.VersionTLS13
	return map[string]*tls.Config{"1.2": v12, "1.3": v13}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newPool(t testing.TB, workers int) *executor.Pool {
	t.Helper()
	p, err := executor.NewFixed(executor.Options{Name: "handshakes", Workers: workers, Queue: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := p.Shutdown(context.Background()); err != nil {
			t.Errorf("pool: %v", err)
		}
	})
	return p
}

// rig is a server with a layer and the ends of its connections.
type rig struct {
	t     testing.TB
	srv   *eddy.Server
	layer *tlsx.Layer
	clock *enginetest.Clock // with setup.clock
	ends  chan *eddy.CloseError
	addr  string
}

// setup holds the wishes of a test for its server. Zero fields mean the usual.
type setup struct {
	config *tls.Config
	o      tlsx.Options
	pool   *executor.Pool
	add    func(p *eddy.Pipeline) error // behind the layer; nil = echo
	before any                          // in front of the layer
	server func(*eddy.Server)
	clock  bool // the server's time is the test's
}

func newRig(t testing.TB, s setup) *rig {
	t.Helper()
	if s.config == nil {
		s.config = serverConfig()
	}
	if s.pool == nil {
		s.pool = newPool(t, 2)
	}
	if s.o.Logger == nil {
		s.o.Logger = quiet()
	}
	if s.o.Timeout == 0 {
		s.o.Timeout = time.Hour // clients of a slow machine are slow
	}
	if s.add == nil {
		s.add = func(p *eddy.Pipeline) error { return p.Add("echo", echo{}) }
	}
	layer, err := tlsx.Server(s.config, s.pool, s.o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, layer: layer, ends: make(chan *eddy.CloseError, 4096)}
	r.srv = &eddy.Server{Loops: 2, LingerTimeout: linger, Init: func(p *eddy.Pipeline) error {
		if s.before != nil {
			if err := p.Add("before", s.before); err != nil {
				return err
			}
		}
		return errors.Join(p.Add("tls", layer), s.add(p), p.Add("end", witness{r}))
	}}
	if s.server != nil {
		s.server(r.srv)
	}
	if s.clock {
		r.clock = enginetest.NewClock(t, r.srv)
		layer.SetClock(r.clock.Now)
	}
	r.addr = enginetest.Serve(t, r.srv)
	return r
}

// linger is the servers' LingerTimeout, for clients that do not end their side.
const linger = 100 * time.Millisecond

// expire lets the time pass after which connections have to end, and checks that none ends before.
func (r *rig) expire(after time.Duration) {
	r.t.Helper()
	r.clock.Advance(after - tick)
	if n := len(r.ends); n > 0 {
		r.t.Fatalf("%d connections ended early, the first with %v", n, <-r.ends)
	}
	r.clock.Advance(2 * tick)
	r.clock.Advance(linger + tick)
}

// witness tells the test how connections end.
type witness struct{ r *rig }

func (w witness) HandleClose(ctx *eddy.Context, reason eddy.CloseReason, err error) {
	w.r.ends <- &eddy.CloseError{Reason: reason, Err: err}
}

// end returns how the next connection ended.
func (r *rig) end() *eddy.CloseError {
	r.t.Helper()
	return testkit.Receive(r.t, "a connection to end", r.ends)
}

func (r *rig) wantEnd(want eddy.CloseReason) *eddy.CloseError {
	r.t.Helper()
	e := r.end()
	if e.Reason != want {
		r.t.Fatalf("the connection ended with %v, want %v", e, want)
	}
	return e
}

// raw is a TCP connection to the server.
func (r *rig) raw() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	r.t.Cleanup(func() { c.Close() })
	return c
}

// dial is a TLS connection to it whose handshake is over.
func (r *rig) dial(config *tls.Config) *tls.Conn {
	r.t.Helper()
	c := tls.Client(r.raw(), config)
	if err := c.Handshake(); err != nil {
		r.t.Fatalf("handshake: %v", err)
	}
	return c
}

// echoed sends b and wants it back.
func echoed(t testing.TB, c io.ReadWriter, b []byte) {
	t.Helper()
	sent := make(chan error, 1)
	go func() { _, err := c.Write(b); sent <- err }()
	got := make([]byte, len(b))
	if n, err := io.ReadFull(c, got); err != nil {
		t.Fatalf("read: %v after %d of %d bytes", err, n, len(b))
	}
	if err := <-sent; err != nil {
		t.Fatalf("write: %v", err)
	}
	for i := range b {
		if got[i] != b[i] {
			t.Fatalf("byte %d of %d came back wrong", i, len(b))
		}
	}
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

// echo sends back what it gets.
type echo struct{}

func (echo) HandleRead(ctx *eddy.Context, msg any) error {
	b, ok := msg.(*buf.Bytes)
	if !ok {
		ctx.FireRead(msg)
		return nil
	}
	return ctx.WriteBytes(b.Bytes())
}

// drip is a connection that passes bytes on in small pieces, both ways.
type drip struct {
	net.Conn
	size func() int
}

func (d drip) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		k := min(d.size(), len(p)-n)
		if _, err := d.Conn.Write(p[n : n+k]); err != nil {
			return n, err
		}
		n += k
	}
	return len(p), nil
}

func (d drip) Read(p []byte) (int, error) { return d.Conn.Read(p[:min(len(p), d.size())]) }

// bytesIn is how many bytes the server has read.
func (r *rig) bytesIn() (n uint64) {
	for _, l := range enginetest.Stats(r.t, r.srv).Loops {
		n += l.BytesIn
	}
	return n
}
