package eddy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/executor"
)

// What ResponderOptions.Answer is told of requests that were not run. A full pool is executor.ErrRejected and one that was
// stopped executor.ErrClosed, a request that was cancelled context.Canceled, one whose time is over
// context.DeadlineExceeded, and one whose function panicked a *PanicError.
var (
	// ErrDraining: the server is shutting down. The request was not executed.
	ErrDraining = errors.New("eddy: the server is draining and takes no new requests")
	// ErrDuplicateRequest: a request with the same id is in flight on the connection.
	ErrDuplicateRequest = errors.New("eddy: a request with this id is in flight")
	// ErrPipelined: under OrderNoPipelining a request came before the response to the one before it.
	ErrPipelined = errors.New("eddy: a request before the response to the one before it")
	// ErrExited: the function of the request ended its goroutine, with runtime.Goexit.
	ErrExited = errors.New("eddy: the function of a request ended its goroutine (runtime.Goexit)")
)

// DefaultInFlight is how many requests of one connection are in flight if ResponderOptions does not say.
const DefaultInFlight = 64

// ResponderOptions say how a Responder serves. Pool or Route, Run and Answer are required.
type ResponderOptions[Req any] struct {
	// Pool runs the requests. Its Options.Policy is not asked: a request for which there is no room is answered so.
	Pool *executor.Pool
	// Route chooses for each request, on the loop, the pool that runs it; nil runs it on the loop, where it must not block,
	// and with an error it is not run but answered with that. nil = Pool runs all.
	Route func(req Req) (pool *executor.Pool, err error)
	// Done is told once of each request that Route let pass, when it was answered and its function has returned, and before
	// it is released: on the loop, or on a worker if its connection has ended. nil tells nobody.
	Done func(req Req)
	// Value returns the values of the request's context, to which the request belongs until its function has returned. Any
	// goroutine may ask; it must be quick and not use the context. nil = none.
	Value func(req Req, key any) any

	// Run executes one request, on a goroutine of the pool, where it may block. ctx ends with the request: when Run returns,
	// at the request's timeout, when it is cancelled, or with the connection, which a one-way request outlives. A context
	// that is kept says so for ever.
	Run func(ctx context.Context, req Req) (resp any, err error)

	// Answer makes the message that is written to the connection, from Run's results or from the error that took their
	// place; nil writes nothing. It is called once per request, where the end of the request was decided: on the pool, or
	// on the loop, where Run may still be busy with req. A Releaser is given away. The message may borrow from req, which
	// is not released before it was written.
	Answer func(req Req, resp any, err error) (msg any)

	Ordering Ordering

	// InFlight bounds the requests of a connection that were not answered or still run. At the bound its reads pause, and
	// cancellations and local requests behind it wait too. 0 = DefaultInFlight.
	InFlight int

	// ID returns the id by which a request can be cancelled, 0 for none. Two requests in flight with one id are an error,
	// ErrDuplicateRequest for the second. nil = requests have none.
	ID func(req Req) uint64
	// Cancels reports that req is no request but cancels the one with that id. nil = nothing does.
	Cancels func(req Req) (id uint64, ok bool)
	// OneWay reports that a request is never answered. What the pool has of such requests is run though their connection
	// ends, unless the server ends it or the handler deadline does. nil = all are answered.
	OneWay func(req Req) bool
	// Local reports that Run answers the request at once and without blocking: it is called on the loop, also when the
	// pool is full, with a context that does not end. The answer leaves in its turn. nil = none.
	Local func(req Req) bool
	// Timeout returns how long a request may take, from its arrival to its response, 0 for no limit; it is answered with
	// context.DeadlineExceeded then, and what it becomes is dropped. nil = no limit. (Server.HandlerTimeout ends the connection.)
	Timeout func(req Req) time.Duration
}

// Responder is a handler that runs requests on a pool and writes one response to each: exactly one, whatever happens to
// the request, unless the connection ends before. Req is the type of the messages that it takes; others are forwarded.
//
// Add it behind the decoder, on the loop. One Responder serves any number of connections. Requests that were taken are
// in flight to the engine: a draining server waits for them, and refuses later ones with ErrDraining.
type Responder[Req any] struct {
	o     ResponderOptions[Req]
	low   int // requests in flight at which paused reads go on
	calls sync.Pool

	failed    atomic.Uint64
	refused   atomic.Uint64
	rejected  atomic.Uint64
	cancelled atomic.Uint64
	expired   atomic.Uint64
	abandoned atomic.Uint64
	dropped   atomic.Uint64
}

// ResponderStats counts what did not go the usual way.
type ResponderStats struct {
	Failed    uint64 // Run panicked
	Refused   uint64 // not run: draining, duplicate id, pipelined, or by Route
	Rejected  uint64 // not run: the pool was full or stopped
	Cancelled uint64 // ended by a cancellation
	Expired   uint64 // ended by their timeout
	Abandoned uint64 // ended by the end of their connection
	Dropped   uint64 // one-way requests that were not run, which nobody was told; counted above too
}

// NewResponder returns the handler. The error names the option that makes no sense.
func NewResponder[Req any](o ResponderOptions[Req]) (*Responder[Req], error) {
	switch {
	case o.Pool == nil && o.Route == nil:
		return nil, errors.New("eddy: ResponderOptions.Pool is nil, and so is Route")
	case o.Pool != nil && o.Route != nil:
		return nil, errors.New("eddy: ResponderOptions.Pool and Route are set: Route chooses the pool")
	case o.Run == nil:
		return nil, errors.New("eddy: ResponderOptions.Run is nil")
	case o.Answer == nil:
		return nil, errors.New("eddy: ResponderOptions.Answer is nil")
	case o.Ordering >= orderings:
		return nil, fmt.Errorf("eddy: ResponderOptions.Ordering is %d: there is no such order", o.Ordering)
	case o.InFlight < 0:
		return nil, fmt.Errorf("eddy: ResponderOptions.InFlight is %d: it must not be negative", o.InFlight)
	}
	o.InFlight = orInt(o.InFlight, DefaultInFlight)
	r := &Responder[Req]{o: o, low: o.InFlight - max(1, o.InFlight/4)}
	r.calls.New = func() any { return new(call[Req]) }
	return r, nil
}

// Stats returns the counts so far. Any goroutine.
func (r *Responder[Req]) Stats() ResponderStats {
	return ResponderStats{
		Failed:    r.failed.Load(),
		Refused:   r.refused.Load(),
		Rejected:  r.rejected.Load(),
		Cancelled: r.cancelled.Load(),
		Expired:   r.expired.Load(),
		Abandoned: r.abandoned.Load(),
		Dropped:   r.dropped.Load(),
	}
}

// HandleRead implements ReadHandler.
func (r *Responder[Req]) HandleRead(ctx *Context, msg any) error {
	req, ok := msg.(Req)
	if !ok {
		ctx.FireRead(msg)
		return nil
	}
	if ctx.node.pool != nil {
		release(msg)
		return fmt.Errorf("eddy: handler %q: a Responder runs on the loop and hands its requests to its own pool", ctx.Name())
	}
	f, ok := ctx.state.(*flow[Req])
	if !ok {
		f = newFlow(r, ctx)
		ctx.state = f
	}
	return f.take(req)
}

// HandleClose implements CloseHandler: what is still in flight is told through its context and answered no more.
func (r *Responder[Req]) HandleClose(ctx *Context, _ CloseReason, _ error) {
	if f, ok := ctx.state.(*flow[Req]); ok {
		f.close()
	}
}
