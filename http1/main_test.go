package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The times of tests on a clock. A tick is longer than the interval at which loops look up deadlines.
const (
	timeout = time.Minute
	tick    = 20 * time.Millisecond
)

// server is a running HTTP server of a test.
type server struct {
	t    *testing.T
	srv  *eddy.Server
	f    *Factory
	pool *executor.Pool
	addr string

	clock *enginetest.Clock // with setup.clock

	drained atomic.Int32 // connections that were told
}

// drainNoter counts the connections that have been told of the drain, behind the handlers of HTTP.
type drainNoter struct{ s *server }

func (d drainNoter) HandleEvent(ctx *eddy.Context, ev any) error {
	if ev == (eddy.DrainEvent{}) {
		d.s.drained.Add(1)
	}
	ctx.FireEvent(ev)
	return nil
}

type setup struct {
	opts    Options
	pool    executor.Options
	marks   eddy.Watermarks
	handler http.HandlerFunc
	answer  time.Duration // the server's HandlerTimeout
	queue   int           // bound of the loops' task queues; 0 = the default
	clock   bool          // the server's time is the test's
	narrow  bool          // the kernel takes little: a client that does not read is noticed after few bytes
}

func start(t *testing.T, h http.HandlerFunc) *server { return startWith(t, setup{handler: h}) }

func startWith(t *testing.T, c setup) *server {
	t.Helper()
	s := prepare(t, c)
	s.listen()
	return s
}

// prepare makes a server that does not listen yet.
func prepare(t *testing.T, c setup) *server {
	t.Helper()
	if c.pool.OnPanic == nil {
		c.pool.OnPanic = func(any, []byte) {}
	}
	if c.pool.Workers == 0 {
		c.pool.Workers = 8
	}
	for _, d := range []*time.Duration{&c.opts.HeaderTimeout, &c.opts.BodyTimeout, &c.opts.IdleTimeout, &c.opts.WriteTimeout} {
		if *d == 0 {
			*d = time.Hour // a slow machine's clients are slow
		}
	}
	pool, err := executor.NewFixed(c.pool)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, pool: pool, f: NewHandler(c.handler, pool, c.opts), srv: &eddy.Server{Loops: 2, Watermarks: c.marks, HandlerTimeout: c.answer}}
	s.srv.Init = func(p *eddy.Pipeline) error {
		return errors.Join(s.f.Init(p), p.Add("drain", drainNoter{s}))
	}
	s.srv.TaskQueue = c.queue
	if c.narrow {
		s.srv.SendBuffer, s.srv.RecvBuffer = 128<<10, 128<<10
	}
	if c.clock {
		s.clock = enginetest.NewClock(t, s.srv)
	}
	t.Cleanup(func() {
		_ = s.srv.Close()
		if _, err := pool.Shutdown(context.Background()); err != nil {
			t.Errorf("pool: %v", err)
		}
	})
	return s
}

func (s *server) listen() {
	s.t.Helper()
	s.addr = enginetest.Serve(s.t, s.srv)
}

// client returns an independent HTTP client for the server.
func (s *server) client() *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	s.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: testkit.Patience}
}

func (s *server) url(path string) string { return "http://" + s.addr + path }

// raw is a client that speaks bytes.
type raw struct {
	t *testing.T
	*net.TCPConn
	br *bufio.Reader
}

func (s *server) dial() *raw {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		s.t.Fatal(err)
	}
	return newRaw(s.t, c)
}

func newRaw(t *testing.T, c net.Conn) *raw {
	return &raw{t: t, TCPConn: c.(*net.TCPConn), br: bufio.NewReader(c)}
}

func (r *raw) send(s string) {
	r.t.Helper()
	if _, err := io.WriteString(r.TCPConn, s); err != nil {
		r.t.Fatalf("sending: %v", err)
	}
}

// response reads one response with its body.
func (r *raw) response(method string) (*http.Response, string) {
	r.t.Helper()
	resp, err := http.ReadResponse(r.br, &http.Request{Method: method})
	if err != nil {
		r.t.Fatalf("reading the response: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("reading the body: %v", err)
	}
	return resp, string(b)
}

// rest reads until the server ends the connection, and ends it too.
func (r *raw) rest() string {
	r.t.Helper()
	b, err := io.ReadAll(r.br)
	if err != nil {
		r.t.Fatalf("reading to the end: %v after %q", err, b)
	}
	_ = r.Close()
	return string(b)
}

// waitClosed waits until n connections ended with the reason.
func (s *server) waitClosed(reason eddy.CloseReason, n uint64) {
	s.t.Helper()
	testkit.Eventually(s.t, reason.String(), func() bool { return s.closed(reason) >= n })
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, r.Method+" "+r.RequestURI+" "+string(b))
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

const keepGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

func big(n int) string { return strings.Repeat("0123456789abcdef", (n+15)/16)[:n] }

func (s *server) closed(reason eddy.CloseReason) uint64 { return s.srv.Stats().Closed[reason] }

// lives fails the test if n connections are not there any more.
func (s *server) lives(n int64) {
	s.t.Helper()
	if st := enginetest.Stats(s.t, s.srv); st.Active != n {
		s.t.Fatalf("%d connections of %d are left: %v", st.Active, n, st.Closed)
	}
}

// expires lets the time of the only connection pass, and checks that it does not end before. The iteration that counted a request also begins its time.
func (s *server) expires(after time.Duration) {
	s.t.Helper()
	s.clock.Advance(0)
	s.clock.Advance(after - tick)
	s.lives(1)
	s.clock.Advance(2 * tick)
}
