package balance

import (
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	scanAll    = 32 // instances up to which LeastRequests looks at all
	samples    = 8  // at which it looks otherwise
	someTurns  = 64 // instances that may be passed over before a pick looks for any that will do
	somePairs  = 3
	wholeShare = 1 << 16
)

// Pick returns the instance for a call, nil if none can be called. hash is what Hash looks at, see Key; 0 is none. The instances that have been tried for
// the same call are left out as long as there are others. An ejected instance is picked only if there is no other.
//
// Tell the Node of the call with Begin and End, and with Observe how it ended.
func (b *Balancer) Pick(hash uint64, tried []*Node) *Node {
	var now int64
	if b.timed {
		now = b.o.Now()
	}
	if now >= b.next.Load() {
		b.tick(now)
	}
	s := b.snap.Load()
	g := b.choose(s)
	if len(g.nodes) > 0 {
		if n := b.pick(g, now, hash, tried); n != nil {
			return n
		}
	}
	return b.search(s, now, tried)
}

// choose returns the group of a call.
func (b *Balancer) choose(s *snapshot) *group {
	if len(s.rest.nodes) == 0 {
		return &s.own
	}
	if len(s.own.nodes) > 0 {
		if share := b.zone.share.Load(); share == wholeShare || uint32(b.o.Rand())%wholeShare < share {
			return &s.own
		}
	}
	b.spilled.Add(1)
	return &s.rest
}

// pick picks in a group by the policy, or returns nil after some futile attempts.
func (b *Balancer) pick(g *group, now int64, hash uint64, tried []*Node) *Node {
	switch b.o.Policy {
	case LeastRequests:
		return b.least(g, now, tried)
	case PeakEWMA:
		for range somePairs {
			if n := b.better(g, now, tried); n != nil && n.take(now) {
				return n
			}
		}
	case Hash:
		return b.hashed(g, now, hash, tried)
	default:
		for range someTurns {
			if n := g.inTurn(&b.seq); n.fits(now, tried) && n.take(now) {
				return n
			}
		}
	}
	return nil
}

// inTurn returns the next node. With weights, a node is passed over in as many rounds as its weight says, and these are spread over all rounds.
func (g *group) inTurn(seq *atomic.Uint64) *Node {
	count := uint64(len(g.nodes))
	if g.weights == nil {
		return g.nodes[(seq.Add(1)-1)%count]
	}
	for {
		turn := seq.Add(1) - 1
		i, round := turn%count, turn/count
		w := g.weights[i]
		if (w*round+i*(topWeight/2))%topWeight >= topWeight-w {
			return g.nodes[i]
		}
	}
}

// least returns the node with the fewest calls for its weight, among equals the next one.
func (b *Balancer) least(g *group, now int64, tried []*Node) *Node {
	count := uint64(len(g.nodes))
	look, from := count, b.seq.Add(1)-1
	if count > scanAll {
		look = samples
	}
	var best *Node
	var load, weight uint64
	for i := range look {
		at := (from + i) % count
		if count > scanAll {
			at, _ = bits.Mul64(b.o.Rand(), count)
		}
		n := g.nodes[at]
		if !n.fits(now, tried) {
			continue
		}
		l, w := uint64(n.inflight.Load())+1, uint64(n.weight.Load())
		if best == nil || l*weight < load*w {
			best, load, weight = n, l, w
		}
	}
	if best == nil || !best.take(now) {
		return nil
	}
	return best
}

// muchBetter is by how much a random node must cost less than the one whose turn it is. Latencies of single calls differ by chance, and turns spread calls
// more evenly than chance does.
const muchBetter = 2

// better returns the node whose turn it is, or a random one that costs much less.
func (b *Balancer) better(g *group, now int64, tried []*Node) *Node {
	count := uint64(len(g.nodes))
	i := (b.seq.Add(1) - 1) % count
	x := g.nodes[i]
	if count == 1 {
		if x.fits(now, tried) {
			return x
		}
		return nil
	}
	j, _ := bits.Mul64(b.o.Rand(), count-1)
	if j >= i {
		j++
	}
	y := g.nodes[j]
	switch fx, fy := x.fits(now, tried), y.fits(now, tried); {
	case !fx && !fy:
		return nil
	case !fy, fx && x.cost(now) <= muchBetter*y.cost(now):
		return x
	}
	return y
}

// point is a place of a node on the ring.
type point struct {
	hash uint64
	node *Node
}

