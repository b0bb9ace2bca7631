// Package deskmetrics exports the counts of a Desk to Prometheus. Package metrics has those of the Desk's engine and pools.
// The two are apart so that programs without a Desk do not link one. docs/metrics.md lists every metric.
package deskmetrics

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/metrics/internal/expo"
)

const (
	maxDesks = 16
	maxName  = 128
	// maxBots bounds the bots with series of their own. Bots are made by staff, not by traffic.
	maxBots = 100
)

// Stater is implemented by *desk.Desk and by types that wrap one.
type Stater interface{ Stats() desk.Stats }

// Collector is a prometheus.Collector over Desks. Any goroutine may call its methods. A closed Desk stays readable.
type Collector struct {
	mu    sync.Mutex
	desks []watched
}

type watched struct {
	name string
	desk Stater
}

// New returns a Collector without a Desk.
func New() *Collector { return new(Collector) }

// Register adds a Desk under a name, which becomes its label. Register returns an error for a nil Desk, for a name that is
// empty, too long, invalid or taken, and for more than 16 Desks.
func (c *Collector) Register(name string, d Stater) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case d == nil:
		return errors.New("deskmetrics: Register of no Desk")
	case name == "" || len(name) > maxName || !utf8.ValidString(name):
		return fmt.Errorf("deskmetrics: %q is no name of a Desk: it takes 1 to %d bytes of UTF-8", name, maxName)
	case len(c.desks) == maxDesks:
		return fmt.Errorf("deskmetrics: more than %d Desks", maxDesks)
	}
	for _, w := range c.desks {
		if w.name == name {
			return fmt.Errorf("deskmetrics: a Desk named %q is registered", name)
		}
	}
	c.desks = append(c.desks, watched{name, d})
	return nil
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) { expo.Describe(to, families()) }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	all := c.desks
	c.mu.Unlock()
	for _, w := range all {
		st := w.desk.Stats()
		put(expo.NewScrape(to), w.name, &st)
	}
}

func put(scrape *expo.Scrape, name string, st *desk.Stats) {
	deskTable.Put(scrape, st, name)
	putLoad(scrape, name, &st.Load)
	putLatency(scrape, storeLatency, name, &st.Store.Latency)
	putLatency(scrape, feedLag, name, &st.FeedLag)
	for code, n := range st.Errors {
		scrape.Put(deskErrors, float64(n), name, code)
	}
	for code, n := range st.Closes {
		scrape.Put(deskCloses, float64(n), name, code)
	}
	for _, r := range refusals {
		scrape.Put(deskRefused, float64(r.of(st)), name, r.what)
	}
	for i := range st.Hooks {
		hookTable.Put(scrape, &st.Hooks[i], name, st.Hooks[i].ID)
	}
	for i := range st.Bots[:min(len(st.Bots), maxBots)] {
		b := &st.Bots[i]
		botTable.Put(scrape, b, name, b.ID)
		for _, state := range []bot.BreakerState{bot.BreakerClosed, bot.BreakerOpen, bot.BreakerHalfOpen} {
			scrape.Put(botBreaker, expo.One(b.Breaker == state), name, b.ID, string(state))
		}
	}
}
