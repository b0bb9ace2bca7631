// Package metrics exports the counts of the engine, and of the packages around it, to Prometheus.
//
// Make a [Collector], register the parts of the program under names of your own, and serve [Handler] for scrapes:
//
//	c := metrics.New(metrics.Options{})
//	err := c.Register(metrics.Server("shout", srv), metrics.Pool("work", pool))
//	h, err := metrics.Handler(metrics.HandlerOptions{Runtime: true}, c)
//
// A scrape reads the same snapshots as the Stats methods do, stops no loop and takes no lock of a hot path. docs/metrics.md
// lists every metric.
package metrics
