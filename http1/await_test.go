package http1

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// awaiting makes a setup whose requests wait for bodies of up to n bytes.
func awaiting(n int, c setup) setup {
	c.opts.Route = func(*http.Request) Route { return Route{Await: n} }
	return c
}

// keeps waits until so many bytes of input are counted.
func (s *server) keeps(n int64) {
	s.t.Helper()
	testkit.Eventually(s.t, "the input to be counted", func() bool { return enginetest.Stats(s.t, s.srv).Memory.Inbound == n })
}

// whole is echo for requests whose body is there when the handler starts.
func whole(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if b, ok := r.Body.(*body); ok {
			if n, _ := b.Buffered(); b.Missing(-1) != 0 {
				t.Errorf("%s: the handler started with %d bytes, and more to come", r.URL, n)
			}
		}
		echo(w, r)
	}
}

// A client that stalls in an awaited body holds no worker. The bytes count as input until the answer, and the requests that
// the client has sent behind the body have their turn.
func TestAwaitedBodyHoldsNoWorker(t *testing.T) {
	s := startWith(t, awaiting(1000, setup{pool: executor.Options{Workers: 1}, handler: whole(t)}))
	stalled := s.dial()
	stalled.send("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
	s.keeps(3)
	other := s.dial()
	other.send(keepGet)
	if _, body := other.response("GET"); body != "GET / " {
		t.Fatalf("%q", body)
	}
	if n := s.pool.Stats().Submitted; n != 1 {
		t.Errorf("%d requests were given to the pool", n)
	}
	stalled.send("defPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nxGET /3 HTTP/1.1\r\nHost: a\r\n\r\n")
	for _, want := range []string{"POST /1 abcdef", "POST /2 x", "GET /3 "} {
		if _, body := stalled.response("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
	s.keeps(0)
}

// The handler starts when all of the body is there, however it is framed and cut, also when it is longer than BodyBuffer.
func TestAwaitedBodies(t *testing.T) {
	s := startWith(t, awaiting(10, setup{handler: whole(t), opts: Options{BodyBuffer: 4}}))
	const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	for in, want := range map[string]string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789": "POST / 0123456789",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n":            "POST / ",
		keepGet:                                  "GET / ",
		chunked + "a\r\n0123456789\r\n0\r\n\r\n": "POST / 0123456789",
		chunked + "3\r\n012\r\n7;x=y\r\n3456789\r\n0\r\nX-T: 1\r\n\r\n": "POST / 0123456789",
		chunked + "0\r\n\r\n": "POST / ",
	} {
		for _, step := range []int{len(in), 1, 7} {
			c := s.dial()
			for i := 0; i < len(in); i += step {
				c.send(in[i:min(i+step, len(in))])
			}
			if resp, body := c.response("POST"); resp.StatusCode != 200 || body != want || resp.Close {
				t.Errorf("%q by %d: %d %q close=%v", in, step, resp.StatusCode, body, resp.Close)
			}
			_ = c.Close()
		}
	}
	s.keeps(0)
}

// A body longer than Await or MaxBody is refused before it is read, and so is a malformed one. No handler starts.
func TestAwaitedBodyIsBounded(t *testing.T) {
	s := startWith(t, setup{handler: echo, opts: Options{MaxBody: 20, Route: func(r *http.Request) Route {
		if r.URL.Path == "/wide" {
			return Route{Await: 1000}
		}
		return Route{Await: 10}
	}}})
	const length, chunked = " HTTP/1.1\r\nHost: a\r\nContent-Length: ", " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	for in, want := range map[string]string{
		"POST /" + length + "11\r\n\r\n":                         "413 body over the limit of 10\n",
		"POST /" + length + "11\r\nExpect: 100-continue\r\n\r\n": "413 body over the limit of 10\n",
		"POST /" + chunked + "b\r\n":                             "413 body over the limit of 10\n",
		"POST /" + chunked + "6\r\nabcdef\r\n5\r\n":              "413 body over the limit of 10\n",
		"POST /wide" + length + "21\r\n\r\n":                     "413 body over the limit of 20\n",
		"POST /wide" + chunked + "15\r\n":                        "413 body over the limit of 20\n",
		"POST /" + chunked + "3\r\nabcd\r\n":                     "400 chunk data is not followed by CRLF\n",
		"POST /" + chunked + "3\r\nabc\r\n0\r\nHost: b\r\n\r\n":  "400 a trailer field that frames or routes the message\n",
	} {
		c := s.dial()
		c.send(in)
		resp, body := c.response("POST")
		if got := resp.Status[:4] + body; got != want || !resp.Close {
			t.Errorf("%q: %q close=%v, want %q", in, got, resp.Close, want)
		}
		if more := c.rest(); more != "" {
			t.Errorf("%q: more: %q", in, more)
		}
	}
	if n := s.pool.Stats().Submitted; n != 0 {
		t.Errorf("%d requests were given to the pool", n)
	}
	s.keeps(0)
}

// A client that waits for 100 Continue is told at once, once, also behind a LoopHandler that leaves its request.
func TestAwaitedBodyContinue(t *testing.T) {
	for name, onLoop := range map[string]LoopHandler{"pool": nil, "loop first": func(*LoopResponse, *LoopRequest) bool { return false }} {
		t.Run(name, func(t *testing.T) {
			s := startWith(t, awaiting(10, setup{handler: whole(t), opts: Options{OnLoop: onLoop}}))
			c := s.dial()
			c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
			told := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
			if _, err := io.ReadFull(c.br, told); err != nil || string(told) != "HTTP/1.1 100 Continue\r\n\r\n" {
				t.Fatalf("%q, %v", told, err)
			}
			if n := s.pool.Stats().Submitted; n != 0 {
				t.Errorf("%d requests were given to the pool", n)
			}
			c.send("a")
			c.send("bc")
			if resp, body := c.response("POST"); resp.StatusCode != 200 || body != "POST / abc" || resp.Close {
				t.Errorf("%d %q close=%v", resp.StatusCode, body, resp.Close)
			}
			if n := s.f.Stats().Responses[1]; n != 1 {
				t.Errorf("%d informational responses", n)
			}
		})
	}
}

// An awaited body that stalls at any point meets its own deadline or that of the request, and no handler starts.
func TestAwaitedBodyDeadline(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		by       string
		status   int
		reason   eddy.CloseReason
	}{
		{"behind the head", "Content-Length: 3\r\n\r\n", "body", 408, eddy.CloseBodyTimeout},
		{"in the body", "Content-Length: 3\r\n\r\na", "body", 408, eddy.CloseBodyTimeout},
		{"at the end of a full body", "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r", "body", 408, eddy.CloseBodyTimeout},
		{"told to go on", "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n", "body", 408, eddy.CloseBodyTimeout},
		{"of its route", "Content-Length: 3\r\n\r\na", "route", 408, eddy.CloseBodyTimeout},
		{"of the request", "Content-Length: 3\r\n\r\na", "request", 503, eddy.CloseHandlerTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := awaiting(10, setup{clock: true, handler: echo})
			switch tt.by {
			case "request":
				c.answer = timeout
			case "body":
				c.opts.BodyTimeout = timeout
			case "route":
				c.opts.Route = func(*http.Request) Route { return Route{Await: 10, Within: timeout} }
			}
			s := startWith(t, c)
			client := s.dial()
			client.send("POST / HTTP/1.1\r\nHost: a\r\n" + tt.in)
			testkit.Eventually(t, "the request", func() bool { return s.f.Stats().Requests == 1 })
			s.expires(timeout)
			got := client.rest()
			got = strings.TrimPrefix(got, "HTTP/1.1 100 Continue\r\n\r\n")
			if want := "HTTP/1.1 " + strconv.Itoa(tt.status); !strings.HasPrefix(got, want) {
				t.Errorf("%q, want status %d", got, tt.status)
			}
			s.waitClosed(tt.reason, 1)
			if n := s.pool.Stats().Submitted; n != 0 {
				t.Errorf("%d requests were given to the pool", n)
			}
			if n := s.f.Stats().Timeouts; n != 1 {
				t.Errorf("%d timeouts counted", n)
			}
			s.keeps(0)
		})
	}
}

