package overload

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/allowance"
)

// The names of the sources.
const (
	sourceMemory      = "memory"
	sourceDescriptors = "descriptors"
	sourceCPU         = "cpu"
	sourceLag         = "loop_lag"
	sourceQueueAge    = "queue_age"
)

// What relieves them. Requests that are refused free no descriptor, and connections that end free no processor: those that come back
// cost more than they did.
var (
	ofConns    = []Action{EndIdle, EndKeepAlive, StopAccepting}
	ofRequests = []Action{RefuseSheddable, RefuseSheddablePlus}
	ofLoops    = []Action{RefuseSheddable, RefuseSheddablePlus, StopAccepting}
)

// builtin returns the sources that the options do not leave out.
func (o *Options) builtin() (all []Source) {
	add := func(on bool, name string, read func() (float64, error), relief []Action) {
		if on {
			all = append(all, Source{name, read, relief})
		}
	}
	add(o.Memory >= 0, sourceMemory, newMemory(o.Memory).read, nil)
	add(o.Descriptors >= 0, sourceDescriptors, func() (float64, error) { return descriptors(o.Descriptors) }, ofConns)
	add(o.Processors >= 0, sourceCPU, newCPU(o.Processors).read, ofRequests)
	add(o.Lag >= 0, sourceLag, newLag(o.Servers, o.Lag).read, ofLoops)
	add(o.QueueAge >= 0, sourceQueueAge, newAges(o.Pools, o.QueueAge).read, ofRequests)
	return all
}

// memory compares what the program uses with what it may use.
type memory struct {
	limit   uint64
	goal    bool // the heap may grow to its goal before Go collects, because Go does not know the limit
	samples []metrics.Sample
	cycles  uint64 // of the collector, at the last look
	quiet   int    // looks since it has run
	collect func()
}

const (
	// collectFrom is the pressure from which on the program collects by itself.
	collectFrom = 0.70
	// collectAfter is the looks without a collection after which it does.
	collectAfter = int(hold / every)
)

// newMemory takes the limit of the options, 0 for the least of those that are known.
func newMemory(limit int) *memory {
	m := &memory{limit: uint64(max(limit, 0)), goal: true, collect: runtime.GC}
	if limit == 0 {
		least := allowance.Files(os.ReadFile).Least(debug.SetMemoryLimit(-1), allowance.Total)
		m.limit, m.goal = least.Bytes, least.Source != allowance.GoLimit
	}
	for _, name := range []string{"/gc/heap/live:bytes", "/gc/heap/goal:bytes", "/gc/cycles/total:gc-cycles", "/memory/classes/total:bytes",
		"/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes", "/memory/classes/heap/unused:bytes", "/memory/classes/heap/released:bytes"} {
		m.samples = append(m.samples, metrics.Sample{Name: name})
	}
	return m
}

// read counts what a collection leaves, and where Go does not know the limit what the heap grows to until the next one. Without
// work Go collects every two minutes only, and the numbers stay. So the program collects by itself while the pressure is high.
func (m *memory) read() (float64, error) {
	if m.limit == allowance.Unlimited {
		return 0, fmt.Errorf("the limit is not known: set GOMEMLIMIT or Options.Memory")
	}
	metrics.Read(m.samples)
	var v [8]uint64
	for i, s := range m.samples {
		if s.Value.Kind() != metrics.KindUint64 {
			return 0, fmt.Errorf("the runtime does not tell %s", s.Name)
		}
		v[i] = s.Value.Uint64()
	}
	used := v[0]
	switch {
	case m.goal && v[1] > math.MaxInt64: // GOGC=off
		used = v[4]
	case m.goal:
		used = max(used, v[1])
	}
	pressure := (float64(used) + float64(v[3]) - float64(v[4]) - float64(v[5]) - float64(v[6]) - float64(v[7])) / float64(m.limit)
	if m.stale(v[2]) && pressure >= collectFrom {
		m.collect()
	}
	return pressure, nil
}

// stale reports whether the collector has not run for a while. cycles is how often it has.
func (m *memory) stale(cycles uint64) bool {
	if m.quiet++; cycles != m.cycles {
		m.cycles, m.quiet = cycles, 0
	}
	return m.quiet >= collectAfter
}

// cpu compares the time that the process has used in the last second with what its processors have.
type cpu struct {
	processors float64
	now        func() time.Time
	used       func() (time.Duration, error)
	kept       []cpuSample // oldest first
}

type cpuSample struct {
	at   time.Time
	used time.Duration
}

// cpuSamples are those of a second.
const cpuSamples = int(time.Second/every) + 1

