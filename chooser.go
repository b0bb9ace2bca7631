package eddy

import (
	"hash/maphash"
	"net/netip"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
)

// Chooser says which loop of a group serves a new connection, by its place in loops. It is called by the loops that accept
// and by the goroutines that dial, several at a time; it must not block or change loops. A result outside the group counts
// modulo its size. After a panic in the Chooser the connection goes to the next loop in turn. If the chosen loop does not take
// the connection, because its task queue is full, the next loops are tried. Write one, for example, to give each tenant a shard
// of its own.
type Chooser func(peer netip.AddrPort, loops []*Loop) int

// Lag says how late a loop does what is due: the distribution over the last 30 to 60 seconds. The model is a task that is
// due every 100 ms and notes how late it runs. A tick during an iteration waits for the iteration's end; a tick during
// the loop's sleep does not wait. No tick wakes an idle loop; the ticks of a sleep are counted when it is over. Also
// counted, at most once per tick, is how late the system let the loop wake for a deadline.
type Lag struct {
	Ticks         uint64
	P50, P95, P99 time.Duration // at most a quarter too high
	Max           time.Duration
}

// Load returns what the loop has to do, for a Chooser. Any goroutine.
func (o *Loop) Load() LoopLoad {
	return LoopLoad{
		Conns:    o.l.assigned.Load(),
		Tasks:    o.l.Tasks.Depth(),
		Events:   o.l.Stats.Count(meter.Events),
		Outbound: o.l.Stats.Value(meter.HeldOut),
	}
}

// Lag returns how late the loop does what is due. Lag goes over a histogram, which is more work than Load. Use it in a Chooser
// that compares a few loops per connection, not in one that looks at many. Any goroutine.
func (o *Loop) Lag() Lag { return Lag(o.l.Lag.Snapshot(o.l.Clock.Now())) }

// LoopLoad is the load of one loop, for a Chooser.
type LoopLoad struct {
	Conns    int64  // connections that it was given and that have not ended
	Tasks    int    // tasks that wait
	Events   uint64 // readiness events since its start
	Outbound int64  // bytes queued for peers
}

// choose asks the group's Chooser. loops are all of the crew. If the Chooser panics, the connection goes to the next loop in turn.
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
	return w.set.chooser(peer, w.handlesOf(loops))
}

// handlesOf returns the handles of the crew's loops.
func (w *crew) handlesOf(loops []*loop) []*Loop {
	if w.handles != nil {
		return w.handles
	}
	all := make([]*Loop, len(loops))
	for i, l := range loops {
		all[i] = &l.handle
	}
	return all
}

// RoundRobin gives each loop one connection in turn. It is the default, because it costs nothing and is even when
// connections are alike.
func RoundRobin() Chooser {
	var next atomic.Uint64
	return func(_ netip.AddrPort, loops []*Loop) int { return int((next.Add(1) - 1) % uint64(len(loops))) }
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
	return func(_ netip.AddrPort, loops []*Loop) int {
		n := len(loops)
		first := int((start.Add(1) - 1) % uint64(n))
		best, lowest := first, measure(loops[first].Load())
		for k := 1; k < n; k++ {
			i := (first + k) % n
			if m := measure(loops[i].Load()); m < lowest {
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
	return func(peer netip.AddrPort, loops []*Loop) int {
		return int(maphash.Comparable(seed, peer.Addr().Unmap()) % uint64(len(loops)))
	}
}
