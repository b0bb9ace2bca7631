package http1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// An ordinary client gets ordinary answers, many at once.
func TestServeNetHTTPClient(t *testing.T) {
	s := start(t, echo)
	c := s.client()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 20 {
				want := fmt.Sprintf("%d/%d %s", i, j, big(j*997))
				resp, err := c.Post(s.url("/p?q=1"), "text/plain", strings.NewReader(want))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != 200 || string(got) != "POST /p?q=1 "+want {
					t.Errorf("%d %q, %v", resp.StatusCode, got, err)
				}
			}
		})
	}
	wg.Wait()
	if n := s.f.Stats().Requests; n != 320 {
		t.Errorf("%d requests counted, want 320", n)
	}
}

func TestRequestAsHandlersKnowIt(t *testing.T) {
	got := make(chan *http.Request, 1)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) { got <- r })
	c := s.dial()
	c.send("GET /a%20b?x=1 HTTP/1.1\r\nHost: example.org:1\r\nX-One: 1\r\n\r\n")
	if resp, body := c.response("GET"); resp.StatusCode != 200 || body != "" || resp.ContentLength != 0 {
		t.Errorf("%v %q", resp, body)
	}
	r := <-got
	if r.URL.Path != "/a b" || r.URL.RawQuery != "x=1" || r.Host != "example.org:1" || r.Header.Get("X-One") != "1" ||
		r.RemoteAddr != c.LocalAddr().String() || r.Proto != "HTTP/1.1" || r.Body == nil {
		t.Errorf("request is %+v", r)
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok || a.String() != s.addr {
		t.Errorf("local address is %v", a)
	}
	if v := r.Context().Value(http.ServerContextKey); v != nil {
		t.Errorf("there is a *http.Server: %v", v)
	}
	testkit.Receive(t, "the end of the context", r.Context().Done())
}

// R080: one byte at a time, and many requests in one write, give the same.
func TestByteByByteAndPipelined(t *testing.T) {
	s := start(t, echo)
	one := "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	c := s.dial()
	for i := range len(one) {
		c.send(one[i : i+1])
	}
	if resp, body := c.response("POST"); resp.StatusCode != 200 || body != "POST /x abc" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	var all strings.Builder
	for i := range 50 {
		fmt.Fprintf(&all, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n%02d", i, i)
	}
	c.send(all.String())
	for i := range 50 {
		if _, body := c.response("POST"); body != fmt.Sprintf("POST /%d %02d", i, i) {
			t.Fatalf("response %d is %q", i, body)
		}
	}
}

// R082: a refused request is answered, counted, and ends the connection with
// its reason. Bytes behind it are not taken for a request.
func TestRefusals(t *testing.T) {
	var ran atomic.Int32
	s := startWith(t, setup{
		handler: func(w http.ResponseWriter, r *http.Request) { ran.Add(1); echo(w, r) },
		opts:    Options{MaxRequestLine: 100, MaxHeaderBytes: 200, MaxBody: 10},
	})
	tests := []struct {
		in     string
		status int
		reason eddy.CloseReason
	}{
		{"GET / HTTP/1.1\nHost: a\n\n" + keepGet, 400, eddy.CloseProtocolError},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + keepGet, 400, eddy.CloseProtocolError},
		{"GET / HTTP/3.0\r\n", 505, eddy.CloseProtocolError},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, eddy.CloseProtocolError},
		{"GET /" + big(200), 414, eddy.CloseFrameTooLarge},
		{"GET / HTTP/1.1\r\nHost: a\r\nX: " + big(300), 431, eddy.CloseFrameTooLarge},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", 413, eddy.CloseFrameTooLarge},
	}
	want := make(map[eddy.CloseReason]uint64)
	for _, tt := range tests {
		c := s.dial()
		c.send(tt.in)
		resp, body := c.response("GET")
		if resp.StatusCode != tt.status || !resp.Close || body == "" {
			t.Errorf("%.40q: %d %v %q", tt.in, resp.StatusCode, resp.Header, body)
		}
		if more := c.rest(); more != "" {
			t.Errorf("%.40q: more after the refusal: %q", tt.in, more)
		}
		want[tt.reason]++
		s.waitClosed(tt.reason, want[tt.reason])
	}
	if ran.Load() != 0 {
		t.Errorf("the handler ran %d times", ran.Load())
	}
	if n := s.f.Stats().ProtocolErrors; n != uint64(len(tests)) {
		t.Errorf("%d protocol errors counted, want %d", n, len(tests))
	}
}

