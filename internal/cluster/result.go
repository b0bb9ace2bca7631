package cluster

import (
	"math"
	"slices"
	"time"
)

// Quantile returns the latency within which a share of the successful calls has ended.
func (r *Run) Quantile(share float64) time.Duration {
	if len(r.Latency) == 0 {
		return math.MaxInt64
	}
	slices.Sort(r.Latency)
	return r.Latency[min(int(share*float64(len(r.Latency))), len(r.Latency)-1)]
}

// ErrorRate returns the share of the calls that have failed from one second on, before another.
func (r *Run) ErrorRate(from, to int) float64 {
	var calls, failed int
	for _, s := range r.Seconds[from:to] {
		calls, failed = calls+s.Calls, failed+s.Failed
	}
	return float64(failed) / float64(max(1, calls))
}

// Amplification returns the attempts for each call, from one second on, before another.
func (r *Run) Amplification(from, to int) float64 {
	var calls, attempts int
	for _, s := range r.Seconds[from:to] {
		calls, attempts = calls+s.Calls, attempts+s.Attempts
	}
	return float64(attempts) / float64(max(1, calls))
}

// Spread returns the standard deviation of the work of the ordinary servers, in shares of its mean, and the most that one has, likewise. Ordinary ones
// have a Speed of 1, do not lie, are not dead, and were never down.
func (r *Run) Spread() (deviation, most float64) {
	var all []float64
	var sum, squares float64
	for i := range r.Servers {
		if s := &r.Servers[i]; s.Speed == 1 && !s.Lies && !s.Dead && s.times == 0 {
			w := s.Busy.Seconds()
			all = append(all, w)
			sum, squares = sum+w, squares+w*w
		}
	}
	mean := sum / float64(len(all))
	return math.Sqrt(max(0, squares/float64(len(all))-mean*mean)) / mean, slices.Max(all) / mean
}
