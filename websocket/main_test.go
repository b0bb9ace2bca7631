package websocket

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ended is what a handler was told at the end.
type ended struct {
	code   int
	reason string
}

// echo answers each message with itself and remembers how its connections
// ended. The other fields make it misbehave.
type echo struct {
	open    func(c *Conn) error
	message func(c *Conn, op Opcode, data []byte) error
	closed  chan ended
	conns   chan *Conn
}

func newEcho() *echo {
	return &echo{closed: make(chan ended, 1000), conns: make(chan *Conn, 1000)}
}

func (e *echo) HandleOpen(c *Conn) error {
	e.conns <- c
	if e.open != nil {
		return e.open(c)
	}
	return nil
}

func (e *echo) HandleMessage(c *Conn, op Opcode, data []byte) error {
	if e.message != nil {
		return e.message(c, op, data)
	}
	return c.WriteBytes(op, data)
}

func (e *echo) HandleClose(_ *Conn, code int, reason string) { e.closed <- ended{code, reason} }

// server is a running WebSocket server of a test.
type server struct {
	t     *testing.T
	srv   *eddy.Server
	stats Stats
	h     Handler
	echo  *echo
	errs  chan error // what Upgrade returned
	addr  string
}

func start(t *testing.T, o Options) *server {
	return startWith(t, newEcho(), nil, o, eddy.Watermarks{})
}

// startWith starts a server whose connections h handles, by default e itself.
func startWith(t *testing.T, e *echo, h Handler, o Options, marks eddy.Watermarks, tune ...func(*eddy.Server)) *server {
	t.Helper()
	s := &server{t: t, echo: e, h: h, errs: make(chan error, 1000)}
	if h == nil {
		s.h = e
	}
	o.Stats = &s.stats
	patient(&o)
	pool, err := executor.NewFixed(executor.Options{Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := Upgrade(w, r, s.h, o)
		s.errs <- err
	})
	init := http1.NewHandler(serve, pool, http1.Options{HeaderTimeout: time.Hour}).Init
	if overHTTP2(t) {
		init = http2.NewHandler(serve, pool, http2.Options{Connect: true, HeaderTimeout: time.Hour, WriteTimeout: time.Hour}).Init
	}
	s.srv = &eddy.Server{Loops: 2, Init: init, Watermarks: marks}
	for _, f := range tune {
		f(s.srv)
	}
	t.Cleanup(func() {
		if _, err := pool.Shutdown(context.Background()); err != nil {
			t.Errorf("pool: %v", err)
		}
	})
	s.addr = enginetest.Serve(t, s.srv)
	if overHTTP2(t) {
		s.addr = gateway(t, s.addr)
	}
	return s
}

// startOnClock starts an echo server whose time is the test's.
func startOnClock(t *testing.T, h Handler, o Options) (s *server, clock *enginetest.Clock) {
	t.Helper()
	s = startWith(t, newEcho(), h, o, eddy.Watermarks{}, func(srv *eddy.Server) { clock = enginetest.NewClock(t, srv) })
	return s, clock
}

// narrow makes the kernel's buffers small, so that the server notices after few bytes that a peer does not read.
func narrow(s *eddy.Server) { s.SendBuffer, s.RecvBuffer = 128<<10, 128<<10 }

// patient moves the deadlines that a test has not set far away.
func patient(o *Options) {
	for _, d := range []*time.Duration{&o.CloseTimeout, &o.PongTimeout, &o.MessageTimeout} {
		if *d == 0 {
			*d = time.Hour
		}
	}
}

// benchServer starts a server for a benchmark and returns its address.
func benchServer(b *testing.B, h Handler) string {
	pool, err := executor.NewFixed(executor.Options{Workers: 4})
	if err != nil {
		b.Fatal(err)
	}
	u, err := NewUpgrader(Options{})
	if err != nil {
		b.Fatal(err)
	}
	f := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = u.Upgrade(w, r, h) }), pool, http1.Options{})
	srv := &eddy.Server{Loops: 1, Init: f.Init, Logger: slog.New(slog.DiscardHandler)}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = srv.Close()
		pool.Close()
	})
	return srv.Addr().String()
}

// conn waits for the server's side of the next connection.
func (s *server) conn() *Conn {
	s.t.Helper()
	return testkit.Receive(s.t, "a connection", s.echo.conns)
}

// wantEnd waits for the next HandleClose and compares.
func (s *server) wantEnd(code int, reason string) {
	s.t.Helper()
	if e := testkit.Receive(s.t, "HandleClose", s.echo.closed); e.code != code || !strings.Contains(e.reason, reason) {
		s.t.Errorf("closed with %d %q, want %d %q", e.code, e.reason, code, reason)
	}
}

// waitClosed waits until n connections of the engine ended with the reason. By HTTP/2 they share one, which goes on.
func (s *server) waitClosed(reason eddy.CloseReason, n uint64) {
	s.t.Helper()
	if overHTTP2(s.t) {
		return
	}
	testkit.Eventually(s.t, reason.String(), func() bool { return s.srv.Stats().Closed[reason] >= n })
}

