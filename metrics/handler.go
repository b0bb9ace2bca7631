package metrics

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/go-eddy/eddy/internal/version"
	"github.com/go-eddy/eddy/metrics/internal/expo"
)

// DefaultScrapes is the number of scrapes answered at the same time if HandlerOptions.Scrapes is 0.
const DefaultScrapes = 4

// HandlerOptions configure Handler. The zero value is usable.
type HandlerOptions struct {
	Runtime bool         // adds the numbers of the Go runtime and of the process, and eddy_build_info
	Scrapes int          // answered at the same time, further ones get 503; 0 = DefaultScrapes
	Logger  *slog.Logger // for scrapes that fail; nil = slog.Default()
}

// Handler returns a handler that answers GET with the metrics of the collectors. The format is the text format of
// Prometheus, or OpenMetrics if the scraper asks for it. Serve the handler with net/http, or with http1 on a pool; it must
// not run on a loop. Handler returns an error for negative Scrapes, and for collectors that describe the same metric.
func Handler(o HandlerOptions, from ...prometheus.Collector) (http.Handler, error) {
	if o.Scrapes < 0 {
		return nil, fmt.Errorf("metrics: HandlerOptions.Scrapes is %d, want 0 (default %d) or more", o.Scrapes, DefaultScrapes)
	}
	if o.Scrapes == 0 {
		o.Scrapes = DefaultScrapes
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	registry := prometheus.NewRegistry()
	if o.Runtime {
		from = append(from[:len(from):len(from)], program{}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	for _, c := range from {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            errorLog{o.Logger},
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: o.Scrapes,
		EnableOpenMetrics:   true,
	}), nil
}

// program is the collector of what the program was built from.
type program struct{}

//nolint:gochecknoglobals // never written
var buildInfo = expo.Gauge("eddy_build_info", "Always 1, with what the program was built from.", "version", "commit", "go")

func programFamilies() []*expo.Family { return []*expo.Family{buildInfo} }

// Describe implements prometheus.Collector.
func (program) Describe(to chan<- *prometheus.Desc) { expo.Describe(to, programFamilies()) }

// Collect implements prometheus.Collector.
func (program) Collect(to chan<- prometheus.Metric) {
	v := version.Get()
	expo.NewScrape(to).Put(buildInfo, 1, v.Version, v.Commit, v.Go)
}

// errorLog passes the errors of promhttp to a Logger.
type errorLog struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (l errorLog) Println(v ...any) { l.log.Warn("metrics: scrape", "err", fmt.Sprint(v...)) }
