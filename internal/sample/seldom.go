package sample

import (
	"sync"
	"time"
)

// Seldom lets through one log line in an interval and counts the others. The zero Seldom is ready. Any goroutine.
type Seldom struct {
	mu   sync.Mutex
	last time.Time
	held uint64
}

// Allow reports whether a line may be logged now, and how many were held back since the last one that was.
func (l *Seldom) Allow(interval time.Duration) (ok bool, held uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < interval {
		l.held++
		return false, 0
	}
	held, l.last, l.held = l.held, now, 0
	return true, held
}
