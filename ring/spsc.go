package ring

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// DefaultCapacity is the number of slots of a ring made with capacity 0.
const DefaultCapacity = 1024

// maxCapacity keeps slot counts far from overflow.
const maxCapacity = 1 << 30

// ErrRollBack is returned by RollBack when more is asked for than was fetched.
var ErrRollBack = errors.New("ring: roll back beyond what was fetched since the last Release")

// SPSC is a ring between one producer and one consumer, first in, first out.
type SPSC[T any] struct {
	slots []T
	mask  uint64

	_       cpu.CacheLinePad
	filled  uint64 // slots handed to the producer so far
	limit   uint64 // up to which the producer may go without a look at freed
	_       cpu.CacheLinePad
	visible atomic.Uint64 // filled, as of the last Publish
	_       cpu.CacheLinePad
	fetched uint64 // slots handed to the consumer so far
	known   uint64 // up to which the consumer may go without a look at visible
	_       cpu.CacheLinePad
	freed   atomic.Uint64 // fetched, as of the last Release
	_       cpu.CacheLinePad
}

// NewSPSC makes a ring of capacity slots, a power of two; 0 means DefaultCapacity.
func NewSPSC[T any](capacity int) (*SPSC[T], error) {
	n, err := capacityOf(capacity)
	if err != nil {
		return nil, err
	}
	return &SPSC[T]{slots: make([]T, n), mask: uint64(n - 1), limit: uint64(n)}, nil
}

// capacityOf checks a capacity and fills in the default.
func capacityOf(capacity int) (int, error) {
	if capacity == 0 {
		return DefaultCapacity, nil
	}
	if capacity < 0 || capacity > maxCapacity || capacity&(capacity-1) != 0 {
		return 0, fmt.Errorf("ring: capacity %d is not a power of two up to %d", capacity, maxCapacity)
	}
	return capacity, nil
}

// Cap returns the number of slots. Any goroutine.
func (q *SPSC[T]) Cap() int { return len(q.slots) }

// Len returns the number of published messages that were not released, at most Cap. Any goroutine; exact for a goroutine
// that is both producer and consumer.
func (q *SPSC[T]) Len() int {
	freed := q.freed.Load()                               // first, so that the difference is never negative
	return min(int(q.visible.Load()-freed), len(q.slots)) // more may have been released and published between the two
}

// Next returns the next free slot for the producer to fill, nil when the ring is full. The slot still holds what an
// earlier message left there.
func (q *SPSC[T]) Next() *T {
	if q.filled == q.limit {
		q.limit = q.freed.Load() + uint64(len(q.slots))
		if q.filled == q.limit {
			return nil
		}
	}
	slot := &q.slots[q.filled&q.mask]
	q.filled++
	return slot
}

// NextBatch returns up to n free slots that lie side by side, for the producer to fill. There are fewer where the array
// ends or little is free, and none when the ring is full or n is below 1. They count like as many calls of Next; a loop
// over them costs a fraction of that.
func (q *SPSC[T]) NextBatch(n int) []T {
	free := q.limit - q.filled
	if free < uint64(max(n, 0)) {
		q.limit = q.freed.Load() + uint64(len(q.slots))
		free = q.limit - q.filled
	}
	run := q.run(q.filled, free, n)
	q.filled += uint64(len(run))
	return run
}

// run returns up to n of the free or filled slots from number at on, as far as they lie side by side.
func (q *SPSC[T]) run(at, there uint64, n int) []T {
	i := at & q.mask
	end := i + min(uint64(max(n, 0)), there, uint64(len(q.slots))-i)
	return q.slots[i:end:end]
}

// Publish makes the slots that Next returned visible to the consumer.
func (q *SPSC[T]) Publish() { q.visible.Store(q.filled) }

// Published returns the number of messages that were ever published, without withdrawn ones. Any goroutine.
func (q *SPSC[T]) Published() uint64 { return q.visible.Load() }

// Withdraw takes back the slots that Next returned since the last Publish. Producer only.
func (q *SPSC[T]) Withdraw() { q.filled = q.visible.Load() }

// Unpublished returns the number of slots that Next returned since the last Publish. Producer only.
func (q *SPSC[T]) Unpublished() int { return int(q.filled - q.visible.Load()) }

// Send publishes one message, and reports false when the ring is full. Producer only.
func (q *SPSC[T]) Send(v T) bool {
	slot := q.Next()
	if slot == nil {
		return false
	}
	*slot = v
	q.Publish()
	return true
}

// Available returns how many messages can be fetched. Consumer only.
func (q *SPSC[T]) Available() int {
	q.known = q.visible.Load()
	return int(q.known - q.fetched)
}

// Fetch returns the next message, nil when there is none. It may be used until Release.
func (q *SPSC[T]) Fetch() *T {
	slot := q.Peek()
	if slot != nil {
		q.fetched++
	}
	return slot
}

// Peek returns the message that Fetch would return, and leaves it there.
func (q *SPSC[T]) Peek() *T {
	if q.fetched == q.known && q.Available() == 0 {
		return nil
	}
	return &q.slots[q.fetched&q.mask]
}

// FetchBatch returns up to n messages that lie side by side. There are fewer where the array ends or few are there, and
// none when the ring is empty or n is below 1. They count like as many calls of Fetch, and may be used until Release.
func (q *SPSC[T]) FetchBatch(n int) []T {
	if q.known-q.fetched < uint64(max(n, 0)) {
		q.Available()
	}
	run := q.run(q.fetched, q.known-q.fetched, n)
	q.fetched += uint64(len(run))
	return run
}

// Release gives the slots that were fetched back to the producer.
func (q *SPSC[T]) Release() { q.freed.Store(q.fetched) }

// Unreleased returns the number of messages that were fetched since the last Release. Consumer only.
func (q *SPSC[T]) Unreleased() int { return int(q.fetched - q.freed.Load()) }

// RollBack makes the last n messages that were fetched and not released available again. Consumer only.
func (q *SPSC[T]) RollBack(n int) error {
	if n < 0 || n > q.Unreleased() {
		return fmt.Errorf("%w: %d of %d", ErrRollBack, n, q.Unreleased())
	}
	q.fetched -= uint64(n)
	return nil
}

// Recv fetches, copies and releases one message, and clears its slot so that the slot keeps nothing alive. It reports
// false when there is none. Consumer only, and only when everything fetched is released.
func (q *SPSC[T]) Recv() (v T, ok bool) {
	slot := q.Fetch()
	if slot == nil {
		return v, false
	}
	v = *slot
	clear(q.slots[(q.fetched-1)&q.mask : (q.fetched-1)&q.mask+1])
	q.Release()
	return v, true
}

// Clear drops everything and zeroes the slots. Only while neither side uses the ring.
func (q *SPSC[T]) Clear() {
	clear(q.slots)
	q.filled = q.visible.Load()
	q.fetched, q.known = q.filled, q.filled
	q.freed.Store(q.filled)
	q.limit = q.filled + uint64(len(q.slots))
}
