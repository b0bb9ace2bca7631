package responder

import (
	"context"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
)

// callContext is the context of a call. The parts that cost memory are made when they are asked for. No request has had it
// before, because a context that is kept must not come to life again.
type callContext[Req any] struct {
	mu     sync.Mutex
	call   *call[Req]         // nil when it is over and, with values, its function has returned
	due    time.Time          // when it has to be over as far as known, zero for no limit
	err    error              // why it is over
	real   context.Context    // can be waited for; nil until asked for, has the connection's values after the end
	cancel context.CancelFunc // of real, if that does not end with the connection
}

// contextBatch is how many contexts are made at once.
const contextBatch = 16

// newContext gives the call its context. Contexts come in batches, so that a request allocates none.
func (c *call[Req]) newContext() {
	if len(c.spare) == 0 {
		c.spare = make([]callContext[Req], contextBatch)
	}
	c.ctx = &c.spare[0]
	c.spare = c.spare[1:]
	c.ctx.call, c.ctx.due = c, c.due
}

// end ends the context. The first reason stays.
func (x *callContext[Req]) end(err error) {
	if err != context.DeadlineExceeded { //nolint:errorlint // the sentinel itself, which is all that Err may return
		err = context.Canceled
	}
	x.mu.Lock()
	if x.err != nil {
		x.mu.Unlock()
		return
	}
	c, real, cancel := x.call, x.real, x.cancel
	if real != nil {
		if ended := real.Err(); ended != nil { // the connection was first
			err = ended
		}
	}
	x.err = err
	if real == nil {
		x.real = c.flow.conn.BaseContext()
	}
	if c.flow.r.o.Value == nil {
		x.call = nil
	}
	x.mu.Unlock()
	if cancel != nil {
		cancel()
	} else if real != nil {
		c.request.Cancel()
	}
}

// forget takes the request's values from the context, which the application may keep; the context never reaches the request
// again. Without values end has done so.
func (x *callContext[Req]) forget() {
	x.mu.Lock()
	x.call = nil
	x.mu.Unlock()
}

// made returns the context that can be waited for, and makes it at the first call.
func (x *callContext[Req]) made() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.err != nil && x.real.Err() == nil: // nobody has asked before the end
		x.real, x.cancel = context.WithCancel(x.real)
		x.cancel()
	case x.real != nil:
	case x.call.oneWay:
		x.real, x.cancel = context.WithCancel(x.call.flow.conn.BaseContext())
	default:
		x.real = x.call.request.Context()
	}
	return x.real
}

// Deadline implements context.Context: the earliest of the handler deadline, the base context's and the request's own.
func (x *callContext[Req]) Deadline() (time.Time, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		if limit, ok := x.call.request.Deadline(); ok && (x.due.IsZero() || limit.Before(x.due)) {
			x.due = limit
		}
	}
	return x.due, !x.due.IsZero()
}

// Done implements context.Context.
func (x *callContext[Req]) Done() <-chan struct{} { return x.made().Done() }

// Err implements context.Context.
func (x *callContext[Req]) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.err != nil:
		return x.err
	case x.real != nil:
		return x.real.Err()
	}
	conn := x.call.flow.conn
	if err := endOf(conn.CloseError()); err != nil && !x.call.oneWay { // the end of the connection does not end a one-way request
		return err
	}
	return conn.BaseContext().Err()
}

// endOf returns the error of contexts whose connection has ended.
func endOf(end *eddy.CloseError) error {
	switch {
	case end == nil:
		return nil
	case end.Reason == eddy.CloseHandlerTimeout:
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Value implements context.Context: the request's values, then those of the connection's base context. The request is not
// recycled while its values are asked for.
func (x *callContext[Req]) Value(key any) any {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.call != nil && x.call.flow.r.o.Value != nil {
		if v := x.call.flow.r.o.Value(x.call.req, key); v != nil {
			return v
		}
	}
	if x.err != nil {
		return x.real.Value(key)
	}
	return x.call.flow.conn.BaseContext().Value(key)
}

// AfterFunc lets package context derive contexts without a goroutine each.
func (x *callContext[Req]) AfterFunc(f func()) (stop func() bool) {
	real := x.made()
	if a, ok := real.(interface{ AfterFunc(f func()) func() bool }); ok { // one goroutine less
		return a.AfterFunc(f)
	}
	return context.AfterFunc(real, f)
}
