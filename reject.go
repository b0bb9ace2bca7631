package eddy

import (
	"errors"
	"fmt"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
)

// The codes of a HopError.
const (
	rejectedFull       = "pool_full"
	rejectedConnection = "connection_full"
	rejectedClosed     = "pool_closed"
)

// HopError says why a handler's pool refused an event. errors.Is takes it for executor.ErrRejected or executor.ErrClosed.
// A connection that ends because of it ends with CloseBackpressureLimit.
type HopError struct {
	Handler         string
	Pool            string
	Code            string // "pool_full", "connection_full" (the pool may have room) or "pool_closed"
	Running, Queued int    // the pool's numbers at that time
	Err             error  // the executor's error, which names the limit
}

// Error names the handler, the code, the pool's numbers and the limit.
func (e *HopError) Error() string {
	return fmt.Sprintf("eddy: handler %q: %v with %d running and %d queued: %v", e.Handler, e.Code, e.Running, e.Queued, e.Err)
}

// Unwrap returns the executor's error.
func (e *HopError) Unwrap() error { return e.Err }

// rejectPolicy says what happens to an inbound message that its handler's pool refuses; nil is RejectClose.
type rejectPolicy struct {
	keep  bool
	reply func(msg any) any
	ask   func(ctx *Context, msg any, err *HopError) error
}

func (p *rejectPolicy) option() AddOption { return func(n *node) { n.reject = p } }

// RejectClose passes the *HopError to the ErrorHandlers, starting with the handler itself. If none of them handles it,
// the connection ends with CloseBackpressureLimit after what is queued was sent. The default.
//
// RejectClose, RejectReply, RejectFunc and RejectPause are for inbound messages. None of them blocks the loop. Make the
// option outside of Server.Init, so that all connections share it and it costs them nothing.
//
// Other refusals do not depend on the option. A refused event goes to the ErrorHandlers, as with RejectClose; a refused
// error goes to the next ErrorHandler. If HandleOpen or HandleWritability is refused, the ErrorHandlers are told and the
// connection ends, because the handler's view of it would be wrong. A refused outbound message also ends the connection,
// and its writer is given the *HopError.
func RejectClose() AddOption { return (*rejectPolicy)(nil).option() }

// RejectReply answers on the loop with the message that reply makes; nil is no answer. The answer leaves from the
// handler's place in the pipeline. The rejected message is released afterwards, so reply must not return it. If the
// answer cannot be written, RejectClose applies.
func RejectReply(reply func(msg any) any) AddOption { return (&rejectPolicy{reply: reply}).option() }

// RejectFunc calls f on the loop, where it must not block. If f returns nil, it has handled the message; an error goes to
// the ErrorHandlers as with RejectClose. f owns the message in either case. The ctx of f is valid until f returns: Write,
// FireRead, FireError and the close methods act from the handler's place at once. State is nil there, except for an
// unordered handler, with which it is shared.
func RejectFunc(f func(ctx *Context, msg any, err *HopError) error) AddOption {
	return (&rejectPolicy{ask: f}).option()
}

// RejectPause keeps the message and pauses the connection's reads until the pool has room; the longest waiting connection
// is served first. Later events of the connection for the same pool wait behind the message, up to 1024 in all. Further
// ones are refused as with RejectClose, and so is everything when the pool is closed. Meanwhile the handler deadline runs
// and the request counts as in flight.
func RejectPause() AddOption { return pausePolicy.option() }

// pausePolicy is one, so that connections whose Init calls RejectPause share their layout.
var pausePolicy = &rejectPolicy{keep: true}

func (ctx *Context) hopError(err error) *HopError {
	pool := ctx.node.pool
	st := pool.Stats()
	e := &HopError{Handler: ctx.node.name, Pool: pool.Name(), Code: rejectedFull, Running: st.Running, Queued: st.Queued, Err: err}
	switch {
	case errors.Is(err, executor.ErrClosed):
		e.Code = rejectedClosed
	case ofConnection(err):
		e.Code = rejectedConnection
	}
	return e
}

// ofConnection reports whether err comes from a limit of the connection, not of the pool.
func ofConnection(err error) bool {
	limit, ok := errors.AsType[*executor.LimitError](err)
	return ok && limit.Key
}

// errOpening makes messages wait until HandleOpen of their unordered handler has returned.
var errOpening = errors.New("eddy: the handler is being opened")

// refused handles on the loop an event that was not taken. The error it returns is for the writer of an outbound message,
// and for the search for an ErrorHandler.
func (ctx *Context) refused(h hop, err error) error {
	c := ctx.conn
	if err == errOpening { //nolint:errorlint // our own sentinel, returned bare
		if c.park(h, err) {
			return nil
		}
		err = errParkFull(ctx.node.pool)
	}
	c.loop.Counters[meter.HopRejects]++
	e := ctx.hopError(err)
	if p := ctx.node.reject; h.op == opRead && p != nil && p.keep && e.Code != rejectedClosed && c.park(h, err) {
		c.loop.Counters[meter.HopWaits]++
		return nil
	}
	c.pending(h.op).Add(-1)
	return ctx.reject(h, e)
}

// reject ends an event that was not taken and no longer counts as pending.
func (ctx *Context) reject(h hop, e *HopError) error {
	c := ctx.conn
	trace, msg := takeTrace(h.msg, "")
	if trace != nil {
		c.loop.setTrace(c, trace)
		defer left(trace, c)
	}
	switch h.op {
	case opRead:
		if err := ctx.askPolicy(msg, e); err != nil {
			ctx.fireErrorFrom(ctx, err, true)
		}
		return nil
	case opEvent:
		ctx.fireErrorFrom(ctx, e, true)
		return nil
	case opError:
		return e
	case opWrite: // no ErrorHandler is told, because its writes would come here again
		refuse(msg, e)
	default:
		ctx.fireErrorFrom(ctx, e, false)
	}
	c.closeFlushed(CloseBackpressureLimit, e)
	return e
}

