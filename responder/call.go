package responder

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/limit"
)

// call is one request that a Responder has taken, and the job of its pool. The winner of claim decides the end of the
// request and fills in the answer. Everything else belongs to the loop; from Enqueue until deliver the worker owns what it
// needs of it. A call is used again for other requests.
type call[Req any] struct {
	flow    *flow[Req]
	req     Req
	id      uint64
	oneWay  bool
	due     time.Time // when its timeout is over, zero for none
	request eddy.Request
	ctx     *callContext[Req]
	pool    *executor.Pool // nil: it runs on the loop
	spare   []callContext[Req]
	ran     bool // its function was called; owned by the goroutine that calls it

	claimed atomic.Bool
	answer  eddy.Reserved
	failure error // why there is no answer; the connection must end

	// The loop's.
	place    list.Place[call[Req]]
	running  bool        // the pool has it
	ready    bool        // the answer is there
	answered bool        // the answer has left
	local    bool        // will be answered on the loop when it is its turn
	waiting  bool        // goes to its pool when those before it have come back
	routed   bool        // Options.Done is told its end
	refusal  error       // answers the request instead of its function, if set
	expiry   *eddy.Timer // of a call that outlives its connection; recycle stops it

	nextDone *call[Req] // flow.mu
}

// claim reports whether the caller decides the end of the request.
func (c *call[Req]) claim() bool { return c.claimed.CompareAndSwap(false, true) }

// Run implements executor.Job: it executes the request, on a worker, unless its end was decided while it waited.
func (c *call[Req]) Run() {
	if c.claimed.Load() || c.late() {
		c.flow.deliver(c)
		return
	}
	c.ran = true
	var resp any
	var err error
	returned := false
	defer func() {
		if !returned {
			resp, err = nil, c.failed(recover())
		}
		c.over(resp, err)
	}()
	resp, err = c.flow.r.o.Run(c.ctx, c.req)
	returned = true
}

// late ends a request whose time was over before a worker took it, because the loop may be behind its timer.
func (c *call[Req]) late() bool {
	if c.due.IsZero() || c.flow.loop.Now().Before(c.due) {
		return false
	}
	if c.claim() {
		c.flow.r.expired.Add(1)
		c.ctx.end(context.DeadlineExceeded)
		c.makeAnswer(nil, context.DeadlineExceeded)
	}
	return true
}

// runOnLoop executes a request whose handler must not block.
func (c *call[Req]) runOnLoop() {
	var resp any
	var err error
	returned := false
	c.running, c.ran = true, true
	defer func() {
		if !returned {
			resp, err = nil, c.failed(recover())
		}
		c.running = false
		switch {
		case c.flow.decide(c, resp, err):
		case c.answered: // its connection has ended meanwhile
			release(resp)
			c.recycle()
		default:
			release(resp)
		}
	}()
	resp, err = c.flow.r.o.Run(c.ctx, c.req)
	returned = true
}

// over runs when the function of the request is over, by a return or otherwise.
func (c *call[Req]) over(resp any, err error) {
	c.ctx.end(context.Canceled)
	if c.claim() {
		c.makeAnswer(resp, err)
	} else {
		release(resp)
	}
	c.flow.deliver(c)
}

// failed turns a panic, or nil for the end of the goroutine, into the request's error. The worker lives on, and so does
// the connection.
func (c *call[Req]) failed(v any) error {
	c.flow.r.failed.Add(1)
	if v == nil {
		return ErrExited
	}
	return c.flow.ctx.Panicked(v)
}

// Drop implements executor.Job: it ends a request whose pool was stopped before it could run, on the goroutine that stopped it.
func (c *call[Req]) Drop() { c.Shed(executor.ErrClosed) }

// Shed implements executor.Sheddable: it answers a request whose pool is adaptive and does not run it after all.
func (c *call[Req]) Shed(err error) {
	if c.claim() {
		c.flow.r.rejected.Add(1)
		c.ctx.end(context.Canceled)
		c.makeAnswer(nil, err)
	}
	c.flow.deliver(c)
}

// Class implements executor.Sheddable.
func (c *call[Req]) Class() limit.Class {
	if c.flow.r.o.Class == nil {
		return limit.Critical
	}
	return c.flow.r.o.Class(c.req)
}

// Due implements executor.Sheddable. A call that has been answered already, such as one that was cancelled, is not run.
func (c *call[Req]) Due() time.Time {
	if c.claimed.Load() {
		return time.Unix(0, 0)
	}
	return c.due
}

// makeAnswer makes the message for the connection. Its bytes count as queued there from here on.
func (c *call[Req]) makeAnswer(resp any, err error) {
	if c.oneWay {
		release(resp)
		return
	}
	defer func() {
		if v := recover(); v != nil {
			c.failure = answerFailed(v)
		}
	}()
	if msg := c.flow.r.o.Answer(c.req, resp, err); msg != nil {
		c.answer.Init(c.flow.conn, msg)
	}
}

// answerFailed returns the error that ends a connection whose response could not be made.
func answerFailed(v any) error {
	return eddy.WithReason(eddy.CloseInternalError, fmt.Errorf("responder: Options.Answer panicked: %v", v))
}

// recycle ends the call and puts it back for other requests. No goroutine has a part in it any more.
func (c *call[Req]) recycle() {
	r := c.flow.r
	if r.o.Value != nil {
		c.ctx.forget()
	}
	if c.expiry != nil {
		c.expiry.Stop()
	}
	if c.oneWay && !c.ran {
		r.dropped.Add(1)
	}
	if c.routed && r.o.Done != nil {
		r.o.Done(c.req)
	}
	release(c.req)
	*c = call[Req]{spare: c.spare}
	r.calls.Put(c)
}

// release ends a message that goes no further.
func release(msg any) {
	if r, ok := msg.(eddy.Releaser); ok {
		r.Release()
	}
}