// The deadline of an awaited body ends with the body, so the handler may take longer.
func TestAwaitedBodyInTime(t *testing.T) {
	begun, gate := make(chan struct{}), make(chan struct{})
	c := setup{clock: true, handler: func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-gate
		echo(w, r)
	}}
	c.opts.Route = func(*http.Request) Route { return Route{Await: 10, Within: timeout} }
	s := startWith(t, c)
	client := s.dial()
	client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
	<-begun
	s.clock.Advance(2 * timeout)
	close(gate)
	if _, body := client.response("POST"); body != "POST / abc" {
		t.Errorf("%q", body)
	}
}

// A client that ends its side behind an awaited body is answered. A client that ends its side inside the body, or goes, is
// forgotten with its bytes.
func TestAwaitedBodyEnds(t *testing.T) {
	s := startWith(t, awaiting(10, setup{handler: whole(t)}))
	const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"
	c := s.dial()
	c.send(head + "abc")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, body := c.response("POST"); body != "POST / abc" {
		t.Errorf("%q", body)
	}
	if more := c.rest(); more != "" {
		t.Errorf("more: %q", more)
	}
	c = s.dial()
	c.send(head + "ab")
	s.keeps(2)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	s.waitClosed(eddy.CloseIncompleteRequest, 1)
	s.keeps(0)
	c = s.dial()
	c.send(head + "ab")
	s.keeps(2)
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	testkit.Eventually(t, "all to end", func() bool { return s.srv.Stats().Active == 0 })
	s.keeps(0)
	if n := s.pool.Stats().Submitted; n != 1 {
		t.Errorf("%d requests were given to the pool, want the first", n)
	}
}

// A draining server waits for an awaited body, and for the answer to its request.
func TestAwaitedBodyWhileDraining(t *testing.T) {
	s := startWith(t, awaiting(10, setup{handler: whole(t)}))
	c := s.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab")
	s.keeps(2)
	report := make(chan eddy.DrainReport, 1)
	ctx := testkit.Context(t)
	go func() {
		r, err := s.srv.Shutdown(ctx)
		if err != nil {
			t.Error(err)
		}
		report <- r
	}()
	testkit.Eventually(t, "the drain", func() bool { return s.drained.Load() > 0 })
	c.send("c")
	if resp, body := c.response("POST"); resp.StatusCode != 200 || body != "POST / abc" || !resp.Close {
		t.Errorf("%d %q close=%v", resp.StatusCode, body, resp.Close)
	}
	if more := c.rest(); more != "" {
		t.Errorf("more: %q", more)
	}
	if r := <-report; r != (eddy.DrainReport{Drained: 1}) {
		t.Errorf("%+v", r)
	}
}

// A connection that is taken over does not count the body of its last request.
func TestAwaitedBodyThenHijack(t *testing.T) {
	s := startWith(t, awaiting(10, setup{handler: func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err != nil || string(b) != "abc" {
			t.Errorf("%q, %v", b, err)
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "taken")
		_, _ = c.Read(make([]byte, 1))
	}}))
	c := s.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
	if _, err := io.ReadFull(c.br, make([]byte, len("taken"))); err != nil {
		t.Fatal(err)
	}
	s.keeps(0)
	c.send("x")
	c.rest()
}
