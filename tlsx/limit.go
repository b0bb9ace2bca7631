package tlsx

import (
	"sync/atomic"
	"time"
)

// logLines is how many handshake failures are logged per second; the others are counted in the next line.
const logLines = 5

// bucket is a token bucket in one word: the time at which it will be full again. Any goroutine.
type bucket struct {
	interval int64 // ns per token; 0 = no limit
	slack    int64
	full     atomic.Int64
}

// set fixes the rate per second, 0 for no limit, and the size. Call it before the first use.
func (b *bucket) set(perSecond, size int) {
	if perSecond > 0 {
		b.interval = max(1, int64(time.Second)/int64(perSecond))
		b.slack = int64(max(size, 1)-1) * b.interval
	}
}

// take removes a token and reports whether there was one. now is the time of any monotonic clock.
func (b *bucket) take(now int64) bool {
	if b.interval == 0 {
		return true
	}
	for {
		full := b.full.Load()
		from := max(full, now)
		if from-now > b.slack {
			return false
		}
		if b.full.CompareAndSwap(full, from+b.interval) {
			return true
		}
	}
}
