package eddy

import (
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
)

// Context is a handler's place in the pipeline of one connection. Its methods may be called on the handler's own
// executor only. The next handler on the same executor is called directly; a handler on another executor gets a task.
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

// Pipeline returns the pipeline, for a look or a change. On a pool its methods return ErrOffLoop; use Conn.Change there.
func (ctx *Context) Pipeline() *Pipeline {
	if !ctx.onLoop() {
		return &Pipeline{conn: ctx.conn, from: callerOnPool}
	}
	return &Pipeline{conn: ctx.conn, from: callerOnLoop}
}

// State returns what SetState stored: the handler's own data for this connection.
func (ctx *Context) State() any {
	if ctx.node.unordered {
		return ctx.sharedState()
	}
	if ctx.loose() != nil || ctx.absent() { // in a reject policy the state is the pool's
		return nil
	}
	return ctx.state
}

// SetState stores the handler's own data for this connection. In a RejectFunc it does nothing, unless the handler is
// unordered.
func (ctx *Context) SetState(v any) {
	if ctx.node.unordered {
		ctx.setSharedState(v)
	} else if ctx.loose() == nil && !ctx.absent() {
		ctx.state = v
	}
}

// Close ends the connection now; what is queued is lost. On the loop no further message of the connection is delivered.
func (ctx *Context) Close(reason CloseReason) {
	if !ctx.onLoop() {
		ctx.conn.Close(reason)
		return
	}
	ctx.conn.beginClose(reason, nil)
}

// CloseAfterFlush ends the connection in order after what was written before, see Conn.CloseAfterFlush. On the loop no
// further message of the connection is delivered.
func (ctx *Context) CloseAfterFlush(reason CloseReason) {
	if !ctx.onLoop() {
		ctx.conn.CloseAfterFlush(reason)
		return
	}
	ctx.conn.closeFlushed(reason, nil)
}

// Fail ends the connection now because of err, for the reason that err classifies to, see WithReason; what is queued is
// lost. A connection that is ending keeps its own end. On the loop no further message of the connection is delivered.
func (ctx *Context) Fail(err error) {
	c := ctx.conn
	if !ctx.onLoop() {
		c.CloseWith(reasonOf(err), err)
	} else if c.phase < PhaseClosing {
		c.beginClose(reasonOf(err), err)
	}
}

// Panicked counts and logs a panic in code that the handler has run on a pool, as the engine does for handlers there, and
// returns it as an error. v is what recover has returned. Call it in the deferred function that has recovered, so that the
// log has the stack. The connection goes on. Any goroutine, also after the close.
func (ctx *Context) Panicked(v any) *PanicError {
	c, stack := ctx.conn, debug.Stack()
	c.set.owner.hopPanics.Add(1)
	c.loop.logPanic(ctx.node.name, v, stack)
	return &PanicError{Value: v, Stack: stack}
}

// After runs f on the connection's loop after d, unless the connection ends first. On the loop only. Errors: ErrClosed, a
// negative d.
func (ctx *Context) After(d time.Duration, f func()) (*Timer, error) {
	return ctx.conn.after(d, f)
}

// FireRead passes a message to the next handler towards the tail.
func (ctx *Context) FireRead(msg any) {
	if ctx.node.pool == nil {
		ctx.fireRead(msg)
		return
	}
	if ctx.onLoop() {
		ctx.place().fireRead(msg)
		return
	}
	n, last := ctx.passTo(opRead)
	if n != nil {
		if m := ctx.loose(); m != nil {
			n.readNext(m, msg)
		} else {
			n.result(n.read(msg))
		}
		return
	}
	ctx.conn.counts.inflight.Add(1)
	ctx.post(last, taskRead, msg)
}

// FireEvent passes an event to the next handler towards the tail.
func (ctx *Context) FireEvent(ev any) {
	if ctx.onLoop() {
		ctx.place().fireEvent(ev)
		return
	}
	n, last := ctx.passTo(opEvent)
	if n != nil {
		n.result(n.event(ev))
		return
	}
	ctx.post(last, taskEvent, ev)
}

