package sqlstore

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/trace"
)

// writer owns the only writing connection. Commands queue. All that queue while one transaction runs go into the next
// one. A second goroutine hands the outcomes out, so that the disk does not wait for callbacks.
type writer struct {
	db *DB
	tx *tx

	mu      sync.Mutex
	wake    *sync.Cond // signalled when queue has something or closed is set
	queue   []*op
	closed  bool
	started bool

	finished chan []*op // committed groups, in order
	others   chan int64 // holds the highest number of hear
	idle     chan struct{}
	busyFrom atomic.Pointer[time.Time] // when the running transaction began, nil = none runs
	failed   atomic.Pointer[failure]   // the last commit, if it failed, see came
	failures sample.Seldom             // of the log
}

// failure is a commit that failed.
type failure struct {
	at  time.Time
	err error
}

// States of an op. The usual path is queued, running, finished.
const (
	opQueued   int32 = iota
	opRunning        // in a transaction
	opExpired        // the deadline came first; never executed
	opLate           // answered ErrUnavailable while in a transaction
	opFinished       // answered
)

// op is one command in the queue.
type op struct {
	run   func(*tx) (store.Outcome, error)
	ahead *appending // of a message: what run does, nil = of another command
	done  func(store.Outcome)
	out   store.Outcome
	fed   *store.Fed // nil = nothing to tell
	waits bool       // a call blocks until it is done
	state atomic.Int32
	timer *time.Timer

	latency *store.Latencies
	since   time.Time

	trace   string         // see store.OutboxRow
	request *trace.Request // that waits for the op; nil = none that is sampled
}

func newWriter(db *DB) *writer {
	w := &writer{db: db, finished: make(chan []*op, 1), others: make(chan int64, 1), idle: make(chan struct{})}
	w.wake = sync.NewCond(&w.mu)
	w.tx = newTx(db)
	return w
}

// connect opens a connection, also in place of one that was lost.
func (w *writer) connect(ctx context.Context) error {
	if w.tx.session != nil {
		_ = w.tx.close()
		w.tx.session = nil
	}
	s, err := w.db.on.session(ctx)
	if err == nil {
		w.tx.session = s
	}
	return err
}

func (w *writer) start() {
	w.mu.Lock()
	w.started = true
	w.mu.Unlock()
	go w.writeLoop()
	go w.answerLoop()
}

// enqueue queues an op. An op that is refused may be answered at once.
func (w *writer) enqueue(o *op, deadline time.Time) {
	o.latency, o.since = &w.db.latency, time.Now()
	w.mu.Lock()
	left := deadline.Sub(o.since)
	refused := w.refusal(left)
	if refused == nil {
		o.timer = time.AfterFunc(left, o.expire)
		w.queue = append(w.queue, o)
		w.wake.Signal()
	}
	w.mu.Unlock()
	if refused != nil {
		o.done(store.Outcome{Err: refused})
	}
}

// refusal returns why an op is refused, or nil. w.mu is held.
func (w *writer) refusal(left time.Duration) error {
	switch {
	case left <= 0:
		return store.ErrUnavailable
	case w.closed:
		return store.ErrStopped
	case len(w.queue) >= w.db.o.Queue:
		return fmt.Errorf("%w: %d commands wait", store.ErrBusy, len(w.queue))
	}
	return nil
}

func (o *op) expire() {
	if o.state.CompareAndSwap(opQueued, opExpired) || o.state.CompareAndSwap(opRunning, opLate) {
		o.latency.Add(time.Since(o.since))
		o.done(store.Outcome{Err: store.ErrUnavailable})
	}
}

// finish hands the outcome out, once, after the commit.
func (o *op) finish() {
	o.timer.Stop()
	if o.state.CompareAndSwap(opRunning, opFinished) {
		o.latency.Add(time.Since(o.since))
		o.done(o.out)
		return
	}
	if o.state.CompareAndSwap(opLate, opFinished) && o.out.Err == nil {
		o.out.Late = true
		o.done(o.out)
	}
}

func (w *writer) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// next waits for the next group. nil means that the writer is closed and the queue empty.
func (w *writer) next() []*op {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && !w.closed {
		w.wake.Wait()
	}
	n := min(len(w.queue), w.db.o.Group)
	if n == 0 {
		return nil
	}
	group := make([]*op, 0, n)
	for _, o := range w.queue[:n] {
		if o.state.CompareAndSwap(opQueued, opRunning) {
			group = append(group, o)
		}
	}
	rest := copy(w.queue, w.queue[n:])
	clear(w.queue[rest:])
	w.queue = w.queue[:rest]
	return group
}

