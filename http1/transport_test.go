package http1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// transport returns a Transport that ends with the test.
func transport(t *testing.T, tr *Transport) *Transport {
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
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

// site is what the interop tests ask.
func site() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
		w.Header().Set("X-Trailer", r.Trailer.Get("X-Sum"))
		w.Header().Set("X-Agent", r.UserAgent())
		_, _ = w.Write(b)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { writePieces(w, 100, 33333) })
	mux.HandleFunc("/declared", func(w http.ResponseWriter, _ *http.Request) { declared(w, big(200000)) })
	mux.HandleFunc("/nothing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/same", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	mux.HandleFunc("/empty", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		http.Redirect(w, r, "/cookie", http.StatusFound)
	})
	mux.HandleFunc("/cookie", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("Cookie")) })
	mux.HandleFunc("/trailer", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		hello(w, r)
	})
	mux.HandleFunc("/refuse", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	mux.HandleFunc("/close", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close"); hello(w, r) })
	return mux
}

// A plain http.Client works with the Transport, against net/http's server and this package's.
func TestTransportInterop(t *testing.T) {
	theirs := httptest.NewServer(site())
	t.Cleanup(theirs.Close)
	ours := start(t, site().ServeHTTP)
	for name, base := range map[string]string{"nethttp": theirs.URL, "eddy": "http://" + ours.addr} {
		t.Run(name, func(t *testing.T) { interop(t, base) })
	}
}

func interop(t *testing.T, base string) {
	tr := transport(t, &Transport{})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: tr, Jar: jar}
	ask := func(r *http.Request) (*http.Response, string) {
		t.Helper()
		resp, err := c.Do(r)
		if err != nil {
			t.Fatalf("%s %s: %v", r.Method, r.URL, err)
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%s %s: %v", r.Method, r.URL, err)
		}
		return resp, string(b)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
		length             int64
	}{
		{"GET", "/echo", "", 200, "", 0},
		{"POST", "/echo", "some", 200, "some", 4},
		{"PUT", "/echo", big(300000), 200, big(300000), -1},
		{"GET", "/large", "", 200, strings.Repeat(big(33333), 100), -1},
		{"GET", "/declared", "", 200, big(200000), 200000},
		{"HEAD", "/declared", "", 200, "", 200000},
		{"GET", "/nothing", "", 204, "", 0},
		{"GET", "/same", "", 304, "", 0},
		{"GET", "/empty", "", 200, "", 0},
		{"GET", "/redirect", "", 200, "a=1", 3},
		{"GET", "/missing", "", 404, "404 page not found\n", 19},
		{"GET", "/close", "", 200, "hello", 5},
		{"GET", "/hints", "", 200, "hello", 5},
	} {
		resp, got := ask(request(t, tt.method, base+tt.path, strings.NewReader(tt.body)))
		if resp.StatusCode != tt.status || got != tt.want || resp.ContentLength != tt.length {
			t.Errorf("%s %s: %d, %d bytes %.30q, length %d", tt.method, tt.path, resp.StatusCode, len(got), got, resp.ContentLength)
		}
	}

	r := request(t, "POST", base+"/echo", io.MultiReader(strings.NewReader("unknown "), strings.NewReader("length")))
	r.Trailer = http.Header{"X-Sum": {"7"}}
	if resp, got := ask(r); got != "unknown length" || resp.Header.Get("X-Length") != "-1" || resp.Header.Get("X-Trailer") != "7" || resp.Header.Get("X-Agent") != "eddy-http1" {
		t.Errorf("chunked upload: %q %v", got, resp.Header)
	}
	if resp, got := ask(request(t, "GET", base+"/trailer", nil)); got != "body" || resp.Trailer.Get("X-Sum") != "42" {
		t.Errorf("trailer: %q %v", got, resp.Trailer)
	}

	var hints []int
	r = request(t, "GET", base+"/hints", nil)
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, code)
		if h.Get("Link") == "" {
			t.Error("a hint without its header")
		}
		return nil
	}}))
	if _, got := ask(r); got != "hello" || len(hints) != 1 || hints[0] != 103 {
		t.Errorf("%q after %v", got, hints)
	}

	for path, status := range map[string]int{"/echo": 200, "/refuse": 403} {
		read := new(countingReader)
		r = request(t, "POST", base+path, read)
		r.ContentLength = 5
		r.Header.Set("Expect", "100-continue")
		if resp, _ := ask(r); resp.StatusCode != status || (read.n.Load() > 0) != (status == 200) {
			t.Errorf("%s: %d after %d bytes", path, resp.StatusCode, read.n.Load())
		}
	}
	if s := tr.Stats(); s.Reused == 0 || s.Open > 8 {
		t.Errorf("connections were not kept: %+v", s)
	}
}

