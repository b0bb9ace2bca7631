package admin

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

const goodToken = "0123456789abcdef-token"

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// make returns a server that does not listen yet and tolerates a slow machine.
func newAdmin(t *testing.T, change func(*Options)) *Server {
	t.Helper()
	o := Options{Addr: "127.0.0.1:0", MaxLag: time.Hour, Logger: quiet()}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// listen starts a server and ends it with the test.
func listen(t *testing.T, s *Server) string {
	t.Helper()
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Addr().String()
}

// echoServer is a server to watch.
func echoServer(t *testing.T, srv *eddy.Server) *eddy.Server {
	t.Helper()
	if srv.Init == nil {
		srv.Init = func(p *eddy.Pipeline) error {
			return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error { return ctx.WriteBytes(b.Bytes()) }))
		}
	}
	srv.Logger = quiet()
	enginetest.Serve(t, srv)
	return srv
}

// lines makes each line a message.
func lines(h any, opts ...eddy.AddOption) func(*eddy.Pipeline) error {
	return func(p *eddy.Pipeline) error {
		p.Add("line", line.Codec(1<<10))
		return p.Add("handler", h, opts...)
	}
}

func dial(t *testing.T, srv *eddy.Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a request to the handler itself. Header lines are "Name: value".
func ask(s *Server, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:7070"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:5555"
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		if name == "From" { // the client's address
			r.RemoteAddr = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// fetch gets a page over the network.
func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Timeout: testkit.Patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

func pool(t *testing.T, o executor.Options) *executor.Pool {
	t.Helper()
	o.Logger = quiet()
	p, err := executor.NewFixed(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		if _, err := p.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}
