package auth

import (
	"slices"
	"sync"
	"time"
)

// Window lets each key do something at most n times in any stretch of time. Its memory is bounded, because at most max
// keys are kept. Any goroutine may call.
type Window struct {
	n   int
	per time.Duration
	max int

	mu   sync.Mutex
	keys map[string][]time.Time // oldest first, at most n
}

// NewWindow returns a window of n times in per, for at most max keys. n = 0 means no limit.
func NewWindow(n int, per time.Duration, max int) *Window {
	return &Window{n: n, per: per, max: max, keys: make(map[string][]time.Time)}
}

// Take counts one time of a key, or returns how long until there is room.
func (w *Window) Take(key string, now time.Time) (wait time.Duration) {
	if w.n <= 0 {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	times, known := w.keys[key]
	if !known && len(w.keys) >= w.max {
		w.sweep(now)
	}
	times = w.young(times, now)
	if len(times) >= w.n {
		w.keys[key] = times
		return max(time.Millisecond, times[0].Add(w.per).Sub(now))
	}
	w.keys[key] = append(times, now)
	return 0
}

// Return takes back one time that was counted in vain.
func (w *Window) Return(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if times := w.keys[key]; len(times) > 1 {
		w.keys[key] = times[:len(times)-1]
	} else {
		delete(w.keys, key)
	}
}

// Len returns how many keys are kept.
func (w *Window) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.keys)
}

func (w *Window) young(times []time.Time, now time.Time) []time.Time {
	i := 0
	for i < len(times) && now.Sub(times[i]) >= w.per {
		i++
	}
	return slices.Delete(times, 0, i)
}

// sweep drops the old keys. If there are still too many it drops any, until a tenth is free. w.mu is held.
func (w *Window) sweep(now time.Time) {
	for key, times := range w.keys {
		if now.Sub(times[len(times)-1]) >= w.per {
			delete(w.keys, key)
		}
	}
	for key := range w.keys {
		if len(w.keys) <= w.max*9/10 {
			return
		}
		delete(w.keys, key)
	}
}