func (w *writer) writeLoop() {
	defer close(w.finished)
	for {
		group := w.next()
		if group == nil {
			return
		}
		if len(group) == 0 {
			continue
		}
		from := time.Now()
		w.busyFrom.Store(&from)
		w.commit(group)
		w.busyFrom.Store(nil)
		w.finished <- group
	}
}

func (w *writer) answerLoop() {
	defer close(w.idle)
	for {
		select {
		case group, ok := <-w.finished:
			if !ok {
				return
			}
			for _, o := range group {
				w.answer(o)
			}
		case last := <-w.others:
			w.contain(func() { w.db.heard(last) })
		}
	}
}

// hear takes note of what other processes have committed, up to last. Any goroutine may call it; it waits for none.
func (w *writer) hear(last int64) {
	for {
		select {
		case w.others <- last:
			return
		case before := <-w.others:
			last = max(last, before)
		}
	}
}

// answer hands out what has become of an op, and tells the feed. Who waits in a blocking call finds everything told.
func (w *writer) answer(o *op) {
	if !o.waits {
		w.contain(o.finish)
	}
	if o.fed != nil {
		w.contain(func() { w.db.feed.tell(o.fed) })
	}
	if o.waits {
		w.contain(o.finish)
	}
}

// contain contains a panic of a callback, which must not end the writer of everybody.
func (w *writer) contain(f func()) {
	defer func() {
		if v := recover(); v != nil {
			w.db.o.Logger.Error("store: panic in a callback", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// close finishes the queue and closes the connection.
func (w *writer) close() error {
	w.mu.Lock()
	again, started := w.closed, w.started
	w.closed = true
	w.wake.Broadcast()
	w.mu.Unlock()
	if started {
		<-w.idle
	}
	if again {
		return nil
	}
	return w.closeConn()
}

func (w *writer) closeConn() error {
	if w.tx.session == nil {
		return nil
	}
	return w.tx.close()
}

// Do implements store.Store.
func (db *DB) Do(cmd store.Command, deadline time.Time, done func(store.Outcome)) {
	o := &op{done: done}
	if t, ok := cmd.(store.Traced); ok {
		cmd, o.trace, o.request = t.Command, t.Trace, t.Request
	}
	if c, ok := cmd.(store.Append); ok {
		o.ahead = &appending{Append: c}
		o.run = o.ahead.run
	} else {
		o.run = func(t *tx) (store.Outcome, error) { return t.execute(cmd) }
	}
	db.work.enqueue(o, deadline)
}

// failureCounts is for how long a failed commit or read makes Ready fail.
const failureCounts = 10 * time.Second

// came notes what has become of a commit, nil for a success. A full disk takes one write and not the next, so a success makes
// the store ready again only when failureCounts has passed since a write has found the disk full.
func (w *writer) came(f *failure) {
	if was := w.failed.Load(); was != nil && diskFull(was.err) && time.Since(was.at) < failureCounts && (f == nil || !diskFull(f.err)) {
		return
	}
	w.failed.Store(f)
}

// Ready implements store.Store.
func (db *DB) Ready() error {
	now := time.Now()
	if from := db.work.busyFrom.Load(); from != nil && now.Sub(*from) > db.o.Wait {
		return fmt.Errorf("store: a commit has been running for %v", now.Sub(*from).Round(time.Millisecond))
	}
	if f := db.work.failed.Load(); f != nil && now.Sub(f.at) < failureCounts {
		return fmt.Errorf("store: a commit has failed: %w", db.on.explain(f.err))
	}
	for _, r := range []*reader{db.hot, db.cold} { // not the reports
		if f := r.db.failed.Load(); f != nil && now.Sub(f.at) < failureCounts {
			return fmt.Errorf("store: the last read failed: %w", db.on.explain(f.err))
		}
	}
	return nil
}

// write runs an account command, which may belong to the work of a lease, and waits for its commit.
func (db *DB) write(ctx context.Context, run func(*tx) error) error {
	lease := store.LeaseOf(ctx)
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(db.o.Wait)
	}
	result := make(chan error, 2) // a late outcome is a second one
	o := &op{
		run: func(t *tx) (store.Outcome, error) {
			if err := t.holds(lease); err != nil {
				return store.Outcome{}, err
			}
			return store.Outcome{}, run(t)
		}, done: func(out store.Outcome) { result <- out.Err }, waits: true,
	}
	if r := trace.FromContext(ctx); r.Sampled() {
		self := r.Self()
		o.trace, o.request = self.Traceparent(), r
		r.Enter(trace.QueueWait, "store")
	}
	db.work.enqueue(o, deadline)
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
