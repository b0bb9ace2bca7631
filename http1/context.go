package http1

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/go-eddy/eddy"
)

// requestContext is the request's context and is cancelled when the connection
// ends, when its BaseContext ends and when the handler returns. Most handlers never
// wait for that, so the channel behind Done exists from the first use on.
type requestContext struct {
	ex      *exchange
	request eddy.Request
	end     atomic.Pointer[contextEnd] // nil before the first use
}

// contextEnd is a context that can be cancelled.
type contextEnd struct {
	context.Context
	cancel context.CancelFunc
}

func newContextEnd(base context.Context) *contextEnd {
	e := new(contextEnd)
	e.Context, e.cancel = context.WithCancel(base)
	return e
}

// canceled is the end of every request context that is cancelled before its first use.
var canceled = func() *contextEnd {
	e := newContextEnd(context.Background())
	e.cancel()
	return e
}()

// cancel ends the context, once or more often. Any goroutine.
func (c *requestContext) cancel() {
	if !c.end.CompareAndSwap(nil, canceled) {
		c.end.Load().cancel()
	}
}

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} {
	if e := c.end.Load(); e != nil {
		return e.Done()
	}
	if e := newContextEnd(c.ex.conn.BaseContext()); !c.end.CompareAndSwap(nil, e) {
		e.cancel()
	}
	return c.end.Load().Done()
}

// Value implements context.Context and adds http.LocalAddrContextKey, as in
// net/http, and the place that Wait needs, to the values of the connection's
// BaseContext. It has no http.ServerContextKey, because there is no *http.Server.
// Package context asks for a key of its own, after Done, so that contexts made of
// this one need no goroutine.
func (c *requestContext) Value(key any) any {
	switch key {
	case http.LocalAddrContextKey:
		return net.TCPAddrFromAddrPort(c.ex.conn.LocalAddr())
	case placeKey{}:
		return &c.ex.place
	}
	if e := c.end.Load(); e != nil && e != canceled {
		return e.Value(key)
	}
	return c.ex.conn.BaseContext().Value(key)
}
