package httpserve

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/trace"
)

// Context is the part of a request's context that HTTP of every version has in common. The protocol's own type embeds it
// and adds Deadline and Err. It ends when the connection's BaseContext ends, and by Cancel. Most handlers never wait for
// that, so the channel behind Done exists from the first use on.
type Context struct {
	Conn  *eddy.Conn
	Place *executor.Place // for Wait
	Trace *trace.Request  // nil without a Recorder
	Class limit.Class

	end atomic.Pointer[contextEnd] // nil before the first use
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

// Cancel ends the context, once or more often. Any goroutine.
func (c *Context) Cancel() {
	if !c.end.CompareAndSwap(nil, canceled) {
		c.end.Load().cancel()
	}
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	if e := c.end.Load(); e != nil {
		return e.Done()
	}
	if e := newContextEnd(c.Conn.BaseContext()); !c.end.CompareAndSwap(nil, e) {
		e.cancel()
	}
	return c.end.Load().Done()
}

// Ended returns the error of a context that has ended, nil before.
func (c *Context) Ended() error {
	e := c.end.Load()
	if e == nil && c.Conn.BaseContext().Err() != nil {
		c.Done() // ends with it, so that the error stays
		e = c.end.Load()
	}
	if e == nil {
		return nil
	}
	return e.Err()
}

// Value implements context.Context and adds http.LocalAddrContextKey, as in
// net/http, and the place that Wait needs, to the values of the connection's
// BaseContext. It has no http.ServerContextKey, because there is no *http.Server.
// Package context asks for a key of its own, after Done, so that contexts made of
// this one need no goroutine.
func (c *Context) Value(key any) any {
	switch key {
	case http.LocalAddrContextKey:
		return net.TCPAddrFromAddrPort(c.Conn.LocalAddr())
	case placeKey{}:
		return c.Place
	case limit.ContextKey{}:
		return c.Class
	}
	if c.Trace != nil {
		if v := c.Trace.Value(key); v != nil {
			return v
		}
	}
	if e := c.end.Load(); e != nil && e != canceled {
		return e.Value(key)
	}
	return c.Conn.BaseContext().Value(key)
}

// placeKey is the context key of the request's place in its pool.
type placeKey struct{}

// Wait calls f. If ctx is the context of a request, other requests have its worker until f returns.
func Wait(ctx context.Context, f func()) {
	if place, ok := ctx.Value(placeKey{}).(*executor.Place); ok {
		place.Leave()
		defer place.Return()
	}
	f()
}
