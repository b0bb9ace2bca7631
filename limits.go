package eddy

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// countShards is the number of locks a countTable spreads its keys over.
const countShards = 16

// countTable counts open connections by key. It holds only keys with connections, so that strangers who come and go leave
// nothing behind. Any goroutine; a lock is held for one map operation, at the accept and the close of a connection.
type countTable[K comparable] struct {
	seed   maphash.Seed
	shards [countShards]countShard[K]
}

type countShard[K comparable] struct {
	mu     sync.Mutex
	counts map[K]int
	peak   int // keys since the map was made
}

// sparseShard is the peak size from which an emptied shard drops its map, because a Go map does not shrink.
const sparseShard = 64

func newCountTable[K comparable]() *countTable[K] {
	return &countTable[K]{seed: maphash.MakeSeed()}
}

func (t *countTable[K]) shard(key K) *countShard[K] {
	return &t.shards[maphash.Comparable(t.seed, key)%countShards]
}

// add counts one more for the key, unless that would pass the limit.
func (t *countTable[K]) add(key K, limit int) bool {
	s := t.shard(key)
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

// remove undoes one add.
func (t *countTable[K]) remove(key K) {
	s := t.shard(key)
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

// len returns the number of keys.
func (t *countTable[K]) len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.counts)
		s.mu.Unlock()
	}
	return n
}

// rateLimit is a token bucket in one word: the time at which the bucket will be full again (the generic cell rate
// algorithm). Any goroutine.
type rateLimit struct {
	interval int64 // ns per token; 0 = no limit
	slack    int64 // how far full may lie ahead of now while a token is left
	full     atomic.Int64
}

// set fixes the rate per second, 0 for none, and the size of the bucket. Before the first use.
func (r *rateLimit) set(perSecond, burst int) {
	if perSecond > 0 {
		r.interval = max(1, int64(time.Second)/int64(perSecond))
		r.slack = int64(burst-1) * r.interval
	}
}

// take removes a token and returns 0, or returns the wait until there is one. now is monotonic ns.
func (r *rateLimit) take(now int64) (wait time.Duration) {
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

// giveBack undoes a take that led to no connection.
func (r *rateLimit) giveBack() { r.full.Add(-r.interval) }