// ringPoints is the number of places of a node with the default weight.
const ringPoints = 64

// Key returns the hash of a key for Pick. All clients have the same for the same key.
func Key(key string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return max(1, mix(h))
}

// mix spreads the bits of a number.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// makeRings makes the rings of Hash. b.mu is held.
func (b *Balancer) makeRings() {
	if b.o.Policy != Hash {
		return
	}
	var rings [2][]point
	for _, n := range b.all {
		to := &rings[0]
		if !n.near.Load() {
			to = &rings[1]
		}
		places := ringPoints
		if n.now.Weight > 0 {
			places = max(1, min(ringPoints*n.now.Weight/100, 4*ringPoints))
		}
		for i := range places {
			*to = append(*to, point{mix(Key(n.Instance.Addr) + uint64(i)), n})
		}
	}
	for _, ring := range rings {
		slices.SortFunc(ring, func(x, y point) int {
			if x.hash != y.hash {
				if x.hash < y.hash {
					return -1
				}
				return 1
			}
			return strings.Compare(x.node.Instance.Addr, y.node.Instance.Addr)
		})
	}
	b.rings = rings
}

// hashed returns the first node from the key on that is not loaded more than its share allows.
func (b *Balancer) hashed(g *group, now int64, hash uint64, tried []*Node) *Node {
	if hash == 0 {
		hash = b.o.Rand()
	}
	// Not a binary search by package slices, whose function would be called for each step.
	from, to := 0, len(g.ring)
	for from < to {
		if mid := int(uint(from+to) >> 1); g.ring[mid].hash < hash {
			from = mid + 1
		} else {
			to = mid
		}
	}
	average := b.o.Bound * float64(b.total.Load()+1) / float64(len(g.nodes))
	for i := range g.ring {
		n := g.ring[(from+i)%len(g.ring)].node
		if float64(n.inflight.Load()) < math.Ceil(average*n.share()) && n.fits(now, tried) && n.take(now) {
			return n
		}
	}
	return nil
}

// share returns the weight of a node, in default weights.
func (n *Node) share() float64 { return float64(n.weight.Load()) / (scale * 100) }

// search looks at all nodes for one that will do: one that is usable and was not tried, one that is usable, one that is up and was not tried, any that is up.
func (b *Balancer) search(s *snapshot, now int64, tried []*Node) *Node {
	count := uint64(len(s.all))
	if count == 0 {
		return nil
	}
	from, _ := bits.Mul64(b.o.Rand(), count)
	for pass := range 4 {
		for i := range count {
			n := s.all[(from+i)%count]
			fresh := pass%2 == 1 || !slices.Contains(tried, n)
			if pass < 2 && fresh && n.usable(now) && n.take(now) {
				return n
			}
			if pass >= 2 && fresh && n.bits.Load()&nodeDown == 0 {
				b.fallback.Add(1)
				return n
			}
		}
	}
	return nil
}

// The own zone gives up a part of its calls when more than busyShare of them fail or are refused, and takes it back step by step.
const (
	zoneCalls = 20 // below which the zone is not judged
	busyShare = 0.05
	leastZone = wholeShare / 20
)

// overProvision is how much of its usual load the usable part of the own zone may take.
const overProvision = 1.4

// locality is the share of the calls that stays in the own zone.
type locality struct {
	share      atomic.Uint32 // of wholeShare
	calls, bad atomic.Int64  // of the own zone since the last look
	grown      uint32        // what share would be if all were usable; Balancer.mu
}

func (z *locality) observe(own bool, o Outcome) {
	if !own || o == Unknown {
		return
	}
	z.calls.Add(1)
	if o != Succeeded {
		z.bad.Add(1)
	}
}

// adapt sets the share. Balancer.mu is held.
func (z *locality) adapt(usable, all int) {
	if z.grown == 0 {
		z.grown = wholeShare
	}
	if calls := z.calls.Load(); calls >= zoneCalls {
		if bad := z.bad.Swap(0); float64(bad) > busyShare*float64(calls) {
			z.grown = max(leastZone, z.grown-z.grown/5)
		} else {
			z.grown = min(wholeShare, z.grown+leastZone)
		}
		z.calls.Store(0)
	}
	share := z.grown
	if all > 0 {
		share = min(share, uint32(min(1, overProvision*float64(usable)/float64(all))*wholeShare))
	}
	z.share.Store(share)
}
