package http1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// clog keeps the loop of post busy until the gate is closed, with a task queue that takes no more.
func clog(t *testing.T, post func(func()) error, gate <-chan struct{}) {
	t.Helper()
	entered := make(chan struct{})
	for { // other tasks may be in the queue yet
		err := post(func() { close(entered); <-gate })
		if err == nil {
			break
		}
		if !errors.Is(err, eddy.ErrSaturated) {
			t.Error(err)
			return
		}
		runtime.Gosched()
	}
	<-entered
	for post(func() {}) == nil { //nolint:revive // until it is full
	}
	if err := post(func() {}); !errors.Is(err, eddy.ErrSaturated) {
		t.Errorf("the queue is not full: %v", err)
	}
}

// connOf returns the connection behind a response.
func connOf(w http.ResponseWriter) *eddy.Conn { return w.(*response).ex.conn }

// The end of a request has a place even in a full task queue, so no worker waits for the loop, and the response comes.
func TestEndOfRequestOnSaturatedLoop(t *testing.T) {
	gate := make(chan struct{})
	s := startWith(t, setup{queue: 4, handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/clog" {
			clog(t, connOf(w).Post, gate)
		}
		hello(w, r)
	}})
	c := s.dial()
	c.send("GET /clog HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Eventually(t, "the worker to be free", func() bool { st := s.pool.Stats(); return st.Completed == 1 && st.Running == 0 })
	close(gate)
	for range 2 {
		if resp, body := c.response("GET"); resp.StatusCode != 200 || body != "hello" {
			t.Fatalf("%d %q", resp.StatusCode, body)
		}
		c.send(keepGet)
	}
}

// 100 Continue has a place in a full task queue too, and is sent once, in front of the response.
func TestContinueOnSaturatedLoop(t *testing.T) {
	gate, told := make(chan struct{}), make(chan struct{})
	s := startWith(t, setup{queue: 4, handler: func(w http.ResponseWriter, r *http.Request) {
		clog(t, connOf(w).Post, gate)
		w.WriteHeader(http.StatusContinue)
		w.WriteHeader(http.StatusContinue)
		close(told)
		echo(w, r)
	}})
	c := s.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
	testkit.Receive(t, "the handler, which must not wait for the loop", told)
	close(gate)
	if line, err := c.br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = c.br.ReadString('\n')
	c.send("abc")
	if resp, body := c.response("POST"); resp.StatusCode != 200 || body != "POST / abc" || resp.Close {
		t.Errorf("%d %q close=%v", resp.StatusCode, body, resp.Close)
	}
	if n := s.f.Stats().Responses[1]; n != 1 {
		t.Errorf("%d informational responses counted", n)
	}
}

// The takeover of a connection has a place in a full task queue.
func TestHijackOnSaturatedLoop(t *testing.T) {
	gate, clogged := make(chan struct{}), make(chan struct{})
	s := startWith(t, setup{queue: 4, handler: func(w http.ResponseWriter, _ *http.Request) {
		clog(t, connOf(w).Post, gate)
		close(clogged)
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "taken")
		_ = c.Close()
	}})
	c := s.dial()
	c.send(keepGet)
	<-clogged
	close(gate)
	if got := c.rest(); got != "taken" {
		t.Errorf("%q", got)
	}
}

// A file is offered again when the task queue has room. A refusal does not close it.
func TestReadFromOnSaturatedLoop(t *testing.T) {
	sendsFiles(t)
	name, data := tempFile(t, 1<<20)
	gate, clogged := make(chan struct{}), make(chan struct{})
	s := startWith(t, setup{queue: 4, handler: func(w http.ResponseWriter, _ *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = f.Close() }()
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.(http.Flusher).Flush()
		clog(t, connOf(w).Post, gate)
		close(clogged)
		if n, err := io.Copy(w, f); n != int64(len(data)) || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}})
	c := s.dial()
	c.send(keepGet)
	<-clogged
	awaitOpen(t, name, 2) // the handler's and the one that is offered
	close(gate)
	if _, body := c.response("GET"); body != string(data) {
		t.Errorf("%d bytes", len(body))
	}
}

// lastRead is a body that does something when it is read behind its end.
type lastRead struct {
	io.Reader
	once   sync.Once
	atEnd  func()
	closed chan struct{}
}

func (b *lastRead) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF { //nolint:errorlint // of a strings.Reader
		b.once.Do(b.atEnd)
	}
	return n, err
}

func (b *lastRead) Close() error {
	close(b.closed)
	return nil
}

// The end of a request's body reaches a loop that takes no tasks: the time for the response begins.
func TestTransportBodyEndsOnSaturatedLoop(t *testing.T) {
	hold := make(chan struct{})
	url := scripted(t, func(_ int, c *raw) {
		if _, err := http.ReadRequest(c.br); err != nil {
			t.Error(err)
		}
		<-hold
	})
	defer close(hold)
	g := &eddy.Group{Loops: 1, TaskQueue: 4}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	tr := transport(t, &Transport{Group: g, ResponseHeaderTimeout: 50 * time.Millisecond})
	gate := make(chan struct{})
	body := &lastRead{Reader: strings.NewReader("abc"), closed: make(chan struct{})}
	body.atEnd = func() {
		clog(t, g.Loop(0).Post, gate)
	}
	go func() {
		<-body.closed
		close(gate)
	}()
	r := request(t, "POST", url, nil)
	r.Body, r.ContentLength = body, 3
	_, err := tr.RoundTrip(r)
	var te net.Error
	if !errors.As(err, &te) || !te.Timeout() || r.Context().Err() != nil {
		t.Errorf("%v", err)
	}
}
