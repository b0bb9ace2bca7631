package eddy

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-eddy/eddy/internal/list"
)

// Context returns the context of what is being handled, for calls that take one; the first call makes it. Its values are
// those of Trace, then those of Conn.BaseContext. For a message its deadline is the connection's handler deadline, counted
// from the dispatch, or the base context's if that is earlier.
//
// The context ends with that deadline, with the base context and with the connection. On a pool it also ends when the handler's method returns.
// On the loop it ends when the method has returned and no request is in flight; Begin and hops to pools keep it. A
// Request in flight has a context of its own.
//
// Valid where all methods of ctx are; any goroutine may use the result. A handler that never asks pays nothing.
func (ctx *Context) Context() context.Context {
	c := ctx.conn
	switch m := ctx.loose(); {
	case ctx.onLoop():
	case m != nil:
		if m.request == nil {
			m.request = c.newContext(m.at)
		}
		return ctx.contextWith(m.request)
	default:
		s := ctx.findStrand()
		if s == nil { // the pool has ended and the loop makes the last call
			return ctx.contextWith(c.newContext(0))
		}
		if s.request == nil {
			s.request = c.newContext(s.since.Load())
		}
		return ctx.contextWith(s.request)
	}
	r := c.rarely()
	if r.current == nil {
		r.current = c.newContext(c.loop.Now - c.loop.inHand.ago)
		c.raise(asked)
		c.mark(watchIdle)
	}
	return ctx.contextWith(r.current)
}

// requestContext is a context.Context that the engine ends, so it needs no timer of its own.
type requestContext struct {
	conn     *Conn
	deadline time.Time // the handler deadline, zero for none
	done     chan struct{}

	place list.Place[requestContext] // in connExt.contexts, under its mutex

	mu    sync.Mutex
	err   error
	after []*func()
}

// newContext returns the context of a request that began at since; 0 stands for no deadline. If the connection has ended,
// so has the context.
func (c *Conn) newContext(since int64) *requestContext {
	r := &requestContext{conn: c, done: make(chan struct{})}
	r.deadline, _ = c.deadlineFrom(since)
	if end := c.extend().link(c, r); end != nil {
		r.finish(contextError(end.Reason))
	} else if err := c.BaseContext().Err(); err != nil { // asked after the link, because baseEnded may have run before it
		r.end(err)
	}
	return r
}

// deadlineFrom returns the handler deadline of a request that began at since; since 0 stands for a request that is not
// timed.
func (c *Conn) deadlineFrom(since int64) (time.Time, bool) {
	limit := c.limits().Handler
	if limit == 0 || since == 0 {
		return time.Time{}, false
	}
	clock := c.loop.Clock
	return clock.Wall().Add(limit - time.Duration(clock.Now()-since)), true
}

// link adds r to the contexts that end with the connection, or returns why the connection has ended.
func (x *connExt) link(c *Conn, r *requestContext) *CloseError {
	x.mu.Lock()
	defer x.mu.Unlock()
	if end := c.ended.Load(); end != nil {
		return end
	}
	x.contexts.Push(&r.place, r)
	return nil
}

func (x *connExt) unlink(r *requestContext) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.contexts.Remove(&r.place)
}

// cancelRequests ends every context of the connection. Before, the connection or its base context must have ended.
func (x *connExt) cancelRequests(err error) {
	for {
		x.mu.Lock()
		r := x.contexts.First()
		x.mu.Unlock()
		if r == nil {
			return
		}
		x.unlink(r)
		r.finish(err)
	}
}

