package eddy

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/meter"
)

// serverPhase says how far a server or dialer is on the way to its end.
type serverPhase int32

const (
	serverRunning serverPhase = iota
	serverDraining
	serverClosing
	serverStopped
)

// endpoint is what the loops know of the Server or Dialer that a connection belongs to: its phase and its counts.
type endpoint struct {
	phase    atomic.Int32
	tally    accept.Tally
	closed   meter.Counts
	networks meter.Labels[netip.Prefix] // of the peers
	tenants  meter.Labels[string]
	recent   *meter.Recent[closedConn] // nil = none is kept
	budget   budget
	relief   relief
	ended    atomic.Int64 // connections that have closed, in whatever way
	forced   atomic.Int64 // connections that were cut, by Shutdown at its deadline or by Close
	dropped  atomic.Int64 // requests in flight on them

	hopPanics atomic.Uint64 // of handlers on pools
}

// enter moves to the next phase if the endpoint is in one of the given ones.
func (e *endpoint) enter(next serverPhase, from ...serverPhase) bool {
	for _, p := range from {
		if e.phase.CompareAndSwap(int32(p), int32(next)) {
			return true
		}
	}
	return false
}

// discharge undoes everything that c counts for, exactly once per connection.
func (e *endpoint) discharge(c *Conn) {
	if g := c.set.accept.Gate; g != nil {
		g.Leave(c.RemoteAddr(), c.tenant())
	}
	e.tally.Release()
}

// waitIdle waits until the last connection and the last refused socket have ended, or returns ctx's error if ctx ends first.
func (e *endpoint) waitIdle(ctx context.Context, k *kernel) error {
	for !e.tally.Empty() {
		if !k.wait(e.tally.Idle, ctx.Done()) {
			return ctx.Err()
		}
	}
	return nil
}

// drain ends the endpoint's connections on the loops in order, and by force when ctx ends.
func (e *endpoint) drain(ctx context.Context, loops []*loop) error {
	for _, l := range loops {
		l.do(func() { l.startDrain(e) })
	}
	err := e.waitIdle(ctx, loops[0].kernel)
	e.enter(serverClosing, serverDraining) // unless Close came meanwhile
	if err != nil {
		e.force(loops, errForced)
	}
	return err
}

// force ends what is still open and counts it.
func (e *endpoint) force(loops []*loop, cause error) {
	walks := make([]chan struct{}, len(loops))
	for i, l := range loops {
		walks[i] = make(chan struct{})
		l.do(func() { l.startWalk(walk{owner: e, cause: cause, over: walks[i]}) })
	}
	for i, l := range loops {
		l.kernel.wait(walks[i], l.Done)
	}
}

// leave waits until the loops have released the last connection and makes them forget the endpoint.
func (e *endpoint) leave(loops []*loop) {
	for _, l := range loops {
		l.do(func() {
			l.endDrain(e)
			l.FinishCloses() // the last that were forced
		})
	}
}

// report says what became of the connections that have ended since e.ended was before.
func (e *endpoint) report(before int64) DrainReport {
	forced := e.forced.Load()
	return DrainReport{Drained: int(e.ended.Load() - before - forced), Forced: int(forced), Dropped: int(e.dropped.Load())}
}

// DrainReport counts what became of the connections that were open when Shutdown began, or were then accepted from the
// listener's queue. Each is either drained or forced. Sockets that a limit has refused are not among them; Stats.Refused
// counts those.
type DrainReport struct {
	Drained int // ended in order
	Forced  int // cut at the deadline
	Dropped int // requests that were in flight on the forced ones
}

var errForced = errors.New("eddy: shutdown deadline passed")

// walkBatch is the number of slots that a walk passes in one iteration. It is bounded because connections of others may live
// on the loop.
const walkBatch = 256

// walk is a loop's way through its connections for an endpoint that ends. It tells them to drain, or ends them by force.
type walk struct {
	owner  *endpoint
	cursor int // slots below it have been passed

	over  chan struct{} // by force: closed when all have been ended; nil for a drain
	cause error         // by force
}

// startDrain begins to end the owner's connections in order.
func (l *loop) startDrain(owner *endpoint) { l.startWalk(walk{owner: owner}) }

// startWalk begins a walk. The owner gets no further connections.
func (l *loop) startWalk(w walk) {
	l.walks = append(l.walks, w)
	l.abandon(w.owner)
}

// endDrain forgets an owner that has no connections any more.
func (l *loop) endDrain(owner *endpoint) {
	l.walks = slices.DeleteFunc(l.walks, func(w walk) bool { return w.drains(owner) })
}

