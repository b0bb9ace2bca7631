package store

import (
	"sync/atomic"
	"time"
)

// Latencies counts how long things took. The zero value is ready. Any goroutine may call its methods.
type Latencies struct {
	sum    atomic.Int64
	within [LatencyBounds + 1]atomic.Uint64 // longer than the bound before, but not than this one; the last: longer than all bounds
}

// Add counts one.
func (l *Latencies) Add(d time.Duration) {
	i := 0
	for i < LatencyBounds && d > LatencyBound(i) {
		i++
	}
	l.within[i].Add(1)
	l.sum.Add(int64(d))
}

// Load returns the counts.
func (l *Latencies) Load() Latency {
	s := Latency{Sum: time.Duration(l.sum.Load())}
	for i := range l.within {
		s.Count += l.within[i].Load()
		if i < len(s.Upto) {
			s.Upto[i] = s.Count
		}
	}
	return s
}