// countingReader is a body of five bytes.
type countingReader struct{ n atomic.Int64 }

func (c *countingReader) Read(p []byte) (int, error) {
	if c.n.Load() >= 5 {
		return 0, io.EOF
	}
	c.n.Add(1)
	p[0] = 'x'
	return 1, nil
}

// scripted is a server that answers each connection as its function does.
func scripted(t *testing.T, serve func(n int, c *raw)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(testkit.Patience))
				serve(n, newRaw(t, c))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// request reads one request with its body; false at the end of the connection.
func (r *raw) request() (*http.Request, string, bool) {
	req, err := http.ReadRequest(r.br)
	if err != nil {
		return nil, "", false
	}
	b, err := io.ReadAll(req.Body)
	return req, string(b), err == nil
}

// A response that a server must not send is an error, and never looks whole.
func TestTransportFailures(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, tt := range []struct {
		name, answer string
		head, body   string // part of the error's text
	}{
		{"garbage", "\x16\x03\x01", "malformed response", ""},
		{"text", "SSH-2.0-x\r\n", "malformed response", ""},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", "malformed response", ""},
		{"another protocol", "HTTP/2.0 200 OK\r\n\r\n", "malformed response", ""},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", "malformed response", ""},
		{"folded", ok + "A: b\r\n c\r\n\r\n", "malformed response", ""},
		{"two lengths", ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "malformed response", ""},
		{"two lengths, one in another form", ok + "Content-Length: 1\r\nContent-Length: +1\r\n\r\nx", "malformed response", ""},
		{"three lengths, one of them other", ok + "Content-Length: 1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "malformed response", ""},
		{"two lengths, one over every limit", ok + "Content-Length: 36028797018963968\r\nContent-Length: 99999999999999999999\r\n\r\n", "malformed response", ""},
		{"a list of lengths", ok + "Content-Length: 1, 1\r\n\r\nx", "malformed response", ""},
		{"two lengths and coding", ok + "Content-Length: 1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "malformed response", ""},
		{"length and coding", ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "malformed response", ""},
		{"unknown coding", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", "malformed response", ""},
		{"header without end", ok + "A: " + big(5000), "malformed response", ""},
		{"too many fields", ok + strings.Repeat("A: b\r\n", 60) + "\r\n", "malformed response", ""},
		{"informational without end", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20), "malformed response", ""},
		{"protocol switched", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "malformed response", ""},
		{"nothing", "", "closed the connection before", ""},
		{"half a header", ok + "Content-", "unexpected EOF", ""},
		{"half a body", ok + "Content-Length: 10\r\n\r\n12345", "", "unexpected EOF"},
		{"half a chunk", ok + "Transfer-Encoding: chunked\r\n\r\na\r\n12345", "", "unexpected EOF"},
		{"no last chunk", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n", "", "unexpected EOF"},
		{"bad chunk", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\n12345x\r\n", "", "malformed response"},
		{"trailer without end", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\nA: " + big(5000), "", "malformed response"},
		{"body to the end", ok + "\r\n12345", "", ""},
		{"body to the end of 1.0", "HTTP/1.0 200\r\n\r\n12345", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := scripted(t, func(_ int, c *raw) {
				if _, _, ok := c.request(); ok {
					_, _ = io.WriteString(c, tt.answer)
				}
			})
			tr := transport(t, &Transport{MaxHeaderBytes: 4096, MaxHeaderCount: 50})
			resp, err := tr.RoundTrip(request(t, "GET", url, nil))
			if tt.head != "" {
				if err == nil || !strings.Contains(err.Error(), tt.head) {
					t.Fatalf("%v, %v, want %q", resp, err, tt.head)
				}
				testkit.Eventually(t, "the connection to be forgotten", func() bool { return tr.Stats().Open == 0 })
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if string(b) != "12345" || (err == nil) != (tt.body == "") || err != nil && !strings.Contains(err.Error(), tt.body) {
				t.Errorf("%q, %v, want %q", b, err, tt.body)
			}
			_ = resp.Body.Close()
			testkit.Eventually(t, "the connection to be forgotten", func() bool { return tr.Stats().Open == 0 })
		})
	}
}

// Responses arrive in any pieces.
func TestTransportByteByByte(t *testing.T) {
	const answer = "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\n12345\r\n1\r\n6\r\n0\r\nT: v\r\n\r\n"
	url := scripted(t, func(_ int, c *raw) {
		for {
			if _, _, ok := c.request(); !ok {
				return
			}
			for i := range len(answer) {
				c.send(answer[i : i+1])
			}
		}
	})
	tr := transport(t, &Transport{})
	for range 3 {
		resp, err := tr.RoundTrip(request(t, "GET", url, nil))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if string(b) != "123456" || err != nil || resp.Trailer.Get("T") != "v" {
			t.Errorf("%q, %v, %v", b, err, resp.Trailer)
		}
	}
	if s := tr.Stats(); s.Reused != 2 || s.Open != 1 {
		t.Errorf("%+v", s)
	}
}

// A Content-Length that is repeated with the same value counts once, as in net/http's client, and the connection goes on.
func TestTransportRepeatedLength(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\ncontent-length:  5 \r\nContent-Length: 5\r\nZ: z\r\n\r\n"
	url := scripted(t, func(_ int, c *raw) {
		for {
			r, _, ok := c.request()
			if !ok {
				return
			}
			c.send(answer)
			if r.Method != "HEAD" {
				c.send("12345")
			}
		}
	})
	tr := transport(t, &Transport{})
	for _, method := range []string{"GET", "HEAD", "GET"} {
		resp, err := tr.RoundTrip(request(t, method, url, nil))
		if err != nil {
			t.Fatal(err)
		}
		want := "12345"
		if method == "HEAD" {
			want = ""
		}
		b, err := io.ReadAll(resp.Body)
		if string(b) != want || err != nil || resp.ContentLength != 5 {
			t.Errorf("%s: %q, %v, length %d", method, b, err, resp.ContentLength)
		}
		if got := fmt.Sprint(resp.Header); got != "map[Content-Length:[5] X:[y] Z:[z]]" {
			t.Errorf("%s: %s", method, got)
		}
	}
	if s := tr.Stats(); s.Reused != 2 || s.Open != 1 {
		t.Errorf("%+v", s)
	}
}

// A request that meets a connection which the server has just given up is sent once more, if that is harmless.
func TestTransportRetriesOnce(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		body         io.Reader
		key          bool
		retried      bool
	}{
		{"get", "GET", nil, false, true},
		{"put with a body that can be had again", "PUT", strings.NewReader("abc"), false, true},
		{"put with one that cannot", "PUT", io.MultiReader(strings.NewReader("abc")), false, false},
		{"post", "POST", strings.NewReader("abc"), false, false},
		{"post with a key", "POST", strings.NewReader("abc"), true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := scripted(t, func(n int, c *raw) {
				for i := 0; ; i++ {
					_, body, ok := c.request()
					if !ok || n == 0 && i == 1 {
						return
					}
					c.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
				}
			})
			tr := transport(t, &Transport{})
			for i, r := range []*http.Request{request(t, "GET", url, nil), request(t, tt.method, url, tt.body)} {
				if tt.key {
					r.Header.Set("Idempotency-Key", "1")
				}
				resp, err := tr.RoundTrip(r)
				if i == 1 && !tt.retried {
					if !errors.Is(err, ErrStale) {
						t.Errorf("%v", err)
					}
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				if want := map[bool]string{true: "abc"}[i == 1 && tt.body != nil]; string(b) != want || err != nil {
					t.Errorf("%q, %v", b, err)
				}
			}
			if n := tr.Stats().Retried; n != map[bool]uint64{true: 1}[tt.retried] {
				t.Errorf("retried %d times", n)
			}
		})
	}
}

// A request to a server that always closes fails after the second attempt.
func TestTransportGivesUp(t *testing.T) {
	var seen atomic.Int32
	url := scripted(t, func(n int, c *raw) {
		for i := 0; ; i++ {
			if _, _, ok := c.request(); !ok {
				return
			}
			seen.Add(1)
			if n > 0 || i > 0 {
				return
			}
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	tr := transport(t, &Transport{})
	if _, err := tr.RoundTrip(request(t, "GET", url, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.RoundTrip(request(t, "GET", url, nil)); !errors.Is(err, ErrStale) {
		t.Errorf("%v", err)
	}
	if n := seen.Load(); n != 3 {
		t.Errorf("%d requests seen, want 3", n)
	}
}

// The end of the request's context ends it at every stage.
func TestTransportCancel(t *testing.T) {
	hold := make(chan struct{})
	url := scripted(t, func(_ int, c *raw) {
		req, err := http.ReadRequest(c.br)
		if err != nil {
			return
		}
		if req.URL.Path == "/body" {
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
		}
		<-hold
	})
	defer close(hold)
	newTr := func() *Transport { return transport(t, &Transport{MaxConns: 1}) }
	closed := new(atomic.Bool)
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := newTr().RoundTrip(request(t, "POST", url, closeNoter{strings.NewReader("x"), closed}).WithContext(ctx))
		if !errors.Is(err, context.Canceled) || !closed.Load() {
			t.Errorf("%v, body closed: %v", err, closed.Load())
		}
	})
	t.Run("waiting for the header", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		tr := newTr()
		if _, err := tr.RoundTrip(request(t, "GET", url, nil).WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		testkit.Eventually(t, "the connection to end", func() bool { return tr.Stats().Open == 0 })
	})
	t.Run("waiting for a connection", func(t *testing.T) {
		tr := newTr()
		first, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := tr.RoundTrip(request(t, "GET", url, nil).WithContext(first))
			ended <- err
		}()
		testkit.Eventually(t, "the first request", func() bool { return tr.Stats().Open == 1 })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		if _, err := tr.RoundTrip(request(t, "GET", url, nil).WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) || tr.Stats().Waiting != 0 {
			t.Errorf("%v, %+v", err, tr.Stats())
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("reading the body", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tr := newTr()
		resp, err := tr.RoundTrip(request(t, "GET", url+"/body", nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		go cancel()
		if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("sending the body", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		pr, pw := io.Pipe() // whose Read waits until it is closed
		defer func() { _ = pw.Close() }()
		if _, err := newTr().RoundTrip(request(t, "POST", url, pr).WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := pw.Write([]byte("x")); err == nil {
			t.Error("the body was not closed")
		}
	})
	t.Run("closing an unread body", func(t *testing.T) {
		tr := newTr()
		resp, err := tr.RoundTrip(request(t, "GET", url+"/body", nil).WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		testkit.Eventually(t, "the connection to end", func() bool { return tr.Stats().Open == 0 })
	})
	t.Run("closing the transport", func(t *testing.T) {
		tr := newTr()
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := tr.RoundTrip(request(t, "GET", url, nil))
				errs <- err
			}()
		}
		testkit.Eventually(t, "one to wait", func() bool { return tr.Stats().Waiting == 1 })
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-errs; !errors.Is(err, ErrTransportClosed) {
				t.Error(err)
			}
		}
		if _, err := tr.RoundTrip(request(t, "GET", url, nil)); !errors.Is(err, ErrTransportClosed) {
			t.Error(err)
		}
	})
}

type closeNoter struct {
	io.Reader
	closed *atomic.Bool
}

func (c closeNoter) Close() error { c.closed.Store(true); return nil }

func TestTransportHeaderTimeout(t *testing.T) {
	asked, hold := make(chan struct{}), make(chan struct{})
	url := scripted(t, func(_ int, c *raw) {
		c.send("HTTP/1.1 200 OK\r\n")
		c.request()
		close(asked)
		<-hold
	})
	defer close(hold)
	tr, clock := transportOnClock(t, &Transport{ResponseHeaderTimeout: timeout})
	outcome := make(chan error, 1)
	r := request(t, "GET", url, nil)
	go func() {
		_, err := tr.RoundTrip(r)
		outcome <- err
	}()
	testkit.Receive(t, "the request", asked)
	clock.Advance(0) // the loop has seen that it is written
	clock.Advance(timeout - tick)
	select {
	case err := <-outcome:
		t.Fatalf("before the time is over: %v", err)
	default:
	}
	clock.Advance(2 * tick)
	err := testkit.Receive(t, "the outcome", outcome)
	var te net.Error
	if !errors.As(err, &te) || !te.Timeout() {
		t.Errorf("%v", err)
	}
}

// roundTrip makes a request and reads its response to the end.
func roundTrip(tr *Transport, r *http.Request) error {
	resp, err := tr.RoundTrip(r)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
	}
	return err
}

// The limits on connections hold, requests beyond them wait in order, and beyond MaxWaiting they are refused.
func TestTransportLimits(t *testing.T) {
	var now, most atomic.Int32
	goOn := make(chan struct{})
	handler := func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		<-goOn
		now.Add(-1)
		hello(w, r)
	}
	a, b := start(t, handler), start(t, handler)
	tr := transport(t, &Transport{MaxConns: 3, MaxConnsPerHost: 2, MaxWaiting: 5})
	errs := make(chan error, 8)
	for i := range 8 {
		url := []string{"http://" + a.addr, "http://" + b.addr}[i%2]
		go func() {
			errs <- roundTrip(tr, request(t, "GET", url, nil))
		}()
	}
	testkit.Eventually(t, "all to be placed", func() bool { s := tr.Stats(); return s.Open == 3 && s.Waiting == 5 })
	if _, err := tr.RoundTrip(request(t, "GET", "http://"+a.addr, nil)); !errors.Is(err, ErrTransportBusy) {
		t.Errorf("one too many: %v", err)
	}
	close(goOn)
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if most.Load() > 3 || tr.Stats().Open > 3 || tr.Stats().Waiting != 0 {
		t.Errorf("%d at a time, %+v", most.Load(), tr.Stats())
	}
}

// Requests that wait for a host that does not answer keep nobody from waiting for another one: the latest of them is told that it is one too many. Each
// ends once, and nothing is left of the hosts.
func TestTransportStuckHost(t *testing.T) {
	goOn, stay := make(chan struct{}), make(chan struct{})
	stuck := start(t, func(w http.ResponseWriter, r *http.Request) { <-stay; hello(w, r) })
	busy := start(t, func(w http.ResponseWriter, r *http.Request) { <-goOn; hello(w, r) })
	tr := transport(t, &Transport{MaxConnsPerHost: 1, MaxWaiting: 3})
	ask := func(s *server) <-chan error {
		done := make(chan error, 1)
		was := tr.Stats()
		go func() {
			done <- roundTrip(tr, request(t, "GET", s.url("/"), nil))
		}()
		testkit.Eventually(t, "the request to be placed", func() bool { return tr.Stats().Requests == was.Requests+1 })
		return done
	}
	var hung, served []<-chan error
	for n := range 4 {
		hung = append(hung, ask(stuck))
		testkit.Eventually(t, "a place", func() bool { st := tr.Stats(); return st.Open == 1 && st.Waiting == n })
	}
	for range 2 {
		served = append(served, ask(busy))
	}
	if err := testkit.Receive(t, "the latest", hung[3]); !errors.Is(err, ErrTransportBusy) {
		t.Errorf("the latest that waits for the host that is stuck: %v", err)
	}
	if st := tr.Stats(); st.Waiting != 3 || st.Open != 2 {
		t.Errorf("%+v", st)
	}
	if err := testkit.Receive(t, "one too many of the other host", ask(busy)); !errors.Is(err, ErrTransportBusy) {
		t.Errorf("one too many where both have the same: %v", err)
	}
	close(goOn)
	for _, done := range served {
		if err := testkit.Receive(t, "an answer", done); err != nil {
			t.Errorf("the other host: %v", err)
		}
	}
	close(stay)
	for _, done := range hung[:3] {
		if err := testkit.Receive(t, "an answer", done); err != nil {
			t.Errorf("behind it: %v", err)
		}
	}
	tr.CloseIdleConnections()
	testkit.Eventually(t, "no connection", func() bool { return tr.Stats().Open == 0 })
	expectHosts(t, tr, 0)
}

func expectHosts(t *testing.T, tr *Transport, n int) {
	t.Helper()
	tr.conns.mu.Lock()
	defer tr.conns.mu.Unlock()
	if len(tr.conns.hosts) != n {
		t.Errorf("%d hosts, want %d", len(tr.conns.hosts), n)
	}
}

// A request to a host that has no connection, and is one too many, leaves nothing of its host.
func TestTransportRefusedHost(t *testing.T) {
	goOn := make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) { <-goOn; hello(w, r) })
	tr := transport(t, &Transport{MaxConns: 1, MaxWaiting: 1})
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() {
			if err := roundTrip(tr, request(t, "GET", s.url("/"), nil)); err != nil {
				t.Error(err)
			}
		})
		testkit.Eventually(t, "a place", func() bool { st := tr.Stats(); return st.Open == 1 && st.Waiting == n })
	}
	if _, err := tr.RoundTrip(request(t, "GET", "http://other.example", nil)); !errors.Is(err, ErrTransportBusy) {
		t.Errorf("one too many: %v", err)
	}
	expectHosts(t, tr, 1)
	close(goOn)
	wg.Wait()
}

// Of the hosts for whose connections there is no room, the one comes first whose request has waited longest, however many others there are; a request that is
// given up leaves nothing of its host.
func TestTransportOrderOfHosts(t *testing.T) {
	var order sync.Map
	var served atomic.Int32
	goOn := make(chan struct{})
	handler := func(w http.ResponseWriter, r *http.Request) {
		<-goOn
		order.Store(r.URL.Path, served.Add(1))
		hello(w, r)
	}
	a, b, c := start(t, handler), start(t, handler), start(t, handler)
	tr := transport(t, &Transport{MaxConns: 1})
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for n, q := range []struct {
		s    *server
		path string
	}{{a, "/0"}, {a, "/1"}, {b, "/2"}, {a, "/3"}, {c, "/gone"}, {b, "/4"}, {a, "/5"}} {
		wg.Go(func() {
			r := request(t, "GET", q.s.url(q.path), nil)
			if q.path == "/gone" {
				r = r.WithContext(ctx)
			}
			if err := roundTrip(tr, r); q.path == "/gone" && !errors.Is(err, context.Canceled) || q.path != "/gone" && err != nil {
				t.Errorf("%s: %v", q.path, err)
			}
		})
		testkit.Eventually(t, "a place", func() bool { st := tr.Stats(); return st.Open == 1 && st.Waiting == n })
	}
	cancel()
	testkit.Eventually(t, "one to give up", func() bool { return tr.Stats().Waiting == 5 })
	expectHosts(t, tr, 2)
	close(goOn)
	wg.Wait()
	for n := range int32(6) {
		if place, _ := order.Load(fmt.Sprint("/", n)); place != n+1 {
			t.Errorf("request %d was the %v. of all", n, place)
		}
	}
}

// The limit of one host holds by itself.
func TestTransportHostLimit(t *testing.T) {
	goOn := make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) { <-goOn; hello(w, r) })
	tr := transport(t, &Transport{MaxConnsPerHost: 2})
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := roundTrip(tr, request(t, "GET", s.url("/"), nil)); err != nil {
				t.Error(err)
			}
		})
	}
	testkit.Eventually(t, "all to be placed", func() bool { st := tr.Stats(); return st.Requests == 5 && st.Open+st.Waiting == 5 })
	if st := tr.Stats(); st.Open != 2 {
		t.Errorf("%+v", st)
	}
	close(goOn)
	wg.Wait()
}

