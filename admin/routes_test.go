package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
)

const jsonBody = "Content-Type: application/json"

// TestRoutes makes requests that each route must serve, and requests that it
// must refuse.
func TestRoutes(t *testing.T) {
	level := new(slog.LevelVar)
	s := newAdmin(t, func(o *Options) {
		o.Level, o.Program, o.Version, o.Hosts = level, "test", "v1.2.3", []string{"Ops.example"}
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metric 1\n") })
	})
	srv := echoServer(t, &eddy.Server{Loops: 1, KeepCloses: 8})
	if err := s.Watch("main", srv); err != nil {
		t.Fatal(err)
	}
	s.health.look(t.Context())
	s.samples.take()
	for _, c := range []struct {
		request string // method, path, then header lines; "|" ends one, "<" begins the body
		status  int
		want    string
	}{
		{"GET /healthz", 200, "ok\n"},
		{"HEAD /healthz", 200, ""},
		{"POST /healthz", 405, ""},
		{"GET /readyz", 200, `{"ready":true}`},
		{"GET /metrics", 200, "metric 1\n"},
		{"GET /stats.json", 200, `"program":"test","version":"v1.2.3"`},
		{"GET /stats.json?since=0", 200, `"samples":[{"seq":1,`},
		{"GET /stats.json?since=1", 200, `"samples":[]`},
		{"GET /stats.json?since=x", 400, `since is \"x\", want a number from -1 to `},
		{"GET /nothing", 404, ""},

		{"GET /connections", 200, `"connections":[]`},
		{"GET /connections?server=main&state=writing&min_queued=1&peer=127.0.0.0/8&sort=idle&order=asc&limit=5&offset=5", 200, `"connections":[]`},
		{"GET /connections?closed=1&reason=io_error", 200, `"connections":[]`},
		{"GET /connections?server=other", 404, `there are main`},
		{"GET /connections?state=sleeping", 400, `state \"sleeping\" is none of`},
		{"GET /connections?reason=boredom", 400, `reason \"boredom\" is none of`},
		{"GET /connections?peer=somewhere", 400, `peer is \"somewhere\"`},
		{"GET /connections?min_queued=-1", 400, `min_queued is \"-1\"`},
		{"GET /connections?sort=colour", 400, `sort \"colour\" is none of`},
		{"GET /connections?order=up", 400, `order \"up\"`},
		{"GET /connections?closed=maybe", 400, `closed is \"maybe\"`},
		{"GET /connections?limit=1001", 400, `limit is \"1001\", want a number from 1 to 1000`},
		{"GET /connections?offset=20001", 400, `offset is \"20001\", want a number from 0 to 20000`},
		{"GET /connections?colour=red", 400, `no parameter \"colour\"`},
		{"DELETE /connections", 405, ""},

		{"POST /connections/close|" + jsonBody + `<{"server":"main","id":"0.0.1"}`, 404, "main has no connection 0.0.1"},
		{"POST /connections/close|" + jsonBody + `<{"id":"0.0.1"}`, 404, "main has no connection 0.0.1"},
		{"POST /connections/close|" + jsonBody + `<{"server":"x","id":"0.0.1"}`, 404, "there are main"},
		{"POST /connections/close|" + jsonBody + `<{"id":"one"}`, 400, `\"one\" is no connection id`},
		{"POST /connections/close|" + jsonBody + `<{"id":"0.0.1","why":1}`, 400, "unknown field"},
		{"POST /connections/close|" + jsonBody + `<{"id":"0.0.1"}{}`, 400, "more after the object"},
		{"POST /connections/close|" + jsonBody + `<`, 400, "the body is not"},
		{`POST /connections/close|Content-Type: text/plain<{"id":"0.0.1"}`, 415, "application/json"},
		{`POST /connections/close<{"id":"0.0.1"}`, 415, "application/json"},
		{"GET /connections/close", 405, ""},
		{"POST /connections/close|" + jsonBody + `|Sec-Fetch-Site: cross-site<{"id":"0.0.1"}`, 403, "page of this server"},
		{"POST /connections/close|" + jsonBody + `|Sec-Fetch-Site: same-site<{"id":"0.0.1"}`, 403, "page of this server"},
		{"POST /connections/close|" + jsonBody + `|Origin: http://evil.example<{"id":"0.0.1"}`, 403, "page of this server"},
		{"POST /connections/close|" + jsonBody + `|Origin: null<{"id":"0.0.1"}`, 403, "page of this server"},
		{"POST /connections/close|" + jsonBody + `|Origin: http://127.0.0.1:7070<{"id":"0.0.1"}`, 404, "no connection"},
		{"POST /connections/close|" + jsonBody + `|Sec-Fetch-Site: same-origin<{"id":"0.0.1"}`, 404, "no connection"},

		{"GET /loglevel", 200, `{"level":"info"}`},
		{"PUT /loglevel|" + jsonBody + `<{"level":"debug"}`, 200, `{"level":"debug"}`},
		{"GET /loglevel", 200, `{"level":"debug"}`},
		{"PUT /loglevel|" + jsonBody + `<{"level":"loud"}`, 400, "none of debug"},
		{"PUT /loglevel|" + jsonBody + `|Origin: http://evil.example<{"level":"error"}`, 403, "page of this server"},
		{"DELETE /loglevel", 405, ""},
		{"GET /loglevel", 200, `{"level":"debug"}`},

		{"GET /debug/goroutines", 200, "goroutine "},
		{"GET /debug/pprof/", 200, "heap\nmutex\nprofile\n"},
		{"GET /debug/pprof/heap", 200, "\x1f\x8b"},
		{"GET /debug/pprof/goroutine?debug=1", 200, "goroutine profile: total "},
		{"GET /debug/pprof/goroutine?debug=3", 400, "debug is"},
		{"GET /debug/pprof/nothing", 404, "no such profile"},
		{"GET /debug/pprof/profile?seconds=0", 400, `seconds is \"0\", want a number from 1 to 60`},
		{"GET /debug/pprof/profile?seconds=61", 400, "from 1 to 60"},
		{"GET /debug/pprof/trace?seconds=999", 400, "from 1 to 60"},
		{"POST /debug/pprof/heap", 405, ""},

		{"GET /login", 303, ""}, // nobody needs to
		{"POST /login", 404, "needs no token"},

		{"GET /healthz|Host: evil.example", 421, "Host is not"},
		{"GET /healthz|Host: evil.example:7070", 421, "Host is not"},
		{"GET /stats.json|Host: 127.0.0.1.evil.example", 421, "Host is not"},
		{"GET /stats.json|Host: ", 421, "Host is not"},
		{"GET /healthz|Host: localhost:7070", 200, "ok"},
		{"GET /healthz|Host: [::1]:7070", 200, "ok"},
		{"GET /healthz|Host: [::1]", 200, "ok"},
		{"GET /healthz|Host: 192.0.2.1", 200, "ok"},
		{"GET /healthz|Host: ops.EXAMPLE:80", 200, "ok"},
	} {
		head, body, _ := strings.Cut(c.request, "<")
		parts := strings.Split(head, "|")
		method, path, _ := strings.Cut(parts[0], " ")
		w := ask(s, method, path, body, parts[1:]...)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %.300q, want %d and %q", c.request, w.Code, w.Body, c.status, c.want)
		}
		if h := w.Header(); h.Get("Content-Security-Policy") != policy || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: header %v", c.request, h)
		}
	}
	if level.Level() != slog.LevelDebug {
		t.Errorf("the level is %v", level.Level())
	}
	bare := newAdmin(t, nil)
	for _, path := range []string{"/metrics", "/loglevel"} {
		if w := ask(bare, "GET", path, ""); w.Code != 404 {
			t.Errorf("%s without its option: %d", path, w.Code)
		}
	}
}

