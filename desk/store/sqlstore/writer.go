package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/sample"
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
	busyFrom atomic.Int64            // UnixNano when the running transaction began, 0 = none runs
	failed   atomic.Pointer[failure] // the last commit, if it failed
	failures sample.Seldom           // of the log
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
	done  func(store.Outcome)
	out   store.Outcome
	fed   *store.Fed // nil = nothing to tell
	waits bool       // a call blocks until it is done
	state atomic.Int32
	timer *time.Timer

	latency *store.Latencies
	since   time.Time
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

// begin begins a transaction.
func (w *writer) begin() error {
	if w.tx.session == nil || w.tx.lost() {
		ctx, cancel := context.WithTimeout(context.Background(), w.db.o.Wait)
		defer cancel()
		if err := w.connect(ctx); err != nil {
			return err
		}
	}
	if err := w.tx.exec(w.tx.begin); err != nil {
		return err
	}
	return w.tx.last() // another process may have written, too
}

// end writes what the commands of a transaction have left to its end, and commits.
func (w *writer) end() error {
	commit := func() error { return w.tx.exec(w.tx.end) }
	for _, step := range []func() error{w.tx.addWords, w.tx.flush, w.tx.note, commit, w.tx.sync} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) start() {
	w.mu.Lock()
	w.started = true
	w.mu.Unlock()
	go w.writeLoop()
	go w.answerLoop()
}

// submit queues an op. An op that is refused may be answered at once.
func (w *writer) submit(run func(*tx) (store.Outcome, error), deadline time.Time, done func(store.Outcome)) {
	w.enqueue(&op{run: run, done: done}, deadline)
}

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
		w.busyFrom.Store(time.Now().UnixNano())
		w.commit(group)
		w.busyFrom.Store(0)
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

// hear takes note of what other processes have committed. Only one goroutine calls it.
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

// commit runs one group in one transaction. A failing command is undone alone. A failing transaction fails all its
// commands.
func (w *writer) commit(group []*op) {
	w.tx.words, w.tx.rows, w.tx.written, w.tx.told = w.tx.words[:0], w.tx.rows[:0], 0, false
	err := w.begin()
	for i := 0; err == nil && i < len(group); i++ {
		err = w.command(group[i])
	}
	if err == nil {
		err = w.end()
	}
	if err != nil && w.tx.session != nil {
		// The database may have rolled back by itself, or have begun nothing. This rollback then fails, which is fine.
		_ = w.tx.force(w.tx.rollback)
	}
	if err == nil {
		w.db.commits.Add(1)
		w.db.commands.Add(uint64(len(group)))
		f := failureOf(group)
		if f != nil {
			w.db.failures.Add(1)
		}
		w.failed.Store(f)
		if w.tx.told {
			w.db.news.tell()
		}
		return
	}
	w.db.failures.Add(1)
	w.failed.Store(&failure{time.Now(), err})
	if ok, held := w.failures.Allow(failureCounts); ok {
		w.db.o.Logger.Error("store: transaction failed", "commands", len(group), "err", err, "held_back", held)
	}
	for _, o := range group {
		o.out, o.fed = store.Outcome{Err: fmt.Errorf("%w: %w", store.ErrUnavailable, err)}, nil
	}
}

// command runs one command in a savepoint. It returns only an error that spoils the whole transaction.
func (w *writer) command(o *op) error {
	if err := w.tx.exec(w.tx.savepoint); err != nil {
		return err
	}
	words, rows, written := len(w.tx.words), len(w.tx.rows), w.tx.written
	out, err := w.contained(o)
	if err == nil {
		o.fed = w.tx.fed(rows, &out)
	} else {
		w.tx.words = w.tx.words[:words]
		w.tx.untell(rows, written)
		out.Events, out.Err = nil, classify(err)
		if undo := w.tx.takeBack(); undo != nil { // the database has rolled everything back, because of err
			return errors.Join(err, undo)
		}
	}
	w.tx.part = store.Fed{}
	o.out = out
	return w.tx.exec(w.tx.release)
}

// failureOf returns the fault of the database that shows in a command of a committed group, or nil.
func failureOf(group []*op) *failure {
	for _, o := range group {
		if errors.Is(o.out.Err, store.ErrUnavailable) {
			return &failure{time.Now(), o.out.Err}
		}
	}
	return nil
}

func (w *writer) contained(o *op) (out store.Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			w.db.o.Logger.Error("store: panic in a command", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("store: panic in a command: %v", v)
		}
	}()
	if out, err = o.run(w.tx); err == nil {
		err = w.tx.sync() // else the next command would have the error
	}
	return out, err
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
	db.work.submit(func(t *tx) (store.Outcome, error) { return t.execute(cmd) }, deadline, done)
}

// failureCounts is for how long a failed commit or read makes Ready fail.
const failureCounts = 10 * time.Second

// Ready implements store.Store.
func (db *DB) Ready() error {
	now := time.Now()
	if from := db.work.busyFrom.Load(); from != 0 && now.Sub(time.Unix(0, from)) > db.o.Wait {
		return fmt.Errorf("store: a commit has been running for %v", now.Sub(time.Unix(0, from)).Round(time.Millisecond))
	}
	if f := db.work.failed.Load(); f != nil && now.Sub(f.at) < failureCounts {
		return fmt.Errorf("store: the last commit failed: %w", db.on.explain(f.err))
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
	db.work.enqueue(&op{
		run: func(t *tx) (store.Outcome, error) {
			if err := t.holds(lease); err != nil {
				return store.Outcome{}, err
			}
			return store.Outcome{}, run(t)
		}, done: func(out store.Outcome) { result <- out.Err }, waits: true,
	}, deadline)
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
