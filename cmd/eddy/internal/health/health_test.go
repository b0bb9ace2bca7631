package health_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/cmd/eddy/internal/health"
	"github.com/go-eddy/eddy/cmd/eddy/internal/root"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// healthServer answers 200 at /ok, 302 at /moved and otherwise 503.
func healthServer(t *testing.T, start func(http.Handler) *httptest.Server) *httptest.Server {
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusFound)
		default:
			http.Error(w, "the disk is full", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestHealth(t *testing.T) {
	plain, secure := healthServer(t, httptest.NewServer), healthServer(t, httptest.NewTLSServer)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--url " + plain.URL + "/ok", 0, ""},
		{"--url " + plain.URL + "/moved", 1, "not healthy: 302"},
		{"--url " + plain.URL + "/readyz", 1, "not healthy: 503 the disk is full"},
		{"--insecure --url " + secure.URL + "/ok", 0, ""},
		{"--url " + secure.URL + "/ok", 1, "certificate"},
		{"--url 127.0.0.1:1", 1, "write it like"},
		{"--url ftp://127.0.0.1/", 1, "write it like"},
		{"--timeout 0s", 1, "more than 0"},
	} {
		var out, errs bytes.Buffer
		code := root.Run(append([]string{"health"}, strings.Fields(c.args)...), &out, &errs, nil)
		if code != c.code || out.Len() > 0 || !strings.Contains(errs.String(), c.says) || (c.says == "") != (errs.Len() == 0) || strings.Count(errs.String(), "\n") > 1 {
			t.Errorf("health %s: exit %d, %q, %q", c.args, code, out.String(), errs.String())
		}
	}
}

// TestAnswers: only silence, and that nobody listens, is no sign of life.
func TestAnswers(t *testing.T) {
	ctx := testkit.Context(t)
	host := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	if err := health.Answers(host(healthServer(t, httptest.NewServer)), false)(ctx); err != nil {
		t.Errorf("a server that is not well: %v", err)
	}
	if err := health.Answers(host(healthServer(t, httptest.NewTLSServer)), true)(ctx); err != nil {
		t.Errorf("over TLS: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
		cancel() // what is asked now waits without an end
	}()
	if err := health.Answers(l.Addr().String(), false)(short); !errors.Is(err, context.Canceled) {
		t.Errorf("a server that is silent: %v", err)
	}
	(<-accepted).Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	if err := health.Answers(l.Addr().String(), false)(ctx); err != nil {
		t.Errorf("a server that refuses: %v", err)
	}
	l.Close()
	if err := health.Answers(l.Addr().String(), false)(ctx); err == nil {
		t.Error("nobody listens, and that is a sign of life")
	}
}