// The second attempt takes a new connection, not another one that may be stale too.
func TestTransportRetriesOnNewConnection(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	url := scripted(t, func(n int, c *raw) {
		for i := 0; ; i++ {
			if _, _, ok := c.request(); !ok || n < 2 && i > 0 {
				return
			}
			if n < 2 {
				both.Done()
				both.Wait() // so that there are two connections
			}
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	tr := transport(t, &Transport{})
	get := func() {
		if _, err := tr.RoundTrip(request(t, "GET", url, nil)); err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(get)
	}
	wg.Wait()
	get()
	if st := tr.Stats(); st.Retried != 1 {
		t.Errorf("%+v", st)
	}
}

// A connection whose server answered before it had the whole request is not used again.
func TestTransportEarlyAnswer(t *testing.T) {
	var conns atomic.Int32
	url := scripted(t, func(n int, c *raw) {
		conns.Store(int32(n + 1))
		for {
			if _, err := http.ReadRequest(c.br); err != nil {
				return
			}
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	tr := transport(t, &Transport{})
	pr, pw := io.Pipe()
	defer func() { _ = pw.Close() }()
	for _, r := range []*http.Request{request(t, "POST", url, pr), request(t, "GET", url, nil)} {
		if resp, err := tr.RoundTrip(r); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v, %v", resp, err)
		}
	}
	if conns.Load() != 2 {
		t.Errorf("%d connections", conns.Load())
	}
}

// lateEnd is a body whose end is read late.
type lateEnd struct {
	io.Reader
	end chan struct{}
}

func (b lateEnd) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		<-b.end
	}
	return n, err
}

// A server may answer a whole body before the client has noticed its end. The connection waits for that, but not for long.
func TestTransportAnswerBeforeTheEnd(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	for name, late := range map[string]bool{"a moment later": false, "too late": true} {
		t.Run(name, func(t *testing.T) {
			tr, clock := transportOnClock(t, &Transport{})
			body := lateEnd{strings.NewReader("all of it"), make(chan struct{})}
			r := request(t, "POST", s.url("/"), body)
			r.ContentLength = int64(len("all of it"))
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "all of it" {
				t.Fatalf("%q %v", got, err)
			}
			clock.Advance(bodyGrace - tick)
			if st := tr.Stats(); st.Open != 1 || st.Idle != 0 {
				t.Errorf("%+v", st)
			}
			if late {
				clock.Advance(2 * tick)
				testkit.Eventually(t, "the connection to be closed", func() bool { return tr.Stats().Open == 0 })
				close(body.end)
				return
			}
			close(body.end)
			testkit.Eventually(t, "the connection to be idle", func() bool { return tr.Stats().Idle == 1 })
			clock.Advance(2 * bodyGrace)
			resp, err = tr.RoundTrip(request(t, "GET", s.url("/"), nil))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if st := tr.Stats(); st.Reused != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A server that answers without the body that it was asked to expect gets no other request on that connection, which does not wait for the
// body's end.
func TestTransportAnswerInsteadOfContinue(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	url := scripted(t, func(_ int, c *raw) {
		if _, err := http.ReadRequest(c.br); err != nil {
			return
		}
		c.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
		<-over
	})
	tr, _ := transportOnClock(t, &Transport{ExpectContinueTimeout: time.Hour}) // whose clock stands
	r := request(t, "POST", url, strings.NewReader("secret"))
	r.Header.Set("Expect", "100-continue")
	resp, err := tr.RoundTrip(r)
	if err != nil || resp.StatusCode != 401 {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	testkit.Eventually(t, "the connection to be closed", func() bool { return tr.Stats().Open == 0 })
}

// The end of a request that is over leaves its connection alone, which may serve another one.
func TestTransportLateCancel(t *testing.T) {
	s := start(t, hello)
	tr := transport(t, &Transport{})
	for i := range 3 {
		resp, err := tr.RoundTrip(request(t, "GET", s.url("/"), nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		b := resp.Body.(*clientBody)
		b.cc.abort(b.call, context.Canceled)
		if st := tr.Stats(); st.Reused != uint64(i) {
			t.Errorf("%+v", st)
		}
		done := make(chan struct{})
		if err := b.cc.conn.Post(func() { close(done) }); err != nil { // behind what abort has posted
			t.Fatal(err)
		}
		<-done
	}
}

// Idle connections are bounded in number and time, and make room for other hosts.
func TestTransportIdle(t *testing.T) {
	s := start(t, hello)
	get := func(t *testing.T, tr *Transport, url string) {
		resp, err := tr.RoundTrip(request(t, "GET", url, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("number", func(t *testing.T) {
		tr := transport(t, &Transport{MaxIdlePerHost: 2})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { get(t, tr, s.url("/")) })
		}
		wg.Wait()
		testkit.Eventually(t, "two to be left", func() bool { st := tr.Stats(); return st.Open <= 2 && st.Idle == st.Open })
		tr.CloseIdleConnections()
		testkit.Eventually(t, "none to be left", func() bool { st := tr.Stats(); return st.Open == 0 && st.Idle == 0 })
	})
	t.Run("time", func(t *testing.T) {
		tr, clock := transportOnClock(t, &Transport{IdleTimeout: timeout})
		get(t, tr, s.url("/"))
		testkit.Eventually(t, "the connection to be idle", func() bool { return tr.Stats().Idle == 1 })
		clock.Advance(timeout - tick)
		if st := tr.Stats(); st.Open != 1 {
			t.Errorf("before the time is over: %+v", st)
		}
		clock.Advance(2 * tick)
		testkit.Eventually(t, "the connection to end", func() bool { return tr.Stats().Open == 0 })
	})
	t.Run("room", func(t *testing.T) {
		other := start(t, hello)
		tr := transport(t, &Transport{MaxConns: 1})
		for range 5 {
			get(t, tr, s.url("/"))
			get(t, tr, other.url("/"))
		}
		if st := tr.Stats(); st.Open != 1 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("unsolicited", func(t *testing.T) {
		url := scripted(t, func(_ int, c *raw) {
			c.request()
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
			c.request()
		})
		tr := transport(t, &Transport{})
		get(t, tr, url)
		testkit.Eventually(t, "the connection to end", func() bool { return tr.Stats().Open == 0 })
	})
}

// A response that nobody reads holds the server back.
func TestTransportBackpressure(t *testing.T) {
	const size = 16 << 20
	var sent atomic.Int64
	marks := eddy.Watermarks{Low: 64 << 10, High: 256 << 10, Max: 1 << 20}
	s := startWith(t, setup{narrow: true, marks: marks, handler: func(w http.ResponseWriter, _ *http.Request) {
		for range size >> 16 {
			if _, err := io.WriteString(w, big(1<<16)); err != nil {
				return
			}
			sent.Add(1 << 16)
		}
	}})
	tr := transport(t, &Transport{BodyBuffer: 32 << 10})
	resp, err := tr.RoundTrip(request(t, "GET", s.url("/"), nil))
	if err != nil {
		t.Fatal(err)
	}
	b := resp.Body.(*clientBody)
	testkit.Eventually(t, "the pipe to fill", b.Holds)
	testkit.Eventually(t, "the server to stand still", stands(&sent))
	last := sent.Load()
	if last >= size/2 {
		t.Errorf("the server could send %d bytes to a client that reads none", last)
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// R239: the callback form delivers response and body on the loop, and so do failures.
func TestTransportCallbacks(t *testing.T) {
	s := start(t, site().ServeHTTP)
	group := &eddy.Group{Loops: 2}
	t.Cleanup(func() { _ = group.Close() })
	tr := transport(t, &Transport{Group: group})
	type outcome struct {
		status int
		body   string
		err    error
		onLoop bool
	}
	ask := func(method, url, body string, most int64) outcome {
		result := make(chan outcome, 1)
		err := tr.Do(request(t, method, url, strings.NewReader(body)), func(resp *http.Response, err error) {
			if err != nil {
				result <- outcome{err: err, onLoop: tr.onLoop()}
				return
			}
			if _, err := tr.RoundTrip(request(t, "GET", url, nil)); !errors.Is(err, eddy.ErrOnLoop) {
				t.Errorf("RoundTrip on a loop: %v", err)
			}
			if err := tr.Close(); !errors.Is(err, eddy.ErrOnLoop) {
				t.Errorf("Close on a loop: %v", err)
			}
			if err := ReadBody(resp, most, func(b []byte, err error) { result <- outcome{resp.StatusCode, string(b), err, tr.onLoop()} }); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		o := testkit.Receive(t, "the outcome", result)
		if !o.onLoop {
			t.Errorf("%s: not on a loop", url)
		}
		return o
	}
	if o := ask("GET", s.url("/large"), "", 5<<20); o.err != nil || o.body != strings.Repeat(big(33333), 100) {
		t.Errorf("%d bytes, %v", len(o.body), o.err)
	}
	if o := ask("POST", s.url("/echo"), "abc", 3); o.err != nil || o.body != "abc" {
		t.Errorf("%+v", o)
	}
	if o := ask("GET", s.url("/nothing"), "", 0); o.err != nil || o.status != 204 || o.body != "" {
		t.Errorf("%+v", o)
	}
	if o := ask("POST", s.url("/echo"), "abcd", 3); !errors.Is(o.err, ErrBodyTooLong) {
		t.Errorf("%+v", o)
	}
	if o := ask("GET", "http://127.0.0.1:1/", "", 3); o.err == nil {
		t.Errorf("%+v", o)
	}
	if o := ask("GET", "http://name.invalid/", "", 3); o.err == nil {
		t.Errorf("%+v", o)
	}
}

// Requests that cannot be sent are refused before anything is.
func TestTransportRefusals(t *testing.T) {
	tr := transport(t, &Transport{})
	for name, change := range map[string]func(*http.Request){
		"scheme": func(r *http.Request) { r.URL.Scheme = "ftp" },
		"host":   func(r *http.Request) { r.URL.Host = "" },
		"Host":   func(r *http.Request) { r.Host = "a\r\nb" },
		"method": func(r *http.Request) { r.Method = "G ET" },
		"tunnel": func(r *http.Request) { r.Method = "CONNECT" },
		"target": func(r *http.Request) { r.URL.Opaque = "/a b" },
		"name":   func(r *http.Request) { r.Header["A b"] = []string{"c"} },
		"value":  func(r *http.Request) { r.Header["A"] = []string{"b\r\nC: d"} },
		"trailer": func(r *http.Request) {
			r.Body, r.ContentLength, r.Trailer = io.NopCloser(strings.NewReader("x")), -1, http.Header{"Content-Length": nil}
		},
	} {
		r := request(t, "GET", "http://127.0.0.1:1/", nil)
		change(r)
		if resp, err := tr.RoundTrip(r); err == nil || !strings.HasPrefix(err.Error(), "http1: ") {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
	for field, bad := range map[string]*Transport{"MaxConns": {MaxConns: -1}, "ConnectTimeout": {ConnectTimeout: -1}} {
		if _, err := bad.RoundTrip(request(t, "GET", "http://a/", nil)); err == nil || !strings.Contains(err.Error(), "http1: Transport."+field+" is -1") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// A body that does not match its ContentLength ends the request and the connection.
func TestTransportBodyLength(t *testing.T) {
	s := start(t, echo)
	tr := transport(t, &Transport{})
	for _, length := range []int64{2, 4} {
		r := request(t, "POST", s.url("/"), io.MultiReader(strings.NewReader("abc")))
		r.ContentLength = length
		if _, err := tr.RoundTrip(r); err == nil || !strings.Contains(err.Error(), "ContentLength") {
			t.Errorf("length %d: %v", length, err)
		}
	}
	testkit.Eventually(t, "the connections to end", func() bool { return tr.Stats().Open == 0 })
}

// Many requests at once, of all kinds, over few connections.
func TestTransportStress(t *testing.T) {
	s := start(t, site().ServeHTTP)
	tr := transport(t, &Transport{MaxConnsPerHost: 6, MaxIdlePerHost: 3})
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			for j := range 30 {
				ctx, cancel := context.WithCancel(t.Context())
				want := big((i*31 + j*997) % 70000)
				r, err := http.NewRequestWithContext(ctx, "POST", s.url("/echo"), strings.NewReader(want))
				if err != nil {
					t.Error(err)
				}
				if j%7 == 3 {
					time.AfterFunc(time.Duration(j)*50*time.Microsecond, cancel)
				}
				resp, err := tr.RoundTrip(r)
				if err == nil {
					var b []byte
					if b, err = io.ReadAll(resp.Body); err == nil && !bytes.Equal(b, []byte(want)) {
						t.Errorf("%d bytes instead of %d", len(b), len(want))
					}
					_ = resp.Body.Close()
				}
				if err != nil && (j%7 != 3 || !errors.Is(err, context.Canceled)) {
					t.Errorf("%d %d: %v", i, j, err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	testkit.Eventually(t, "connections to be idle or gone", func() bool { st := tr.Stats(); return st.Open == st.Idle && st.Waiting == 0 && st.Open <= 3 })
}
