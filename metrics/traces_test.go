package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/go-eddy/eddy/trace"
)

// TestExemplars: the histograms of a Recorder name the trace of the latest request of a bucket.
func TestExemplars(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rec, err := trace.New(trace.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	r := rec.Begin(trace.Parent{}, trace.About{})
	r.Enter(trace.Handler, "")
	now = now.Add(3 * time.Millisecond)
	r.End()
	c := New(Options{})
	if err := c.Register(Traces("main", rec)); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest("GET", "/metrics", nil)
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, req)
	id := r.Self().Trace.String()
	for _, want := range []string{
		`eddy_trace_stage_seconds_bucket{recorder="main",stage="handler",le="0.005"} 1 # {trace_id="` + id + `"} 0.003`,
		`eddy_trace_request_seconds_bucket{recorder="main",le="0.005"} 1 # {trace_id="` + id + `"} 0.003`,
		`eddy_trace_stage_seconds_count{recorder="main",stage="queue wait"} 0`,
		`eddy_trace_sampled_total{recorder="main"} 1`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the scrape lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(w.Body)
	}
}
