package executor

import (
	"context"
	"sync"
	"time"
)

const (
	// turnItems is how many items a strand or key runs before it lets others have its
	// worker.
	turnItems = 64

	// turnTime is after which time it does so before that, if others wait.
	turnTime = time.Millisecond

	// DefaultBound is the number of waiting items of a strand made with bound 0, and of
	// a key made with perKey 0.
	DefaultBound = 1024
)

// Strand runs items one at a time in the order of submission, on the workers of a
// pool. It occupies a worker only while it has items, and lets waiting runners of the
// pool have it after every 64, or after a millisecond. An empty strand holds no goroutine and next to no memory.
//
// What an item did happens before the next one runs. A panic in an item is contained
// to that item. All methods may be called by any goroutine and none blocks.
type Strand[T any] struct {
	pool    *Pool
	run     func(T)
	dropped func(T) // nil: the turn is given back by a stopped pool
	bound   int

	mu     sync.Mutex
	queue  fifo[T]
	active bool // its turn waits or runs; false only while the queue is empty
	closed bool
}

// NewStrand returns a strand over p that gives each item to run and lets at most bound
// items wait; a bound below 1 means DefaultBound.
func NewStrand[T any](p *Pool, bound int, run func(T)) *Strand[T] {
	if bound < 1 {
		bound = DefaultBound
	}
	return &Strand[T]{pool: p, run: run, bound: bound}
}

// DropWith gives what the pool will never run, because it was stopped while the strand's
// turn waited, to drop: one item after the other, the one of Finish included, on the
// goroutine that stopped the pool. The turn is then not among the runners that the pool
// gives back. It must be called before the first Submit, and returns s.
func (s *Strand[T]) DropWith(drop func(T)) *Strand[T] {
	s.dropped = drop
	return s
}

// Submit queues v. It returns ErrRejected, and has not taken v, when the strand is at
// its bound or the pool refuses it; ErrClosed after Close or Finish, or when the pool
// is closed.
func (s *Strand[T]) Submit(v T) error {
	wake, err := s.Enqueue(v)
	if wake {
		s.pool.Wake()
	}
	return err
}

// Enqueue is Submit without the wakeup. When wake is true the caller must see to it that Pool.Wake is called soon: once
// does for any number of strands of the pool. Until then v waits for a worker that is running anyway.
func (s *Strand[T]) Enqueue(v T) (wake bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.pool.closed.Load() {
		return false, ErrClosed
	}
	if s.queue.len() >= s.bound {
		s.pool.rejected.Add(1)
		return false, &LimitError{s.pool.o.Name, "a strand", s.bound, true}
	}
	s.queue.push(v)
	if s.active {
		return false, nil
	}
	if err := s.pool.enqueueQuietly((*turn[T])(s)); err != nil {
		s.queue.pop()
		return false, err
	}
	s.active = true
	return true, nil
}

// Len returns the number of waiting items, without the one that runs.
func (s *Strand[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.len()
}

// Peek returns the oldest waiting item and leaves it there.
func (s *Strand[T]) Peek() (v T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.peek()
}

// Finish queues last behind what waits, even above the bound of strand and pool, and
// closes the strand. It is for the one item that must not be lost, such as the end
// of a connection. It returns ErrClosed, and has not taken last, when the strand is
// closed or the pool runs nothing any more; if the strand's turn is among the runners
// that the stopped pool gave back, last waits with it, see also DropWith.
func (s *Strand[T]) Finish(last T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	return s.force(last)
}

// Append queues v behind what waits, even above the bound of strand and pool. It is for rare items that must not be lost
// and that the caller bounds. It returns ErrClosed, and has not taken v, when the strand is closed or the pool runs nothing
// any more; if the strand's turn is among the runners that the stopped pool gave back, v waits with it, see also DropWith.
func (s *Strand[T]) Append(v T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	return s.force(v)
}

// force queues v while the lock is held.
func (s *Strand[T]) force(v T) error {
	if !s.active && !s.pool.resume((*turn[T])(s)) {
		return ErrClosed
	}
	s.active = true
	s.queue.push(v)
	return nil
}

// Close takes no more items and gives those that wait to drop, on the calling
// goroutine; drop may be nil. The item that runs is not waited for. After Finish it
// drops what is left, the last item included.
func (s *Strand[T]) Close(drop func(T)) {
	s.mu.Lock()
	s.closed = true
	q := s.queue
	s.queue = fifo[T]{}
	s.mu.Unlock()
	if drop == nil {
		return
	}
	for v, ok := q.pop(); ok; v, ok = q.pop() {
		drop(v)
	}
}

// turn is the strand as the pool sees it.
type turn[T any] Strand[T]

// drop gives what waits to the function of DropWith.
func (t *turn[T]) drop() bool {
	s := (*Strand[T])(t)
	if s.dropped == nil {
		return false
	}
	for v, ok := s.next(); ok; v, ok = s.next() {
		s.callDropped(v)
	}
	return true
}

func (s *Strand[T]) callDropped(v T) {
	defer s.pool.contain()
	s.dropped(v)
}

// Run runs items until none is left or others wait for the worker.
func (t *turn[T]) Run() {
	s := (*Strand[T])(t)
	exited := true
	defer func() {
		if exited { // the item ended the goroutine by runtime.Goexit
			s.pool.goOn(t)
		}
	}()
	for in := (tenure{}); ; {
		v, ok := s.next()
		if !ok {
			break
		}
		s.call(v)
		if in.over(s.pool) && s.pool.yield(t) {
			break
		}
	}
	exited = false
}

// tenure is how long a strand or key has had its worker. The zero value begins one.
type tenure struct {
	items int
	since time.Time // of the first item's end with others waiting, so that who has one item reads no clock
}

// over reports, after each item, whether it is time to let others have the worker.
func (in *tenure) over(p *Pool) bool {
	if in.items++; in.items%turnItems == 0 {
		return true
	}
	if p.queued.Load() == 0 || p.sim != nil {
		return false
	}
	now := time.Now()
	if in.since.IsZero() {
		in.since = now
	}
	return now.Sub(in.since) >= turnTime
}

// next takes the oldest item, or ends the strand's activity.
func (s *Strand[T]) next() (v T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok = s.queue.pop()
	if !ok {
		s.active = false
		s.queue.trim()
	}
	return v, ok
}

func (s *Strand[T]) call(v T) {
	defer s.pool.contain()
	if s.pool.o.Around != nil {
		s.callAround(v)
		return
	}
	s.run(v)
}

// callAround is no part of call, so that only items that go this way are moved to the heap.
//
//go:noinline
func (s *Strand[T]) callAround(v T) {
	s.pool.around(contextOf(v), func(context.Context) { s.run(v) })
}

// goOn finds r another worker, or runs it here when the pool starts nothing any more.
func (p *Pool) goOn(r Runner) {
	if !p.resume(r) {
		r.Run()
	}
}
