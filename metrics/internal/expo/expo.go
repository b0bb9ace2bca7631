// Package expo describes metrics and emits their values, for the collectors of packages metrics and deskmetrics.
package expo

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Family is one metric: a name, its meaning, and the names of its labels.
type Family struct {
	Name, Help string
	Labels     []string
	kind       prometheus.ValueType
	histogram  bool
	desc       *prometheus.Desc
}

// Counter returns a metric that only grows. Its name ends in _total.
func Counter(name, help string, labels ...string) *Family {
	return newFamily(prometheus.CounterValue, name, help, labels)
}

// Gauge returns a metric that goes up and down.
func Gauge(name, help string, labels ...string) *Family {
	return newFamily(prometheus.GaugeValue, name, help, labels)
}

func newFamily(kind prometheus.ValueType, name, help string, labels []string) *Family {
	return &Family{Name: name, Help: help, Labels: labels, kind: kind, desc: prometheus.NewDesc(name, help, labels, nil)}
}

// Histogram returns a metric that counts observations by their size. PutHistogram emits it.
func Histogram(name, help string, labels ...string) *Family {
	f := newFamily(prometheus.UntypedValue, name, help, labels)
	f.histogram = true
	return f
}

// Type returns the type's name in the exposition format.
func (f *Family) Type() string {
	switch {
	case f.histogram:
		return "histogram"
	case f.kind == prometheus.CounterValue:
		return "counter"
	}
	return "gauge"
}

// Describe sends the descriptions of families.
func Describe(to chan<- *prometheus.Desc, families []*Family) {
	for _, f := range families {
		to <- f.desc
	}
}

// Scrape is one collection. It belongs to one goroutine.
type Scrape struct{ to chan<- prometheus.Metric }

// NewScrape returns a collection that goes to the channel.
func NewScrape(to chan<- prometheus.Metric) *Scrape { return &Scrape{to} }

// Put emits one value. There must be as many labels as the family has names.
func (s *Scrape) Put(f *Family, v float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
}

// PutHistogram emits the buckets, the sum and the count of a histogram. upto has the number of observations up to each bound,
// the smaller ones included.
func (s *Scrape) PutHistogram(f *Family, count uint64, sum float64, upto map[float64]uint64, labels ...string) {
	s.to <- prometheus.MustNewConstHistogram(f.desc, count, sum, upto, labels...)
}

// PutExemplars is PutHistogram with an exemplar for each bucket that has one.
func (s *Scrape) PutExemplars(f *Family, count uint64, sum float64, upto map[float64]uint64, exemplars []prometheus.Exemplar, labels ...string) {
	h := prometheus.MustNewConstHistogram(f.desc, count, sum, upto, labels...)
	if len(exemplars) > 0 {
		h = prometheus.MustNewMetricWithExemplars(h, exemplars...)
	}
	s.to <- h
}

// Column is a family with the function that finds its value in a snapshot.
type Column[S any] struct {
	*Family
	of func(*S) float64
}

// Number has the number types of snapshots.
type Number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Count makes a column of a counter.
func Count[S any, N Number](name, help string, of func(*S) N) Column[S] {
	return Column[S]{Counter(name, help), func(s *S) float64 { return float64(of(s)) }}
}

// Level makes a column of a gauge.
func Level[S any, N Number](name, help string, of func(*S) N) Column[S] {
	return Column[S]{Gauge(name, help), func(s *S) float64 { return float64(of(s)) }}
}

// Switch makes a column that is 1 or 0.
func Switch[S any](name, help string, of func(*S) bool) Column[S] {
	return Column[S]{Gauge(name, help), func(s *S) float64 { return One(of(s)) }}
}

// One returns 1 for true and 0 for false.
func One(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Table has the columns of one kind of snapshot. All have the same labels.
type Table[S any] []Column[S]

// Put emits all values of a snapshot.
func (t Table[S]) Put(s *Scrape, from *S, labels ...string) {
	for _, c := range t {
		s.Put(c.Family, c.of(from), labels...)
	}
}

// Families returns the families of the columns.
func (t Table[S]) Families() []*Family {
	all := make([]*Family, len(t))
	for i, c := range t {
		all[i] = c.Family
	}
	return all
}

// With returns the table with these labels on all columns.
func (t Table[S]) With(labels ...string) Table[S] {
	named := slices.Clone(t)
	for i, c := range named {
		named[i].Family = newFamily(c.kind, c.Name, c.Help, labels)
	}
	return named
}

// Value returns the column's value in a snapshot.
func (c Column[S]) Value(of *S) float64 { return c.of(of) }