// dial connects an independent client.
func (s *server) dial(o *coder.DialOptions) *coder.Conn {
	s.t.Helper()
	ctx := testkit.Context(s.t)
	c, _, err := coder.Dial(ctx, "ws://"+s.addr+"/", o)
	if err != nil {
		s.t.Fatal(err)
	}
	c.SetReadLimit(1 << 26)
	s.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// raw is a client that speaks bytes.
type raw struct {
	t *testing.T
	*net.TCPConn
	br *bufio.Reader
}

// client connects with this package's own client.
func (s *server) client(h Handler, o Options) *Conn {
	s.t.Helper()
	c, err := s.dialer(o).Dial(s.t.Context(), "ws://"+s.addr+"/", h)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// dialer returns a Dialer that ends with the test.
func (s *server) dialer(o Options) *Dialer { return newDialer(s.t, o) }

func newDialer(t *testing.T, o Options) *Dialer {
	patient(&o)
	d := &Dialer{Options: o, Engine: &eddy.Dialer{HandshakeTimeout: time.Hour}}
	enginetest.RelaxDialer(d.Engine)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// messages is a handler that passes the messages to the test.
type messages struct {
	*echo
	got chan string
}

func newMessages() *messages {
	m := &messages{newEcho(), make(chan string, 10000)}
	m.message = func(_ *Conn, op Opcode, data []byte) error {
		m.got <- op.String() + " " + string(data)
		return nil
	}
	return m
}

func (m *messages) want(t *testing.T, text string) {
	t.Helper()
	if got := testkit.Receive(t, fmt.Sprintf("%.80q", text), m.got); got != text {
		t.Fatalf("got %.80q, %d bytes, want %.80q, %d bytes", got, len(got), text, len(text))
	}
}

const handshake = "GET /chat HTTP/1.1\r\nHost: example.org\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

func (s *server) rawConn() *raw {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		s.t.Fatal(err)
	}
	if err := c.(*net.TCPConn).SetReadBuffer(128 << 10); err != nil { // with narrow
		s.t.Fatal(err)
	}
	return &raw{s.t, c.(*net.TCPConn), bufio.NewReader(c)}
}

// rawDial makes the handshake and sends more in the same packet.
func (s *server) rawDial(more string) *raw {
	s.t.Helper()
	c := s.rawConn()
	c.send(handshake + "\r\n" + more)
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		s.t.Fatalf("handshake: %v, %v", resp, err)
	}
	return c
}

func (r *raw) send(s string) {
	r.t.Helper()
	if _, err := io.WriteString(r.TCPConn, s); err != nil {
		r.t.Fatalf("sending: %v", err)
	}
}

// frame reads one frame of the server, which must be unmasked.
func (r *raw) frame() (first byte, payload string, err error) {
	var h [2]byte
	if _, err := io.ReadFull(r.br, h[:]); err != nil {
		return 0, "", err
	}
	if h[1]&0x80 != 0 {
		return 0, "", errors.New("the server masked a frame")
	}
	n := uint64(h[1])
	switch n {
	case 126:
		var b [2]byte
		if _, err := io.ReadFull(r.br, b[:]); err != nil {
			return 0, "", err
		}
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		if _, err := io.ReadFull(r.br, b[:]); err != nil {
			return 0, "", err
		}
		n = binary.BigEndian.Uint64(b[:])
	}
	p := make([]byte, n)
	_, err = io.ReadFull(r.br, p)
	return h[0], string(p), err
}

func (r *raw) want(first byte, payload string) {
	r.t.Helper()
	f, p, err := r.frame()
	if err != nil || f != first || p != payload {
		r.t.Errorf("frame %#x %.60q, %v; want %#x %.60q", f, p, err, first, payload)
	}
}

// wantClose wants a close frame with the code, and then the end of the
// connection.
func (r *raw) wantClose(code int) {
	r.t.Helper()
	f, p, err := r.frame()
	if err != nil || f != 0x88 || len(p) < 2 || int(binary.BigEndian.Uint16([]byte(p))) != code {
		r.t.Errorf("frame %#x %.60q, %v; want a close frame with %d", f, p, err, code)
	}
	r.wantEnd(nil)
}

// wantCut wants the end of a connection that gets no close frame. A stream of HTTP/2 is reset then.
func (r *raw) wantCut() {
	r.t.Helper()
	if overHTTP2(r.t) {
		r.wantEnd(syscall.ECONNRESET)
	} else {
		r.wantEnd(nil)
	}
}

func (r *raw) wantEnd(why error) {
	r.t.Helper()
	if rest, err := io.ReadAll(r.br); !errors.Is(err, why) || len(rest) > 0 {
		r.t.Errorf("%q, %v at the end", rest, err)
	}
	_ = r.Close()
}
