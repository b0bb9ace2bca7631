// Package sample bounds the log lines that a peer, a faulty handler or a lasting failure can cause at will.
package sample

import (
	"sync/atomic"
	"time"
)

// Lines lets through a bounded number of log lines per interval and counts the rest. Any goroutine.
type Lines struct {
	window     atomic.Int64 // start of the interval, monotonic ns
	passed     atomic.Int64
	suppressed atomic.Uint64
}

// The bound of Lines.
const (
	Interval    = int64(time.Second) // ns
	PerInterval = 5
)

// Allow reports whether a line may be logged at the given monotonic time. held is the number of lines held back since
// the last allowed one.
func (s *Lines) Allow(now int64) (ok bool, held uint64) {
	start := s.window.Load()
	if now-start >= Interval && s.window.CompareAndSwap(start, now) {
		s.passed.Store(0)
	}
	if s.passed.Add(1) > PerInterval {
		s.suppressed.Add(1)
		return false, 0
	}
	return true, s.suppressed.Swap(0)
}
