package otel_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	_ "modernc.org/sqlite"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/otel"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/trace"
)

type text struct{ Text string }

var shop, stock = rpc.Key{Interface: "demo.Shop"}, rpc.Key{Interface: "demo.Stock"}

// page collects log lines.
type page struct {
	mu sync.Mutex
	b  strings.Builder
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// spans exports to memory and to an OTLP receiver, at once.
type spans struct {
	*tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	otlp     *receiver
}

func newSpans(t *testing.T) *spans {
	t.Helper()
	s := &spans{InMemoryExporter: tracetest.NewInMemoryExporter(), otlp: newReceiver(t)}
	out, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(s.otlp.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	s.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.InMemoryExporter), sdktrace.WithSyncer(out))
	t.Cleanup(func() {
		if err := s.provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// receiver takes traces by OTLP over HTTP.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
}

func newReceiver(t *testing.T) *receiver {
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var msg collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &msg)
		}
		if err != nil || req.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", req.URL, err)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, resource := range msg.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Server.Close)
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

func (s *spans) find(t *testing.T, name string, kind oteltrace.SpanKind) tracetest.SpanStub {
	t.Helper()
	for _, span := range s.GetSpans() {
		if span.Name == name && span.SpanKind == kind {
			return span
		}
	}
	t.Fatalf("no span %q of kind %v among %v", name, kind, s.names())
	return tracetest.SpanStub{}
}

func (s *spans) names() (list []string) {
	for _, span := range s.GetSpans() {
		list = append(list, span.Name)
	}
	slices.Sort(list)
	return list
}

// service is a server and the Recorder of its port.
func service(t *testing.T, o trace.Options, trust bool, svc *rpc.Service) (addr string, rec *trace.Recorder) {
	t.Helper()
	rec, err := trace.New(o)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Name: "p", Addr: "127.0.0.1:0", Loops: 1, Trace: rec, TrustTrace: trust}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	if err = srv.Register(svc); err == nil {
		err = srv.Listen()
	}
	if err != nil {
		t.Fatal(err)
	}
	return srv.Addr("p").String(), rec
}

func newService(t *testing.T, key rpc.Key, methods ...rpc.Method) *rpc.Service {
	t.Helper()
	svc, err := rpc.NewService(key, methods...)
	if err != nil {
		t.Fatal(err)
	}
	return svc
}

// client returns a client by frame or by gRPC.
func client(t *testing.T, protocol, addr string, with ...rpc.Interceptor) rpc.Caller {
	t.Helper()
	if protocol == "grpc" {
		cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + addr}, Interceptors: with})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cl.Close() })
		return cl
	}
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{addr}, Codec: rpc.CodecJSON, Interceptors: with})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

