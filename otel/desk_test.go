package otel_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/otel"
	"github.com/go-eddy/eddy/trace"
)

// TestDeskCalls: what Desk sends to webhooks and bots has a span of the kind client in the trace that its traceparent names, and takes
// along the span's own. Requests without one have neither. An answer of 500 and a request that is not sent are errors.
func TestDeskCalls(t *testing.T) {
	got := make(chan string, 1)
	var status atomic.Int64
	status.Store(http.StatusNoContent)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("traceparent")
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(receiver.Close)
	s := newSpans(t)
	rec, err := trace.New(trace.Options{Tracer: otel.New(s.provider, otel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := executor.NewFixed(executor.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	group := &eddy.Group{Loops: 1}
	t.Cleanup(func() { group.Close() })
	client, err := safehttp.New(safehttp.Options{Group: group, Handshakes: pool, AllowPrivate: true, Trace: rec})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	send := func(url, parent string) error {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if parent != "" {
			r.Header.Set("traceparent", parent)
		}
		done := make(chan error, 1)
		client.Do(r, 1<<10, func(_ safehttp.Response, err error) { done <- err })
		return testkit.Receive(t, "the answer", done)
	}
	if err := send(receiver.URL, ""); err != nil || <-got != "" || len(s.GetSpans()) > 0 {
		t.Errorf("a request without a trace: %v, spans %q", err, s.names())
	}
	for _, answer := range []int64{http.StatusNoContent, http.StatusServiceUnavailable} {
		s.Reset()
		status.Store(answer)
		if err := send(receiver.URL, forged); err != nil {
			t.Fatal(err)
		}
		span := s.find(t, "POST", oteltrace.SpanKindClient)
		c := span.SpanContext
		if want := "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-01"; <-got != want || c.TraceID().String() != forged[3:35] || span.Parent.SpanID().String() != forged[36:52] {
			t.Errorf("the span %+v below %+v, want %s to go along", c, span.Parent, want)
		}
		if failed := span.Status.Code == codes.Error; failed != (answer >= 500) {
			t.Errorf("status %d: %+v", answer, span.Status)
		}
	}
	s.Reset()
	if err := send("http://0.0.0.0/", forged); !errors.Is(err, safehttp.ErrForbidden) {
		t.Fatal(err)
	}
	if span := s.find(t, "POST", oteltrace.SpanKindClient); span.Status.Code != codes.Error {
		t.Errorf("what was not sent: %+v", span.Status)
	}
}

// TestDeskSpan: the span of a command of Desk has no address of the client, because the record has none.
func TestDeskSpan(t *testing.T) {
	s := newSpans(t)
	tr := otel.New(s.provider, otel.Options{})
	rec, err := trace.New(trace.Options{Sample: 1, Tracer: tr})
	if err != nil {
		t.Fatal(err)
	}
	r := rec.Begin(trace.Parent{}, trace.About{Protocol: "desk", Name: "msg.send"})
	r.Enter(trace.Handler, "session")
	r.End()
	tr.Flush()
	for _, a := range s.find(t, "msg.send", oteltrace.SpanKindServer).Attributes {
		if a.Key == "network.peer.address" {
			t.Errorf("the client is %q", a.Value.AsString())
		}
	}
}
