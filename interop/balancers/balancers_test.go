// Package balancers runs the balancers of grpc-go and kitex, by their own modules, in the simulated cluster of package internal/cluster beside those of
// rpc/balance.
package balancers

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/internal/cluster"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// eddyPicker is a Balancer of rpc/balance.
type eddyPicker struct {
	b     *balance.Balancer
	nodes []*balance.Node
}

func newEddy(t *testing.T, o balance.Options, servers int, seed uint64, now func() time.Duration) cluster.Picker {
	o.Now = func() int64 { return int64(now()) }
	o.Rand = rand.New(rand.NewPCG(seed, 1)).Uint64
	b, err := balance.New(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &eddyPicker{b, make([]*balance.Node, servers)}
	var list []discovery.Instance
	for i := range servers {
		list = append(list, discovery.Instance{Addr: addr(i)})
	}
	b.Update(list, func(n *balance.Node) {
		i := server(n.Instance.Addr)
		n.Value, p.nodes[i] = i, n
	})
	for range o.Rand() % uint64(servers) { // clients do not begin at the same place
		b.Pick(0, nil)
	}
	return p
}

// addr and server make an address of a server's number, and back.
func addr(server int) string { return fmt.Sprintf("10.0.%d.%d:1", server/250, server%250) }

func server(addr string) int {
	var a, b int
	if _, err := fmt.Sscanf(addr, "10.0.%d.%d:1", &a, &b); err != nil {
		panic(err)
	}
	return a*250 + b
}

func (p *eddyPicker) Pick([]int) int {
	n := p.b.Pick(0, nil)
	if n == nil {
		return -1
	}
	n.Begin()
	return n.Value.(int)
}

func (p *eddyPicker) Done(server int, latency time.Duration, o cluster.Outcome, _ cluster.Load) {
	p.nodes[server].End()
	p.nodes[server].Observe(latency, map[cluster.Outcome]balance.Outcome{cluster.OK: balance.Succeeded, cluster.Failed: balance.Failed, cluster.Refused: balance.Refused}[o])
}

func (p *eddyPicker) SetUp(server int, up bool) { p.nodes[server].SetUp(up) }

// scenarios are clusters of a thousand servers at half of their load.
func scenarios() map[string]cluster.Config {
	all := map[string]cluster.Config{}
	for _, what := range []string{"all alike", "some slow", "bad servers"} {
		c := cluster.Config{
			Seed: 1, Servers: make([]cluster.Server, 1000), Clients: 20, Length: 10 * time.Second, Service: 20 * time.Millisecond, Rate: 25_000,
			Queue: 500 * time.Millisecond, Refusal: 0.1, Near: time.Millisecond, Far: time.Millisecond, Zones: 1, Timeout: time.Second, Attempts: 1,
			Advance: time.Sleep,
		}
		for i := range c.Servers {
			s := &c.Servers[i]
			s.Speed = 1
			switch {
			case what != "all alike" && i%20 == 1:
				s.Speed = 0.4
			case what == "bad servers" && i%100 == 2:
				s.Lies = true
			case what == "bad servers" && i%100 == 3:
				for at := time.Duration(i) * time.Millisecond; at < c.Length; at += 2 * time.Second {
					c.Causes = append(c.Causes, cluster.Cause{At: at, Do: func(r *cluster.Run) { r.Down(i) }}, cluster.Cause{At: at + time.Second, Do: func(r *cluster.Run) { r.Up(i) }})
				}
			}
		}
		all[what] = c
	}
	return all
}

// result is what is compared.
type result struct {
	p50, p99        time.Duration
	deviation, most float64
	failed          float64
}

func (r result) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, work of ordinary servers: deviation %.3f, most %.2f; %.3f %% fail", r.p50.Round(time.Millisecond), r.p99.Round(time.Millisecond), r.deviation, r.most, 100*r.failed)
}

// TestBalancers: with the same calls on the same servers, rpc/balance is not worse than the others' balancers. Its turns and its least requests are
// compared with the same kind, and PeakEWMA's p99 and failures with all. Where all servers are alike the load spread is compared, too; elsewhere whoever
// leaves bad servers out has to load the ordinary ones more.
func TestBalancers(t *testing.T) {
	eject := balance.Ejection{Trip: balance.Trip{Failures: 5}}
	pickers := map[string]func(t *testing.T, n, client int, now func() time.Duration) cluster.Picker{
		"eddy round robin": func(t *testing.T, n, client int, now func() time.Duration) cluster.Picker {
			return newEddy(t, balance.Options{Eject: eject}, n, uint64(client), now)
		},
		"eddy least requests": func(t *testing.T, n, client int, now func() time.Duration) cluster.Picker {
			return newEddy(t, balance.Options{Policy: balance.LeastRequests, Eject: eject}, n, uint64(client), now)
		},
		"eddy peak ewma": func(t *testing.T, n, client int, now func() time.Duration) cluster.Picker {
			return newEddy(t, balance.Options{Policy: balance.PeakEWMA, Eject: eject}, n, uint64(client), now)
		},
	}
	for name, make := range theirs {
		pickers[name] = func(t *testing.T, n, _ int, _ func() time.Duration) cluster.Picker { return make(t, n) }
	}
	for what, c := range scenarios() {
		t.Run(what, func(t *testing.T) {
			results := map[string]result{}
			for name, make := range pickers {
				synctest.Test(t, func(t *testing.T) {
					c := c
					var all []cluster.Picker
					c.Picker = func(client int, now func() time.Duration) cluster.Picker {
						all = append(all, make(t, len(c.Servers), client, now))
						return all[client]
					}
					r := cluster.Simulate(c)
					for _, p := range all {
						if closer, ok := p.(interface{ close() }); ok {
							closer.close()
						}
					}
					res := result{p50: r.Quantile(0.5), p99: r.Quantile(0.99), failed: r.ErrorRate(1, 10)}
					res.deviation, res.most = r.Spread()
					results[name] = res
				})
				t.Logf("%-32s %v", name, results[name])
			}
			compare(t, results, what == "all alike")
		})
	}
}

// margin is what chance may do.
const (
	margin = 1.08
	few    = 0.0001 // of the calls
)

func compare(t *testing.T, results map[string]result, spread bool) {
	for ours, others := range map[string][]string{
		"eddy round robin":    {"grpc-go round_robin", "kitex weighted round robin", "kitex weighted random"},
		"eddy least requests": {"grpc-go least_request"},
	} {
		o := results[ours]
		for _, name := range others {
			x := results[name]
			if float64(o.p99) > margin*float64(x.p99) || spread && o.deviation > margin*x.deviation || o.failed > margin*x.failed+few {
				t.Errorf("%s is worse than %s", ours, name)
			}
		}
	}
	o := results["eddy peak ewma"]
	for name := range theirs {
		if x := results[name]; float64(o.p99) > margin*float64(x.p99) || spread && name != "grpc-go weighted_round_robin" && o.deviation > margin*x.deviation || o.failed > margin*x.failed+few {
			t.Errorf("eddy peak ewma is worse than %s", name)
		}
	}
}