// TestOneTrace: a client calls a service, which goes on on another pool, calls a second service, which asks a database. All of it
// is one trace, with the stages of both servers, in the SDK's exporter and in an OTLP receiver alike, and on log lines.
func TestOneTrace(t *testing.T) {
	for _, c := range []struct {
		protocol string
		spans    bool
		want     int
	}{{"frame", true, 7 + 2*6}, {"grpc", true, 7 + 2*6}, {"frame", false, 7}} {
		protocol := c.protocol
		t.Run(fmt.Sprintf("%s spans=%t", protocol, c.spans), func(t *testing.T) {
			s := newSpans(t)
			tr := otel.New(s.provider, otel.Options{StageSpans: c.spans})
			t.Cleanup(tr.Flush)
			db, err := sql.Open("sqlite", "file:"+t.TempDir()+"/stock.db")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec("CREATE TABLE stock (name TEXT, n INTEGER); INSERT INTO stock VALUES ('tea', 3)"); err != nil {
				t.Fatal(err)
			}
			var bag atomic.Value // the race detector does not see that a response follows its request
			second, _ := service(t, trace.Options{Tracer: tr}, true, newService(t, stock, rpc.Unary("Count", func(ctx context.Context, req *text) (*text, error) {
				bag.Store(baggage.FromContext(ctx).Member("user").Value())
				var n int
				err := tr.Call(ctx, "SELECT stock", func(ctx context.Context) error {
					return db.QueryRowContext(ctx, "SELECT n FROM stock WHERE name = ?", req.Text).Scan(&n)
				})
				return &text{fmt.Sprint(n)}, err
			})))
			pool, err := executor.NewFixed(executor.Options{Name: "lookups", Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			var lines page
			log := slog.New(otel.LogHandler(slog.NewTextHandler(&lines, nil))).With("of", "shop")
			below := client(t, protocol, second, tr.ClientInterceptor())
			first, _ := service(t, trace.Options{Tracer: tr}, true, newService(t, shop, rpc.Unary("Buy", func(ctx context.Context, req *text) (resp *text, err error) {
				log.InfoContext(ctx, "buys")
				done := make(chan struct{})
				if err := tr.Go(ctx, pool, "look up", func(ctx context.Context) {
					defer close(done)
					resp, err = rpc.Invoke[text](ctx, below, stock, "Count", req)
				}); err != nil {
					return nil, err
				}
				<-done
				return resp, err
			})))
			member, err := baggage.NewMember("user", "alice")
			if err != nil {
				t.Fatal(err)
			}
			b, err := baggage.New(member)
			if err != nil {
				t.Fatal(err)
			}
			ctx := baggage.ContextWithBaggage(t.Context(), b)
			resp, err := rpc.Invoke[text](ctx, client(t, protocol, first, tr.ClientInterceptor()), shop, "Buy", &text{"tea"})
			if err != nil || resp.Text != "3" || bag.Load() != "alice" {
				t.Fatalf("%+v, %v, baggage %v", resp, err, bag.Load())
			}
			testkit.Eventually(t, "the spans of both servers", func() bool { return len(s.GetSpans()) == c.want && s.otlp.count() == c.want })
			root := s.find(t, "demo.Shop/Buy", oteltrace.SpanKindClient)
			buy := s.find(t, "demo.Shop/Buy", oteltrace.SpanKindServer)
			look := s.find(t, "look up", oteltrace.SpanKindInternal)
			ask := s.find(t, "demo.Stock/Count", oteltrace.SpanKindClient)
			count := s.find(t, "demo.Stock/Count", oteltrace.SpanKindServer)
			query := s.find(t, "SELECT stock", oteltrace.SpanKindClient)
			above := root.SpanContext.SpanID()
			for _, span := range []tracetest.SpanStub{buy, look, ask, count, query} {
				if span.Parent.SpanID() != above || span.SpanContext.TraceID() != root.SpanContext.TraceID() {
					t.Errorf("%s is not below the one before it", span.Name)
				}
				above = span.SpanContext.SpanID()
			}
			for _, server := range []tracetest.SpanStub{buy, count} {
				var stages []string
				for _, e := range server.Events {
					stages = append(stages, e.Name)
				}
				for _, span := range s.GetSpans() {
					if span.Parent.SpanID() == server.SpanContext.SpanID() && span.SpanKind == oteltrace.SpanKindInternal && span.Name != "look up" {
						if span.StartTime.Before(server.StartTime) || span.EndTime.After(server.EndTime) {
							t.Errorf("%s is outside of its request", span.Name)
						}
						stages = append(stages, span.Name)
					}
				}
				for _, want := range []string{"loop wait", "dispatch", "queue wait", "handler", "hop", "write"} {
					if !slices.Contains(stages, want) {
						t.Errorf("%s has no stage %q: %q", server.Name, want, stages)
					}
				}
			}
			for _, span := range s.otlp.spans {
				if [16]byte(span.TraceId) != root.SpanContext.TraceID() {
					t.Errorf("the receiver got %s of another trace", span.Name)
				}
			}
			if want := "trace_id=" + root.SpanContext.TraceID().String() + " span_id=" + buy.SpanContext.SpanID().String(); !strings.Contains(lines.String(), want) {
				t.Errorf("the log says %q, want %s", lines.String(), want)
			}
		})
	}
}

// TestUntrusted: a port that trusts nobody begins its own trace, or none, whatever a client says.
func TestUntrusted(t *testing.T) {
	for _, protocol := range []string{"frame", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			s := newSpans(t)
			tr := otel.New(s.provider, otel.Options{})
			t.Cleanup(tr.Flush)
			addr, rec := service(t, trace.Options{Tracer: tr}, false, newService(t, shop, rpc.Unary("Buy", func(ctx context.Context, req *text) (*text, error) {
				if oteltrace.SpanContextFromContext(ctx).IsSampled() {
					return nil, errors.New("sampled")
				}
				return req, nil
			})))
			cl := client(t, protocol, addr, tr.ClientInterceptor())
			if _, err := rpc.Invoke[text](t.Context(), cl, shop, "Buy", &text{"tea"}); err != nil {
				t.Fatal(err)
			}
			if n := rec.Stats(); n.Untrusted != 1 || n.Received != 0 || n.Unsampled != 1 {
				t.Errorf("%+v", n)
			}
			if got := s.names(); !slices.Equal(got, []string{"demo.Shop/Buy"}) {
				t.Errorf("spans %q, want the client's alone", got)
			}
		})
	}
}

// TestUnsampledStaysSo: below a request that is not sampled nothing is: no span of a call, a task or a statement, and the second
// service is told.
func TestUnsampledStaysSo(t *testing.T) {
	for _, protocol := range []string{"frame", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			s := newSpans(t)
			tr := otel.New(s.provider, otel.Options{})
			t.Cleanup(tr.Flush)
			second, rec := service(t, trace.Options{Tracer: tr, Sample: 1}, true, newService(t, stock, rpc.Unary("Count", func(_ context.Context, req *text) (*text, error) { return req, nil })))
			below := client(t, protocol, second, tr.ClientInterceptor())
			pool, err := executor.NewFixed(executor.Options{Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			var lines page
			log := slog.New(otel.LogHandler(slog.NewTextHandler(&lines, nil))).WithGroup("g")
			first, _ := service(t, trace.Options{Tracer: tr}, false, newService(t, shop, rpc.Unary("Buy", func(ctx context.Context, req *text) (resp *text, err error) {
				log.InfoContext(ctx, "buys")
				done := make(chan struct{})
				if err := tr.Go(ctx, pool, "task", func(context.Context) { close(done) }); err != nil {
					return nil, err
				}
				<-done
				_, own := s.provider.Tracer("own").Start(ctx, "own")
				own.End()
				return resp, tr.Call(ctx, "statement", func(ctx context.Context) error {
					resp, err = rpc.Invoke[text](ctx, below, stock, "Count", req)
					return err
				})
			})))
			if _, err := rpc.Invoke[text](t.Context(), client(t, protocol, first), shop, "Buy", &text{"tea"}); err != nil {
				t.Fatal(err)
			}
			if n := rec.Stats(); n.Received != 1 || n.Unsampled != 1 || n.Sampled != 0 {
				t.Errorf("the second service counted %+v", n)
			}
			if got := s.names(); len(got) > 0 || strings.Contains(lines.String(), "trace_id") {
				t.Errorf("spans %q, log %q", got, lines.String())
			}
		})
	}
}
