package eddy

import (
	"math"
	"sync"
	"sync/atomic"
)

// taskKind says what a task in a loop's queue asks for.
type taskKind uint8

const (
	taskFunc         taskKind = iota // run msg.(func())
	taskRegister                     // take over conn
	taskWrite                        // pass msg outbound: from ctx, or from the tail of conn when ctx is nil
	taskRead                         // pass msg inbound from ctx
	taskEvent                        // pass an event inbound from ctx
	taskError                        // pass an error inbound from ctx
	taskClose                        // end conn with its close request
	taskReadState                    // the pause bits of conn changed
	taskCheckDrain                   // the last request in flight on conn ended
	taskTimer                        // arm msg.(*Timer)
	taskRegistration                 // carry out the request made to msg.(*Registration)
	taskWatch                        // arm conn's deadline for a request that just began
	taskChange                       // change conn's pipeline as msg.(*change) says
	taskAdded                        // HandleAdd of ctx has run on its pool; msg.(*addFailure) if it failed
	taskSettle                       // all events from before conn's last pipeline change have passed
	taskResponses                    // run msg.(func()), which takes conn's responses from a pool
	taskFuture                       // run the listeners of msg.(*Future), or take it out of the queue
	taskSignal                       // run the function of msg.(*Signal)
)

// task is one entry of a loop's queue. It is a plain struct so that submitting one allocates nothing.
type task struct {
	kind taskKind
	size int32 // of a write: bytes counted as queued at submission; of a read: its age in ms
	conn *Conn
	ctx  *Context
	msg  any
}

// Values of a loop's published wake state: loopAwake, or the time, on the loop's clock, until which it sleeps.
const (
	loopAwake    = 0
	sleepForever = math.MaxInt64
)

// taskQueue is a loop's bounded multi-producer queue: producers append under a short lock, the loop takes the whole
// batch by swapping slices. A published wake state lets producers make at most one wakeup between two waits.
type taskQueue struct {
	mu     sync.Mutex
	in     []task
	limit  int
	closed bool
	over   bool // closed for futures too: nobody takes new tasks

	out  []task // the loop's batch
	next int    // first unrun task of out

	pending atomic.Int64 // submitted, not yet run
	until   atomic.Int64 // the published wake state
	wake    func()
	tail    tailQueue
}

// push appends t and wakes the loop if it sleeps. Control tasks ignore the limit, because losing one would lose a close
// or a resume. Their sources bound them: a connection, Signal, Future or the like has one or two in the queue at a time.
func (q *taskQueue) push(t task, control bool) error {
	if err := q.add(t, control); err != nil {
		return err
	}
	q.rouse(loopAwake)
	return nil
}

// pushTimed appends a task that the loop must see by the given time only. A loop that sleeps no longer than that is not
// woken.
func (q *taskQueue) pushTimed(t task, when int64) error {
	if err := q.add(t, false); err != nil {
		return err
	}
	q.rouse(when)
	return nil
}

func (q *taskQueue) add(t task, control bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed && (q.over || t.kind != taskFuture) {
		return ErrClosed
	}
	if !control && q.pending.Load() >= int64(q.limit) {
		return ErrSaturated
	}
	q.in = append(q.in, t)
	q.pending.Add(1)
	return nil
}

// rouse wakes a loop that sleeps beyond when. Only one of several producers makes the wakeup.
func (q *taskQueue) rouse(when int64) {
	if until := q.until.Load(); until > when && q.until.CompareAndSwap(until, loopAwake) {
		q.wake()
	}
}

// sleep publishes that the loop is going to wait until the given time and reports whether it may. A task from before the
// publication is seen here; a later one wakes the loop.
func (q *taskQueue) sleep(until int64) bool {
	q.until.Store(max(until, loopAwake+1))
	if !q.waiting() {
		return true
	}
	q.until.Store(loopAwake)
	return false
}

// awake publishes that the loop is running and reports whether a producer has done so already. If one has, awake writes
// nothing.
func (q *taskQueue) awake() (woken bool) {
	if q.until.Load() == loopAwake {
		return true
	}
	q.until.Store(loopAwake)
	return false
}

// waiting reports whether the loop has tasks of either kind to run. Any goroutine.
func (q *taskQueue) waiting() bool { return q.pending.Load() > 0 || q.tail.pending.Load() > 0 }

