package ring

import (
	"fmt"
	"math"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// Broadcast is one ring from one producer to a fixed number of consumers that all see every message, in order. The
// slowest consumer limits the producer; a disabled one limits nobody.
type Broadcast[T any] struct {
	slots []T
	mask  uint64

	_       cpu.CacheLinePad
	filled  uint64
	limit   uint64 // up to which the producer may go without a look at the consumers
	_       cpu.CacheLinePad
	visible atomic.Uint64
	_       cpu.CacheLinePad
	readers []Reader[T]
}

// NewBroadcast makes a ring of capacity slots, a power of two (0 means DefaultCapacity), with a number of consumers.
func NewBroadcast[T any](consumers, capacity int) (*Broadcast[T], error) {
	n, err := capacityOf(capacity)
	if err != nil {
		return nil, err
	}
	if consumers < 1 {
		return nil, fmt.Errorf("ring: %d consumers, at least 1 is needed", consumers)
	}
	b := &Broadcast[T]{slots: make([]T, n), mask: uint64(n - 1), limit: uint64(n), readers: make([]Reader[T], consumers)}
	for i := range b.readers {
		b.readers[i].ring = b
	}
	return b, nil
}

// Cap returns the number of slots. Any goroutine.
func (b *Broadcast[T]) Cap() int { return len(b.slots) }

// Consumers returns the number of consumers, disabled ones included. Any goroutine.
func (b *Broadcast[T]) Consumers() int { return len(b.readers) }

// Consumer returns consumer i's view of the ring.
func (b *Broadcast[T]) Consumer(i int) *Reader[T] { return &b.readers[i] }

// Next returns the next free slot for the producer to fill, nil while the slowest consumer needs it.
func (b *Broadcast[T]) Next() *T {
	if b.filled == b.limit {
		b.limit = b.slowest() + uint64(len(b.slots))
		if b.filled == b.limit {
			return nil
		}
	}
	slot := &b.slots[b.filled&b.mask]
	b.filled++
	return slot
}

// slowest returns how far the last consumer has come. If all are disabled, all of the ring is free.
func (b *Broadcast[T]) slowest() uint64 {
	least := b.filled
	for i := range b.readers {
		least = min(least, b.readers[i].freed.Load())
	}
	return least
}

// Withdraw takes back the slots that Next returned since the last Publish. Producer only.
func (b *Broadcast[T]) Withdraw() { b.filled = b.visible.Load() }

// Publish makes the slots that Next returned visible to the consumers.
func (b *Broadcast[T]) Publish() { b.visible.Store(b.filled) }

// Send publishes one message, and reports false when the slowest consumer has left no room. Producer only.
func (b *Broadcast[T]) Send(v T) bool {
	slot := b.Next()
	if slot == nil {
		return false
	}
	*slot = v
	b.Publish()
	return true
}

// Len returns the number of published messages that the slowest consumer has not released, at most Cap. Any goroutine.
func (b *Broadcast[T]) Len() int {
	least := uint64(math.MaxUint64)
	for i := range b.readers {
		least = min(least, b.readers[i].freed.Load())
	}
	visible := b.visible.Load()                                // after the others, so that the difference is never negative
	return min(int(visible-min(least, visible)), len(b.slots)) // more may have been released and published between the two
}

// Clear drops everything and zeroes the slots; disabled consumers stay disabled. Only while nobody uses the ring.
func (b *Broadcast[T]) Clear() {
	b.Withdraw()
	clear(b.slots)
	b.limit = b.filled + uint64(len(b.slots))
	for i := range b.readers {
		r := &b.readers[i]
		r.fetched, r.known = b.filled, b.filled
		r.Release()
	}
}

// Disable lets the producer go on without consumer i, for ever. Any goroutine; the consumer itself must have stopped.
func (b *Broadcast[T]) Disable(i int) { b.readers[i].freed.Store(math.MaxUint64) }

// Reader is one consumer's view of a Broadcast. Its methods belong to one goroutine.
type Reader[T any] struct {
	ring    *Broadcast[T]
	fetched uint64
	known   uint64
	_       cpu.CacheLinePad
	freed   atomic.Uint64 // math.MaxUint64 when disabled
	_       cpu.CacheLinePad
}

// Available returns how many messages can be fetched; 0 after Disable.
func (r *Reader[T]) Available() int {
	if r.freed.Load() == math.MaxUint64 {
		return 0
	}
	r.known = r.ring.visible.Load()
	return int(r.known - r.fetched)
}

// Fetch returns the next message, nil when there is none. All consumers share the message: read it, change nothing. It
// may be used until Release.
func (r *Reader[T]) Fetch() *T {
	if r.fetched == r.known && r.Available() == 0 {
		return nil
	}
	slot := &r.ring.slots[r.fetched&r.ring.mask]
	r.fetched++
	return slot
}

// Release tells the producer that this consumer is done with what it fetched.
func (r *Reader[T]) Release() {
	if freed := r.freed.Load(); freed != math.MaxUint64 {
		r.freed.CompareAndSwap(freed, r.fetched) // loses only to Disable
	}
}

// RollBack makes the last n messages that were fetched and not released available again.
func (r *Reader[T]) RollBack(n int) error {
	freed := r.freed.Load()
	if freed == math.MaxUint64 || n < 0 || uint64(n) > r.fetched-freed {
		return fmt.Errorf("%w: %d", ErrRollBack, n)
	}
	r.fetched -= uint64(n)
	return nil
}
