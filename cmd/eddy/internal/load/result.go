package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run measured after its warm-up. Requests counts those whose answer came and was right.
type Result struct {
	Requests   int64
	Errors     int64            // connections that were refused, closed by the server or answered wrongly; each one ends with its error
	Kinds      map[string]int64 // the same by kind
	FirstError error
	Elapsed    time.Duration
	Latencies  *hdrhistogram.Histogram // nanoseconds, from when the request was sent or, with a Rate, should have been

	Refused    int64                   // answers that said that there was no room
	Refusals   *hdrhistogram.Histogram // latencies of those
	Unanswered int64                   // with a Rate: requests that were due and had no answer at the end; Latencies has their age
	Late       *hdrhistogram.Histogram // with a Rate: how long after it was due each request was sent
}

// PerSecond returns the number of answers per second.
func (r *Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Requests) / r.Elapsed.Seconds()
}

// shard collects the measurements of some of the connections, so that not all of them contend for one lock.
type shard struct {
	mu        sync.Mutex
	requests  int64
	latencies *hdrhistogram.Histogram

	refused    int64
	refusals   *hdrhistogram.Histogram
	unanswered int64
	late       *hdrhistogram.Histogram
}

func newShard() *shard {
	return &shard{latencies: NewHistogram(), refusals: NewHistogram(), late: NewHistogram()}
}

// answer notes an answer. s.mu is held.
func (s *shard) answer(latency time.Duration, refused bool) {
	if refused {
		s.refused++
		record(s.refusals, latency)
		return
	}
	s.requests++
	record(s.latencies, latency)
}

// maxLatency is the longest latency that is told apart. Longer ones count as maxLatency.
const maxLatency = time.Minute

// NewHistogram returns a histogram of nanoseconds to a minute, to three digits.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1000, int64(maxLatency), 3)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(int64(min(max(d, 0), maxLatency))) // in range, so it cannot fail
}

// faults counts errors by kind.
type faults struct {
	mu    sync.Mutex
	all   int64
	kinds map[string]int64
	first error
}

func (f *faults) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all++
	if f.kinds == nil {
		f.kinds = map[string]int64{}
	}
	f.kinds[kindOf(err)]++
	if f.first == nil {
		f.first = err
	}
}

// result adds up the shards.
func (g *generator) result(elapsed time.Duration) *Result {
	r := &Result{Elapsed: elapsed, Kinds: map[string]int64{}, Latencies: NewHistogram(), Refusals: NewHistogram(), Late: NewHistogram()}
	g.faults.mu.Lock()
	r.Errors, r.FirstError = g.faults.all, g.faults.first
	for kind, n := range g.faults.kinds {
		r.Kinds[kind] = n
	}
	g.faults.mu.Unlock()
	for _, s := range g.shards {
		s.mu.Lock()
		r.Requests += s.requests
		r.Latencies.Merge(s.latencies)
		r.Refused += s.refused
		r.Refusals.Merge(s.refusals)
		r.Unanswered += s.unanswered
		r.Late.Merge(s.late)
		s.mu.Unlock()
	}
	return r
}
