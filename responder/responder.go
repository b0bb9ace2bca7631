// Package responder runs the requests of a connection on pools and answers each exactly once, in one of four orders. A
// Responder is a handler of package eddy for any protocol of requests and responses. docs/requests.md tells more.
package responder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/limit"
)

// Errors that Options.Answer is given in place of a result. Further ones are executor.ErrRejected for a full
// pool and executor.ErrClosed for a stopped one. A cancelled request gets context.Canceled, a late one
// context.DeadlineExceeded, and one whose function panicked an *eddy.PanicError.
var (
	// ErrDraining says that the server is shutting down. The request was not executed.
	ErrDraining = errors.New("responder: the server is draining and takes no new requests")
	// ErrDuplicate says that a request with the same id is in flight on the connection.
	ErrDuplicate = errors.New("responder: a request with this id is in flight")
	// ErrPipelined says that, under NoPipelining, a request came before the response to the previous one.
	ErrPipelined = errors.New("responder: a request before the response to the one before it")
	// ErrExited says that the function of the request ended its goroutine with runtime.Goexit.
	ErrExited = errors.New("responder: the function of a request ended its goroutine (runtime.Goexit)")
)

// DefaultInFlight is the number of requests in flight per connection if Options.InFlight is 0.
const DefaultInFlight = 64

// Options configure a Responder. Run, Answer and either Pool or Route are required.
type Options[Req any] struct {
	// Pool runs the requests. The pool's Options.Policy does not apply: a request for which there is no room is answered
	// with executor.ErrRejected.
	Pool *executor.Pool
	// Route chooses the pool that runs each request; Route itself is called on the loop. With a nil pool the request runs
	// on the loop, where it must not block. With an error the request is not run but answered with that error. nil = Pool
	// runs all.
	Route func(req Req) (pool *executor.Pool, err error)
	// Class says how much a request matters to a pool that is adaptive, see executor.Adaptive. The pool may call Class several times, on any goroutine, until
	// the request runs; the result must be the same. nil = all are limit.Critical.
	Class func(req Req) limit.Class
	// Done is called once for each request that Route let pass, after its answer and the return of its function, before
	// the request is released. Done runs on the loop or, if the connection has ended, on a worker or the goroutine that
	// stops the pool. nil = no call.
	Done func(req Req)
	// Value returns the values of the request's context, which uses req until its function has returned. Any goroutine
	// may call Value, which must be quick and not use the context. Where it returns nil, and where Value is nil, the context
	// has the values of eddy.Conn.BaseContext.
	Value func(req Req, key any) any

	// Run executes one request, on a goroutine of the pool, where it may block. ctx ends when Run returns, at the
	// request's timeout, when the request is cancelled, with the connection's BaseContext, or with the connection, which a
	// one-way request outlives. A context that is kept after its end stays ended.
	Run func(ctx context.Context, req Req) (resp any, err error)

	// Answer makes the message that is written to the connection, from Run's results or from the error that took their
	// place; nil writes nothing. Answer is called once per request, on the pool or on the loop, where its end was
	// decided. On the loop, Run may still be busy with req. An eddy.Releaser is given away. The message may borrow from req,
	// which is released only after the write.
	Answer func(req Req, resp any, err error) (msg any)

	Ordering Ordering

	// InFlight bounds the requests of a connection that are unanswered or still run. At the bound the connection's reads
	// pause, and cancellations and local requests behind it wait too. 0 = DefaultInFlight.
	InFlight int

	// ID returns the id by which a request can be cancelled, 0 for none. If two requests in flight have one id, the
	// second is answered with ErrDuplicate. nil = requests have no ids.
	ID func(req Req) uint64
	// Cancels reports whether req is not a request but cancels the request with that id. nil = never.
	Cancels func(req Req) (id uint64, ok bool)
	// OneWay reports whether a request is never answered. One-way requests that the pool has taken still run when their
	// connection ends, unless the server or the handler deadline ends it. nil = all are answered.
	OneWay func(req Req) bool
	// Local reports whether Run answers the request at once and without blocking. Run is then called on the loop, even if
	// the pool is full, with the connection's BaseContext. The answer leaves in its turn. nil = never.
	Local func(req Req) bool
	// Timeout returns how long a request may take, from its arrival to its response, 0 for no limit. A late request is
	// answered with context.DeadlineExceeded, and its result is dropped. nil = no limit. (eddy.Server.HandlerTimeout ends the
	// connection instead.)
	Timeout func(req Req) time.Duration
}

