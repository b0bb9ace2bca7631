package balance

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/wheel"
	"github.com/go-eddy/eddy/rpc/discovery"
)

const (
	tickEvery = int64(100 * time.Millisecond) // between two looks at weights, zones and ejected instances
	remember  = int64(time.Minute)            // how long what is known of an instance outlives it, because registries flap
)

// Balancer picks an instance for each call. All methods may be called by any goroutine. Pick takes no lock and allocates nothing.
type Balancer struct {
	o     Options
	timed bool // picks look at the clock
	snap  atomic.Pointer[snapshot]
	next  atomic.Int64 // when the lists have to be looked at again; 0 = now
	seq   atomic.Uint64
	total atomic.Int64 // calls in flight, of Hash
	zone  locality

	ejected                              atomic.Int64
	ejections, spared, spilled, fallback atomic.Uint64

	mu      sync.Mutex
	all     []*Node // by address
	past    map[string]*Node
	rings   [2][]point // of the own zone, and of the others
	judgeAt int64
}

// New returns a Balancer without instances. The error names the option that makes no sense.
func New(o Options) (*Balancer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	b := &Balancer{o: o, past: make(map[string]*Node)}
	b.timed = o.Policy == PeakEWMA || o.Zone != "" || o.Warmup > 0 || o.Eject.on()
	b.zone.share.Store(wholeShare)
	b.snap.Store(&snapshot{})
	b.next.Store(math.MaxInt64)
	return b, nil
}

// Update replaces the instances. Those that stay keep what is known of them; so do those that come back within a minute. attach is called for each new
// Node before it can be picked, and may be nil. Of instances with the same address the first one counts. Do not call Update from attach.
func (b *Balancer) Update(instances []discovery.Instance, attach func(*Node)) {
	now := b.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	old := make(map[string]*Node, len(b.all))
	for _, n := range b.all {
		old[n.Instance.Addr] = n
	}
	first := len(b.all) == 0 && len(b.past) == 0
	all := make([]*Node, 0, len(instances))
	seen := make(map[string]bool, len(instances))
	for _, i := range instances {
		if seen[i.Addr] {
			continue
		}
		seen[i.Addr] = true
		n := old[i.Addr]
		if n == nil {
			n = b.newNode(i, now, first)
			if attach != nil {
				attach(n)
			}
		} else if !n.now.Since.Equal(i.Since) {
			n.born = b.bornAt(i, now, false)
		}
		n.now = i
		n.near.Store(b.o.Zone == "" || i.Zone == b.o.Zone)
		all = append(all, n)
		delete(old, i.Addr)
	}
	b.forget(old, now)
	slices.SortFunc(all, func(x, y *Node) int { return strings.Compare(x.Instance.Addr, y.Instance.Addr) })
	b.all = all
	b.makeRings()
	b.rebuild(now)
}

// newNode returns a node, which knows what was known of its instance a moment ago.
func (b *Balancer) newNode(i discovery.Instance, now int64, first bool) *Node {
	n := &Node{Instance: i, b: b}
	n.breaker.trip = &b.o.Eject.Trip
	n.born = b.bornAt(i, now, first)
	if was := b.past[i.Addr]; was != nil {
		delete(b.past, i.Addr)
		n.lag.Store(was.lag.Load())
		n.lagged.Store(was.lagged.Load())
		n.breaker.inherit(&was.breaker)
		if !n.breaker.Closed() {
			n.bits.Store(nodeOpen)
		}
		if was.now.Since.Equal(i.Since) {
			n.born = was.born
		}
	}
	return n
}

// bornAt returns when an instance began to serve, on our own clock: what its registry says, as long as that is plausible. The instances that are there at
// first have served before.
func (b *Balancer) bornAt(i discovery.Instance, now int64, first bool) int64 {
	age := time.Duration(0)
	if !i.Since.IsZero() {
		age = max(0, b.o.Wall().Sub(i.Since))
	} else if first {
		age = b.o.Warmup
	}
	return now - int64(min(age, b.o.Warmup))
}

// forget keeps what is known of instances that are gone, for a while.
func (b *Balancer) forget(gone map[string]*Node, now int64) {
	for addr, n := range gone {
		n.gone = now
		b.past[addr] = n
	}
	for addr, n := range b.past {
		if now-n.gone > remember || len(b.past) > discovery.MaxInstances {
			delete(b.past, addr)
		}
	}
}

// snapshot are the lists that picks read. Immutable.
type snapshot struct {
	all       []*Node
	own, rest group // usable, of the own zone and of others; without a zone all are own
}

// group are instances that are picked by the same rule.
type group struct {
	nodes   []*Node
	weights []uint64 // for turns, the largest is topWeight; nil when all are the same
	ring    []point
}

// topWeight is the largest weight of a group. No other counts as less than leastWeight, so that turns are found soon.
const (
	topWeight   = 1 << 16
	leastWeight = topWeight / 256
)

// tick looks at what changes with time, and makes new lists if there is a reason.
func (b *Balancer) tick(now int64) {
	if !b.mu.TryLock() {
		return // somebody else does it
	}
	defer b.mu.Unlock()
	if b.o.Eject.SuccessRate > 0 && now >= b.judgeAt {
		b.judge(now)
	}
	b.rebuild(now)
}

