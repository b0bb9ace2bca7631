package sample

import (
	"sync"
	"time"
)

// Seldom lets one log line through per interval and counts the others. The zero value is ready. Any goroutine.
type Seldom struct {
	mu   sync.Mutex
	last time.Time
	held uint64
}

// Allow reports whether a line may be logged now. held is the number of lines held back since the last allowed one.
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
