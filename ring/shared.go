package ring

import (
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// Shared is one ring from one producer to any number of consumers, each of which takes whatever is next. Each message is
// handled once, and none waits behind a slow one while a consumer is idle. Messages that are handled at the same time
// have no order.
type Shared[T any] struct {
	slots []sharedSlot[T]
	mask  uint64

	_      cpu.CacheLinePad
	filled uint64        // producer only
	end    atomic.Uint64 // filled, as of the last Publish
	_      cpu.CacheLinePad
	taken  atomic.Uint64 // messages claimed by consumers
	_      cpu.CacheLinePad
}

// sharedSlot carries a message and counts how often it was emptied, which tells the producer whether it is free.
type sharedSlot[T any] struct {
	emptied atomic.Uint64
	v       T
}

// NewShared makes a ring of capacity slots, a power of two; 0 means DefaultCapacity.
func NewShared[T any](capacity int) (*Shared[T], error) {
	n, err := capacityOf(capacity)
	if err != nil {
		return nil, err
	}
	return &Shared[T]{slots: make([]sharedSlot[T], n), mask: uint64(n - 1)}, nil
}

// Cap returns the number of slots. Any goroutine.
func (q *Shared[T]) Cap() int { return len(q.slots) }

// Len returns the number of published messages that nobody has taken. Any goroutine.
func (q *Shared[T]) Len() int {
	taken := q.taken.Load()
	return int(q.end.Load() - taken)
}

// Next returns the next free slot for the producer to fill, nil when the ring is full.
func (q *Shared[T]) Next() *T {
	s := &q.slots[q.filled&q.mask]
	if s.emptied.Load() != q.filled/uint64(len(q.slots)) {
		return nil
	}
	q.filled++
	return &s.v
}

// Withdraw takes back the slots that Next returned since the last Publish. Producer only.
func (q *Shared[T]) Withdraw() { q.filled = q.end.Load() }

// Publish makes the slots that Next returned visible to the consumers.
func (q *Shared[T]) Publish() { q.end.Store(q.filled) }

// Send publishes one message, and reports false when the ring is full. Producer only.
func (q *Shared[T]) Send(v T) bool {
	slot := q.Next()
	if slot == nil {
		return false
	}
	*slot = v
	q.Publish()
	return true
}

// Recv takes the next message and frees its slot; false when there is none. Any consumer.
func (q *Shared[T]) Recv() (v T, ok bool) {
	for {
		at := q.taken.Load()
		if at >= q.end.Load() {
			return v, false
		}
		if q.taken.CompareAndSwap(at, at+1) {
			return q.empty(at), true
		}
	}
}

// RecvBatch takes up to len(vs) messages and returns how many. A consumer that takes more than it handles soon keeps
// messages from the others. Any consumer.
func (q *Shared[T]) RecvBatch(vs []T) int {
	for {
		at := q.taken.Load()
		n := min(uint64(len(vs)), q.end.Load()-at)
		if n == 0 {
			return 0
		}
		if q.taken.CompareAndSwap(at, at+n) {
			for i := range n {
				vs[i] = q.empty(at + i)
			}
			return int(n)
		}
	}
}

// empty copies, clears and frees a slot that the caller has claimed.
func (q *Shared[T]) empty(at uint64) T {
	s := &q.slots[at&q.mask]
	v := s.v
	var zero T
	s.v = zero
	s.emptied.Store(at/uint64(len(q.slots)) + 1)
	return v
}

// Clear drops everything. Only while nobody uses the ring.
func (q *Shared[T]) Clear() {
	q.Withdraw()
	for _, ok := q.Recv(); ok; _, ok = q.Recv() {
	}
	for i := range q.slots {
		var zero T
		q.slots[i].v = zero // of what was withdrawn
	}
}
