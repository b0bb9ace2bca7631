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
	taskTimer                        // schedule msg.(*Timer)
	taskRegistration                 // carry out what was asked of msg.(*Registration)
	taskWatch                        // a request began on conn that no deadline may look at in time
	taskChange                       // change conn's pipeline as msg.(*change) says
	taskAdded                        // HandleAdd of ctx was called on its pool, with msg.(*addFailure) if it failed
	taskSettle                       // the events of before the last change of conn's pipeline have passed
	taskResponses                    // run msg.(func()), which takes responses for conn that a pool has brought
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

// The published wake state of a loop: loopAwake, or the time, on the loop's clock, until which it sleeps.
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
	over   bool // nobody will take what is added

	out  []task // the loop's batch
	next int    // first unrun task of out

	pending atomic.Int64 // submitted, not yet run
	until   atomic.Int64 // the published wake state
	wake    func()
	tail    tailQueue
}

// push appends t and wakes the loop if it sleeps. Control tasks ignore the limit: each kind exists at most once per
// connection, which is bound enough, and losing one would lose a close or a resume.
func (q *taskQueue) push(t task, control bool) error {
	if err := q.add(t, control); err != nil {
		return err
	}
	q.rouse(loopAwake)
	return nil
}

// pushTimed appends a task that has to be seen by the given time only: a loop that sleeps no longer than that is left
// asleep.
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

// rouse wakes a loop that sleeps beyond when. Of the producers that find it asleep one makes the wakeup.
func (q *taskQueue) rouse(when int64) {
	if until := q.until.Load(); until > when && q.until.CompareAndSwap(until, loopAwake) {
		q.wake()
	}
}

// sleep publishes that the loop is going to wait until the given time and reports whether it may: a task that came
// before the publication is seen here, one that comes after it wakes the loop.
func (q *taskQueue) sleep(until int64) bool {
	q.until.Store(max(until, loopAwake+1))
	if !q.waiting() {
		return true
	}
	q.until.Store(loopAwake)
	return false
}

// awake publishes that the loop is running and reports whether a producer has done so already. It writes only when
// none has.
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

// close refuses every later push. The loop still runs what was accepted.
func (q *taskQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
}

// finish ends the queue for good, unless there is something in it: listeners of futures are taken until then.
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

// runWrite passes a write that another goroutine submitted on. What was counted at submission stays counted until the head
// counts what the pipeline made of the message.
func (l *loop) runWrite(t task) {
	c := t.conn
	if t.size > 0 {
		l.prepaid = prepaid{c, int64(t.size)}
		defer c.submitted(int(t.size)) // behind account: the budget counts it twice for a moment rather than not at all
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

// prepaid is what is left of the bytes of a submitted write that count as queued while it is carried out. Were they taken off
// first, another goroutine would see the queue shorter than it is.
type prepaid struct {
	conn *Conn
	n    int64
}

// prepaidOver ends them with the write.
func (l *loop) prepaidOver() {
	if c := l.prepaid.conn; c != nil {
		c.queued.Add(-l.prepaid.n)
		l.prepaid = prepaid{}
	}
}

// prepaidBytes returns how many there are of c.
func (l *loop) prepaidBytes(c *Conn) int64 {
	if l.prepaid.conn == c {
		return l.prepaid.n
	}
	return 0
}

// writeSettled follows a submitted write, which may have left the queue shorter than it counted: when a handler made
// less of it, or nothing, or when it was refused.
func (c *Conn) writeSettled() {
	c.noteWatermarks()
	c.checkDrain()
	c.account()
}
