package http1

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// loopSite answers /loop... on the loop and leaves the rest to the pool.
func loopSite(w *LoopResponse, r *LoopRequest) bool {
	w.AddHeader("X-Bad", "a\r\nb")
	_, _ = w.WriteString("left over, unless the loop answers; ")
	if !strings.HasPrefix(string(r.Path()), "/loop") {
		return false
	}
	w.Body = w.Body[:0]
	switch string(r.Path()) {
	case "/loop/none":
		w.SetStatus(http.StatusNoContent)
		_, _ = w.Write([]byte("not sent"))
		return true
	case "/loop/close":
		w.Close()
	case "/loop/panic":
		w.SetStatus(99)
	}
	agent, ok := r.Header("user-AGENT")
	w.AddHeader("X-Agent", fmt.Sprintf("%s %v", agent, ok))
	w.AddHeader("Content-Length", "3")
	_, _ = fmt.Fprintf(w, "%s %s %s %s", r.Method(), r.Path(), r.Query(), r.Body())
	return true
}

func TestLoopHandler(t *testing.T) {
	s := startWith(t, setup{handler: echo, opts: Options{OnLoop: loopSite, BodyBuffer: 1 << 10}})
	const host = " HTTP/1.1\r\nHost: a\r\n"
	for _, tt := range []struct {
		name, in string
		status   int
		body     string
		close    bool
	}{
		{"get", "GET /loop?a=b" + host + "User-Agent: x\r\n\r\n", 200, "GET /loop a=b ", false},
		{"post", "POST /loop" + host + "Content-Length: 3\r\n\r\nabc", 200, "POST /loop  abc", false},
		{"head", "HEAD /loop" + host + "\r\n", 200, "", false},
		{"no content", "GET /loop/none" + host + "\r\n", 204, "", false},
		{"close", "GET /loop/close" + host + "\r\n", 200, "GET /loop/close  ", true},
		{"client closes", "GET /loop" + host + "Connection: close\r\n\r\n", 200, "GET /loop  ", true},
		{"1.0", "GET /loop HTTP/1.0\r\n\r\n", 200, "GET /loop  ", true},
		{"1.0 keep-alive", "GET /loop HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, "GET /loop  ", false},
		{"left to the pool", "POST /pool" + host + "Content-Length: 3\r\n\r\nabc", 200, "POST /pool abc", false},
		{"long body", "POST /loop" + host + "Content-Length: 2000\r\n\r\n" + big(2000), 200, "POST /loop " + big(2000), false},
		{"chunked", "POST /loop" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200, "POST /loop abc", false},
		{"refused", "GET /loop" + host + "Host: b\r\n\r\n", 400, "more than one Host field\n", true},
		{"body over the limit", "POST /loop" + host + "Content-Length: 99999999\r\n\r\n", 413, "body over the limit of 8388608\n", true},
	} {
		for _, step := range []int{len(tt.in), 1} {
			t.Run(fmt.Sprintf("%s by %d", tt.name, step), func(t *testing.T) {
				c := s.dial()
				for i := 0; i < len(tt.in); i += step {
					c.send(tt.in[i:min(i+step, len(tt.in))])
				}
				method, _, _ := strings.Cut(tt.in, " ")
				resp, body := c.response(method)
				if resp.StatusCode != tt.status || body != tt.body || resp.Close != tt.close || resp.Header.Get("Date") == "" && tt.status < 400 {
					t.Errorf("%d %q close=%v %v", resp.StatusCode, body, resp.Close, resp.Header)
				}
				if resp.Header.Get("X-Bad") != "" || tt.name == "get" && resp.Header.Get("X-Agent") != "x true" {
					t.Errorf("%v", resp.Header)
				}
				if tt.close {
					if more := c.rest(); more != "" {
						t.Errorf("more: %q", more)
					}
					return
				}
				c.send("GET /loop" + host + "\r\n")
				if _, body := c.response("GET"); body != "GET /loop  " {
					t.Errorf("then %q", body)
				}
			})
		}
	}
	if n := s.f.Stats().InvalidFields; n == 0 {
		t.Error("the fields that cannot be sent were not counted")
	}
}

// Answers of the loop and of the pool to pipelined requests keep their order.
func TestLoopHandlerPipelined(t *testing.T) {
	s := startWith(t, setup{handler: echo, opts: Options{OnLoop: loopSite, MaxRequests: 200}})
	c := s.dial()
	var in, want strings.Builder
	for i := range 300 {
		path := []string{"/loop", "/pool", "/loop/x"}[i%3]
		fmt.Fprintf(&in, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n%03d", path, i)
		fmt.Fprintf(&want, "POST %s %03d\n", path, i)
	}
	go func() { _, _ = io.WriteString(c, in.String()) }()
	var got strings.Builder
	for i := range 200 {
		resp, body := c.response("POST")
		got.WriteString(strings.ReplaceAll(body, "  ", " ") + "\n")
		if resp.Close != (i == 199) {
			t.Errorf("response %d: close=%v", i, resp.Close)
		}
	}
	if !strings.HasPrefix(want.String(), got.String()) {
		t.Errorf("got\n%s", got.String())
	}
}

// A client that waits for 100 Continue gets it once, before its body, whether the loop or the pool answers.
func TestLoopHandlerContinue(t *testing.T) {
	s := startWith(t, setup{handler: echo, opts: Options{OnLoop: loopSite}})
	for _, path := range []string{"/loop", "/pool"} {
		c := s.dial()
		c.send("POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
		if line, err := c.br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = c.br.ReadString('\n')
		c.send("a")
		c.send("bc")
		if resp, body := c.response("POST"); resp.StatusCode != 200 || !strings.HasSuffix(body, " abc") {
			t.Errorf("%s: %d %q", path, resp.StatusCode, body)
		}
	}
}

// While the server drains, the answer to a request that had begun says that the connection ends, and it does.
func TestLoopHandlerWhileDraining(t *testing.T) {
	s := startWith(t, setup{handler: echo, opts: Options{OnLoop: loopSite}})
	c := s.dial()
	c.send("GET /loop HTTP/1.1\r\nHost: a\r\n\r\nGET /loop HTTP/1.1\r\nHo")
	if resp, _ := c.response("GET"); resp.Close {
		t.Error("closes before the drain")
	}
	testkit.Eventually(t, "the beginning of the second request", func() bool { return s.srv.Stats().Memory.Inbound > 0 })
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
	c.send("st: a\r\n\r\nGET /loop/never HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, body := c.response("GET"); resp.StatusCode != 200 || body != "GET /loop  " || !resp.Close {
		t.Errorf("%d %q close=%v", resp.StatusCode, body, resp.Close)
	}
	if more := c.rest(); more != "" {
		t.Errorf("more: %q", more)
	}
	if r := <-report; r != (eddy.DrainReport{Drained: 1}) {
		t.Errorf("%+v", r)
	}
	if n := s.closed(eddy.CloseServerShutdown); n != 1 {
		t.Errorf("%d connections ended because of the shutdown", n)
	}
}

// Without an http.Handler the rest is refused with the status that says why.
func TestLoopHandlerAlone(t *testing.T) {
	f := NewHandler(nil, nil, Options{OnLoop: loopSite, BodyBuffer: 100})
	s := &server{t: t, f: f, srv: &eddy.Server{Init: f.Init, Loops: 1}}
	s.listen()
	const host = " HTTP/1.1\r\nHost: a\r\n"
	for in, status := range map[string]int{
		"GET /pool" + host + "\r\n":                                  404,
		"POST /loop" + host + "Transfer-Encoding: chunked\r\n\r\n":   411,
		"POST /loop" + host + "Content-Length: 101\r\n\r\n":          413,
		"GET /loop" + host + "\r\n":                                  200,
		"CONNECT a:1" + host + "\r\n":                                404,
		"POST /loop" + host + "Content-Length: 3\r\n\r\nabc" + "xyz": 200,
	} {
		c := s.dial()
		c.send(in)
		if resp, _ := c.response("GET"); resp.StatusCode != status || resp.Close != (status != 200) {
			t.Errorf("%.40q: %d close=%v, want %d", in, resp.StatusCode, resp.Close, status)
		}
	}
	pool, err := executor.NewFixed(executor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for name, make := range map[string]func(){
		"nothing":      func() { NewHandler(nil, nil, Options{}) },
		"no pool":      func() { NewHandler(http.NotFoundHandler(), nil, Options{OnLoop: loopSite}) },
		"no handler":   func() { NewHandler(nil, pool, Options{OnLoop: loopSite}) },
		"only handler": func() { NewHandler(http.NotFoundHandler(), nil, Options{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			make()
		}()
	}
}

// A panic ends its connection only.
func TestLoopHandlerPanics(t *testing.T) {
	s := startWith(t, setup{handler: echo, opts: Options{OnLoop: loopSite}})
	c := s.dial()
	c.send("GET /loop/panic HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := c.rest(); got != "" {
		t.Errorf("%q", got)
	}
	s.waitClosed(eddy.CloseInternalError, 1)
	c = s.dial()
	c.send("GET /loop HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, _ := c.response("GET"); resp.StatusCode != 200 {
		t.Errorf("then %d", resp.StatusCode)
	}
}

// A body that does not come is met by the header deadline.
func TestLoopHandlerDeadline(t *testing.T) {
	s := startWith(t, setup{clock: true, handler: echo, opts: Options{OnLoop: loopSite, HeaderTimeout: timeout}})
	c := s.dial()
	c.send("POST /loop HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab")
	testkit.Eventually(t, "the request to begin", func() bool { return s.srv.Stats().Memory.Inbound > 0 })
	s.expires(timeout)
	if resp, _ := c.response("POST"); resp.StatusCode != 408 {
		t.Errorf("status %d", resp.StatusCode)
	}
	c.rest()
	s.waitClosed(eddy.CloseReadTimeout, 1)
}

// An answer of the loop costs no allocation.
func TestLoopHandlerAllocatesNothing(t *testing.T) {
	if raceEnabled || os.Getenv("EDDY_POLLER") == "net" {
		t.Skip("the race detector empties sync.Pools, and package net allocates")
	}
	s := startWith(t, setup{handler: echo, opts: Options{OnLoop: func(w *LoopResponse, r *LoopRequest) bool {
		w.AddHeader("Content-Type", "text/plain")
		_, _ = w.WriteString("hello")
		return len(r.Method()) > 0
	}}})
	c := s.dial()
	in, out := []byte(keepGet), make([]byte, 4096)
	exchange := func(n int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			if _, err := c.Write(in); err != nil {
				t.Fatal(err)
			}
			for got := 0; got < 4 || string(out[got-4:got]) != "ello"; {
				k, err := c.TCPConn.Read(out[got:])
				if err != nil {
					t.Fatal(err)
				}
				got += k
			}
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	exchange(100)
	const n = 2000
	if got := exchange(n); got > n/10 {
		t.Errorf("%d allocations in %d requests", got, n)
	}
}