// FireError passes an error to the next ErrorHandler towards the tail. An error that passes the tail closes the connection.
func (ctx *Context) FireError(err error) {
	if ctx.onLoop() {
		ctx.place().fireError(err)
		return
	}
	ctx.post(ctx.place(), taskError, err)
}

// Write passes a message towards the head, from this handler. A []byte must not be changed afterwards; a Releaser is given
// away, whatever the result.
// Errors: ErrClosed, ErrBackpressure; on a pool ErrSaturated; ErrOffLoop when a handler of a loop calls Write on another
// goroutine while the loop sleeps. While the loop runs such a call goes unnoticed, so other goroutines must use Conn.Write.
func (ctx *Context) Write(msg any) error {
	if ctx.node.pool == nil {
		if err := ctx.offLoop(); err != nil {
			return given(msg, err)
		}
		return ctx.writeOnLoop(msg)
	}
	at := ctx.place()
	switch {
	case ctx.onLoop():
		return at.writeOnLoop(msg)
	case at != ctx:
		return given(msg, ctx.conn.submitWrite(at, msg))
	}
	if p := ctx.writeTo(); p != nil {
		return p.writeOnPool(msg)
	}
	if by := ctx.heir(); by != nil {
		return by.Write(msg)
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

// WriteBytes passes a copy of p towards the head; p may be reused at once. It allocates nothing on the loop, nor
// on a pool up to 1 KiB.
func (ctx *Context) WriteBytes(p []byte) error {
	if ctx.node.pool != nil { // also in a reject policy, which is no hot path
		if done, err := ctx.postBytes(p); done {
			return err
		}
		if len(p) < adoptSize { // the loop will copy it once more, to coalesce
			return ctx.Write(buf.Copy(p))
		}
		return ctx.Write(append(make([]byte, 0, len(p)), p...))
	}
	if err := ctx.offLoop(); err != nil {
		return err
	}
	return ctx.writeBytes(p)
}

// writeBytes is WriteBytes on the loop.
func (ctx *Context) writeBytes(p []byte) error {
	c := ctx.conn
	if writerFrom(ctx.back()) == nil {
		return c.enqueueCopy(p)
	}
	b := c.loop.lendCarrier()
	b.Reset(p)
	err := ctx.writeOnLoop(b)
	c.loop.carrierBack(b)
	return err
}

// post carries an inbound event that has passed last from a pool to the loop, which finds the next handler. A full task
// queue ends the connection, because an event that the handler believes delivered must not vanish. A connection that is
// ending anyway keeps its own reason.
func (ctx *Context) post(last *Context, kind taskKind, v any) {
	c := ctx.conn
	v = c.withTrace(ctx.trace(), "", v)
	t := task{kind: kind, conn: c, ctx: last, msg: v}
	if kind == taskRead {
		t.size = ctx.age()
	}
	err := c.loop.Tasks.Push(t)
	if err == nil {
		return
	}
	if kind == taskRead {
		release(v)
		c.finished(&c.counts.inflight)
	}
	if c.closedError() == nil {
		c.CloseWith(CloseBackpressureLimit, err)
	}
}

// passTo returns the next context that takes an inbound event, if that context is on the same pool and may be called at
// once. Otherwise n is nil and last is the last context that the event has passed; from there the loop finds the way.
func (ctx *Context) passTo(op ops) (n, last *Context) {
	at := ctx.place()
	if by := at.heir(); by != nil {
		if by.node.ops&op != 0 {
			return by, nil
		}
		at = by
	}
	pool := at.node.pool
	last, n = at, at.next.Load()
	for n != nil && n.node.pool == pool && n.node.ops&op == 0 {
		last, n = n, n.next.Load()
	}
	switch {
	case !at.settled():
		return nil, at
	case n != nil && ctx.shares(n, op):
		return n, nil
	}
	return nil, last
}

// writeTo returns the nearest WriteHandler if it is on the same pool and may be called at once.
func (ctx *Context) writeTo() *Context {
	if by := ctx.heir(); by != nil && by.node.ops&opWrite != 0 {
		return by
	}
	if p := writerFrom(ctx.prev.Load()); p != nil && ctx.shares(p, opWrite) && ctx.settled() {
		return p
	}
	return nil
}

// nextOnLoop returns the next context for an inbound event. While the pipeline settles after a change, the event must not
// skip any pool, not even the one it comes from. Other events may be on their way there.
func (ctx *Context) nextOnLoop(op ops) *Context {
	from := ctx.node.pool
	bits := ctx.conn.shared.Load()
	if bits&(rewired|detour) == 0 {
		return firstFor(ctx.next.Load(), op, from)
	}
	if bits&detour != 0 {
		from = nil
	}
	return firstFor(ctx.onward(), op, from)
}

// firstFor returns the context that an inbound event coming from executor from visits first, beginning with n. The event
// goes to the next context that handles it. Before that one it stops at any other executor that has an order, to keep its
// place in the order. An event without a handler visits nothing.
func firstFor(n *Context, op ops, from *executor.Pool) *Context {
	var first *Context
	for ; n != nil; n = n.next.Load() {
		handles := n.node.ops&op != 0
		if first == nil && (handles || n.node.pool != from && !n.node.unordered && n.node.ops&opOutbound == 0) {
			first = n
		}
		if handles {
			return first
		}
	}
	return nil
}

// writerFrom returns the nearest WriteHandler towards the head, beginning with p. Handlers that take no part in writing are
// skipped on any executor. A detour over their pool would let the close of the connection overtake a farewell.
func writerFrom(p *Context) *Context {
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
	if ctx.node.ops&opAdd != 0 && !ctx.present() {
		return ctx.Write(msg)
	}
	return ctx.node.handler.(WriteHandler).HandleWrite(ctx, msg)
}

func (ctx *Context) event(ev any) error {
	h, ok := ctx.node.handler.(EventHandler)
	if !ok || ctx.node.ops&opAdd != 0 && !ctx.present() {
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

// Now returns the time as the loop sees it: monotonic, from an arbitrary start that is the same for all loops of a Group. The
// time stays the same during an iteration, so Now costs no look at the clock. Loop only.
func (ctx *Context) Now() time.Duration { return time.Duration(ctx.conn.loop.Now) }

// WriteParts passes a copy of two slices towards the head as one message, such as a header and its payload. Both slices
// may be reused at once. A WriteHandler on the way gets one *buf.Bytes. On the loop WriteParts allocates nothing; with a
// WriteHandler on the way, up to 64 KiB. Errors as for Write.
func (ctx *Context) WriteParts(head, body []byte) error {
	switch {
	case ctx.node.pool != nil:
		return ctx.Write(append(append(make([]byte, 0, len(head)+len(body)), head...), body...))
	case writerFrom(ctx.back()) == nil:
		return ctx.conn.enqueueCopies(head, body)
	}
	l := ctx.conn.loop
	both := append(append(l.out.joint[:0], head...), body...)
	l.out.joint = nil
	err := ctx.WriteBytes(both)
	if cap(both) <= scratchSize {
		l.out.joint = both
	}
	return err
}

// lendCarrier returns a message for WriteBytes. A handler that writes while it handles one gets another.
func (l *loop) lendCarrier() *buf.Bytes {
	n := len(l.out.carriers)
	if n == 0 {
		return new(buf.Bytes)
	}
	b := l.out.carriers[n-1]
	l.out.carriers = l.out.carriers[:n-1]
	return b
}

func (l *loop) carrierBack(b *buf.Bytes) {
	b.Reset(nil)
	l.out.carriers = append(l.out.carriers, b)
}

// enqueueCopies queues copies of two slices, both or neither.
func (c *Conn) enqueueCopies(head, body []byte) error {
	n := len(head) + len(body)
	if err := c.admitOnLoop(n); err != nil {
		return err
	}
	c.appendCopy(head)
	c.appendCopy(body)
	c.queuedMore(n)
	return nil
}
