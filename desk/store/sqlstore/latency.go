package sqlstore

import (
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// latency counts how long commands took. Any goroutine may add and load.
type latency struct {
	sum    atomic.Int64
	within [store.LatencyBounds + 1]atomic.Uint64 // longer than the bound before, but not than this one; the last: longer than all bounds
}

func (l *latency) add(d time.Duration) {
	i := 0
	for i < store.LatencyBounds && d > store.LatencyBound(i) {
		i++
	}
	l.within[i].Add(1)
	l.sum.Add(int64(d))
}

func (l *latency) load() store.Latency {
	s := store.Latency{Sum: time.Duration(l.sum.Load())}
	for i := range l.within {
		s.Count += l.within[i].Load()
		if i < len(s.Upto) {
			s.Upto[i] = s.Count
		}
	}
	return s
}
