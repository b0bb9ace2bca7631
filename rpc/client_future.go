package rpc

import (
	"cmp"
	"context"
	"sync"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/rpc/internal/parking"
	"github.com/go-eddy/eddy/rpc/internal/promise"
)

// Future is the outcome of a call made by InvokeAsync. A Future ends exactly once. All methods may be called by any
// goroutine, also after the client's end.
type Future[Resp any] struct {
	f    future
	resp *Resp
}

// Done returns a channel that is closed when the call has ended.
func (f *Future[Resp]) Done() <-chan struct{} { return f.f.Done() }

// Wait blocks until the call has ended and returns its outcome. If ctx ends first, Wait returns its error and the call
// goes on. On a loop of the client's group Wait does not block: it returns eddy.ErrOnLoop while the call has not ended.
func (f *Future[Resp]) Wait(ctx context.Context) (*Resp, error) {
	if f.f.Ended() {
		return f.outcome()
	}
	if f.f.owner.onLoop() {
		return nil, eddy.ErrOnLoop
	}
	select {
	case <-f.f.Done():
		return f.outcome()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Then has fn called once with the outcome. fn runs where ClientOptions.Dispatcher has the responses of such calls
// decoded: on the callback pool, or on a loop, where fn must not block. Functions that are added before the end run one
// after the other, in the order of the calls of Then. Functions that are added later run there too, on a pool possibly
// side by side. After the end of the client they run on the caller's goroutine. A panic in fn is contained and counted.
//
// By gRPC fn runs on the goroutine of the call, or on one of its own if it is added later. A panic is contained and logged.
func (f *Future[Resp]) Then(fn func(*Resp, error)) {
	f.f.then(func() { fn(f.outcome()) })
}

// Cancel gives the call up and reports whether it did; false means that the call has ended. If the request was sent, the
// server is told. With ClientOptions.Interceptors Cancel ends the context of the call; the rest is for the interceptors.
func (f *Future[Resp]) Cancel() bool { return f.f.cancel(errCanceled) }

func (f *Future[Resp]) outcome() (*Resp, error) {
	if err := f.f.Err(); err != nil {
		return nil, err
	}
	return f.resp, nil
}

// future is the part of a Future without type parameters.
type future struct {
	promise.Promise
	owner futures
	pool  *parking.Lot // runs its functions; nil = the callback pool. Set before the end

	mu    sync.Mutex
	call  *call       // nil after the end, and with interceptors
	stop  func() bool // stops waiting for the end of the context
	abort func(error) // ends the context of a call with interceptors
}

func (f *future) then(fn func()) {
	if f.Then(fn) {
		return
	}
	f.owner.after(f, fn)
}

// futures is the client of a future.
type futures interface {
	onLoop() bool               // Wait must not block
	after(f *future, fn func()) // runs a function that was added after the end
	run(fn func())              // calls a function of the user and contains a panic in it
}

func (cl *Client) onLoop() bool { return cl.group.In() }

func (cl *Client) run(fn func()) { cl.consumer.run(fn) }

func (cl *Client) after(f *future, fn func()) {
	k := &cl.consumer
	late := runner(func() { k.run(fn) })
	if k.onLoop {
		k.toLoop(late)
	} else {
		cmp.Or(f.pool, k.pool).Submit(late)
	}
}

// runner is a function as an executor.Runner.
type runner func()

func (r runner) Run() { r() }

// cancel ends the call with cause, unless it has ended.
func (f *future) cancel(cause error) bool {
	f.mu.Lock()
	c := f.call
	if c == nil {
		f.mu.Unlock()
		going := f.abort != nil && !f.Ended()
		if going {
			f.abort(cause)
		}
		return going
	}
	c.refs.Add(1)
	f.mu.Unlock()
	defer c.release()
	return c.giveUp(cause)
}

// finish completes the future, calls its functions and releases the reference of the call's caller.
func (f *future) finish(c *call) {
	err := c.safeResult()
	f.mu.Lock()
	f.call = nil
	stop := f.stop
	f.stop = nil
	f.mu.Unlock()
	if stop != nil {
		stop()
	}
	cl := c.client
	c.release()
	f.complete(err)
	cl.consumer.async.Add(-1)
	cl.leave()
}

// complete ends the future and calls its functions.
func (f *future) complete(err error) { f.End(err, f.owner.run) }
