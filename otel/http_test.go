package otel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/otel"
	"github.com/go-eddy/eddy/trace"
	"github.com/go-eddy/eddy/websocket"
)

const forged = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// web is a server that speaks a version of HTTP, and a client of it.
func web(t *testing.T, version string, rec *trace.Recorder, trust bool, h http.Handler) (url string, client http.RoundTripper) {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Name: "web", Workers: 2, Queue: 16})
	if err != nil {
		t.Fatal(err)
	}
	srv := &eddy.Server{Loops: 1, Pools: []*executor.Pool{pool}}
	route := func(r *http.Request) (to http1.Route) {
		if r.URL.Path == "/awaited/" {
			to.Await = 1 << 10
		}
		return to
	}
	switch version {
	case "http1":
		srv.Init = http1.NewHandler(h, pool, http1.Options{Trace: rec, TrustTrace: trust, Route: route}).Init
		tr := &http1.Transport{}
		t.Cleanup(func() { tr.Close() })
		client = tr
	default:
		srv.Init = http2.NewHandler(h, pool, http2.Options{Trace: rec, TrustTrace: trust, Route: route}).Init
		tr := &http2.Transport{}
		t.Cleanup(func() { tr.Close() })
		client = tr
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return "http://" + srv.Addr().String(), client
}

// TestHTTP: a request of either version of HTTP continues the trace of its client, if the server trusts clients, and has its stages
// and the pattern of the mux as its name. What a handler has answered with 500, and a panic, are failures.
func TestHTTP(t *testing.T) {
	for _, version := range []string{"http1", "http2"} {
		t.Run(version, func(t *testing.T) {
			s := newSpans(t)
			tr := otel.New(s.provider, otel.Options{})
			t.Cleanup(tr.Flush)
			rec, err := trace.New(trace.Options{Tracer: tr, Sample: 1})
			if err != nil {
				t.Fatal(err)
			}
			mux := http.NewServeMux()
			mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, oteltrace.SpanContextFromContext(r.Context()).TraceID())
			})
			mux.HandleFunc("/fails", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) })
			mux.HandleFunc("/panics", func(http.ResponseWriter, *http.Request) { panic("on purpose") })
			mux.HandleFunc("/awaited/", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
			url, below := web(t, version, rec, true, mux)
			ctx, root := s.provider.Tracer("test").Start(t.Context(), "root")
			get := func(path string) string {
				return send(t, tr.Transport(below), httptest.NewRequest("GET", url+path, nil).WithContext(ctx))
			}
			if got := get("/orders/7"); got != root.SpanContext().TraceID().String() {
				t.Errorf("the handler is in trace %s", got)
			}
			get("/fails")
			get("/panics")
			if got := send(t, below, httptest.NewRequest("POST", url+"/awaited/", strings.NewReader("body"))); got != "body" {
				t.Errorf("got %q", got)
			}
			root.End()
			testkit.Eventually(t, "the end of all", func() bool { return rec.Stats().Ended == 4 })
			tr.Flush()
			order := s.find(t, "GET /orders/{id}", oteltrace.SpanKindServer)
			if want := s.find(t, "GET", oteltrace.SpanKindClient); order.Parent.SpanID() != want.SpanContext.SpanID() || order.Parent.TraceID() != root.SpanContext().TraceID() {
				t.Errorf("the server's span has the parent %v", order.Parent)
			}
			failed := map[string]string{"GET /orders/{id}": "", "GET /fails": "status 500", "GET": "the handler panicked", "POST /awaited/": ""}
			for _, sum := range rec.Slowest() {
				if want, ok := failed[sum.About.Name]; !ok || sum.Failed != want {
					t.Errorf("%q has failed with %q, want %q", sum.About.Name, sum.Failed, want)
				}
				var stages []trace.Stage
				for _, p := range sum.Stages {
					if stages = append(stages, p.Stage); p.Stage == trace.QueueWait && p.Where != "web" {
						t.Errorf("queued in %q", p.Where)
					}
				}
				if !slices.Equal(stages, trace.Stages()) {
					t.Errorf("%q has the stages %v", sum.About.Name, stages)
				}
			}
		})
	}
}