// When a body turns out to be malformed while the handler reads, the handler
// gets an error, and exactly one response tells the client why.
func TestBodyTurnsBad(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		status   int
		reason   eddy.CloseReason
	}{
		{"bad chunk", "1\r\nxy", 400, eddy.CloseProtocolError},
		{"too large", "1\r\nx\r\nff\r\n", 413, eddy.CloseFrameTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entered, failed := make(chan struct{}), make(chan error, 1)
			s := startWith(t, setup{opts: Options{MaxBody: 100}, handler: func(w http.ResponseWriter, r *http.Request) {
				close(entered)
				_, err := io.ReadAll(r.Body)
				failed <- err
				_, _ = io.WriteString(w, "must not be seen")
			}})
			c := s.dial()
			c.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
			<-entered
			c.send(tt.in)
			if resp, _ := c.response("POST"); resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
			if more := c.rest(); more != "" {
				t.Errorf("second response %q", more)
			}
			if err := <-failed; err == nil {
				t.Error("the handler read a bad body to its end")
			}
			s.waitClosed(tt.reason, 1)
		})
	}
}

func TestOneEmptyLineBetweenRequests(t *testing.T) {
	s := start(t, hello)
	c := s.dial()
	c.send(keepGet + "\r\n" + keepGet)
	for range 2 {
		if resp, _ := c.response("GET"); resp.StatusCode != 200 {
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	c.send("\r\n\r\n")
	if resp, _ := c.response("GET"); resp.StatusCode != 400 {
		t.Errorf("two empty lines: %d", resp.StatusCode)
	}
}

func TestOptionsAsterisk(t *testing.T) {
	s := start(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler was asked") })
	c := s.dial()
	c.send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, body := c.response("OPTIONS"); resp.StatusCode != 200 || body != "" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

func TestExpectContinue(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		echo(w, r)
	})
	head := func(path string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
	}
	c := s.dial()
	c.send(head("/take"))
	if line, err := c.br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if line, err := c.br.ReadString('\n'); err != nil || line != "\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	c.send("abc")
	if _, body := c.response("POST"); body != "POST /take abc" {
		t.Errorf("%q", body)
	}
	c.send(head("/refuse")) // same connection: it stayed usable
	resp, _ := c.response("POST")
	if resp.StatusCode != 403 || !resp.Close {
		t.Errorf("refused body: %d, close %v", resp.StatusCode, resp.Close)
	}
	if more := c.rest(); more != "" {
		t.Errorf("more: %q", more)
	}
}

// A full pool is answered at once, and the connection can be used again.
func TestBusyPool(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 10)
	s := startWith(t, setup{
		pool: executor.Options{Workers: 1, Queue: 1},
		handler: func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-release
			echo(w, r)
		},
	})
	first, second, third := s.dial(), s.dial(), s.dial()
	first.send(keepGet)
	<-entered
	second.send(keepGet)
	testkit.Eventually(t, "a queued request", func() bool { return s.pool.Stats().Queued == 1 })
	third.send("POST /big HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + big(100000))
	resp, _ := third.response("POST")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || resp.Close {
		t.Errorf("busy: %d %v close=%v", resp.StatusCode, resp.Header, resp.Close)
	}
	close(release)
	first.response("GET")
	second.response("GET")
	third.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, body := third.response("GET"); resp.StatusCode != 200 || body != "GET /again " {
		t.Errorf("after busy: %d %q", resp.StatusCode, body)
	}
	if n := s.f.Stats().Busy; n != 1 {
		t.Errorf("%d busy answers counted", n)
	}
}

// A pool that is stopped answers the requests that wait in it, also one whose body has not come.
func TestStoppedPool(t *testing.T) {
	for _, request := range []string{keepGet, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"} {
		release, entered := make(chan struct{}), make(chan struct{}, 1)
		s := startWith(t, setup{pool: executor.Options{Workers: 1}, handler: func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-release
			echo(w, r)
		}})
		first, second := s.dial(), s.dial()
		first.send(keepGet)
		testkit.Receive(t, "the handler", entered)
		second.send(request)
		testkit.Eventually(t, "a queued request", func() bool { return s.pool.Stats().Queued == 1 })
		if left := s.pool.Close(); len(left) != 0 {
			t.Errorf("%v were not told", left)
		}
		if resp, body := second.response("GET"); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !resp.Close || body != "the server is busy\n" {
			t.Errorf("%d %v %q", resp.StatusCode, resp.Header, body)
		}
		close(release)
		if resp, _ := first.response("GET"); resp.StatusCode != 200 {
			t.Errorf("what ran: %d", resp.StatusCode)
		}
		if n := s.f.Stats().Busy; n != 1 {
			t.Errorf("%d busy answers counted", n)
		}
	}
}