func newCPU(processors float64) *cpu {
	if processors == 0 {
		processors = float64(runtime.GOMAXPROCS(0))
		if quota, _ := allowance.Files(os.ReadFile).Processors(); quota > 0 {
			processors = min(processors, quota)
		}
	}
	return &cpu{processors: processors, now: time.Now, used: processTime}
}

func (c *cpu) read() (float64, error) {
	used, err := c.used()
	if err != nil {
		return 0, err
	}
	s := cpuSample{c.now(), used}
	if len(c.kept) == cpuSamples {
		c.kept = append(c.kept[:0], c.kept[1:]...)
	}
	c.kept = append(c.kept, s)
	first := c.kept[0]
	if len(c.kept) < cpuSamples || !s.at.After(first.at) {
		return 0, nil // a shorter time says little
	}
	return (s.used - first.used).Seconds() / s.at.Sub(first.at).Seconds() / c.processors, nil
}

// lag measures how long tasks wait for the loops of servers.
type lag struct {
	servers []*eddy.Server
	target  time.Duration
	now     func() time.Time
	probes  map[*eddy.Loop]*probe
}

// probe is a task on its way to a loop.
type probe struct {
	sent   time.Time
	waited atomic.Int64 // ns; 0 = the loop has not come to it
	last   time.Duration
}

func newLag(servers []*eddy.Server, target time.Duration) *lag {
	if target == 0 {
		target = defaultLag
	}
	return &lag{servers: servers, target: target, now: time.Now, probes: make(map[*eddy.Loop]*probe)}
}

// read returns the pressure of the slowest loop. Of two looks in a row the shorter lag counts, so that a single hiccup is no overload.
func (g *lag) read() (float64, error) {
	now, worst := g.now(), time.Duration(0)
	seen := make(map[*eddy.Loop]bool)
	for _, s := range g.servers {
		if s.Draining() {
			continue
		}
		for _, l := range s.Workers() {
			if !seen[l] {
				seen[l] = true
				worst = max(worst, g.probe(l, now))
			}
		}
	}
	for l := range g.probes {
		if !seen[l] {
			delete(g.probes, l)
		}
	}
	return float64(worst) / float64(g.target), nil
}

// probe returns the lag of a loop and sends the next task when the last one is back. A loop without room for it lags, too: the last
// task counts on.
func (g *lag) probe(l *eddy.Loop, now time.Time) time.Duration {
	p := g.probes[l]
	if p == nil {
		p = new(probe)
		g.probes[l] = p
	}
	waited := time.Duration(p.waited.Load())
	back := waited > 0 || p.sent.IsZero()
	if !back {
		waited = now.Sub(p.sent)
	}
	lag := min(waited, p.last)
	p.last = waited
	if !back {
		return lag
	}
	next := &probe{sent: now, last: p.last}
	if l.Post(func() { next.waited.Store(max(1, int64(g.now().Sub(next.sent)))) }) == nil {
		g.probes[l] = next
	}
	return lag
}

// ages measures how long the oldest work of pools has waited.
type ages struct {
	queues []queue
	target time.Duration
	now    func() time.Time
}

// queue is what is known of a pool's queue: when how many runners had been submitted.
type queue struct {
	pool interface{ Stats() executor.Stats }
	kept []submission // oldest first
}

type submission struct {
	at time.Time
	n  uint64
}

// keptSubmissions bounds them, and so the longest age that is told apart.
const keptSubmissions = 64

func newAges(pools []*executor.Pool, target time.Duration) *ages {
	if target == 0 {
		target = defaultQueueAge
	}
	a := &ages{target: target, now: time.Now}
	for _, p := range pools {
		a.queues = append(a.queues, queue{pool: p})
	}
	return a
}

func (a *ages) read() (float64, error) {
	now, worst := a.now(), time.Duration(0)
	for i := range a.queues {
		worst = max(worst, a.queues[i].age(now))
	}
	return float64(worst) / float64(a.target), nil
}

// age returns how long the oldest runner has waited at least. Runners are taken in the order of submission, so it is the one that was
// submitted after those that have been taken.
func (q *queue) age(now time.Time) time.Duration {
	st := q.pool.Stats()
	if len(q.kept) == keptSubmissions {
		q.kept = append(q.kept[:0], q.kept[1:]...)
	}
	q.kept = append(q.kept, submission{now, st.Submitted})
	if st.Queued <= 0 {
		return 0
	}
	taken := st.Submitted - min(st.Submitted, uint64(min(st.Queued, math.MaxInt32)))
	for _, s := range q.kept {
		if s.n > taken {
			return now.Sub(s.at)
		}
	}
	return 0
}
