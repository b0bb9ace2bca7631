package eddy

import (
	"errors"
	"fmt"

	"github.com/go-eddy/eddy/executor"
)

// RejectCode says why a pool did not take a message. Its String form is a metric label.
type RejectCode uint8

const (
	RejectedFull       RejectCode = iota + 1 // the pool has no room
	RejectedConnection                       // the connection has too much waiting there, the pool may have room
	RejectedClosed                           // the pool takes nothing any more
)

// String returns the code's snake_case name.
func (c RejectCode) String() string {
	switch c {
	case RejectedFull:
		return "pool_full"
	case RejectedConnection:
		return "connection_full"
	case RejectedClosed:
		return "pool_closed"
	}
	return fmt.Sprintf("reject_code_%d", uint8(c))
}

// HopError tells why a handler's pool did not take what was to be handled there. To errors.Is it is executor.ErrRejected or
// executor.ErrClosed. A connection that ends with it ends with CloseBackpressureLimit.
type HopError struct {
	Handler         string
	Pool            string
	Code            RejectCode
	Running, Queued int   // of the pool at that time
	Err             error // of the executor; it names the limit
}

// Error names the handler, the code, the pool's numbers and the limit.
func (e *HopError) Error() string {
	return fmt.Sprintf("eddy: handler %q: %v with %d running and %d queued: %v", e.Handler, e.Code, e.Running, e.Queued, e.Err)
}

// Unwrap returns the executor's error.
func (e *HopError) Unwrap() error { return e.Err }

// RejectPolicy says what becomes of an inbound message that its handler's pool does not take. One made outside of
// Server.Init is shared by all connections and costs them nothing.
type RejectPolicy struct {
	keep  bool
	reply func(msg any) any
	ask   func(ctx *Context, msg any, err *HopError) error
}

// OnReject sets what becomes of messages that the handler's pool refuses; without it, RejectClose. It never blocks the
// loop. A refused event goes to the ErrorHandlers, as after RejectClose; a refused error to the next ErrorHandler. When
// HandleOpen or HandleWritability is refused the ErrorHandlers are told and the connection ends, since the handler would be
// wrong about it; so it does when an outbound message is refused, and the writer is given the *HopError.
func OnReject(p *RejectPolicy) AddOption { return func(n *node) { n.reject = p } }

// RejectClose passes the *HopError to the ErrorHandlers, from the handler itself on. If none of them handles it the
// connection ends with CloseBackpressureLimit after what is queued was sent.
func RejectClose() *RejectPolicy { return nil }

// RejectReply answers on the loop with what reply makes of the message, from the handler's place in the pipeline; nil is no
// answer. The message is released afterwards, so reply must not return it. An answer that cannot be written is handled as
// by RejectClose.
func RejectReply(reply func(msg any) any) *RejectPolicy { return &RejectPolicy{reply: reply} }

// RejectFunc calls f on the loop, which must not block. With nil it has handled the message; an error goes to the
// ErrorHandlers as with RejectClose. The message is given away to f, whatever it returns. f's ctx is valid until it returns:
// Write, FireRead, FireError and the close methods act from the handler's place at once. State is the handler's, which only
// an unordered one shares; for others it is nil there.
func RejectFunc(f func(ctx *Context, msg any, err *HopError) error) *RejectPolicy {
	return &RejectPolicy{ask: f}
}

// RejectPause keeps the message and pauses the connection's reads until the pool has room; who waits longest is first. It is
// one message, and what was on its way to the same pool behind it, up to 64; more is refused as by RejectClose, and so is all
// when the pool is closed. Meanwhile the handler deadline runs and the request counts as in flight.
func RejectPause() *RejectPolicy { return &RejectPolicy{keep: true} }

func (ctx *Context) hopError(err error) *HopError {
	pool := ctx.node.pool
	st := pool.Stats()
	e := &HopError{Handler: ctx.node.name, Pool: pool.Name(), Code: RejectedFull, Running: st.Running, Queued: st.Queued, Err: err}
	switch {
	case errors.Is(err, executor.ErrClosed):
		e.Code = RejectedClosed
	case ofConnection(err):
		e.Code = RejectedConnection
	}
	return e
}

