package http1

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// newPool returns a pool that is closed when the test is over. Make it before the server that uses it.
func newPool(t *testing.T, o executor.Options) *executor.Pool {
	t.Helper()
	p, err := executor.NewFixed(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// Each request runs on the pool that its route names. A full pool refuses its own requests, before a body and behind an
// awaited one, but no requests of other pools.
func TestRoutes(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{}, 3)
	slow := newPool(t, executor.Options{Name: "slow", Workers: 1, Queue: 1})
	mux := http.NewServeMux()
	mux.HandleFunc("/", echo)
	mux.HandleFunc("/slow/{id}", func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-release
		echo(w, r)
	})
	s := startWith(t, setup{handler: mux.ServeHTTP, opts: Options{Route: func(r *http.Request) Route {
		if _, pattern := mux.Handler(r); pattern != "/slow/{id}" {
			return Route{}
		}
		if r.Method == http.MethodPost {
			return Route{Pool: slow, Await: 100}
		}
		return Route{Pool: slow}
	}}})
	first, second, third := s.dial(), s.dial(), s.dial()
	first.send("GET /slow/1 HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Receive(t, "the first", entered)
	second.send("GET /slow/2 HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Eventually(t, "a queued request", func() bool { return slow.Stats().Queued == 1 })
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/slow/3", "", 503}, {"GET", "/other", "", 200}, {"POST", "/slow/4", "abc", 503}, {"PUT", "/slow/5", "abc", 503}, {"POST", "/", "abc", 200},
	} {
		third.send(tt.method + " " + tt.path + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(len(tt.body)) + "\r\n\r\n" + tt.body)
		resp, body := third.response(tt.method)
		if resp.StatusCode != tt.status || resp.Close || (resp.Header.Get("Retry-After") != "") != (tt.status == 503) {
			t.Errorf("%s %s: %d %v close=%v", tt.method, tt.path, resp.StatusCode, resp.Header, resp.Close)
		}
		if want := tt.method + " " + tt.path + " " + tt.body; tt.status == 200 && body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
	close(release)
	for i, c := range []*raw{first, second} {
		if resp, _ := c.response("GET"); resp.StatusCode != 200 {
			t.Errorf("request %d: %d", i, resp.StatusCode)
		}
	}
	testkit.Eventually(t, "the workers to be free", func() bool { return slow.Stats().Completed == 2 && s.pool.Stats().Completed == 2 })
	if n := s.f.Stats().Busy; n != 3 {
		t.Errorf("%d busy answers counted", n)
	}
	s.keeps(0)
}

// The requests of a pool that was stopped are answered 503, and their connections go on with the others.
func TestRouteToStoppedPool(t *testing.T) {
	stopped := newPool(t, executor.Options{})
	s := startWith(t, setup{handler: echo, opts: Options{Route: func(r *http.Request) Route {
		if r.URL.Path == "/stopped" {
			return Route{Pool: stopped, Await: 100}
		}
		return Route{}
	}}})
	c := s.dial()
	post := func(path, body string) (*http.Response, string) {
		c.send("POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n" + body)
		return c.response("POST")
	}
	if _, body := post("/stopped", "abc"); body != "POST /stopped abc" {
		t.Fatalf("%q", body)
	}
	c.send("POST /stopped HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nd")
	s.keeps(1)
	if _, err := stopped.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	c.send("ef")
	if resp, _ := c.response("POST"); resp.StatusCode != 503 || resp.Close {
		t.Errorf("stopped while the body came: %d close=%v", resp.StatusCode, resp.Close)
	}
	if resp, _ := post("/stopped", "abc"); resp.StatusCode != 503 || resp.Close {
		t.Errorf("stopped: %d close=%v", resp.StatusCode, resp.Close)
	}
	if _, body := post("/", "abc"); body != "POST / abc" {
		t.Errorf("then %q", body)
	}
	s.keeps(0)
}

// Route is shown the head and no body; one that panics ends its connection only.
func TestRouteIsShownTheHead(t *testing.T) {
	s := startWith(t, setup{handler: echo, opts: Options{Route: func(r *http.Request) Route {
		if r.URL.Path == "/panic" {
			panic("route")
		}
		b, err := io.ReadAll(r.Body)
		if err != nil || len(b) > 0 || r.Method != "POST" || r.URL.Path != "/a" || r.Host != "example.org" || r.Header.Get("X-One") != "1" ||
			r.ContentLength != 3 || r.RemoteAddr == "" || r.Context().Err() != nil {
			t.Errorf("%+v with the body %q, %v", r, b, err)
		}
		return Route{}
	}}})
	c := s.dial()
	c.send("POST /a?b HTTP/1.1\r\nHost: example.org\r\nX-One: 1\r\nContent-Length: 3\r\n\r\nabc")
	if _, body := c.response("POST"); body != "POST /a?b abc" {
		t.Errorf("%q", body)
	}
	bad := s.dial()
	bad.send("GET /panic HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := bad.rest(); got != "" {
		t.Errorf("after a panic: %q", got)
	}
	s.waitClosed(eddy.CloseInternalError, 1)
	s.lives(1)
}
