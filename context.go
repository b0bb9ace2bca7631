package eddy

import (
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
)

// Context is a handler's place in the pipeline of one connection. Its methods may be called on the handler's own
// executor only: the next handler on the same executor is called directly, one on another gets a task.
type Context struct {
	conn       *Conn
	node       *node
	next, prev atomic.Pointer[Context] // written by the loop, read by pools
	state      any
}

// Conn returns the connection.
func (ctx *Context) Conn() *Conn { return ctx.conn }

// Name returns the name the handler was added with.
func (ctx *Context) Name() string { return ctx.node.name }

// Pipeline returns the pipeline, to change it. On the loop only.
func (ctx *Context) Pipeline() *Pipeline { return &Pipeline{conn: ctx.conn} }

// State returns what SetState stored: the handler's own data for this connection.
func (ctx *Context) State() any {
	if ctx.node.unordered {
		return ctx.sharedState()
	}
	if ctx.loose() != nil { // a reject policy; the state is the pool's
		return nil
	}
	return ctx.state
}

// SetState stores the handler's own data for this connection. In a RejectFunc it does nothing, unless the handler is
// unordered.
func (ctx *Context) SetState(v any) {
	if ctx.node.unordered {
		ctx.setSharedState(v)
	} else if ctx.loose() == nil {
		ctx.state = v
	}
}

// Close ends the connection now; what is queued is lost. On the loop no further message of it is delivered.
func (ctx *Context) Close(reason CloseReason) {
	if !ctx.onLoop() {
		ctx.conn.Close(reason)
		return
	}
	ctx.conn.beginClose(reason, nil)
}

// CloseAfterFlush ends the connection in order after what was written before, see Conn.CloseAfterFlush. On the loop no
// further message of it is delivered.
func (ctx *Context) CloseAfterFlush(reason CloseReason) {
	if !ctx.onLoop() {
		ctx.conn.CloseAfterFlush(reason)
		return
	}
	ctx.conn.closeFlushed(reason, nil)
}

// After runs f on the connection's loop after d, unless the connection ends first. On the loop
// only. Errors: ErrClosed, a negative d.
func (ctx *Context) After(d time.Duration, f func()) (*Timer, error) {
	return ctx.conn.loop.after(ctx.conn, d, f)
}

// FireRead passes a message to the next handler towards the tail.
func (ctx *Context) FireRead(msg any) {
	if ctx.node.pool == nil {
		ctx.fireRead(msg)
		return
	}
	at := ctx.place()
	if ctx.onLoop() {
		at.fireRead(msg)
		return
	}
	if n := at.nextFor(opRead); n != nil && ctx.shares(n, opRead) {
		if m := ctx.loose(); m != nil {
			n.readNext(m, msg)
		} else {
			n.result(n.read(msg))
		}
		return
	}
	ctx.conn.inflight.Add(1)
	ctx.post(taskRead, msg)
}

// FireEvent passes an event to the next handler towards the tail.
func (ctx *Context) FireEvent(ev any) {
	at := ctx.place()
	if ctx.onLoop() {
		at.fireEvent(ev)
		return
	}
	if n := at.nextFor(opEvent); n != nil && ctx.shares(n, opEvent) {
		n.result(n.event(ev))
		return
	}
	ctx.post(taskEvent, ev)
}

// FireError passes an error to the next ErrorHandler towards the tail; what passes the tail closes the connection.
func (ctx *Context) FireError(err error) {
	if ctx.onLoop() {
		ctx.place().fireError(err)
		return
	}
	ctx.post(taskError, err)
}

