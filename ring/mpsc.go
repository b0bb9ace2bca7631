package ring

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// MPSC is a ring from any number of producers to one consumer. Messages of one producer stay in order.
//
// A producer that is stopped between claiming a slot and filling it delays the messages behind that slot, but not their
// producers.
type MPSC[T any] struct {
	slots []mpscSlot[T]
	mask  uint64

	_       cpu.CacheLinePad
	claimed atomic.Uint64 // slots taken by producers
	_       cpu.CacheLinePad
	fetched uint64 // consumer only
	_       cpu.CacheLinePad
	freed   atomic.Uint64 // fetched, as of the last Release
	_       cpu.CacheLinePad
}

// mpscSlot carries a message and a number that tells whether the slot is filled.
type mpscSlot[T any] struct {
	filled atomic.Uint64 // the message's number + 1 once it is filled, smaller before
	v      T
}

// NewMPSC makes a ring of capacity slots, a power of two; 0 means DefaultCapacity.
func NewMPSC[T any](capacity int) (*MPSC[T], error) {
	n, err := capacityOf(capacity)
	if err != nil {
		return nil, err
	}
	return &MPSC[T]{slots: make([]mpscSlot[T], n), mask: uint64(n - 1)}, nil
}

// Cap returns the number of slots. Any goroutine.
func (q *MPSC[T]) Cap() int { return len(q.slots) }

// Len returns the number of messages that were claimed and not released, at most Cap. Any goroutine.
func (q *MPSC[T]) Len() int {
	freed := q.freed.Load()
	return min(int(q.claimed.Load()-freed), len(q.slots)) // more may have been released and claimed between the two
}

// Send publishes one message, and reports false when the ring is full. Any goroutine.
func (q *MPSC[T]) Send(v T) bool {
	at, ok := q.claim(1)
	if ok {
		q.put(at, v)
	}
	return ok
}

// SendBatch publishes all messages, behind each other, or none, and reports whether it did. Any goroutine.
func (q *MPSC[T]) SendBatch(vs []T) bool {
	at, ok := q.claim(uint64(len(vs)))
	if ok {
		for i, v := range vs {
			q.put(at+uint64(i), v)
		}
	}
	return ok
}

// claim takes the next n slots if they are free.
func (q *MPSC[T]) claim(n uint64) (first uint64, ok bool) {
	for {
		// freed is read before claimed. It can only have grown since, so the free room is never overestimated.
		freed := q.freed.Load()
		first = q.claimed.Load()
		if first+n-freed > uint64(len(q.slots)) {
			if freed == q.freed.Load() {
				return 0, false
			}
			continue // released in between: look again
		}
		if q.claimed.CompareAndSwap(first, first+n) {
			return first, true
		}
	}
}

func (q *MPSC[T]) put(at uint64, v T) {
	s := &q.slots[at&q.mask]
	s.v = v
	s.filled.Store(at + 1)
}

// Fetch returns the next message, nil when there is none. It may be used until Release. Consumer only.
func (q *MPSC[T]) Fetch() *T {
	s := &q.slots[q.fetched&q.mask]
	if s.filled.Load() != q.fetched+1 {
		return nil
	}
	q.fetched++
	return &s.v
}

// Release gives the slots that were fetched back to the producers. Consumer only.
func (q *MPSC[T]) Release() { q.freed.Store(q.fetched) }

// Unreleased returns the number of messages that were fetched since the last Release. Consumer only.
func (q *MPSC[T]) Unreleased() int { return int(q.fetched - q.freed.Load()) }

// RollBack makes the last n messages that were fetched and not released available again. Consumer only.
func (q *MPSC[T]) RollBack(n int) error {
	if n < 0 || n > q.Unreleased() {
		return fmt.Errorf("%w: %d of %d", ErrRollBack, n, q.Unreleased())
	}
	q.fetched -= uint64(n)
	return nil
}

// Recv fetches, copies, clears and releases one message; false when there is none. Consumer only, and only when
// everything fetched is released.
func (q *MPSC[T]) Recv() (v T, ok bool) {
	slot := q.Fetch()
	if slot == nil {
		return v, false
	}
	v = *slot
	var zero T
	*slot = zero
	q.Release()
	return v, true
}

// Clear drops everything and zeroes the slots. Only while nobody uses the ring.
func (q *MPSC[T]) Clear() {
	var zero T
	for i := range q.slots {
		q.slots[i].v = zero // the number stays, because it tells whether the slot is filled
	}
	q.fetched = q.claimed.Load()
	q.freed.Store(q.fetched)
}
