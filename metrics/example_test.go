package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/metrics"
)

// A server, its pool, and an address for Prometheus.
func Example() {
	pool, err := executor.NewFixed(executor.Options{Name: "work", Workers: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	srv := &eddy.Server{MaxConns: 10_000, Init: func(p *eddy.Pipeline) error { return p.Add("lines", line.Codec(1024)) }}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	c := metrics.New(metrics.Options{})
	if err := c.Register(metrics.Server("lines", srv), metrics.Pool("work", pool)); err != nil {
		fmt.Println(err)
		return
	}
	h, err := metrics.Handler(metrics.HandlerOptions{}, c) // of net/http, or of http1 on a pool
	if err != nil {
		fmt.Println(err)
		return
	}

	scrape := httptest.NewRecorder()
	h.ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.HasPrefix(line, "eddy_server_connections") || strings.HasPrefix(line, "eddy_pool_workers_limit") {
			fmt.Print(line)
		}
	}
	// Output:
	// eddy_pool_workers_limit{pool="work"} 4
	// eddy_server_connections{server="lines"} 0
	// eddy_server_connections_limit{server="lines"} 10000
}
