package eddy

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/reactor"
)

// call is one request that a Responder has taken, and the job of its pool. The winner of claim decides the end of the
// request and fills in the answer. Everything else belongs to the loop; from Enqueue until deliver the worker owns what it
// needs of it. A call is used again for other requests.
type call[Req any] struct {
	flow    *flow[Req]
	req     Req
	id      uint64
	oneWay  bool
	due     int64 // on the loop's clock, 0 = no timeout
	request Request
	ctx     *callContext
	pool    *executor.Pool // nil: it runs on the loop
	spare   []callContext
	ran     bool // its function was called; owned by the goroutine that calls it

	claimed atomic.Bool
	msg     any   // the answer
	counted int   // its bytes, which count as queued on the connection
	failure error // why there is no answer; the connection must end

	// The loop's.
	prev, next *call[Req]
	running    bool           // the pool has it
	ready      bool           // the answer is there
	answered   bool           // the answer has left
	local      bool           // will be answered on the loop when it is its turn
	waiting    bool           // goes to its pool when those before it have come back
	routed     bool           // ResponderOptions.Done is told its end
	refusal    error          // answers the request instead of its function, if set
	expiry     *reactor.Timer // of a call that outlives its connection; recycle stops it

	nextDone *call[Req] // flow.mu
}

// claim reports whether the caller decides the end of the request.
func (c *call[Req]) claim() bool { return c.claimed.CompareAndSwap(false, true) }

// Run implements executor.Job: it executes the request, on a worker, unless its end was decided while it waited.
func (c *call[Req]) Run() {
	if c.claimed.Load() || c.late() {
		c.flow.deliver(c)
		return
	}
	c.ran = true
	var resp any
	var err error
	returned := false
	defer func() {
		if !returned {
			resp, err = nil, c.failed(recover())
		}
		c.over(resp, err)
	}()
	resp, err = c.flow.r.o.Run(c.ctx, c.req)
	returned = true
}

// late ends a request whose time was over before a worker took it, because the loop may be behind its timer.
func (c *call[Req]) late() bool {
	if c.due == 0 || c.flow.conn.loop.Clock.Now() < c.due {
		return false
	}
	if c.claim() {
		c.flow.r.expired.Add(1)
		c.ctx.end(context.DeadlineExceeded)
		c.makeAnswer(nil, context.DeadlineExceeded)
	}
	return true
}

// runOnLoop executes a request whose handler must not block.
func (c *call[Req]) runOnLoop() {
	var resp any
	var err error
	returned := false
	c.running, c.ran = true, true
	defer func() {
		if !returned {
			resp, err = nil, c.failed(recover())
		}
		c.running = false
		switch {
		case c.flow.decide(c, resp, err):
		case c.answered: // its connection has ended meanwhile
			release(resp)
			c.recycle()
		default:
			release(resp)
		}
	}()
	resp, err = c.flow.r.o.Run(c.ctx, c.req)
	returned = true
}

// over runs when the function of the request is over, by a return or otherwise.
func (c *call[Req]) over(resp any, err error) {
	c.ctx.end(context.Canceled)
	if c.claim() {
		c.makeAnswer(resp, err)
	} else {
		release(resp)
	}
	c.flow.deliver(c)
}

// failed turns a panic, or nil for the end of the goroutine, into the request's error. The worker lives on, and so does
// the connection.
func (c *call[Req]) failed(v any) error {
	c.flow.r.failed.Add(1)
	if v == nil {
		return ErrExited
	}
	stack := debug.Stack()
	conn := c.flow.conn
	conn.set.owner.hopPanics.Add(1)
	conn.loop.logPanic(c.flow.ctx.node.name, v, stack)
	return &PanicError{Value: v, Stack: stack}
}

// Drop implements executor.Job: it ends a request whose pool was stopped before it could run, on the goroutine that stopped it.
func (c *call[Req]) Drop() {
	if c.claim() {
		c.flow.r.rejected.Add(1)
		c.ctx.end(context.Canceled)
		c.makeAnswer(nil, executor.ErrClosed)
	}
	c.flow.deliver(c)
}

// makeAnswer makes the message for the connection. Its bytes count as queued there from here on.
func (c *call[Req]) makeAnswer(resp any, err error) {
	if c.oneWay {
		release(resp)
		return
	}
	defer func() {
		if v := recover(); v != nil {
			c.failure = answerFailed(v)
		}
	}()
	msg := c.flow.r.o.Answer(c.req, resp, err)
	if msg == nil {
		return
	}
	n := sizeOf(msg)
	c.flow.conn.countAnswer(n)
	c.msg, c.counted = msg, n
}

// takeAnswer returns the answer for the loop to write, whose bytes were counted before.
func (c *call[Req]) takeAnswer() (msg any, counted int) {
	msg, counted = c.msg, c.counted
	c.msg, c.counted = nil, 0
	c.flow.conn.uncountAnswer(counted)
	return msg, counted
}

