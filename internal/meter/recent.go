package meter

import (
	"sync"
	"time"
)

// Recent keeps the last entries that were added, with their times. A nil Recent keeps nothing. Any goroutine.
type Recent[E any] struct {
	mu   sync.Mutex
	ring []E
	at   []int64 // monotonic ns
	next int
}

// NewRecent makes a Recent for n entries, nil for 0.
func NewRecent[E any](n int) *Recent[E] {
	if n == 0 {
		return nil
	}
	return &Recent[E]{ring: make([]E, 0, n), at: make([]int64, 0, n)}
}

// Add keeps an entry of the given time in place of the oldest.
func (r *Recent[E]) Add(now int64, entry E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < cap(r.ring) {
		r.ring, r.at = append(r.ring, entry), append(r.at, now)
		return
	}
	r.ring[r.next], r.at[r.next] = entry, now
	r.next = (r.next + 1) % len(r.ring)
}

// Each calls f for a copy of every entry and its age, the latest first. f must not use r.
func (r *Recent[E]) Each(now int64, f func(entry E, age time.Duration)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.ring) - 1; i >= 0; i-- {
		n := (r.next + i) % len(r.ring)
		f(r.ring[n], time.Duration(max(now-r.at[n], 0)))
	}
}
