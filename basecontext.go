package eddy

import (
	"context"
	"errors"
	"time"
)

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
