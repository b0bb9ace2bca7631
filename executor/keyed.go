package executor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

const (
	// DefaultTotal is the largest number of waiting tasks of a Keyed made with total 0.
	DefaultTotal = 65536

	// maxSpare bounds how many empty per-key queues a Keyed keeps for reuse.
	maxSpare = 64
)

// Keyed runs the tasks of each key one at a time in the order of submission, and those of different keys side by side.
// They run on the workers of a pool. A key exists while it has a task; before and after, the key holds no memory. A key
// must be equal to itself, which rules out NaN.
//
// Keys share fairly. A key holds one worker at most. While others wait for the pool, the key gives that worker back
// after 64 tasks or a millisecond, whichever comes first. A key with waiting tasks may let another one wait only while
// it has fewer than there are free places. So a single greedy key gets half of the total, and n of them get 1/(n+1)
// each. The last free place always goes to a key without waiting tasks.
//
// Any goroutine may call all methods, and none blocks. Tasks that have not run when the pool is stopped stay counted in
// Len, and the pool never runs them.
type Keyed[K comparable] struct {
	pool   *Pool
	perKey int
	total  int

	// mu is one lock for all keys. 16 shards by hash of the key were measured slower (126-174 ns against 113 ns per
	// task, 1000 keys, 2 cores), because hashing twice outweighs contention.
	mu      sync.Mutex
	keys    map[K]*serial[K]
	peak    int // most keys since the map was made
	waiting int
	refused struct{ key, total, pool uint64 } // tasks refused, by the limit they met
	spare   *serial[K]
	spares  int
}

// NewKeyed returns a keyed executor over p. At most perKey tasks of one key and total tasks altogether may wait, besides
// those that run. A key gets no more than its share (see Keyed). A perKey below 1 means DefaultBound, a total below 1
// DefaultTotal.
func NewKeyed[K comparable](p *Pool, perKey, total int) *Keyed[K] {
	if perKey < 1 {
		perKey = DefaultBound
	}
	if total < 1 {
		total = DefaultTotal
	}
	return &Keyed[K]{pool: p, perKey: perKey, total: total, keys: make(map[K]*serial[K])}
}

// Submit queues f behind the tasks of key. It returns ErrRejected when the key, the
// total or the pool is at its limit, and ErrClosed when the pool is closed.
func (k *Keyed[K]) Submit(key K, f func()) error {
	if f == nil {
		panic("executor: Submit of a nil function")
	}
	if k.pool.o.Around != nil {
		return k.SubmitContext(context.Background(), key, func(context.Context) { f() })
	}
	return k.submit(key, keyTask{f: f})
}

// SubmitAsync queues f like Submit, but the key's next task starts only after done was
// called. Any goroutine may call done, before or after f returns; further calls do
// nothing. Between the return of f and done the key holds no worker. A panic in f
// counts as done.
func (k *Keyed[K]) SubmitAsync(key K, f func(done func())) error {
	if f == nil {
		panic("executor: SubmitAsync of a nil function")
	}
	if pool := k.pool; pool.o.Around != nil {
		plain := f
		f = func(done func()) { pool.around(context.Background(), func(context.Context) { plain(done) }) }
	}
	return k.submit(key, keyTask{async: f})
}

// Len returns the number of waiting tasks, without those that run or wait for done.
func (k *Keyed[K]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waiting
}

// Keys returns the number of keys with a task that waits, runs or is not done.
func (k *Keyed[K]) Keys() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.keys)
}

// KeyedStats are the numbers of a Keyed. Single keys have no numbers, because they come and go with their tasks.
type KeyedStats struct {
	Keys          int    // with a task that waits, runs or is not done
	Waiting       int    // tasks
	Limit         int    // of Waiting
	RejectedKey   uint64 // tasks refused because their key had its bound or its share waiting
	RejectedTotal uint64 // because of Limit
	RejectedPool  uint64 // because the pool had no room
}

// Stats returns the numbers.
func (k *Keyed[K]) Stats() KeyedStats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return KeyedStats{
		Keys: len(k.keys), Waiting: k.waiting, Limit: k.total,
		RejectedKey: k.refused.key, RejectedTotal: k.refused.total, RejectedPool: k.refused.pool,
	}
}

// keyTask has exactly one of its fields set.
type keyTask struct {
	f     func()
	async func(done func())
}

// serial is the queue of one key, and the runner of its turns.
type serial[K comparable] struct {
	owner *Keyed[K]
	key   K
	queue fifo[keyTask]
	next  *serial[K] // in the spare list
}

