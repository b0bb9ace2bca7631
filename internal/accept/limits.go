package accept

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// shards is the number of locks a Table spreads its keys over.
const shards = 16

// Table counts open connections by key. It holds only keys with connections, so that strangers who come and go leave
// nothing behind. The zero value is ready. Any goroutine; a lock is held for one map operation, at the accept and the close
// of a connection.
type Table[K comparable] struct{ shards [shards]shard[K] }

// seed keeps strangers from choosing their shard.
var seed = maphash.MakeSeed()

type shard[K comparable] struct {
	mu     sync.Mutex
	counts map[K]int
	peak   int // keys since the map was made
}

// sparseShard is the peak size from which an emptied shard drops its map, because a Go map does not shrink.
const sparseShard = 64

func (t *Table[K]) of(key K) *shard[K] {
	return &t.shards[maphash.Comparable(seed, key)%shards]
}

// Add counts one more for the key, unless that would pass the limit.
func (t *Table[K]) Add(key K, limit int) bool {
	s := t.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.counts[key] + 1
	if n > limit {
		return false
	}
	if s.counts == nil {
		s.counts = make(map[K]int)
	}
	s.counts[key] = n
	s.peak = max(s.peak, len(s.counts))
	return true
}

// Remove undoes one Add.
func (t *Table[K]) Remove(key K) {
	s := t.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.counts[key]; n > 1 {
		s.counts[key] = n - 1
		return
	}
	delete(s.counts, key)
	if len(s.counts) == 0 && s.peak > sparseShard {
		s.counts, s.peak = nil, 0
	}
}

// Len returns the number of keys.
func (t *Table[K]) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.counts)
		s.mu.Unlock()
	}
	return n
}

// Rate is a token bucket in one word: the time at which the bucket will be full again (the generic cell rate
// algorithm). Any goroutine.
type Rate struct {
	interval int64 // ns per token; 0 = no limit
	slack    int64 // how far full may lie ahead of now while a token is left
	full     atomic.Int64
}

// Set fixes the rate per second, 0 for none, and the size of the bucket. Before the first use.
func (r *Rate) Set(perSecond, burst int) {
	if perSecond > 0 {
		r.interval = max(1, int64(time.Second)/int64(perSecond))
		r.slack = int64(burst-1) * r.interval
	}
}

// Take removes a token and returns 0, or returns the wait until there is one. now is monotonic ns.
func (r *Rate) Take(now int64) (wait time.Duration) {
	if r.interval == 0 {
		return 0
	}
	for {
		full := r.full.Load()
		from := max(full, now)
		if wait := from - now - r.slack; wait > 0 {
			return time.Duration(wait)
		}
		if r.full.CompareAndSwap(full, from+r.interval) {
			return 0
		}
	}
}

// GiveBack undoes a Take that led to no connection.
func (r *Rate) GiveBack() { r.full.Add(-r.interval) }