// TestOptions: what makes no sense is refused, and named.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, `Options.Addr is ""`},
		{Options{Addr: "127.0.0.1"}, `Options.Addr is "127.0.0.1"`},
		{Options{Addr: "127.0.0.1:70000"}, `0 to 65535`},
		{Options{Addr: ":0"}, "not loopback: this needs a Token of at least 16"},
		{Options{Addr: "0.0.0.0:0"}, "not loopback"},
		{Options{Addr: "[::]:0"}, "not loopback"},
		{Options{Addr: "192.0.2.1:0"}, "not loopback"},
		{Options{Addr: "example.com:0"}, "not loopback"},
		{Options{Addr: "127.0.0.1:0", Token: "short"}, "Options.Token has 5 characters, want 16 to 256"},
		{Options{Addr: "127.0.0.1:0", Token: strings.Repeat("x", 257)}, "257 characters"},
		{Options{Addr: "127.0.0.1:0", Token: "with space in the middle"}, "character 5 of Options.Token"},
		{Options{Addr: "127.0.0.1:0", Hosts: []string{"name:80"}}, `Options.Hosts has "name:80"`},
		{Options{Addr: "127.0.0.1:0", MaxLag: -1}, "Options.MaxLag"},
	} {
		if _, err := New(c.o); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "admin: ") {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	for _, o := range []Options{{Addr: "localhost:0"}, {Addr: "[::1]:0"}, {Addr: "127.9.9.9:0"}, {Addr: ":0", Token: goodToken}} {
		if _, err := New(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