func (k *Keyed[K]) submit(key K, t keyTask) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pool.closed.Load() {
		return ErrClosed
	}
	if k.waiting >= k.total {
		return k.refuse("the total of keyed tasks", k.total, false)
	}
	s, known := k.keys[key]
	if known {
		if s.queue.len() >= k.perKey {
			return k.refuse("a key", k.perKey, true)
		}
		if free := k.total - k.waiting; s.queue.len() >= free {
			return k.refuse("the share of a key in the total", free, true)
		}
		s.queue.push(t)
		k.waiting++
		return nil
	}
	s = k.open(key)
	if err := k.pool.submitTurn(s); err != nil {
		k.reuse(s)
		if errors.Is(err, ErrRejected) {
			k.refused.pool++
		}
		return err
	}
	s.queue.push(t)
	k.waiting++
	k.keys[key] = s
	k.peak = max(k.peak, len(k.keys))
	return nil
}

func (k *Keyed[K]) refuse(what string, limit int, key bool) error {
	k.pool.counts.rejected.Add(1)
	if key {
		k.refused.key++
	} else {
		k.refused.total++
	}
	return &LimitError{Pool: k.pool.o.Name, What: what, Limit: limit, Key: key}
}

// open returns an empty queue for key. k.mu is held.
func (k *Keyed[K]) open(key K) *serial[K] {
	s := k.spare
	if s == nil {
		return &serial[K]{owner: k, key: key}
	}
	k.spare = s.next
	k.spares--
	s.key, s.next = key, nil
	return s
}

// reuse keeps an empty queue for another key. k.mu is held.
func (k *Keyed[K]) reuse(s *serial[K]) {
	if k.spares == maxSpare {
		return
	}
	var zero K
	s.key = zero
	s.queue.trim()
	s.next = k.spare
	k.spare = s
	k.spares++
}

// take returns the next task of s, or forgets the key when there is none.
func (k *Keyed[K]) take(s *serial[K]) (t keyTask, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t, ok = s.queue.pop(); ok {
		k.waiting--
		return t, true
	}
	delete(k.keys, s.key)
	if len(k.keys) == 0 && k.peak > 1024 {
		// A map never gives back the room of deleted keys.
		k.keys, k.peak = make(map[K]*serial[K]), 0
	}
	k.reuse(s)
	return t, false
}

// drop gives nothing up: the tasks stay with s, which the stopped pool gives back.
func (s *serial[K]) drop() bool { return false }

// Run runs tasks until none is left, one has to wait for its done call, or others wait for the worker.
func (s *serial[K]) Run() {
	exited := true
	defer func() {
		if exited { // the task ended the goroutine by runtime.Goexit
			s.owner.pool.goOn(s)
		}
	}()
	for in := (tenure{}); ; {
		t, ok := s.owner.take(s)
		if !ok || !s.call(t) || in.over(s.owner.pool) && s.owner.pool.yield(s) {
			break
		}
	}
	exited = false
}

// call runs a task and returns whether it is done.
func (s *serial[K]) call(t keyTask) bool {
	if t.async == nil {
		s.callSync(t.f)
		return true
	}
	c := &pending{pool: s.owner.pool, turn: s}
	c.call(t.async)
	return c.leave()
}

func (s *serial[K]) callSync(f func()) {
	defer s.owner.pool.contain()
	f()
}

// pending is an asynchronous task between its start and its done call.
type pending struct {
	pool  *Pool
	turn  Runner
	state atomic.Uint32
}

const (
	taskInside uint32 = iota // f runs
	taskLeft                 // f returned, done is awaited
	taskDone
)

func (c *pending) call(f func(done func())) {
	returned := false
	defer c.pool.contain()
	defer func() {
		if !returned {
			c.state.Store(taskDone)
		}
	}()
	f(c.done)
	returned = true
}

// leave marks the return of f and reports whether the task is done already. If it is not, the done call will give the
// key its next turn.
func (c *pending) leave() bool {
	if c.state.Load() == taskDone {
		return true
	}
	c.pool.hold()
	if c.state.CompareAndSwap(taskInside, taskLeft) {
		return false
	}
	c.pool.unhold()
	return true
}

// done ends the task. Calls after the first do nothing.
func (c *pending) done() {
	if c.state.CompareAndSwap(taskInside, taskDone) {
		return
	}
	if c.state.CompareAndSwap(taskLeft, taskDone) {
		c.pool.resume(c.turn)
		c.pool.unhold()
	}
}
