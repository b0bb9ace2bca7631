package eddy

import (
	"context"
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
	x := c.extend()
	if x.current == nil {
		x.current = c.newContext(c.loop.Now - c.loop.inHand.ago)
		c.raise(asked)
		c.mark(watchIdle)
	}
	return ctx.contextWith(x.current)
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
