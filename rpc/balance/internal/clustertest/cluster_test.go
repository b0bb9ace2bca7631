// Package clustertest has the tests of package balance in simulated clusters. They use one goroutine, so that the race detector would only slow them down.
package clustertest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/cluster"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// simPicker is a balance.Balancer in a simulated cluster.
type simPicker struct {
	b     *balance.Balancer
	nodes []*balance.Node
}

// simulated returns the Pickers of clients with these options, in turn in each of the zones.
func simulated(t testing.TB, c *cluster.Config, o balance.Options) func(int, func() time.Duration) cluster.Picker {
	return func(client int, now func() time.Duration) cluster.Picker {
		o := o
		o.Now = func() int64 { return int64(now()) }
		o.Wall = func() time.Time { return time.Unix(0, int64(now())) }
		o.Rand = rand.New(rand.NewPCG(c.Seed, uint64(client)+1)).Uint64
		if o.Zone != "" {
			o.Zone = fmt.Sprint("zone ", client%c.Zones)
		}
		b, err := balance.New(o)
		if err != nil {
			t.Fatal(err)
		}
		p := &simPicker{b: b, nodes: make([]*balance.Node, len(c.Servers))}
		list := make([]discovery.Instance, len(c.Servers))
		for i := range list {
			list[i] = discovery.Instance{Addr: fmt.Sprintf("s%04d:1", i), Zone: fmt.Sprint("zone ", c.Servers[i].Zone)}
		}
		b.Update(list, func(n *balance.Node) {
			i := 0
			if _, err := fmt.Sscanf(n.Instance.Addr, "s%d", &i); err != nil {
				t.Error(err)
			}
			n.Value, p.nodes[i] = i, n
		})
		for range o.Rand() % uint64(len(list)) { // clients do not begin at the same place
			b.Pick(0, nil)
		}
		return p
	}
}

func (p *simPicker) Pick(tried []int) int {
	var nodes []*balance.Node
	for _, i := range tried {
		nodes = append(nodes, p.nodes[i])
	}
	n := p.b.Pick(0, nodes)
	if n == nil {
		return -1
	}
	n.Begin()
	return n.Value.(int)
}

func (p *simPicker) Done(server int, latency time.Duration, o cluster.Outcome, _ cluster.Load) {
	n := p.nodes[server]
	n.End()
	n.Observe(latency, map[cluster.Outcome]balance.Outcome{cluster.OK: balance.Succeeded, cluster.Failed: balance.Failed, cluster.Refused: balance.Refused}[o])
}

func (p *simPicker) SetUp(server int, up bool) { p.nodes[server].SetUp(up) }

// bigCluster has a thousand servers, which twenty clients keep busy to a share of their time.
func bigCluster(seed uint64, load float64) cluster.Config {
	c := cluster.Config{
		Seed: seed, Servers: make([]cluster.Server, 1000), Clients: 20, Length: 12 * time.Second, Service: 20 * time.Millisecond, Rate: load * 50_000,
		Queue: 500 * time.Millisecond, Refusal: 0.1, Near: time.Millisecond, Far: time.Millisecond, Zones: 1, Timeout: time.Second, Attempts: 1,
		Pause: 10 * time.Millisecond, Jitter: true,
	}
	for i := range c.Servers {
		c.Servers[i].Speed = 1
	}
	return c
}

