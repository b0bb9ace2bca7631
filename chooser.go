package eddy

import (
	"hash/maphash"
	"net/netip"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-eddy/eddy/internal/meter"
)

// Chooser says which loop of a group serves a new connection. It is called by the loops that accept and by the goroutines
// that dial, several at a time; it must not block. A result outside the group counts modulo its size. After a panic in the
// Chooser the connection goes to the next loop in turn. If the chosen loop does not take the connection, because its task
// queue is full, the next loops are tried. Write one, for example, to give each tenant a shard of its own.
type Chooser func(peer netip.AddrPort, loops Loads) int

// Loads are the loops that a Chooser chooses from.
type Loads struct{ loops []*loop }

// Len returns the number of loops.
func (s Loads) Len() int { return len(s.loops) }

// Load returns what loop i has to do.
func (s Loads) Load(i int) LoopLoad {
	l := s.loops[i]
	return LoopLoad{
		Conns:    l.assigned.Load(),
		Tasks:    l.Tasks.Depth(),
		Events:   l.Stats.Count(meter.Events),
		Outbound: l.Stats.Value(meter.HeldOut),
	}
}

// Lag returns how late loop i does what is due. Lag goes over a histogram, which is more work than Load. Use it in a Chooser
// that compares a few loops per connection, not in one that looks at many.
func (s Loads) Lag(i int) Lag {
	l := s.loops[i]
	return Lag(l.Lag.Snapshot(l.Clock.Now()))
}

// LoopLoad is the load of one loop, for a Chooser.
type LoopLoad struct {
	Conns    int64  // connections that it was given and that have not ended
	Tasks    int    // tasks that wait
	Events   uint64 // readiness events since its start
	Outbound int64  // bytes queued for peers
}

// choose asks the group's Chooser. If the Chooser panics, the connection goes to the next loop in turn.
func (w *crew) choose(peer netip.AddrPort, loops []*loop) (i int) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if ok, held := w.logs.panics.Allow(w.kernel.clock.Now()); ok {
			w.set.log.Error("eddy: panic in the Chooser", "peer", peer, "panic", v, "held_back", held, "stack", string(debug.Stack()))
		}
		i = int(w.turn.Add(1) % uint32(len(loops)))
	}()
	return w.set.chooser(peer, Loads{loops})
}

// RoundRobin gives each loop one connection in turn. It is the default, because it costs nothing and is even when
// connections are alike.
func RoundRobin() Chooser {
	var next atomic.Uint64
	return func(_ netip.AddrPort, loops Loads) int { return int((next.Add(1) - 1) % uint64(loops.Len())) }
}

// LeastConnections chooses the loop with the fewest connections. Use it when the lives of connections differ much in
// length. Among equal loops it goes round.
func LeastConnections() Chooser {
	return least(func(l LoopLoad) int64 { return l.Conns })
}

// LeastTasks chooses the loop with the shortest task queue. Use it when connections differ in what they ask for. It
// follows bursts, so connections may gather on a loop that was idle for a moment. Among equal loops it goes round.
func LeastTasks() Chooser {
	return least(func(l LoopLoad) int64 { return int64(l.Tasks) })
}

func least(measure func(LoopLoad) int64) Chooser {
	var start atomic.Uint64
	return func(_ netip.AddrPort, loops Loads) int {
		n := loops.Len()
		first := int((start.Add(1) - 1) % uint64(n))
		best, lowest := first, measure(loops.Load(first))
		for k := 1; k < n; k++ {
			i := (first + k) % n
			if m := measure(loops.Load(i)); m < lowest {
				best, lowest = i, m
			}
		}
		return best
	}
}

// HashIP sends all connections of one remote address to the same loop, for state that a loop keeps by client. Many clients
// behind one address, or a proxy, make it uneven.
func HashIP() Chooser {
	seed := maphash.MakeSeed()
	return func(peer netip.AddrPort, loops Loads) int {
		return int(maphash.Comparable(seed, peer.Addr().Unmap()) % uint64(loops.Len()))
	}
}
