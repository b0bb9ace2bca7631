package eddy

import (
	"context"
	"net/netip"
	"sync/atomic"

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
	active   atomic.Int64 // connections admitted and not yet closed
	parting  atomic.Int64 // refused sockets that wait for their peer's end
	released chan struct{}
	closed   meter.Counts
	networks meter.Labels[netip.Prefix] // of the peers
	tenants  meter.Labels[string]
	recent   *meter.Recent[ClosedConn] // nil = none is kept
	budget   budget
	ended    atomic.Int64 // connections that have closed, in whatever way
	forced   atomic.Int64 // connections that were cut, by Shutdown at its deadline or by Close
	dropped  atomic.Int64 // requests in flight on them

	accepted     atomic.Uint64
	refused      [refuseCauses]atomic.Uint64
	acceptPauses atomic.Uint64
	acceptErrors atomic.Uint64
	shed         atomic.Uint64
	hopPanics    atomic.Uint64

	acceptors []*acceptor // fixed before the first connection
	waiting   atomic.Bool // acceptors want to know of room
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

// refusals returns how many connections were refused for which cause.
func (e *endpoint) refusals() map[RefuseCause]uint64 {
	counts := make(map[RefuseCause]uint64)
	for c := range e.refused {
		if n := e.refused[c].Load(); n > 0 {
			counts[RefuseCause(c)] = n
		}
	}
	return counts
}

// waitIdle waits until the last connection and the last refused socket have ended, or returns ctx's error if ctx ends first.
func (e *endpoint) waitIdle(ctx context.Context, k *kernel) error {
	for e.active.Load()+e.parting.Load() > 0 {
		if !k.wait(e.released, ctx.Done()) {
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
		l.do(func() { l.startForce(forceWalk{owner: e, cause: cause, over: walks[i]}) })
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
