package metrics

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-eddy/eddy/metrics/internal/expo"
)

const (
	// DefaultLabels is the number of tenants, and of networks, of a server with series of their own if Options has 0.
	DefaultLabels = 100
	// MaxSources bounds the sources of a Collector. Sources are parts of the program, not of its traffic.
	MaxSources = 1000

	maxName = 128 // bytes of a source's name
)

// Options bound what a Collector emits. The zero value is usable.
type Options struct {
	// Tenants and Networks are how many of each have series of their own, per server. Closes of all others count as
	// "other". The first ones seen keep their series, so that every series only grows. 0 = DefaultLabels,
	// negative = no series by tenant or network.
	Tenants, Networks int
}

// Collector is a prometheus.Collector over the sources that were registered with it. Any goroutine may call its methods.
// Collecting reads snapshots, so it delays no loop and no pool, and works for sources that have ended.
type Collector struct {
	o Options

	mu      sync.Mutex
	sources []*registered
}

// Source is a part of a program whose numbers a Collector reads. Its name becomes a label of its metrics.
type Source struct {
	kind string // sources of one kind have different names
	name string
	none bool // the constructor was given nil
	read func(*memory, *expo.Scrape)
}

// registered is a source with its memory from scrape to scrape.
type registered struct {
	Source
	memory memory
}

// memory holds the tenants and networks of a source that have series.
type memory struct{ tenants, networks known }

// New returns a Collector without sources.
func New(o Options) *Collector { return &Collector{o: o} }

// Register adds all the given sources or, with an error, none. The error names a source that reads nil, or whose name is
// taken, empty, too long or has a slash. Slashes separate the name from that of a part, such as a port of an rpc.Server. A
// source whose server, pool or other part has ended stays readable; its numbers no longer change.
func (c *Collector) Register(sources ...Source) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.sources) + len(sources); n > MaxSources {
		return fmt.Errorf("metrics: %d sources, limit %d", n, MaxSources)
	}
	added := c.sources[:len(c.sources):len(c.sources)]
	for _, s := range sources {
		if err := s.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(added, s.is) {
			return fmt.Errorf("metrics: a %s named %q is registered", s.kind, s.name)
		}
		added = append(added, &registered{s, memory{
			tenants: known{most: bound(c.o.Tenants)}, networks: known{most: bound(c.o.Networks)},
		}})
	}
	c.sources = added
	return nil
}

// bound returns the number of labels that an option stands for.
func bound(option int) int {
	if option == 0 {
		return DefaultLabels
	}
	return max(option, 0)
}

func (s Source) is(r *registered) bool { return s.kind == r.kind && s.name == r.name }

func (s Source) check() error {
	switch {
	case s.read == nil:
		return errors.New("metrics: Register of the zero Source")
	case s.none:
		return fmt.Errorf("metrics: the %s %q is nil", s.kind, s.name)
	case s.name == "" || len(s.name) > maxName || strings.Contains(s.name, "/") || !utf8.ValidString(s.name):
		return fmt.Errorf("metrics: %q is no name of a %s: it takes 1 to %d bytes of UTF-8 without a slash", s.name, s.kind, maxName)
	}
	return nil
}

// Unregister removes sources, whose series end, and ignores sources that are not registered.
func (c *Collector) Unregister(sources ...Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources = slices.DeleteFunc(slices.Clone(c.sources), func(r *registered) bool {
		return slices.ContainsFunc(sources, func(s Source) bool { return s.is(r) })
	})
}

// Describe implements prometheus.Collector, for all metrics of this package, whatever is registered.
func (c *Collector) Describe(to chan<- *prometheus.Desc) { expo.Describe(to, families()) }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	sources := c.sources
	c.mu.Unlock()
	scrape := expo.NewScrape(to)
	for _, r := range sources {
		r.read(&r.memory, scrape)
	}
}

// source makes a Source of a part with a snapshot, which put emits.
func source[S any, W interface {
	comparable
	Stats() S
}](kind, name string, what W, put func(*memory, *expo.Scrape, *S)) Source {
	var nothing W
	return Source{kind: kind, name: name, none: what == nothing, read: func(m *memory, scrape *expo.Scrape) {
		st := what.Stats()
		put(m, scrape, &st)
	}}
}

// table makes a Source of a part whose snapshot is one table.
func table[S any, W interface {
	comparable
	Stats() S
}](kind, name string, what W, t expo.Table[S]) Source {
	return source(kind, name, what, func(_ *memory, scrape *expo.Scrape, st *S) { t.Put(scrape, st, name) })
}