// askPolicy returns nil if the handler's policy has handled the message, else the error to pass on.
func (ctx *Context) askPolicy(msg any, e *HopError) error {
	p := ctx.node.reject
	switch {
	case p != nil && p.reply != nil:
		return ctx.call(func() error {
			defer release(msg)
			if answer := p.reply(msg); answer != nil {
				return ctx.writeOnLoop(answer)
			}
			return nil
		})
	case p != nil && p.ask != nil:
		m := &loose{origin: ctx, onLoop: true}
		m.ctx.conn, m.ctx.node, m.ctx.state = ctx.conn, ctx.node, m
		return ctx.call(func() error { return p.ask(&m.ctx, msg, e) })
	}
	release(msg)
	return e
}

// parking holds the events that a connection keeps for pools without room.
type parking struct {
	waiting []hop // oldest first; the others wait for the first one
	pool    *executor.Pool
	room    *executor.Room
}

// parkBound is how many events a connection keeps. When the first is kept, reads pause, but messages may be on their way through other pools, and
// each of them may become several.
const parkBound = strandBound

func errParkFull(p *executor.Pool) error {
	return &executor.LimitError{Pool: p.Name(), What: "what a connection keeps for the pool", Limit: parkBound, Key: true}
}

// park keeps an event that was refused with err and pauses reads; false if too many are kept.
func (c *Conn) park(h hop, err error) bool {
	x := c.extend()
	if x.hops.parking == nil {
		x.hops.parking = &parking{room: executor.NewRoom(c.postReadState)}
	}
	p := x.hops.parking
	if len(p.waiting) >= parkBound {
		return false
	}
	p.waiting = append(p.waiting, h)
	c.paused |= pausePark
	if len(p.waiting) == 1 {
		c.awaitRoom(h, err)
	}
	return true
}

// parkBehind keeps an inbound event behind those that wait for the same pool, if there are any.
func (c *Conn) parkBehind(h hop) (waits bool, err error) {
	pool := h.ctx.node.pool
	for _, o := range c.ext.Load().hops.parking.waiting {
		if o.ctx.node.pool != pool {
			continue
		}
		if c.park(h, nil) {
			return true, nil
		}
		return false, errParkFull(pool)
	}
	return false, nil
}

// parkRemoval keeps a HandleRemove behind events that wait for the same pool, whatever the bound; false if there are
// none.
func (c *Conn) parkRemoval(h hop) bool {
	if c.paused&pausePark == 0 {
		return false
	}
	p := c.ext.Load().hops.parking
	for _, o := range p.waiting {
		if o.ctx.node.pool == h.ctx.node.pool {
			p.waiting = append(p.waiting, h)
			return true
		}
	}
	return false
}

// awaitRoom makes the loop try h, which was refused with err, again later.
func (c *Conn) awaitRoom(h hop, err error) {
	p, pool := c.ext.Load().hops.parking, h.ctx.node.pool
	if p.pool != nil && p.pool != pool {
		p.pool.LeaveRoom(p.room)
		p.pool = nil
	}
	switch {
	case err == errOpening: //nolint:errorlint // HandleOpen will tell
	case ofConnection(err):
		c.pauseForHop(h.ctx.strandOnLoop())
	default:
		p.pool = pool
		pool.AwaitRoom(p.room)
	}
}

// retryParked tries the kept events again.
func (c *Conn) retryParked() {
	p := c.ext.Load().hops.parking
	for len(p.waiting) > 0 && c.phase < PhaseClosing {
		h := p.waiting[0]
		if h.op == opRemove {
			p.waiting = p.waiting[1:]
			h.ctx.dismissNow(h)
			continue
		}
		err := h.ctx.submit(h.ctx.strandOnLoop(), &h)
		if err != nil && !errors.Is(err, executor.ErrClosed) {
			c.awaitRoom(h, err)
			return
		}
		p.waiting[0] = hop{}
		p.waiting = p.waiting[1:]
		if err != nil {
			c.pending(h.op).Add(-1)
			_ = h.ctx.reject(h, h.ctx.hopError(err)) // an inbound event has no caller left
		}
	}
	if c.phase < PhaseClosing {
		c.paused &^= pausePark
		p.end()
		c.pauseForNextHop()
		c.requestOver()
	}
}

// dropParked drops the kept events, because the connection ends.
func (c *Conn) dropParked() {
	if c.paused&pausePark == 0 {
		return
	}
	c.paused &^= pausePark
	p := c.ext.Load().hops.parking
	for _, h := range p.waiting {
		switch h.op {
		case opRead:
			release(h.msg)
		case opRemove:
			h.ctx.dismissNow(h)
			continue
		}
		c.finished(c.pending(h.op))
	}
	p.end()
}

// end leaves the pool's line; room that was not used goes to others.
func (p *parking) end() {
	p.waiting = nil
	if p.pool != nil {
		p.pool.LeaveRoom(p.room)
		p.pool = nil
	}
}

// oldest returns when the oldest kept message was dispatched, 0 for none.
func (p *parking) oldest() int64 {
	for i := range p.waiting {
		if p.waiting[i].op == opRead {
			return p.waiting[i].at
		}
	}
	return 0
}