// Write passes a message towards the head, from this handler. A []byte must not be changed afterwards; a Releaser is given
// away, whatever the result.
// Errors: ErrClosed, ErrBackpressure, and off the loop ErrSaturated.
func (ctx *Context) Write(msg any) error {
	if ctx.node.pool == nil {
		return ctx.writeOnLoop(msg)
	}
	at := ctx.place()
	switch {
	case ctx.onLoop():
		return at.writeOnLoop(msg)
	case at != ctx:
		return given(msg, ctx.conn.submitWrite(at, msg))
	}
	if p := ctx.prevWriter(); p != nil && ctx.shares(p, opWrite) {
		return p.writeOnPool(msg)
	}
	if s := ctx.findStrand(); s != nil {
		if s.class != nil {
			msg = withClass(s.class, msg)
		}
		msg = s.future.part(msg)
	}
	err := ctx.conn.submitWrite(ctx, msg)
	if err != nil {
		refuse(msg, err)
	}
	return err
}

// WriteBytes passes a copy of p towards the head; p may be reused at once. On the loop it allocates nothing.
func (ctx *Context) WriteBytes(p []byte) error {
	c := ctx.conn
	if ctx.node.pool != nil { // also in a reject policy, which is no hot path
		if len(p) < adoptSize { // the loop will copy it once more, to coalesce
			return ctx.Write(buf.Copy(p))
		}
		return ctx.Write(append(make([]byte, 0, len(p)), p...))
	}
	if ctx.prevWriter() == nil {
		return c.enqueueCopy(p)
	}
	var b buf.Bytes
	b.Reset(p)
	return ctx.writeOnLoop(&b)
}

// post carries an inbound event from a pool to the loop, which finds the next handler. If the loop's queue is full the
// connection ends: an event that the handler believes delivered must not vanish. One that is ending anyway ends as it is.
func (ctx *Context) post(kind taskKind, v any) {
	c := ctx.conn
	v = withTrace(ctx.trace(), v)
	t := task{kind: kind, conn: c, ctx: ctx.place(), msg: v}
	if kind == taskRead {
		t.size = ctx.age()
	}
	err := c.loop.tasks.push(t, false)
	if err == nil {
		return
	}
	if kind == taskRead {
		release(v)
		c.finished(&c.inflight)
	}
	if c.closedError() == nil {
		c.CloseWith(CloseBackpressureLimit, err)
	}
}

func (ctx *Context) nextFor(op ops) *Context { return firstFor(ctx.next.Load(), op, ctx.node.pool) }

// firstFor returns the context that an inbound event coming from executor from visits first, beginning with n: the next
// one that handles it or, before that one, any on another executor that has an order, where the event keeps its place in
// it. An event that nobody handles visits nobody.
func firstFor(n *Context, op ops, from *executor.Pool) *Context {
	var first *Context
	for ; n != nil; n = n.next.Load() {
		handles := n.node.ops&op != 0
		if first == nil && (handles || n.node.pool != from && !n.node.unordered) {
			first = n
		}
		if handles {
			return first
		}
	}
	return nil
}

// prevWriter returns the nearest WriteHandler towards the head. Handlers that take no part in writing are skipped on
// any executor: a detour over their pool would let the close of the connection overtake a farewell.
func (ctx *Context) prevWriter() *Context {
	p := ctx.prev.Load()
	for p != nil && p.node.ops&opWrite == 0 {
		p = p.prev.Load()
	}
	return p
}

// read runs the handler's HandleRead on the calling goroutine, which is the handler's executor.
func (ctx *Context) read(msg any) error {
	if ctx.node.read == nil {
		ctx.FireRead(msg)
		return nil
	}
	return ctx.node.read.HandleRead(ctx, msg)
}

func (ctx *Context) write(msg any) error {
	return ctx.node.handler.(WriteHandler).HandleWrite(ctx, msg)
}

func (ctx *Context) event(ev any) error {
	h, ok := ctx.node.handler.(EventHandler)
	if !ok {
		ctx.FireEvent(ev)
		return nil
	}
	return h.HandleEvent(ctx, ev)
}

// result routes the error of an inbound call on a pool: the handler's own ErrorHandler first.
func (ctx *Context) result(err error) {
	if err == nil {
		return
	}
	if h, ok := ctx.node.handler.(ErrorHandler); ok {
		err = h.HandleError(ctx, err)
	}
	if err != nil {
		ctx.FireError(err)
	}
}