// drains reports whether the owner is draining, so that its new connections come too late.
func (l *loop) drains(owner *endpoint) bool {
	return slices.ContainsFunc(l.walks, func(w walk) bool { return w.drains(owner) })
}

func (w walk) drains(owner *endpoint) bool { return w.owner == owner && w.over == nil }

// walking reports whether some connections have not yet been told to drain, or not yet been ended by force.
func (l *loop) walking() bool {
	return slices.ContainsFunc(l.walks, func(w walk) bool { return w.over != nil || w.cursor < l.table.Len() })
}

// continueWalks passes the next connections of each walk.
func (l *loop) continueWalks() {
	for i := 0; i < len(l.walks); i++ {
		w := l.walks[i]
		part, end := l.table.Part(w.cursor, walkBatch)
		l.walks[i].cursor = end
		for _, c := range part {
			switch {
			case c == nil || c.set.owner != w.owner:
			case w.over != nil:
				c.force(w.cause)
			case c.phase < PhaseClosing && !c.has(draining): // else it was told before, by relieve
				l.drainConn(c)
			}
		}
		if w.over != nil && end == l.table.Len() {
			close(w.over)
			l.walks = slices.Delete(l.walks, i, i+1)
			i--
		}
	}
}

func (c *Conn) force(cause error) {
	if !c.has(listedClose) {
		c.set.owner.forced.Add(1)
		c.set.owner.dropped.Add(int64(c.counts.inflight.Load()))
	}
	c.beginClose(CloseServerShutdown, cause)
}

// drainConn tells a connection's handlers, takes what the peer has sent so far and ends the connection as soon as
// nothing is left to do. Later input meets an orderly end of stream.
func (l *loop) drainConn(c *Conn) {
	defer l.contain(c)
	l.serving.Store(c)
	c.raise(draining)
	c.mark(watchIdle | drainTold)
	c.fireEventFromHead(DrainEvent{})
	if c.phase < PhaseClosing && !c.has(inputEnded) && !c.readPaused() && !c.framesInHand() {
		c.beginTurn()
		c.readLoop(readCallBudget, 0)
	}
	l.afterActivity(c)
}

// checkDrain ends a connection whose end was put off, or a draining or half-closed one that has become idle.
func (c *Conn) checkDrain() {
	switch {
	case c.paused&pauseEnd != 0:
		late := c.ext.Load().late
		c.closeFlushed(late.Reason, late.Err)
	case c.phase >= PhaseClosing || !c.has(draining|inputEnded|outputEnds):
	case c.has(outputEnds):
		c.endOutput()
	case !c.idle():
	case c.has(draining):
		c.closeFlushed(CloseServerShutdown, nil)
	default:
		c.checkHalfClosed()
	}
}

// idle reports that no request is being read, handled or answered.
func (c *Conn) idle() bool {
	return c.counts.inflight.Load() == 0 && c.counts.encoding.Load() == 0 && c.counts.transit.Load() == 0 && c.queued.Load() == 0 && !c.in.Held() && c.innerBytes() == 0 && c.later() == 0
}

// checkDrainTask runs after the last request in flight has ended, behind the tasks that the request submitted.
func (c *Conn) checkDrainTask() {
	c.unmark(idleTask)
	c.fence()
	c.requestOver()
	c.loop.afterActivity(c)
}

// closedConn is what is kept of a connection that has ended.
type closedConn struct {
	id     ConnID
	remote netip.AddrPort
	tenant string
	reason CloseReason
	cause  string // at most causeBytes
}

// noteClose keeps the close of c for RecentCloses.
func (e *endpoint) noteClose(now int64, c *Conn) {
	if e.recent == nil {
		return
	}
	end := c.ended.Load()
	e.recent.Add(now, closedConn{c.ID(), c.RemoteAddr(), c.tenant(), end.Reason, causeText(end.Err)})
}

// countClose counts one end for its reason, its network and its tenant.
func (e *endpoint) countClose(reason CloseReason, peer netip.AddrPort, tenant string) {
	e.closed[reason].Add(1)
	if peer.IsValid() {
		e.networks.Of(accept.Network(peer.Addr(), labelIPv4Bits, labelIPv6Bits))[reason].Add(1)
	}
	if tenant != "" {
		e.tenants.Of(tenant)[reason].Add(1)
	}
}

// The lengths of the prefixes that networks are told apart by.
const labelIPv4Bits, labelIPv6Bits = 24, 48