// surviving adds attempts within a budget.
func surviving(t testing.TB, c *cluster.Config) {
	c.Attempts = 3
	c.Budget = func() cluster.Budget {
		b, err := balance.NewBudget(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// TestOneDead: one of a thousand servers answers nothing. A second later at most one call in a thousand fails; without ejection and attempts as many fail
// as meet it.
func TestOneDead(t *testing.T) {
	for _, p := range []balance.Policy{balance.RoundRobin, balance.LeastRequests, balance.PeakEWMA} {
		c := bigCluster(uint64(p)+1, 0.3)
		c.Causes = []cluster.Cause{{At: 2 * time.Second, Do: func(r *cluster.Run) { r.Servers[7].Dead = true }}}
		c.Picker = simulated(t, &c, balance.Options{Policy: p})
		plain := cluster.Simulate(c).ErrorRate(3, 12)
		surviving(t, &c)
		c.Picker = simulated(t, &c, balance.Options{Policy: p, Eject: balance.Ejection{Trip: balance.Trip{Failures: 3}}})
		r := cluster.Simulate(c)
		t.Logf("%v: %.5f %% fail, without anything %.5f %%; %.3f attempts for each call", p, 100*r.ErrorRate(3, 12), 100*plain, r.Amplification(3, 12))
		if r.ErrorRate(3, 12) > 0.0001 || r.Amplification(3, 12) > 1.1 {
			t.Errorf("%v: %v fail, %v attempts for each call", p, r.ErrorRate(3, 12), r.Amplification(3, 12))
		}
		if p == balance.RoundRobin && plain < 0.0005 {
			t.Errorf("a dead server does no harm: %v fail", plain)
		}
	}
}

// bad makes some servers slow, lying, flapping and restarting.
func bad(c *cluster.Config) {
	for i := range c.Servers {
		s := &c.Servers[i]
		switch {
		case i%50 == 1:
			s.Speed = 0.2
		case i%100 == 2:
			s.Lies = true
		case i%100 == 3: // flapping
			for at := time.Duration(i) * time.Millisecond; at < c.Length; at += 2 * time.Second {
				c.Causes = append(c.Causes, cluster.Cause{At: at, Do: func(r *cluster.Run) { r.Down(i) }}, cluster.Cause{At: at + time.Second, Do: func(r *cluster.Run) { r.Up(i) }})
			}
		case i%100 == 4: // restarting, one after the other
			at := time.Duration(i) * 10 * time.Millisecond
			c.Causes = append(c.Causes, cluster.Cause{At: at, Do: func(r *cluster.Run) { r.Down(i) }}, cluster.Cause{At: at + 3*time.Second, Do: func(r *cluster.Run) { r.Up(i) }})
		}
	}
}

// TestBadServers: in a cluster with slow, lying, flapping and restarting servers, calls fail seldom and are fast with everything switched on.
func TestBadServers(t *testing.T) {
	c := bigCluster(3, 0.5)
	bad(&c)
	c.Picker = simulated(t, &c, balance.Options{})
	plain := cluster.Simulate(c)
	surviving(t, &c)
	for _, p := range []balance.Policy{balance.LeastRequests, balance.PeakEWMA} {
		c.Picker = simulated(t, &c, balance.Options{Policy: p, Eject: balance.Ejection{Trip: balance.Trip{Failures: 3}}})
		r := cluster.Simulate(c)
		deviation, most := r.Spread()
		t.Logf("%v: %.3f %% fail, p99 %v, spread %.3f, most %.2f; plain turns: %.3f %% fail, p99 %v", p, 100*r.ErrorRate(2, 12), r.Quantile(0.99), deviation, most,
			100*plain.ErrorRate(2, 12), plain.Quantile(0.99))
		if r.ErrorRate(2, 12) > 0.001 || p == balance.PeakEWMA && r.Quantile(0.99) > plain.Quantile(0.99) || r.Amplification(2, 12) > 1.1 {
			t.Errorf("%v: %v fail, p99 %v, %v attempts", p, r.ErrorRate(2, 12), r.Quantile(0.99), r.Amplification(2, 12))
		}
		if plain.ErrorRate(2, 12) < 0.005 {
			t.Errorf("bad servers do no harm: %v fail", plain.ErrorRate(2, 12))
		}
	}
}

// TestRegions: calls stay in the own region while it is well. When most of it is gone they go to others, and the region that is left is not overrun.
func TestRegions(t *testing.T) {
	c := bigCluster(4, 0.5)
	c.Zones, c.Far = 3, 60*time.Millisecond
	for i := range c.Servers {
		c.Servers[i].Zone = i % 3
	}
	surviving(t, &c)
	c.Picker = simulated(t, &c, balance.Options{Policy: balance.PeakEWMA, Zone: "own", Eject: balance.Ejection{Trip: balance.Trip{Failures: 3}}})
	r := cluster.Simulate(c)
	if near := r.Quantile(0.5); near > 30*time.Millisecond || r.ErrorRate(1, 12) > 0.0001 {
		t.Errorf("all is well: half of the calls take %v, %v fail", near, r.ErrorRate(1, 12))
	}
	c.Causes = []cluster.Cause{{At: 3 * time.Second, Do: func(r *cluster.Run) {
		for i := range r.Servers {
			if i%3 == 0 && i%10 != 0 {
				r.Down(i)
			}
		}
	}}}
	r = cluster.Simulate(c)
	if r.ErrorRate(5, 12) > 0.001 || r.Quantile(0.99) > 500*time.Millisecond {
		t.Errorf("a region without most of its servers: %v fail, p99 %v", r.ErrorRate(5, 12), r.Quantile(0.99))
	}
}

// The causes of TestMetastable begin and end here.
const (
	causeFrom = 5 * time.Second
	causeTo   = 8 * time.Second
)

// metastable are clusters that a cause brings into a state that its end does not end, if clients make it worse.
func metastable(seed uint64) map[string]cluster.Config {
	small := func(load float64) cluster.Config {
		c := bigCluster(seed, load/10)
		c.Servers, c.Clients, c.Length = c.Servers[:100], 10, 20*time.Second
		c.Timeout, c.Refusal = 200*time.Millisecond, 0.5
		return c
	}
	speed := func(x float64) func(*cluster.Run) {
		return func(r *cluster.Run) {
			for i := range r.Servers {
				r.Servers[i].Speed = x
			}
		}
	}
	all := make(map[string]cluster.Config)
	storm := small(0.7)
	storm.Causes = []cluster.Cause{{At: causeFrom, Do: speed(0.3)}, {At: causeTo, Do: speed(1)}}
	all["retry storm"] = storm

	cold := small(0.45)
	cold.Queue, cold.Timeout = 300*time.Millisecond, 500*time.Millisecond
	cold.Cache = &cluster.Cache{Keys: 2000, Life: 20 * time.Second, Miss: 4, Hits: 0.95}
	cold.Causes = []cluster.Cause{{At: causeTo, Do: func(r *cluster.Run) { r.Cache.Hits = 0 }}}
	all["cold cache"] = cold

	together := small(0.7)
	together.Jitter, together.Pause = false, 50*time.Millisecond
	together.Causes = []cluster.Cause{{At: causeTo, Do: func(r *cluster.Run) { r.Burst(20_000) }}} // six seconds' worth at once
	all["synchronised clients"] = together
	return all
}

// TestMetastable: with the budget, the failure ends within five seconds of its cause's end; without it, with as many attempts, it does not.
func TestMetastable(t *testing.T) {
	const well = 0.02
	for seed := range uint64(2) {
		for what, c := range metastable(seed) {
			c.Picker = simulated(t, &c, balance.Options{Policy: balance.PeakEWMA, Eject: balance.Ejection{Trip: balance.Trip{Failures: 5, Open: time.Second, MaxOpen: time.Second}}})
			c.Attempts = 6
			without := cluster.Simulate(c)
			surviving(t, &c)
			c.Attempts, c.Jitter = without.Attempts, true
			with := cluster.Simulate(c)
			from := int((causeTo + 5*time.Second) / time.Second)
			t.Logf("%s, seed %d: with the budget %.4f of the calls fail before, %.3f during, %.4f five seconds after the cause; without it %.4f, %.3f and %.3f", what, seed,
				with.ErrorRate(1, 5), with.ErrorRate(5, 9), with.ErrorRate(from, 20), without.ErrorRate(1, 5), without.ErrorRate(5, 9), without.ErrorRate(from, 20))
			for s := from; s < 20; s++ {
				if e := with.ErrorRate(s, s+1); e > well {
					t.Errorf("%s, seed %d: %v of the calls fail %d s after the end of the cause", what, seed, e, s-int(causeTo/time.Second))
					break
				}
			}
			if with.ErrorRate(1, 5) > well || without.ErrorRate(1, 5) > well {
				t.Errorf("%s, seed %d: %v and %v fail before the cause", what, seed, with.ErrorRate(1, 5), without.ErrorRate(1, 5))
			}
			if e := without.ErrorRate(from, 20); e < 5*well {
				t.Errorf("%s, seed %d: without the budget it ends, too: %v fail", what, seed, e)
			}
		}
	}
}