// Busy answers to pipelined requests come in their order, and the one to HEAD has no body.
func TestBusyAnswersKeepOrder(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{}, 2)
	s := startWith(t, setup{pool: executor.Options{Workers: 1, Queue: 1}, handler: func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-release
		echo(w, r)
	}})
	first, second, third := s.dial(), s.dial(), s.dial()
	first.send(keepGet)
	<-entered
	second.send(keepGet)
	testkit.Eventually(t, "a queued request", func() bool { return s.pool.Stats().Queued == 1 })
	third.send("HEAD /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	for i, method := range []string{"HEAD", "POST", "GET"} {
		if resp, body := third.response(method); resp.StatusCode != 503 || (body == "") != (i == 0) || resp.Close != (i == 2) {
			t.Errorf("%s: %d %q close=%v", method, resp.StatusCode, body, resp.Close)
		}
	}
	if more := third.rest(); more != "" {
		t.Errorf("more: %q", more)
	}
	close(release)
	first.response("GET")
	second.response("GET")
}

func TestHandlerPanics(t *testing.T) {
	var panics atomic.Int32
	s := startWith(t, setup{
		pool: executor.Options{OnPanic: func(v any, stack []byte) {
			if bytes.Contains(stack, []byte("TestHandlerPanics")) {
				panics.Add(1)
			}
		}},
		handler: func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/before":
				panic("before")
			case "/after":
				_, _ = io.WriteString(w, "some")
				w.(http.Flusher).Flush()
				panic("after")
			case "/abort":
				panic(http.ErrAbortHandler)
			}
			hello(w, r)
		},
	})
	get := func(path string) *raw {
		c := s.dial()
		c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		return c
	}
	if resp, _ := get("/before").response("GET"); resp.StatusCode != 500 {
		t.Errorf("before: %d", resp.StatusCode)
	}
	if got := get("/after").rest(); !strings.HasSuffix(got, "4\r\nsome\r\n") {
		t.Errorf("after: %q", got)
	}
	s.waitClosed(eddy.CloseInternalError, 1)
	if got := get("/abort").rest(); got != "" {
		t.Errorf("abort: %q", got)
	}
	if _, body := get("/").response("GET"); body != "hello" {
		t.Errorf("the server after panics: %q", body)
	}
	// The pool hears of a panic behind the answer to its request.
	testkit.Eventually(t, "the handlers to be over", func() bool { return s.pool.Stats().Completed == 4 })
	if panics.Load() != 2 || s.pool.Stats().Panics != 2 {
		t.Errorf("%d panics reported with their stack, %d counted, want 2", panics.Load(), s.pool.Stats().Panics)
	}
}

func TestContextEndsWithConnection(t *testing.T) {
	entered, canceled := make(chan struct{}), make(chan error, 1)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		canceled <- r.Context().Err()
	})
	c := s.dial()
	c.send(keepGet)
	<-entered
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if err := testkit.Receive(t, "the end of the context", canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A client may end its side after its request and still gets the response.
func TestHalfClosedClientIsAnswered(t *testing.T) {
	s := start(t, echo)
	c := s.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, body := c.response("POST"); body != "POST / x" {
		t.Errorf("%q", body)
	}
	if more := c.rest(); more != "" {
		t.Errorf("more: %q", more)
	}
	c = s.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	s.waitClosed(eddy.CloseIncompleteRequest, 1)
}