func send(t *testing.T, by http.RoundTripper, r *http.Request) string {
	t.Helper()
	r.RequestURI = ""
	resp, err := by.RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// TestHTTPFromOutside: a server that trusts nobody takes no trace, and one that does passes over what is malformed or oversized. The
// requests are served.
func TestHTTPFromOutside(t *testing.T) {
	for _, version := range []string{"http1", "http2"} {
		for _, c := range []struct {
			name, parent, bag string
			trust             bool
			want              trace.Stats
		}{
			{"forged", forged, "a=1", false, trace.Stats{Untrusted: 1, Unsampled: 1}},
			{"malformed", "00-xyz", "", true, trace.Stats{Malformed: 1, Unsampled: 1}},
			{"oversized", "", "a=" + strings.Repeat("x", 9000), true, trace.Stats{Oversized: 1, Unsampled: 1}},
			{"trusted", forged, "", true, trace.Stats{Received: 1, Sampled: 1, Ended: 1}},
		} {
			t.Run(version+" "+c.name, func(t *testing.T) {
				rec, err := trace.New(trace.Options{})
				if err != nil {
					t.Fatal(err)
				}
				url, client := web(t, version, rec, c.trust, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					fmt.Fprint(w, trace.FromContext(r.Context()).Sampled())
				}))
				r := httptest.NewRequest("GET", url+"/", nil)
				if c.parent != "" {
					r.Header.Set("traceparent", c.parent)
				}
				if c.bag != "" {
					r.Header.Set("baggage", c.bag)
				}
				if got := send(t, client, r); got != fmt.Sprint(c.want.Sampled == 1) {
					t.Errorf("answered %q", got)
				}
				testkit.Eventually(t, "the counts", func() bool { return rec.Stats() == c.want })
			})
		}
	}
}

// greeter answers the first message with the trace of its connection.
type greeter struct{}

func (greeter) HandleOpen(*websocket.Conn) error { return nil }

func (greeter) HandleMessage(c *websocket.Conn, op websocket.Opcode, _ []byte) error {
	return c.Write(op, []byte(oteltrace.SpanContextFromContext(c.Trace()).TraceID().String()))
}

func (greeter) HandleClose(*websocket.Conn, int, string) {}

// hearer gives on what it is told.
type hearer struct {
	greeter
	said chan string
}

func (h hearer) HandleOpen(c *websocket.Conn) error { return c.Write(websocket.Text, []byte("?")) }

func (h hearer) HandleMessage(_ *websocket.Conn, _ websocket.Opcode, data []byte) error {
	h.said <- string(data)
	return nil
}

// TestWebSocket: the trace of a handshake is that of its connection's messages, by either version of HTTP on the server's side.
func TestWebSocket(t *testing.T) {
	rec, err := trace.New(trace.Options{Tracer: otel.New(newSpans(t).provider, otel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	url, _ := web(t, "http1", rec, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := websocket.Upgrade(w, r, greeter{}, websocket.Options{}); err != nil {
			t.Error(err)
		}
	}))
	h := hearer{said: make(chan string, 1)}
	header := http.Header{}
	otel.Header(oteltrace.ContextWithSpanContext(t.Context(), remote(t)), header)
	d := &websocket.Dialer{Header: header}
	t.Cleanup(func() { d.Close() })
	c, err := d.Dial(t.Context(), "ws"+strings.TrimPrefix(url, "http"), h)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := testkit.Receive(t, "the trace", h.said), remote(t).TraceID().String(); got != want {
		t.Errorf("the messages are in trace %s, want %s", got, want)
	}
	testkit.Eventually(t, "the end of the handshake", func() bool { return rec.Stats().Ended == 1 })
	if err := c.Close(1000, ""); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func remote(t *testing.T) oteltrace.SpanContext {
	t.Helper()
	return oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: oteltrace.TraceID{1, 2}, SpanID: oteltrace.SpanID{3}, TraceFlags: oteltrace.FlagsSampled})
}
