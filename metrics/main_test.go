package metrics

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collecting returns a Collector of the sources.
func collecting(t *testing.T, sources ...Source) *Collector {
	t.Helper()
	c := New(Options{})
	if err := c.Register(sources...); err != nil {
		t.Fatal(err)
	}
	return c
}

// samples are what a scrape has found: the value of each series, by its name and labels in the order of their names.
type samples map[string]float64

// scrape asks a handler as Prometheus does. What is exposed must be consistent.
func scrape(t *testing.T, c ...prometheus.Collector) samples {
	t.Helper()
	h, err := Handler(HandlerOptions{}, c...)
	if err != nil {
		t.Fatal(err)
	}
	return ask(t, h)
}

func ask(t *testing.T, h http.Handler) samples {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return parsed(t, w.Body)
}

func parsed(t *testing.T, text io.Reader) samples {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		t.Fatal(err)
	}
	all := samples{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			all[name+labelsOf(m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}

// labelsOf returns a metric's labels as they are written.
func labelsOf(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, l.GetName()+`="`+l.GetValue()+`"`)
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

// want compares series with what they should be.
func (s samples) want(t *testing.T, want samples) {
	t.Helper()
	for series, v := range want {
		if got, ok := s[series]; !ok || got != v {
			t.Errorf("%s is %v (there: %v), want %v", series, got, ok, v)
		}
	}
}

// starts returns how many series of a metric there are.
func (s samples) starts(metric string) (n int) {
	for series := range s {
		if strings.HasPrefix(series, metric+"{") {
			n++
		}
	}
	return n
}

// sum adds up the series of a metric.
func (s samples) sum(metric string) (sum float64) {
	for series, v := range s {
		if strings.HasPrefix(series, metric+"{") {
			sum += v
		}
	}
	return sum
}

// listen starts a server until the end of the test.
func listen(t *testing.T, srv *eddy.Server) string {
	t.Helper()
	return enginetest.Serve(t, srv)
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// fixed returns a pool until the end of the test.
func fixed(t *testing.T, o executor.Options) *executor.Pool {
	t.Helper()
	p, err := executor.NewFixed(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}
