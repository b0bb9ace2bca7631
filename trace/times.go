package trace

import (
	"slices"
	"sync"
	"time"
)

// bounds are the upper bounds of the histograms' buckets, in seconds.
var bounds = [...]float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10} //nolint:gochecknoglobals // never written

// Times is the histogram of a stage's time, or of whole requests'.
type Times struct {
	Stage   Stage
	All     bool // of whole requests; Stage says nothing
	Count   uint64
	Sum     float64 // seconds
	Buckets []Bucket
}

// Bucket is one bucket of a histogram.
type Bucket struct {
	Bound float64 // seconds, inclusive; 0 in the last bucket, which has no bound
	Count uint64  // of this bucket and all before it
	// Last is the latest request that fell in this bucket, as an exemplar.
	Last Exemplar
}

// Exemplar is one request of a bucket. The zero value stands for none.
type Exemplar struct {
	Trace TraceID
	Value float64 // seconds
	At    time.Time
}

// times are the histograms of all stages, and that of whole requests behind them.
type times struct {
	mu   sync.Mutex
	each [stages + 1]histogram
}

type histogram struct {
	count uint64
	sum   float64
	in    [len(bounds) + 1]uint64
	last  [len(bounds) + 1]Exemplar
}

func (t *times) add(s *Summary) {
	var per [stages]time.Duration
	var has [stages]bool
	for _, p := range s.Stages {
		per[p.Stage] += p.Took
		has[p.Stage] = true
	}
	at := s.Began.Add(s.Took)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, took := range per {
		if has[i] {
			t.each[i].add(took, s.Self.Trace, at)
		}
	}
	t.each[stages].add(s.Took, s.Self.Trace, at)
}

func (h *histogram) add(took time.Duration, id TraceID, at time.Time) {
	v := took.Seconds()
	h.count++
	h.sum += v
	i, _ := slices.BinarySearch(bounds[:], v)
	h.in[i]++
	h.last[i] = Exemplar{id, v, at}
}

func (t *times) list() []Times {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Times, len(t.each))
	for i := range t.each {
		h := &t.each[i]
		list[i] = Times{Stage: Stage(i), All: i == int(stages), Count: h.count, Sum: h.sum, Buckets: make([]Bucket, len(h.in))}
		total := uint64(0)
		for j := range h.in {
			total += h.in[j]
			b := Bucket{Count: total, Last: h.last[j]}
			if j < len(bounds) {
				b.Bound = bounds[j]
			}
			list[i].Buckets[j] = b
		}
	}
	return list
}
