package metrics

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// DefaultScrapes is how many scrapes are answered at the same time if HandlerOptions does not say.
const DefaultScrapes = 4

// HandlerOptions configure Handler. The zero value is usable.
type HandlerOptions struct {
	Runtime bool         // the numbers of the Go runtime and of the process as well
	Scrapes int          // answered at the same time, the others are told 503; 0 = DefaultScrapes
	Logger  *slog.Logger // of scrapes that go wrong; nil = slog.Default()
}

// Handler returns a handler that answers GET with what the collectors collect, in the text format of Prometheus, or in that of
// OpenMetrics if the scraper asks for it. It runs on net/http's server and on a pool of http1's; not on a loop. The error
// says which collector describes what another one does.
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
		from = append(from[:len(from):len(from)], collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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

// errorLog takes what promhttp has to say.
type errorLog struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (l errorLog) Println(v ...any) { l.log.Warn("metrics: scrape", "err", fmt.Sprint(v...)) }
