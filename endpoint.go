package eddy

import (
	"context"
	"net/netip"
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
