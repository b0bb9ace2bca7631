// Package metrics gives what the engine and the rooms around it count to Prometheus.
//
// A program makes a Collector, registers its parts under names of its own, and serves Handler where it wants to be
// scraped:
//
//	c := metrics.New(metrics.Options{})
//	err := c.Register(metrics.Server("shout", srv), metrics.Pool("work", pool))
//	h, err := metrics.Handler(metrics.HandlerOptions{Runtime: true}, c)
//
// A scrape reads the same snapshots as the Stats methods do: no loop is stopped, and no lock of a hot path is taken.
// Every metric is in docs/metrics.md.
package metrics
