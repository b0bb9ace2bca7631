package eddy

import (
	"runtime/debug"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
)

// maxNested bounds how deep listeners that run at once may nest. Listeners beyond it run in the loop's next notification phase,
// so that a chain of them cannot exhaust the stack.
const maxNested = 8

// OnDone makes listener run once when the operation has completed, on the loop of the connection (of an AllOf: of the first
// operation). Listeners run in the order of the OnDone calls, a little after the completion, in the same iteration. If the
// loop itself calls OnDone on a completed Future, the listener runs at once. Exceptions: listeners are nested 8 deep, or a
// message is on its way through a WriteHandler. A listener must not block. A panic in it is treated as a handler's: it is
// logged and closes the connection.
//
// A listener is never lost. The task that carries it is taken above the bound of the loop's queue. When the loop has ended,
// the listener runs on the goroutine that completes the Future or calls OnDone.
func (f *Future) OnDone(listener func(*Future)) {
	f.mu.Lock()
	f.listeners = append(f.listeners, listener)
	completed := f.state != futurePending
	f.mu.Unlock()
	if !completed {
		return
	}
	l := f.loop
	if l == nil || !l.In() {
		f.tell(nil)
		return
	}
	if l.notices.nested >= maxNested || l.out.tracking.conn != nil || l.out.collect.conn != nil {
		l.notices.list = append(l.notices.list, f)
		return
	}
	f.runOnLoop()
}

// tell makes the listeners run. on is the loop that the caller runs on, nil for other goroutines.
func (f *Future) tell(on *loop) {
	l := f.loop
	switch {
	case l == nil:
		f.runListeners(nil)
	case on == l:
		l.notices.list = append(l.notices.list, f)
	case !f.post():
		f.runListeners(nil)
	}
}

// post queues the task that runs the listeners, unless one is queued. It reports false when the loop has ended.
func (f *Future) post() bool {
	f.mu.Lock()
	queued := f.posted
	f.posted = true
	f.mu.Unlock()
	if queued || f.loop.Tasks.PushLast(task{kind: taskFuture, msg: f}) == nil {
		return true
	}
	f.mu.Lock()
	f.posted = false
	f.mu.Unlock()
	return false
}

// runFuture carries out a taskFuture.
func (l *loop) runFuture(f *Future) {
	f.mu.Lock()
	f.posted = false
	canceled := f.state == futureCanceled
	f.mu.Unlock()
	if canceled && f.write != nil {
		f.conn.removeCanceled(f.write)
	}
	f.runOnLoop()
}

// notifyFutures is the phase that runs listeners. Listeners of futures that complete meanwhile wait for the next one.
func (l *loop) notifyFutures() {
	batch := l.notices.list
	if len(batch) == 0 {
		return
	}
	l.notices.list = l.notices.spare[:0]
	l.notices.spare = nil
	done := 0
	defer func() { // also when a listener ends the goroutine
		l.notices.list = append(l.notices.list, batch[done:]...)
		clear(batch)
		if cap(batch) <= reactor.MaxIdleBatch {
			l.notices.spare = batch[:0]
		}
	}()
	for _, f := range batch {
		done++
		f.runOnLoop()
	}
}

// runOnLoop runs the listeners on their loop and sets aside, meanwhile, what the loop notes of the message in hand.
func (f *Future) runOnLoop() {
	l := f.loop
	current, serving, granted, paid, batch := l.inHand.ctx, l.serving.Load(), l.inHand.granted, l.inHand.prepaid, l.batch
	l.inHand.ctx, l.inHand.granted, l.inHand.prepaid, l.batch = nil, 0, prepaid{}, nil
	l.serving.Store(f.conn)
	l.notices.nested++
	defer func() {
		l.notices.nested--
		l.inHand.ctx, l.inHand.granted, l.inHand.prepaid, l.batch = current, granted, paid, batch
	}()
	f.runListeners(l)
	l.serving.Store(serving) // not when the goroutine ends: f's connection is to blame
}

// runListeners calls the listeners in order, including those that they add. l is their loop if the caller runs there, else
// nil.
func (f *Future) runListeners(l *loop) {
	f.mu.Lock()
	if f.running { // by a listener of f, or by another goroutine: it takes the new ones too
		f.mu.Unlock()
		return
	}
	f.running = true
	for len(f.listeners) > 0 {
		next := f.listeners[0]
		f.listeners = f.listeners[1:]
		f.mu.Unlock()
		f.call(l, next)
		f.mu.Lock()
	}
	f.listeners, f.running = nil, false
	f.mu.Unlock()
}

// call calls a listener and contains its panic. The other listeners run even when this one ends the goroutine.
func (f *Future) call(l *loop, listener func(*Future)) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			f.panicked(l, v)
			return
		}
		f.mu.Lock() // runtime.Goexit
		f.running = false
		f.mu.Unlock()
		if l != nil {
			l.notices.list = append(l.notices.list, f)
			return
		}
		f.runListeners(nil)
	}()
	listener(f)
	returned = true
}

// panicked handles a panic of a listener like a panic of a handler.
func (f *Future) panicked(l *loop, v any) {
	stack := debug.Stack()
	if f.loop == nil {
		panic(v) // it runs on the goroutine that has just called OnDone
	}
	f.loop.logPanic("a listener of a future", v, stack)
	if l == nil { // the loop has ended, and the connection with it
		return
	}
	l.inHand.ctx = nil
	l.Counters[meter.Panics]++
	if c := f.conn; c != nil && c.loop == l {
		c.closeFlushed(CloseInternalError, &PanicError{Value: v, Stack: stack})
	}
}

// CloseFuture returns the Future of the connection's end, which succeeds when the descriptor is closed and the handlers on the
// loop have been told. Its Done is a channel for select; Conn.CloseError says why. There is one per connection; it cannot be
// cancelled. Any goroutine.
func (c *Conn) CloseFuture() *Future {
	x := c.extend()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closing == nil {
		x.closing = &Future{loop: c.loop, conn: c, fixed: true}
		if x.over {
			x.closing.state = futureSucceeded
		}
	}
	return x.closing
}

// AllOf returns a Future that completes when all of fs have, so that nothing of it goes on any more when it is done. The
// Future succeeds when all have succeeded, and fails with the error of the part that failed first. AllOf cannot be cancelled.
// Its parts can, and then count as failed with ErrCanceled. Listeners run on the loop of the first of fs. Without parts
// AllOf has succeeded, and listeners run at once on the goroutine that adds them. AllOf costs one Future and a word per part,
// and no goroutine. Any goroutine.
func AllOf(fs ...*Future) *Future {
	all := &Future{fixed: true, patient: true, parts: len(fs) + 1}
	if len(fs) > 0 {
		all.loop = fs[0].loop
	}
	for _, f := range fs {
		f.joinAbove(all)
	}
	all.partEnded(nil, nil)
	return all
}

// joinAbove makes f a part of all.
func (f *Future) joinAbove(all *Future) {
	f.mu.Lock()
	if f.state == futurePending {
		f.above = append(f.above, all)
		f.mu.Unlock()
		return
	}
	err := f.err
	f.mu.Unlock()
	all.partEnded(err, nil)
}
