package eddy

import (
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
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
	taskTimer                        // arm msg.(*reactor.Timer)
	taskRegistration                 // carry out the request made to msg.(*Registration)
	taskWatch                        // arm conn's deadline for a request that just began
	taskChange                       // change conn's pipeline as msg.(*change) says
	taskAdded                        // HandleAdd of ctx has run on its pool; msg.(*addFailure) if it failed
	taskSettle                       // all events from before conn's last pipeline change have passed
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

// RunTask carries out one task. A panic in user code is confined to the task's connection.
func (l *loop) RunTask(t task) {
	defer l.contain(t.conn)
	if t.kind != taskRegister {
		l.serving.Store(t.conn)
	}
	switch t.kind {
	case taskFunc:
		t.msg.(func())()
	case taskRegister:
		l.register(t.conn)
	case taskWrite:
		l.runWrite(t)
	case taskRead:
		l.continueRead(t)
		t.conn.requestOver()
		t.conn.finished(&t.conn.counts.inflight)
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
		l.AddTimer(t.msg.(*reactor.Timer))
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
		l.inHand.prepaid = prepaid{c, int64(t.size)}
		c.submitted(int(t.size))
		c.account() // they count as queued already
	}
	if t.ctx.encodes() {
		c.counts.encoding.Add(-1)
	}
	if c.phase >= PhaseClosing {
		l.Counters[meter.DeadWrites]++
		release(t.msg)
		l.prepaidOver()
		c.account()
		c.fence()
		return
	}
	var err error
	l.inHand.granted = int(t.size)
	if m, ok := t.msg.(*postedBytes); ok {
		err = t.ctx.takePosted(m)
	} else if t.ctx != nil {
		err = t.ctx.writeOnLoop(t.msg)
	} else {
		err = c.writeFromTail(t.msg)
	}
	l.inHand.granted = 0
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
	if c := l.inHand.prepaid.conn; c != nil {
		c.queued.Add(-l.inHand.prepaid.n)
		l.inHand.prepaid = prepaid{}
	}
}

// prepaidBytes returns the prepaid bytes of c.
func (l *loop) prepaidBytes(c *Conn) int64 {
	if l.inHand.prepaid.conn == c {
		return l.inHand.prepaid.n
	}
	return 0
}

// writeSettled follows a submitted write, or the work of a Signal. The queue may be shorter than counted before, if a
// handler shortened or dropped the message or the write was refused.
func (c *Conn) writeSettled() {
	c.noteWatermarks()
	c.checkDrain()
	c.account()
}
