package eddy

import "context"

// A message can carry a context.Context, its trace, whose values hold whatever a tracing library keeps there. A trace
// travels with the message through FireRead, FireEvent and FireError, over pools and back; outbound messages carry none.
// The engine uses the trace's values only and ignores its end. Connections without a trace pay nothing.

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
}

func (l *loop) setTrace(c *Conn, t context.Context) { l.inHand.tracing = loopTrace{c, t} }

func (l *loop) traceOf(c *Conn) context.Context {
	if l.inHand.tracing.ctx != nil && l.inHand.tracing.conn == c {
		return l.inHand.tracing.ctx
	}
	return nil
}

// traceOver clears the loop's trace after a message or a task.
func (l *loop) traceOver() {
	if l.inHand.tracing.conn != nil {
		l.inHand.tracing = loopTrace{}
	}
}

// traced is a message with its trace, on the way from its handler to another executor.
type traced struct {
	trace context.Context
	msg   any
}

// Release implements Releaser.
func (m *traced) Release() { release(m.msg) }

// withTrace attaches a trace, if there is one, to a message that leaves for another executor.
func withTrace(t context.Context, msg any) any {
	if t == nil {
		return msg
	}
	return &traced{t, msg}
}

// takeTrace undoes withTrace: it returns the trace, nil for none, and the message.
func takeTrace(msg any) (context.Context, any) {
	if m, ok := msg.(*traced); ok {
		return m.trace, m.msg
	}
	return nil, msg
}

// untrace makes the task's trace, if there is one, the loop's trace, and returns the task's message.
func (l *loop) untrace(t task) any {
	trace, msg := takeTrace(t.msg)
	if trace != nil {
		l.setTrace(t.conn, trace)
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