// contextError returns the error of contexts whose connection ended for that reason.
func contextError(reason CloseReason) error {
	if reason == CloseHandlerTimeout {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// end ends r alone.
func (r *requestContext) end(err error) {
	r.conn.ext.Load().unlink(r)
	r.finish(err)
}

func (r *requestContext) finish(err error) {
	r.mu.Lock()
	if r.err != nil {
		r.mu.Unlock()
		return
	}
	r.err = err
	after := r.after
	r.after = nil
	close(r.done)
	r.mu.Unlock()
	for _, f := range after {
		go (*f)()
	}
}

// Deadline implements context.Context.
func (r *requestContext) Deadline() (time.Time, bool) { return r.conn.within(r.deadline) }

// Done implements context.Context.
func (r *requestContext) Done() <-chan struct{} { return r.done }

// Err implements context.Context.
func (r *requestContext) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Value implements context.Context.
func (r *requestContext) Value(key any) any { return r.conn.BaseContext().Value(key) }

// AfterFunc lets package context derive contexts without a goroutine for each.
func (r *requestContext) AfterFunc(f func()) (stop func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		go f()
		return func() bool { return false }
	}
	r.after = append(r.after, &f)
	return func() bool { return r.forget(&f) }
}

func (r *requestContext) forget(f *func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, g := range r.after {
		if g == f {
			last := len(r.after) - 1
			r.after[i] = r.after[last]
			r.after[last] = nil
			r.after = r.after[:last]
			return true
		}
	}
	return false
}

// A message can carry a context.Context, its trace, whose values hold whatever a tracing library keeps there. A trace
// travels with the message through FireRead, FireEvent and FireError, over pools and back; outbound messages carry none.
// The engine uses the trace's values only and ignores its end. Connections without a trace pay nothing.

// MessageTrace is a trace that is told where its message is: each time the message, or an event or error that a handler has
// fired for it, goes to a pool or back to the loop, Queued is called, then Began when it has come there, then Left when it
// has been handled there. What a stopped pool or an ended connection drops has only Queued and Left. The methods must not
// block. They are called by the goroutines that handle the message, also at the same time.
type MessageTrace interface {
	context.Context
	Queued(pool string)   // "" is the loop
	Began(handler string) // "" on the loop
	Left(c *Conn)
}

// SetTrace makes t the trace of the message that is being handled; nil removes it. Until the handler returns, the trace
// holds for it and for the handlers that it passes something on to. Valid where all methods of ctx are.
func (ctx *Context) SetTrace(t context.Context) {
	m := ctx.loose()
	switch {
	case ctx.onLoop():
		ctx.conn.loop.setTrace(ctx.conn, t)
	case m != nil:
		m.trace = t
	default:
		if s := ctx.findStrand(); s != nil {
			s.trace = t
		}
	}
}

// Trace returns the trace of the message that is being handled. If there is none, it returns the connection's trace, else
// an empty context. Valid where all methods of ctx are.
func (ctx *Context) Trace() context.Context {
	if t := ctx.trace(); t != nil {
		return t
	}
	if t := ctx.conn.trace(); t != nil {
		return t
	}
	return context.Background()
}

// SetTrace makes t the trace of all messages of the connection that have none of their own; nil removes it. Any
// goroutine.
func (c *Conn) SetTrace(t context.Context) {
	if t == nil {
		if x := c.ext.Load(); x != nil {
			x.values.trace.Store(nil)
		}
		return
	}
	c.extend().values.trace.Store(&t)
}

// trace returns the connection's trace, nil for none.
func (c *Conn) trace() context.Context {
	if x := c.ext.Load(); x != nil {
		if t := x.values.trace.Load(); t != nil {
			return *t
		}
	}
	return nil
}

// trace returns the trace of the message that is being handled, nil for none.
func (ctx *Context) trace() context.Context {
	if ctx.onLoop() {
		return ctx.conn.loop.traceOf(ctx.conn)
	}
	if m := ctx.loose(); m != nil {
		return m.trace
	}
	if s := ctx.findStrand(); s != nil {
		return s.trace
	}
	return nil
}

// loopTrace is the trace of the message that a loop is handling.
type loopTrace struct {
	conn *Conn
	ctx  context.Context // nil for none
	came *traced         // the message, if it came from a pool
}

func (l *loop) setTrace(c *Conn, t context.Context) {
	l.inHand.tracing.conn, l.inHand.tracing.ctx = c, t
}

func (l *loop) traceOf(c *Conn) context.Context {
	if l.inHand.tracing.ctx != nil && l.inHand.tracing.conn == c {
		return l.inHand.tracing.ctx
	}
	return nil
}

// traceOver clears the loop's trace after a message or a task.
func (l *loop) traceOver() {
	if l.inHand.tracing.conn != nil {
		l.clearTrace()
	}
}

func (l *loop) clearTrace() {
	if m := l.inHand.tracing.came; m != nil {
		m.left()
	}
	l.inHand.tracing = loopTrace{}
}

// traced is a message with its trace, on the way from its handler to another executor.
type traced struct {
	trace context.Context
	msg   any
	conn  *Conn
}

// Release implements Releaser.
func (m *traced) Release() {
	release(m.msg)
	m.left()
}

// left tells the trace that the message, which was on its way, has been handled or dropped.
func (m *traced) left() { left(m.trace, m.conn) }

// left tells a trace that its message has been handled on an executor.
func left(t context.Context, c *Conn) {
	if t, ok := t.(MessageTrace); ok {
		t.Left(c)
	}
}

// withTrace attaches a trace, if there is one, to a message that leaves for a pool, "" for the loop.
func (c *Conn) withTrace(t context.Context, pool string, msg any) any {
	if t == nil {
		return msg
	}
	if t, ok := t.(MessageTrace); ok {
		t.Queued(pool)
	}
	return &traced{t, msg, c}
}

// takeTrace undoes withTrace where a handler takes the message, "" for the loop: it returns the trace, nil for none, and the
// message.
func takeTrace(msg any, handler string) (context.Context, any) {
	m, ok := msg.(*traced)
	if !ok {
		return nil, msg
	}
	if t, ok := m.trace.(MessageTrace); ok {
		t.Began(handler)
	}
	return m.trace, m.msg
}

// untrace makes the task's trace, if there is one, the loop's trace, and returns the task's message.
func (l *loop) untrace(t task) any {
	trace, msg := takeTrace(t.msg, "")
	if trace != nil {
		l.setTrace(t.conn, trace)
		l.inHand.tracing.came = t.msg.(*traced)
	}
	return msg
}

// tracedContext is a request's context with the values of a trace before its own.
type tracedContext struct {
	*requestContext
	trace context.Context
}

// Value implements context.Context.
func (c *tracedContext) Value(key any) any {
	if v := c.trace.Value(key); v != nil {
		return v
	}
	return c.requestContext.Value(key)
}

// contextWith returns r with the values of the message's trace, or of the connection's.
func (ctx *Context) contextWith(r *requestContext) context.Context {
	t := ctx.trace()
	if t == nil {
		t = ctx.conn.trace()
	}
	if t == nil {
		return r
	}
	return &tracedContext{r, t}
}

var errNoContext = errors.New("eddy: ConnContext returned nil: return the context it is given, or one made of it")

// connBase is what ConnContext returned for a connection.
type connBase struct {
	ctx  context.Context
	stop func() bool // ends the wait for a context with an end of its own; nil = there is none
}

// BaseContext returns the context from which the contexts of the connection's requests descend. It is what
// Server.ConnContext returned, else Server.BaseContext, else empty. It does not end with the connection; Done tells that.
// Any goroutine, also after the close.
func (c *Conn) BaseContext() context.Context {
	if x := c.ext.Load(); x != nil {
		if b := x.values.base.Load(); b != nil {
			return b.ctx
		}
	}
	return c.set.base
}

// makeBase calls ConnContext if there is one. Called on the loop, before Init.
func (c *Conn) makeBase() error {
	if c.set.connContext == nil {
		return nil
	}
	own := c.set.connContext(c.set.base, c)
	if own == nil {
		return errNoContext
	}
	x, b := c.extend(), &connBase{ctx: own}
	x.values.base.Store(b)
	if done := own.Done(); done != nil && done != c.set.base.Done() {
		b.stop = context.AfterFunc(own, func() { x.cancelRequests(own.Err()) })
	}
	return nil
}

// release ends the wait for the end of the base context. Loop only.
func (v *connValues) release() {
	if b := v.base.Load(); b != nil && b.stop != nil {
		b.stop()
	}
}

// within returns the earlier of a deadline, zero for none, and the base context's.
func (c *Conn) within(deadline time.Time) (time.Time, bool) {
	if d, ok := c.BaseContext().Deadline(); ok && (deadline.IsZero() || d.Before(deadline)) {
		return d, true
	}
	return deadline, !deadline.IsZero()
}

// follow ends the contexts of the owner's connections when base ends, unless stop is called before. One wait serves all
// connections.
func (e *endpoint) follow(base context.Context, loops []*loop) (stop func() bool) {
	return context.AfterFunc(base, func() {
		for _, l := range loops {
			l.endContexts(e, 0)
		}
	})
}

// contextBatch is the number of slots whose contexts end in one task.
const contextBatch = 256

// endContexts makes the loop end the contexts of the owner's connections, from a slot on, because their base context has
// ended. A context that is made meanwhile sees for itself that the base has ended. Any goroutine.
func (l *loop) endContexts(owner *endpoint, from int) {
	_ = l.Tasks.PushControl(task{kind: taskFunc, msg: func() { // a loop that has ended has closed everything
		part, end := l.table.Part(from, contextBatch)
		for _, c := range part {
			if c != nil && c.set.owner == owner {
				c.baseEnded()
			}
		}
		if end < l.table.Len() {
			l.endContexts(owner, end)
		}
	}})
}

// baseEnded ends the connection's contexts, unless ConnContext has made them independent of the server's base context.
func (c *Conn) baseEnded() {
	if x := c.ext.Load(); x != nil {
		if err := c.BaseContext().Err(); err != nil {
			x.cancelRequests(err)
		}
	}
}
