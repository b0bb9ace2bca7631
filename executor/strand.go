package executor

import (
	"context"
	"sync"
	"time"
)

const (
	// turnItems is how many items a strand or key runs before it lets others have its worker.
	turnItems = 64

	// turnTime is the time after which a strand or key lets others have its worker before that, if they wait.
	turnTime = time.Millisecond

	// DefaultBound is the number of waiting items of a strand made with bound 0, and of
	// a key made with perKey 0.
	DefaultBound = 1024
)

// Strand runs items one at a time in the order of submission, on the workers of a pool. A strand occupies a worker only
// while it has items, and lets waiting runners of the pool have it after 64 items or a millisecond. An empty strand
// holds no goroutine and next to no memory.
//
// Each item sees all that the items before it did. A panic in an item is contained to that item. Any goroutine may call
// all methods, and none blocks.
type Strand[T any] struct {
	pool    *Pool
	run     func(T)
	dropped func(T) // nil: a stopped pool gives the turn back instead
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

// DropWith makes drop get the items that the pool will never run, because it was stopped while the strand's turn waited.
// drop is called for one item after the other, the one of Finish included, on the goroutine that stopped the pool. The
// turn is then not among the runners that the pool gives back. Call DropWith before the first Submit. It returns s.
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

// Enqueue is Submit without waking a worker. When wake is true the caller must call Pool.Wake soon; one call serves any
// number of strands of the pool. Until then v waits for a worker that is running anyway.
func (s *Strand[T]) Enqueue(v T) (wake bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.pool.closed.Load() {
		return false, ErrClosed
	}
	if s.queue.len() >= s.bound {
		s.pool.counts.rejected.Add(1)
		return false, &LimitError{Pool: s.pool.o.Name, What: "a strand", Limit: s.bound, Key: true}
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

// Finish queues last behind what waits, even above the bound of strand and pool, and closes the strand. Use it for the
// one item that must not be lost, such as the end of a connection. Finish returns ErrClosed, and has not taken last,
// when the strand is closed or the pool runs nothing any more. If a stopped pool has given the strand's turn back, last
// waits with that turn; see also DropWith.
func (s *Strand[T]) Finish(last T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	return s.force(last)
}

// Append queues v behind what waits, even above the bound of strand and pool. Use it for rare items that must not be
// lost, and bound their number. Errors, and what happens in a stopped pool, are as for Finish.
func (s *Strand[T]) Append(v T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	return s.force(v)
}

// force queues v above all bounds. s.mu is held.
func (s *Strand[T]) force(v T) error {
	if !s.active && !s.pool.resume((*turn[T])(s)) {
		return ErrClosed
	}
	s.active = true
	s.queue.push(v)
	return nil
}

// Close takes no more items and gives those that wait to drop, on the calling goroutine; drop may be nil. Close does not
// wait for the item that runs. After Finish, Close drops what is left, the last item included.
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

// drop gives the waiting items to the function of DropWith, and reports false if there is none.
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
	since time.Time // end of the first item after which others waited; the clock is read only while others wait
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

// callAround is separate from call, so that only items that go this way are moved to the heap.
//
//go:noinline
func (s *Strand[T]) callAround(v T) {
	s.pool.around(contextOf(v), func(context.Context) { s.run(v) })
}

// goOn finds another worker for r, or runs r here when the pool starts nothing any more.
func (p *Pool) goOn(r Runner) {
	if !p.resume(r) {
		r.Run()
	}
}