// ofConnection reports whether a limit of the connection was reached, not one of the pool.
func ofConnection(err error) bool {
	limit, ok := errors.AsType[*executor.LimitError](err)
	return ok && limit.Key
}

// errOpening holds messages back until HandleOpen of their unordered handler has returned.
var errOpening = errors.New("eddy: the handler is being opened")

// refused answers on the loop that an event was not taken. The error is for the writer of an outbound message, and for who
// looks for an ErrorHandler.
func (ctx *Context) refused(h hop, err error) error {
	c := ctx.conn
	if err == errOpening { //nolint:errorlint // our own sentinel, returned bare
		if c.park(h, err) {
			return nil
		}
		err = errParkFull(ctx.node.pool)
	}
	c.loop.counters[countHopRejects]++
	e := ctx.hopError(err)
	if p := ctx.node.reject; h.op == opRead && p != nil && p.keep && e.Code != RejectedClosed && c.park(h, err) {
		c.loop.counters[countHopWaits]++
		return nil
	}
	c.pending(h.op).Add(-1)
	return ctx.reject(h, e)
}

// reject ends an event that is not taken and counts no more.
func (ctx *Context) reject(h hop, e *HopError) error {
	c := ctx.conn
	trace, msg := takeTrace(h.msg)
	if trace != nil {
		c.loop.setTrace(c, trace)
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
	case opWrite: // no ErrorHandler is told: what it writes would come here again
		refuse(msg, e)
	default:
		ctx.fireErrorFrom(ctx, e, false)
	}
	c.closeFlushed(CloseBackpressureLimit, e)
	return e
}

// askPolicy returns nil if the handler's policy has handled the message, else the error that goes on.
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

// parking is what a connection keeps for a pool that has no room.
type parking struct {
	waiting []hop // oldest first; the first one is what the others wait for
	pool    *executor.Pool
	room    *executor.Room
}

// parkBound is how much a connection keeps.
const parkBound = 64

func errParkFull(p *executor.Pool) error {
	return &executor.LimitError{Pool: p.Name(), What: "what a connection keeps for the pool", Limit: parkBound, Key: true}
}

// park keeps an event that was refused with err and pauses reads; false if too many are kept.
func (c *Conn) park(h hop, err error) bool {
	x := c.extend()
	if x.parking == nil {
		x.parking = &parking{room: executor.NewRoom(c.postReadState)}
	}
	p := x.parking
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

// parkBehind keeps an inbound event behind those that wait for the same pool.
func (c *Conn) parkBehind(h hop) (waits bool, err error) {
	pool := h.ctx.node.pool
	for _, o := range c.ext.Load().parking.waiting {
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

// parkRemoval keeps a HandleRemove behind what waits for the same pool, whatever the bound; false if nothing does.
func (c *Conn) parkRemoval(h hop) bool {
	if c.paused&pausePark == 0 {
		return false
	}
	p := c.ext.Load().parking
	for _, o := range p.waiting {
		if o.ctx.node.pool == h.ctx.node.pool {
			p.waiting = append(p.waiting, h)
			return true
		}
	}
	return false
}

// awaitRoom sees to it that the loop tries again what was refused with err.
func (c *Conn) awaitRoom(h hop, err error) {
	p, pool := c.ext.Load().parking, h.ctx.node.pool
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

// retryParked tries again what waits for room.
func (c *Conn) retryParked() {
	p := c.ext.Load().parking
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

// dropParked ends what waits for room: the connection ends.
func (c *Conn) dropParked() {
	if c.paused&pausePark == 0 {
		return
	}
	c.paused &^= pausePark
	p := c.ext.Load().parking
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

// end leaves the line. Others are told of the room that was not used.
func (p *parking) end() {
	p.waiting = nil
	if p.pool != nil {
		p.pool.LeaveRoom(p.room)
		p.pool = nil
	}
}

// oldest returns when the oldest message that waits was dispatched, 0 for none.
func (p *parking) oldest() int64 {
	for i := range p.waiting {
		if p.waiting[i].op == opRead {
			return p.waiting[i].at
		}
	}
	return 0
}