// take returns the next task of the batch, swapping in a new batch when the old one is used up.
func (q *taskQueue) take() (task, bool) {
	if q.next == len(q.out) && (q.pending.Load() == 0 || !q.swap()) {
		return task{}, false
	}
	t := q.out[q.next]
	q.out[q.next] = task{}
	q.next++
	q.pending.Add(-1)
	return t, true
}

// maxIdleBatch is the capacity in tasks above which an emptied batch slice is given back to the collector.
const maxIdleBatch = 4096

func (q *taskQueue) swap() bool {
	empty := q.out[:0]
	if cap(empty) > maxIdleBatch {
		empty = nil
	}
	q.mu.Lock()
	q.out, q.in = q.in, empty
	q.mu.Unlock()
	q.next = 0
	return len(q.out) > 0
}

// close makes every later push fail, except for futures until finish. The loop still runs what was accepted.
func (q *taskQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}

// finish ends the queue for good, unless it holds something, and reports whether it did. Until then listeners of futures
// are taken.
func (q *taskQueue) finish() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = !q.waiting()
	return q.over
}

// depth returns how many tasks wait. Any goroutine.
func (q *taskQueue) depth() int { return int(q.pending.Load()) }

// runTask carries out one task. A panic in user code is confined to the task's connection.
func (l *loop) runTask(t task) {
	defer l.contain(t.conn)
	if t.kind != taskRegister {
		l.serving.Store(t.conn)
	}
	switch t.kind {
	case taskFunc, taskResponses:
		t.msg.(func())()
	case taskRegister:
		l.register(t.conn)
	case taskWrite:
		l.runWrite(t)
	case taskRead:
		l.continueRead(t)
		t.conn.requestOver()
		t.conn.finished(&t.conn.inflight)
	case taskEvent:
		t.ctx.fireEvent(l.untrace(t))
	case taskError:
		t.ctx.fireError(l.untrace(t).(error))
	case taskClose:
		t.conn.runCloseRequest()
	case taskReadState:
		t.conn.readStateChanged()
	case taskCheckDrain:
		t.conn.checkDrainTask()
	case taskTimer:
		l.addTimer(t.msg.(*Timer))
	case taskRegistration:
		t.msg.(*Registration).carryOut()
	case taskWatch:
		t.conn.watch()
	case taskSignal:
		t.msg.(*Signal).deliver()
	case taskFuture:
		l.runFuture(t.msg.(*Future))
	case taskChange:
		t.msg.(*change).run(t.conn)
	case taskAdded:
		failed, _ := t.msg.(*addFailure)
		t.conn.added(t.ctx, failed)
	case taskSettle:
		t.conn.settlePipeline()
	}
}

// runWrite carries out a write that another goroutine submitted. Bytes counted at submission stay counted until the head
// counts the pipeline's output for the message.
func (l *loop) runWrite(t task) {
	c := t.conn
	if t.size > 0 {
		l.prepaid = prepaid{c, int64(t.size)}
		defer c.submitted(int(t.size)) // runs after account, so that the budget counts it twice for a moment rather than not at all
	}
	if t.ctx.encodes() {
		c.encoding.Add(-1)
	}
	if c.phase >= PhaseClosing {
		l.counters[countDeadWrites]++
		release(t.msg)
		l.prepaidOver()
		c.account()
		c.fence()
		return
	}
	var err error
	l.granted = int(t.size)
	if t.ctx != nil {
		err = t.ctx.writeOnLoop(t.msg)
	} else {
		err = c.writeFromTail(t.msg)
	}
	l.granted = 0
	l.prepaidOver()
	if err != nil {
		c.failWrite(err)
	}
	c.writeSettled()
	c.fence()
}

// prepaid is the rest of a submitted write's bytes that count as queued while it is carried out. Uncounting them earlier
// would make the queue look shorter to other goroutines than it is.
type prepaid struct {
	conn *Conn
	n    int64
}

// prepaidOver drops the rest when the write is over.
func (l *loop) prepaidOver() {
	if c := l.prepaid.conn; c != nil {
		c.queued.Add(-l.prepaid.n)
		l.prepaid = prepaid{}
	}
}

// prepaidBytes returns the prepaid bytes of c.
func (l *loop) prepaidBytes(c *Conn) int64 {
	if l.prepaid.conn == c {
		return l.prepaid.n
	}
	return 0
}

// writeSettled follows a submitted write. The queue may be shorter than counted before, if a handler shortened or dropped
// the message or the write was refused.
func (c *Conn) writeSettled() {
	c.noteWatermarks()
	c.checkDrain()
	c.account()
}
