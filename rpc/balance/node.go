package balance

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
)

// Why a Node is not picked.
const (
	nodeDown uint32 = 1 << iota // it has no connection
	nodeSick                    // its server says that it does not serve
	nodeOpen                    // it is ejected, or its probes are under way
)

// What a failure counts as, for PeakEWMA: at least twice the latency, within these bounds.
const (
	leastPenalty = 100 * time.Millisecond
	mostPenalty  = 10 * time.Second
)

// freshShare is the share of an instance that has just begun to serve.
const freshShare = 0.1

// scale makes weights fine enough for warm-up.
const scale = 100

// Node is an instance as a Balancer sees it. All methods may be called by any goroutine.
type Node struct {
	Instance discovery.Instance // as the Node was made; later answers change weight, zone and time only inside the Balancer
	Value    any                // the client's; set it in the function that is given to Update

	b        *Balancer
	bits     atomic.Uint32 // why it is not picked
	inflight atomic.Int64
	near     atomic.Bool   // it is of the own zone
	weight   atomic.Uint32 // with warm-up, times scale
	lag      atomic.Uint64 // float64: the latency of PeakEWMA, 0 = not known
	lagged   atomic.Int64  // when lag was set
	breaker  Breaker
	good     atomic.Int64 // of this interval, for the success rate
	bad      atomic.Int64

	now  discovery.Instance // as the last answer has it; Balancer.mu guards this and the following
	born int64
	gone int64 // when it was taken out
}

// Begin counts a call in flight. End must follow.
func (n *Node) Begin() {
	n.inflight.Add(1)
	if n.b.o.Policy == Hash {
		n.b.total.Add(1)
	}
}

// End uncounts a call.
func (n *Node) End() {
	n.inflight.Add(-1)
	if n.b.o.Policy == Hash {
		n.b.total.Add(-1)
	}
}

// InFlight returns the number of calls in flight.
func (n *Node) InFlight() int { return int(n.inflight.Load()) }

// SetUp says whether the instance can be called at all. It can, at the beginning.
func (n *Node) SetUp(up bool) { n.mark(nodeDown, !up) }

// SetHealthy says whether the server of the instance says that it serves. It does, at the beginning.
func (n *Node) SetHealthy(healthy bool) { n.mark(nodeSick, !healthy) }

// mark sets or clears a bit, and reports whether that was a change.
func (n *Node) mark(bit uint32, set bool) (changed bool) {
	if set {
		changed = n.bits.Or(bit)&bit == 0
	} else {
		changed = n.bits.And(^bit)&bit != 0
	}
	if changed {
		n.b.next.Store(0) // the next pick makes new lists
	}
	return changed
}

// fits reports whether the node may be picked for a call that the tried ones have not served.
func (n *Node) fits(now int64, tried []*Node) bool {
	return n.usable(now) && (len(tried) == 0 || !slices.Contains(tried, n))
}

// usable reports whether the node may be picked.
func (n *Node) usable(now int64) bool {
	bits := n.bits.Load()
	return bits == 0 || bits == nodeOpen && n.breaker.may(now)
}

// take picks the node, unless it is waiting for its probes.
func (n *Node) take(now int64) bool {
	bits := n.bits.Load()
	return bits == 0 || bits == nodeOpen && n.breaker.Allow(now)
}

// Observe tells how a call has ended, and how long it took.
func (n *Node) Observe(latency time.Duration, o Outcome) {
	b := n.b
	if !b.timed {
		return
	}
	now := b.o.Now()
	if b.o.Policy == PeakEWMA {
		n.learn(now, latency, o)
	}
	if b.o.Zone != "" {
		b.zone.observe(n.near.Load(), o)
	}
	if !b.o.Eject.on() {
		return
	}
	switch o {
	case Succeeded:
		n.good.Add(1)
	case Failed:
		n.bad.Add(1)
	case Refused, Unknown:
	}
	switch {
	case n.breaker.Done(now, o):
		b.eject(n, now)
	case n.bits.Load()&nodeOpen != 0 && n.breaker.Closed():
		if n.mark(nodeOpen, false) {
			b.ejected.Add(-1)
		}
	}
}

// learn puts a latency into the average.
func (n *Node) learn(now int64, latency time.Duration, o Outcome) {
	for {
		bits := n.lag.Load()
		old, sample := math.Float64frombits(bits), float64(latency)
		switch o {
		case Failed, Refused:
			sample = min(max(sample, 2*old, float64(leastPenalty)), max(old, float64(mostPenalty)))
		case Unknown:
			if sample <= old {
				return
			}
		case Succeeded:
		}
		next := sample
		if old > sample {
			keep := math.Exp(-float64(now-n.lagged.Load()) / float64(n.b.o.Decay))
			next = old*keep + sample*(1-keep)
		}
		if n.lag.CompareAndSwap(bits, math.Float64bits(max(next, 1))) {
			n.lagged.Store(now)
			return
		}
	}
}

// cost says how long a call would take, as far as PeakEWMA knows. What is not known, or is probed, costs nothing while it has no call in flight, and very
// much when it has one.
func (n *Node) cost(now int64) float64 {
	lag, calls := math.Float64frombits(n.lag.Load()), float64(n.inflight.Load())
	if lag == 0 || n.bits.Load()&nodeOpen != 0 {
		return calls * (calls + 1) * float64(mostPenalty)
	}
	decay := float64(n.b.o.Decay)
	lag *= decay / (decay + float64(max(0, now-n.lagged.Load()))) // old news
	return lag * (calls + 1) / float64(n.weight.Load())
}

// weigh sets the weight at a time, and reports whether it will change.
func (n *Node) weigh(now int64) (warming bool) {
	w := float64(discovery.DefaultWeight)
	if n.now.Weight > 0 && n.b.o.Policy != RoundRobin {
		w = float64(n.now.Weight)
	}
	if age, warm := now-n.born, int64(n.b.o.Warmup); age < warm {
		w *= max(freshShare, float64(age)/float64(warm))
		warming = true
	}
	n.weight.Store(max(1, uint32(w*scale)))
	return warming
}
