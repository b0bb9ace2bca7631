package auth

import (
	"math"
	"sync"
	"time"
)

// Buckets are token buckets, one per key. Their memory is bounded, because at most max of them are kept. Any goroutine
// may call.
type Buckets struct {
	rate  float64 // tokens a second
	burst float64
	max   int

	shared *Shared // nil = they count for this server alone

	mu    sync.Mutex
	keys  map[string]bucket
	spent map[string]float64 // what the others are not told yet, by key
}

type bucket struct {
	tokens float64
	at     time.Time
}

// NewBuckets returns buckets of burst tokens that refill at perSecond, for at most max keys. A burst of 0 is no limit.
func NewBuckets(perSecond float64, burst, max int) *Buckets {
	return &Buckets{rate: perSecond, burst: float64(burst), max: max, keys: make(map[string]bucket)}
}

// Allow spends a token of a key, if there is one.
func (b *Buckets) Allow(key string, now time.Time) bool { return b.Take(key, now) == 0 }

// Take spends a token of a key, or returns how long until there is one, which is at least a millisecond.
func (b *Buckets) Take(key string, now time.Time) (wait time.Duration) {
	if b.burst <= 0 {
		return 0
	}
	key = b.shared.id(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.bucket(key, now)
	if k.tokens < 1 {
		b.keys[key] = k
		if b.rate <= 0 {
			return time.Duration(math.MaxInt64)
		}
		return max(time.Millisecond, time.Duration((1-k.tokens)/b.rate*float64(time.Second)))
	}
	k.tokens--
	b.keys[key] = k
	b.tell(key, 1)
	return 0
}

// bucket returns the bucket of a key as it is now. b.mu is held.
func (b *Buckets) bucket(key string, now time.Time) bucket {
	k, known := b.keys[key]
	if !known {
		if len(b.keys) >= b.max {
			b.sweep(now)
		}
		k = bucket{tokens: b.burst, at: now}
	}
	return b.filled(k, now)
}

// Return gives back a token that was taken in vain.
func (b *Buckets) Return(key string) {
	key = b.shared.id(key)
	b.mu.Lock()
	defer b.mu.Unlock()
	if k, ok := b.keys[key]; ok {
		k.tokens = min(k.tokens+1, b.burst)
		b.keys[key] = k
		b.tell(key, -1)
	}
}

// Len returns how many keys are kept.
func (b *Buckets) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.keys)
}

func (b *Buckets) filled(k bucket, now time.Time) bucket {
	if d := now.Sub(k.at); d > 0 {
		k.tokens, k.at = min(k.tokens+b.rate*d.Seconds(), b.burst), now
	}
	return k
}

// sweep drops the full buckets, which are as good as new. If there are still too many it drops any, until a tenth is
// free. A flood of keys thus pays for few sweeps. b.mu is held.
func (b *Buckets) sweep(now time.Time) {
	for key, k := range b.keys {
		if b.filled(k, now).tokens >= b.burst {
			delete(b.keys, key)
		}
	}
	for key := range b.keys {
		if len(b.keys) <= b.max*9/10 {
			return
		}
		delete(b.keys, key)
	}
}
