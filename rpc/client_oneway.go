package rpc

import (
	"context"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
)

// Send sends a one-way request and returns when it is queued, for a connection or for room on one. Nobody learns whether
// the request is executed. With WaitWritten, Send returns when the system has taken the request. Errors are those of
// Invoke. With an error the request was certainly not sent, but with WaitWritten it may have been.
//
// Any goroutine. With WaitWritten, Send returns eddy.ErrOnLoop on a loop of the client's group.
func Send(ctx context.Context, cl *Client, key Key, method string, req any, opts ...CallOption) error {
	o := cl.options(opts)
	if len(cl.o.Interceptors) == 0 {
		return cl.sendOneWay(ctx, key, method, req, o)
	}
	info := &CallInfo{Key: key, Method: method, Codec: o.codec, OneWay: true, Metadata: o.meta}
	_, err := intercept(ctx, cl.o.Interceptors, info, req, func(ctx context.Context, req any) (any, error) {
		o.meta = info.Metadata
		return nil, cl.sendOneWay(ctx, key, method, req, o)
	})
	return err
}

func (cl *Client) sendOneWay(ctx context.Context, key Key, method string, req any, o callOptions) error {
	if o.waitWritten && cl.mayBeOnLoop() && cl.group.OnLoop() {
		return eddy.ErrOnLoop
	}
	c, err := cl.begin(ctx, key, method, frame.OneWay, req, o)
	if err != nil {
		return err
	}
	defer c.release()
	var written chan error
	if o.waitWritten {
		written = make(chan error, 1)
		c.written = written
	}
	c.refs.Add(1)
	if err = cl.place(c); err != nil {
		cl.oneWayFailed(c, err)
		c.release()
		return err
	}
	if written == nil {
		return nil
	}
	return cl.awaitWritten(ctx, c, written)
}

func (cl *Client) awaitWritten(ctx context.Context, c *call, written chan error) error {
	var late <-chan time.Time
	if c.due != 0 {
		t := time.NewTimer(time.Duration(max(0, c.due-cl.now())))
		defer t.Stop()
		late = t.C
	}
	var cause error
	select {
	case err := <-written:
		return err
	case <-late:
		cause = errDeadline
	case <-ctx.Done():
		cause = contextCause(ctx)
	}
	if !c.claim() {
		return <-written
	}
	err := cl.abandon(c, cause)
	c.err = err
	cl.oneWayEnded(c)
	return err
}

// oneWaySent ends a one-way request that was given to the connection, or under WaitWritten to the system.
func (cl *Client) oneWaySent(c *call) {
	if !c.claim() {
		return
	}
	cl.stats.oneWays.Add(1)
	if c.written != nil {
		c.written <- nil
	}
	cl.leave()
}

// oneWayFailed ends a one-way request that was not sent, as far as is known.
func (cl *Client) oneWayFailed(c *call, err error) {
	if c.claim() {
		c.err = err
		cl.oneWayEnded(c)
	}
}

// oneWayEnded counts a one-way request that failed, and tells Send. After claim.
func (cl *Client) oneWayEnded(c *call) {
	cl.stats.oneWayDropped.Add(1)
	if c.written != nil {
		c.written <- c.err
	}
	cl.leave()
}