// rebuild makes the lists. b.mu is held.
func (b *Balancer) rebuild(now int64) {
	next := int64(math.MaxInt64)
	if b.timed {
		next = now + tickEvery
	}
	b.next.Store(next) // before the bits are read: a later change has the lists made again
	s := &snapshot{all: b.all}
	var ejected, own int64
	for _, n := range b.all {
		n.weigh(now)
		if n.bits.Load()&nodeOpen != 0 {
			ejected++
		}
		near := n.near.Load()
		if near {
			own++
		}
		if !n.usable(now) {
			continue
		}
		if near {
			s.own.nodes = append(s.own.nodes, n)
		} else {
			s.rest.nodes = append(s.rest.nodes, n)
		}
	}
	b.ejected.Store(ejected)
	for i, g := range []*group{&s.own, &s.rest} {
		g.ring = b.rings[i]
		if b.o.Policy == RoundRobin || b.o.Policy == Weighted {
			g.makeWeights()
		}
	}
	if b.o.Zone != "" {
		b.zone.adapt(len(s.own.nodes), int(own))
	}
	b.snap.Store(s)
}

// makeWeights fills in weights, if they differ.
func (g *group) makeWeights() {
	if len(g.nodes) == 0 {
		return
	}
	byWeight := func(x, y *Node) int { return cmp.Compare(x.weight.Load(), y.weight.Load()) }
	top, low := slices.MaxFunc(g.nodes, byWeight).weight.Load(), slices.MinFunc(g.nodes, byWeight).weight.Load()
	if top == low {
		return
	}
	g.weights = make([]uint64, len(g.nodes))
	for i, n := range g.nodes {
		g.weights[i] = max(leastWeight, uint64(n.weight.Load())*topWeight/uint64(top))
	}
}

// Observes reports whether Node.Observe does anything, which depends on the options alone.
func (b *Balancer) Observes() bool { return b.timed }

// Len returns the number of instances.
func (b *Balancer) Len() int { return len(b.snap.Load().all) }

// Nodes returns the instances, by address.
func (b *Balancer) Nodes() []*Node { return slices.Clone(b.snap.Load().all) }

// Stats returns the numbers of the Balancer.
func (b *Balancer) Stats() Stats {
	s := b.snap.Load()
	now := b.o.Now()
	st := Stats{
		Instances: len(s.all), Ejections: b.ejections.Load(), Spared: b.spared.Load(), Spilled: b.spilled.Load(), Fallbacks: b.fallback.Load(),
	}
	for _, n := range s.all {
		if n.usable(now) {
			st.Usable++
		}
		if n.bits.Load()&nodeOpen != 0 {
			st.Ejected++
		}
	}
	return st
}

// The defaults of Ejection.
const (
	DefaultInterval = 10 * time.Second
	DefaultMaxShare = 0.5
)

// Ejection takes instances out of the pick that fail. After a while they get a few calls to prove themselves. Its zero value ejects none.
type Ejection struct {
	// Trip says when an instance is ejected for its own failures, and for how long.
	Trip Trip
	// SuccessRate ejects instances whose share of successes is so many standard deviations below the average, such as 1.9: with at least five instances
	// that have Trip.MinCalls calls in an Interval. 0 = none.
	SuccessRate float64
	Interval    time.Duration // 0 = 10 s
	MaxShare    float64       // of the instances that may be ejected at a time; 0 = 0.5. One may be, if there are others, and never all
}

func (e *Ejection) on() bool { return e.Trip.on() || e.SuccessRate > 0 }

func (e *Ejection) complete() error {
	switch {
	case !(e.SuccessRate >= 0 && e.SuccessRate <= 10):
		return fmt.Errorf("balance: Ejection.SuccessRate is %v: it must be from 0 to 10", e.SuccessRate)
	case e.Interval < 0:
		return fmt.Errorf("balance: Ejection.Interval is %v: it must not be negative", e.Interval)
	case !(e.MaxShare >= 0 && e.MaxShare <= 1):
		return fmt.Errorf("balance: Ejection.MaxShare is %v: it must be from 0 to 1", e.MaxShare)
	}
	e.Interval, e.MaxShare = cmp.Or(e.Interval, DefaultInterval), cmp.Or(e.MaxShare, DefaultMaxShare)
	return e.Trip.complete("Ejection.Trip")
}

// eject takes a node out of the pick, if not too many are out already.
func (b *Balancer) eject(n *Node, now int64) {
	if n.mark(nodeOpen, true) {
		all := len(b.snap.Load().all)
		most := min(max(1, int(b.o.Eject.MaxShare*float64(all))), all-1)
		if b.ejected.Add(1) > int64(most) {
			b.ejected.Add(-1)
			n.mark(nodeOpen, false)
			b.spared.Add(1)
			return
		}
	}
	n.breaker.Open(now)
	b.ejections.Add(1)
	b.next.Store(0)
}

// judge ejects the nodes that fail much more often than the others. b.mu is held.
func (b *Balancer) judge(now int64) {
	b.judgeAt = wheel.After(now, b.o.Eject.Interval)
	type record struct {
		n    *Node
		rate float64
	}
	var records []record
	var sum, squares float64
	for _, n := range b.all {
		good, bad := float64(n.good.Swap(0)), float64(n.bad.Swap(0))
		if good+bad < float64(b.o.Eject.Trip.MinCalls) || n.bits.Load() != 0 {
			continue
		}
		rate := good / (good + bad)
		records = append(records, record{n, rate})
		sum, squares = sum+rate, squares+rate*rate
	}
	count := float64(len(records))
	if count < 5 {
		return
	}
	mean := sum / count
	limit := mean - b.o.Eject.SuccessRate*math.Sqrt(max(0, squares/count-mean*mean))
	for _, r := range records {
		if r.rate < limit {
			b.eject(r.n, now)
		}
	}
}