// Responder is a handler that runs requests on a pool and writes exactly one response to each. Only the end of the
// connection leaves a request unanswered. Req is the type of the request messages; other messages are forwarded.
//
// Add it behind the decoder, on the loop. One Responder serves any number of connections. The engine counts requests that
// were taken as in flight: a draining server waits for them, and refuses later ones with ErrDraining.
type Responder[Req any] struct {
	o     Options[Req]
	low   int // requests in flight at which paused reads go on
	calls sync.Pool

	failed    atomic.Uint64
	refused   atomic.Uint64
	rejected  atomic.Uint64
	canceled  atomic.Uint64
	expired   atomic.Uint64
	abandoned atomic.Uint64
	dropped   atomic.Uint64
}

// Stats counts the requests that did not go the usual way.
type Stats struct {
	Failed    uint64 // Run panicked
	Refused   uint64 // not run: draining, duplicate id, pipelined, or by Route
	Rejected  uint64 // not run: the pool was full or stopped
	Canceled  uint64 // ended by a cancellation
	Expired   uint64 // ended by their timeout
	Abandoned uint64 // ended by the end of their connection
	Dropped   uint64 // one-way requests that were not run, which nobody was told; also counted above
}

// New returns the handler. The error names the option that is wrong.
func New[Req any](o Options[Req]) (*Responder[Req], error) {
	switch {
	case o.Pool == nil && o.Route == nil:
		return nil, errors.New("responder: Options.Pool is nil, and so is Route")
	case o.Pool != nil && o.Route != nil:
		return nil, errors.New("responder: Options.Pool and Route are set: Route chooses the pool")
	case o.Run == nil:
		return nil, errors.New("responder: Options.Run is nil")
	case o.Answer == nil:
		return nil, errors.New("responder: Options.Answer is nil")
	case o.Ordering >= orderings:
		return nil, fmt.Errorf("responder: Options.Ordering is %d: there is no such order", o.Ordering)
	case o.InFlight < 0:
		return nil, fmt.Errorf("responder: Options.InFlight is %d: it must not be negative", o.InFlight)
	}
	if o.InFlight == 0 {
		o.InFlight = DefaultInFlight
	}
	r := &Responder[Req]{o: o, low: o.InFlight - max(1, o.InFlight/4)}
	r.calls.New = func() any { return new(call[Req]) }
	return r, nil
}

// Stats returns the counts so far. Any goroutine.
func (r *Responder[Req]) Stats() Stats {
	return Stats{
		Failed:    r.failed.Load(),
		Refused:   r.refused.Load(),
		Rejected:  r.rejected.Load(),
		Canceled:  r.canceled.Load(),
		Expired:   r.expired.Load(),
		Abandoned: r.abandoned.Load(),
		Dropped:   r.dropped.Load(),
	}
}

// HandleRead implements eddy.ReadHandler.
func (r *Responder[Req]) HandleRead(ctx *eddy.Context, msg any) error {
	req, ok := msg.(Req)
	if !ok {
		ctx.FireRead(msg)
		return nil
	}
	f, ok := ctx.State().(*flow[Req])
	if !ok {
		if !ctx.Conn().Loop().In() {
			release(msg)
			return fmt.Errorf("responder: handler %q: a Responder runs on the loop and hands its requests to its own pool", ctx.Name())
		}
		f = newFlow(r, ctx)
		ctx.SetState(f)
	}
	return f.take(req)
}

// HandleClose implements eddy.CloseHandler: it ends the contexts of the requests still in flight, which get no answer any
// more.
func (r *Responder[Req]) HandleClose(ctx *eddy.Context, _ eddy.CloseReason, _ error) {
	if f, ok := ctx.State().(*flow[Req]); ok {
		f.close()
	}
}