// dropAnswer ends an answer that nobody will get.
func (c *call[Req]) dropAnswer() {
	msg, _ := c.takeAnswer()
	release(msg)
}

// recycle ends the call and puts it back for other requests. No goroutine has a part in it any more.
func (c *call[Req]) recycle() {
	r := c.flow.r
	c.ctx.forget()
	if c.expiry != nil {
		c.expiry.Stop()
	}
	if c.oneWay && !c.ran {
		r.dropped.Add(1)
	}
	if c.routed && r.o.Done != nil {
		r.o.Done(c.req)
	}
	release(c.req)
	*c = call[Req]{spare: c.spare}
	r.calls.Put(c)
}

// countAnswer counts a response as queued from when it is made, as submitWrite does. No response is refused, because its memory
// is in use already. Any goroutine.
func (c *Conn) countAnswer(n int) {
	if c.set.owner.budget.limit > 0 {
		c.cell().pending.Add(int64(n))
	}
	c.queued.Add(int64(n))
	c.extend().answers.Add(int64(n))
}

func (c *Conn) uncountAnswer(n int) {
	if n > 0 {
		c.queued.Add(-int64(n))
		c.ext.Load().answers.Add(-int64(n))
		c.submitted(n)
	}
}

// contextBatch is how many contexts are made at once.
const contextBatch = 16

// nextContext returns a context that no request has had before, because a context that is kept must not come to life again.
// Contexts come in batches, so that a request allocates none.
func (c *call[Req]) nextContext() *callContext {
	if len(c.spare) == 0 {
		c.spare = make([]callContext, contextBatch)
	}
	x := &c.spare[0]
	c.spare = c.spare[1:]
	return x
}

// callContext is the context of a call. The parts that cost memory are made when they are asked for.
type callContext struct {
	mu     sync.Mutex
	conn   *Conn // nil when it is over
	alone  bool  // of a one-way request, which the end of the connection does not end
	since  int64 // when the request began, 0 when nothing times it
	due    int64 // when it has to be over, 0 for no timeout of its own
	err    error
	real   *requestContext
	values valuer // nil for none, and when the function has returned
}

// valuer knows the values of a context.
type valuer interface{ value(key any) any }

func (x *callContext) begin(c *Conn, since, due int64) { x.conn, x.since, x.due = c, since, due }

// forget takes the request from the context, which the application may keep; the context never reaches the request again.
func (x *callContext) forget() {
	if x.values == nil { // written by the loop before anybody else had x, and here
		return
	}
	x.mu.Lock()
	x.values = nil
	x.mu.Unlock()
}

func (c *call[Req]) value(key any) any { return c.flow.r.o.Value(c.req, key) }

// end ends the context. The first reason stays.
func (x *callContext) end(err error) {
	if err != context.DeadlineExceeded { //nolint:errorlint // the sentinel itself, which is all that Err may return
		err = context.Canceled
	}
	x.mu.Lock()
	if x.err != nil {
		x.mu.Unlock()
		return
	}
	x.err, x.conn = err, nil
	real := x.real
	x.mu.Unlock()
	if real != nil {
		real.end(err)
	}
}

// made returns the context that can be waited for, and makes it at the first call.
func (x *callContext) made() *requestContext {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.real != nil:
	case x.conn == nil:
		x.real = &requestContext{done: make(chan struct{})}
		x.real.finish(x.err)
	case x.alone:
		x.conn.extend()
		x.real = &requestContext{conn: x.conn, deadline: x.deadline(), done: make(chan struct{})}
	default:
		x.real = x.conn.newContext(x.since)
		x.real.deadline = x.deadline()
	}
	return x.real
}

// deadline returns the earlier of the connection's deadline and its own. x.mu is held.
func (x *callContext) deadline() time.Time {
	if x.conn == nil {
		return time.Time{}
	}
	d, _ := x.conn.deadlineFrom(x.since)
	if x.due != 0 {
		clock := x.conn.loop.Clock
		if own := clock.Wall().Add(time.Duration(x.due - clock.Now())); d.IsZero() || own.Before(d) {
			return own
		}
	}
	return d
}

// Deadline implements context.Context.
func (x *callContext) Deadline() (time.Time, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.deadline()
	if x.real != nil {
		d = x.real.deadline
	}
	return d, !d.IsZero()
}

// Done implements context.Context.
func (x *callContext) Done() <-chan struct{} { return x.made().done }

// Err implements context.Context.
func (x *callContext) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.real != nil:
		return x.real.Err()
	case x.err != nil:
		return x.err
	}
	if end := x.conn.ended.Load(); end != nil && !x.alone {
		return contextError(end.Reason)
	}
	return nil
}

// Value implements context.Context. The request is not recycled while its values are asked for.
func (x *callContext) Value(key any) any {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.values == nil {
		return nil
	}
	return x.values.value(key)
}

// AfterFunc lets package context derive contexts without a goroutine each.
func (x *callContext) AfterFunc(f func()) (stop func() bool) { return x.made().AfterFunc(f) }
