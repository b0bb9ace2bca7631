package virtual

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/rpc/balance"
)

const second = time.Second

var servers = flag.Int("servers", 300, "how many servers TestOneDead has")

// holds fails the test if more than a share of the calls in a time failed, or more than a tenth as many attempts were made as calls.
func (c *cluster) holds(t *testing.T, what string, from, to time.Duration, most float64) {
	t.Helper()
	rate := c.errorRate(from, to)
	report := fmt.Sprintf("%s: %.5f of %d calls fail from %v to %v, p50 %v, p99 %v; %.3f attempts for each call of all; why any failed: %v", what, rate, len(c.between(from, to)),
		from, to, c.quantile(0.5, from, to).Round(time.Millisecond), c.quantile(0.99, from, to).Round(time.Millisecond), c.amplification(), c.failures())
	if rate > most || c.amplification() > 1.1 || len(c.between(from, to)) == 0 {
		t.Errorf("%s, want %v", report, most)
	} else {
		t.Log(report)
	}
}

// defenceless takes from clients what lets calls survive.
func (s setup) defenceless() setup {
	s.options.Balance, s.options.Attempts, s.options.Heartbeat, s.options.Health = balance.Options{}, balance.Attempts{}, -1, 0
	return s
}

// protocols runs f for calls by each protocol.
func protocols(t *testing.T, f func(t *testing.T, protocol string)) {
	for _, protocol := range []string{"frame", "grpc", "http"} {
		t.Run(protocol, func(t *testing.T) { f(t, protocol) })
	}
}

// TestAllIsWell: calls take as long as the work and the way there and back, none fails, and none is made twice.
func TestAllIsWell(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		policies := []balance.Policy{balance.PeakEWMA}
		if protocol == "frame" { // they are the same for all
			policies = append(policies, balance.RoundRobin, balance.Weighted, balance.LeastRequests)
		}
		for _, p := range policies {
			s := ordinary(50, 0.3)
			s.length, s.protocol, s.options.Balance.Policy = 6*second, protocol, p
			c := play(t, s)
			c.holds(t, p.String(), 0, s.length, 0)
			most := 1.0
			if protocol == "http" {
				most = 1.03 // late calls are made a second time
			}
			if d := c.quantile(0.5, 0, s.length); d < 50*time.Millisecond || d > 150*time.Millisecond || c.amplification() > most {
				t.Errorf("%v: half of the calls take %v, %v attempts for each", p, d, c.amplification())
			}
		}
	})
}

// TestOneDead: one of many servers answers nothing. A second later at most one call in a thousand fails.
func TestOneDead(t *testing.T) {
	s := ordinary(*servers, 0.1)
	s.clients = 1
	s.at = []cause{{2 * second, func(c *cluster) { c.servers[7].machine.Cut() }}}
	play(t, s).holds(t, "one dead", 3*second, s.length, 0.001)
	plain := play(t, s.defenceless()).errorRate(3*second, s.length)
	if t.Logf("without defence %.5f", plain); plain < 0.5/float64(s.servers) {
		t.Errorf("a dead server does no harm: %v fail", plain)
	}
}

// TestBadServers: in a cluster with slow, lying, flapping and restarting servers, calls fail seldom.
func TestBadServers(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := ordinary(100, 0.3)
		s.protocol = protocol
		for i := range s.servers {
			on := func(f func(*server)) func(*cluster) { return func(c *cluster) { f(c.servers[i]) } }
			switch i % 50 {
			case 1:
				s.at = append(s.at, cause{0, on(func(v *server) { v.slow.Store(5) })})
			case 2:
				s.at = append(s.at, cause{second, on(func(v *server) { v.lies.Store(true) })})
			case 3: // flapping
				for at := time.Duration(i) * time.Millisecond; at < s.length-second; at += 2 * second {
					s.at = append(s.at, cause{at, on((*server).kill)}, cause{at + second, on((*server).restart)})
				}
			case 4: // restarting, one after the other
				at := 2*second + time.Duration(i)*10*time.Millisecond
				s.at = append(s.at, cause{at, on((*server).drain)}, cause{at + 3*second, on((*server).restart)})
			}
		}
		play(t, s).holds(t, "bad servers", 2*second, s.length, 0.01)
		if protocol != "frame" { // the same servers
			return
		}
		plain := play(t, s.defenceless()).errorRate(2*second, s.length)
		if t.Logf("without defence %.5f", plain); plain < 0.015 {
			t.Errorf("bad servers do no harm: %v fail", plain)
		}
	})
}

// TestRegions: calls stay in the own region while it is well. When most of it is gone they go to others.
func TestRegions(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := ordinary(90, 0.3)
		s.zones, s.clients, s.far, s.protocol = 3, 3, 60*time.Millisecond, protocol
		s.options.Balance.Zone = "own"
		s.at = []cause{{4 * second, func(c *cluster) {
			for i, v := range c.servers {
				if v.zone == 0 && i%10 != 0 {
					v.machine.Cut()
				}
			}
		}}}
		c := play(t, s)
		c.holds(t, "all is well", 0, 2*second, 0)
		if d := c.quantile(0.5, 0, 2*second); d > 100*time.Millisecond { // 120 ms are on the way to another region and back
			t.Errorf("all is well: half of the calls take %v", d)
		}
		most := 0.001
		if protocol == "http" {
			most = 0.01 // a server that was taken out is tried again by a call
		}
		c.holds(t, "most of a region is gone", 8*second, s.length, most)
	})
}

// TestRollingRestart: every server is restarted in order, a tenth of them at once, and no call fails.
func TestRollingRestart(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := ordinary(40, 0.3)
		s.protocol = protocol
		for i := range s.servers {
			at := second + time.Duration(i/4)*second
			s.at = append(s.at, cause{at, func(c *cluster) {
				c.servers[i].drain()
				c.servers[i].restart()
			}})
		}
		play(t, s).holds(t, "rolling restart", 0, s.length, 0)
	})
}

// TestMaxAge: connections by HTTP/2 end after a second, and no call fails.
func TestMaxAge(t *testing.T) {
	s := ordinary(20, 0.3)
	s.protocol, s.maxAge = "grpc", second
	play(t, s).holds(t, "connections end", 0, s.length, 0)
}

// TestUnreachable: a client of gRPC that is told nothing, and that ejects nobody, meets a server to which there is no connection once, and calls it again when it
// is back. Calls that were under way when it went end by their deadline.
func TestUnreachable(t *testing.T) {
	s := ordinary(10, 0.2).defenceless()
	s.protocol, s.length, s.options.Heartbeat = "grpc", 30*second, second
	var before int64
	s.at = []cause{
		{2 * second, func(c *cluster) { c.servers[3].machine.Cut() }},
		{15 * second, func(c *cluster) {
			c.servers[3].machine.Heal()
			before = c.servers[3].asked.Load()
		}},
	}
	c := play(t, s)
	c.holds(t, "a server is gone", 8*second, s.length, 0)
	if n := c.servers[3].asked.Load() - before; n == 0 {
		t.Error("the server that is back has no calls")
	}
	if n := c.failures()["OK no deadline exceeded"]; n == 0 || n > 20 {
		t.Errorf("%d calls found no connection, want a few, which were certainly not executed", n)
	}
}

// TestNotServing: half of the servers say for four seconds that they do not serve. Two seconds later they have no calls, and two seconds after they say that they
// do they have. No call fails.
func TestNotServing(t *testing.T) {
	for _, protocol := range []string{"frame", "grpc"} {
		t.Run(protocol, func(t *testing.T) {
			s := ordinary(20, 0.2)
			s.protocol = protocol
			half := func(serving bool) func(*cluster) {
				return func(c *cluster) {
					for _, v := range c.servers[:10] {
						v.serve(serving)
					}
				}
			}
			var asked []int64
			look := func(c *cluster) {
				n := int64(0)
				for _, v := range c.servers[:10] {
					n += v.asked.Load()
				}
				asked = append(asked, n)
			}
			s.at = []cause{{2 * second, half(false)}, {4 * second, look}, {6 * second, look}, {6*second + 1, half(true)}, {8 * second, look}, {10 * second, look}}
			c := play(t, s)
			c.holds(t, "half do not serve", 0, s.length, 0)
			if asked[0] != asked[1] || asked[2] == asked[3] {
				t.Errorf("half had %d calls when they had said that they do not serve, and %d later; %d when they did again, and %d later", asked[0], asked[1], asked[2], asked[3])
			}
		})
	}
}

// TestClosed: a client is closed while its calls wait for answers, some from servers that are cut off. They end at once, and so does each that follows; those
// of another client go on.
func TestClosed(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := ordinary(20, 0.3)
		s.clients, s.protocol, s.length = 2, protocol, 6*second
		const at = 4 * second
		s.at = []cause{
			{at - second/2, func(c *cluster) {
				for _, v := range c.servers[:5] {
					v.machine.Cut()
				}
			}},
			{at, func(c *cluster) {
				if err := c.clients[0].abort(); err != nil {
					c.t.Error(err)
				}
			}},
		}
		c := play(t, s)
		atOnce := time.Duration(0)
		if protocol == "http" {
			atOnce = 100 * time.Millisecond // the error of the connections' owner is one that is tried again
		}
		inFlight, later, others := 0, 0, 0
		for _, e := range c.ended {
			switch {
			case e.client != c.clients[0]:
				if e.began > at && e.err == nil {
					others++
				}
			case e.began < at && e.began+e.took >= at:
				if inFlight++; e.err == nil || e.began+e.took > at+atOnce {
					t.Errorf("a call in flight ended %v later with %v", e.began+e.took-at, e.err)
				}
			case e.began >= at:
				if later++; e.err == nil || e.took > atOnce {
					t.Errorf("a call after the end took %v and ended with %v", e.took, e.err)
				}
			}
		}
		if inFlight == 0 || later == 0 || others == 0 {
			t.Errorf("%d calls were in flight, %d came later, %d of the other client went well", inFlight, later, others)
		}
	})
}

// TestPartition: for three seconds clients reach only half of the servers. Two seconds later no call fails, and all servers have calls.
func TestPartition(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := ordinary(40, 0.2)
		s.protocol, s.options.Balance.Decay = protocol, second // so that PeakEWMA forgets the partition soon
		half := func(f func(*server)) func(*cluster) {
			return func(c *cluster) {
				for _, v := range c.servers[:20] {
					f(v)
				}
			}
		}
		asked := func(c *cluster) (n [2]int64) {
			for i, v := range c.servers {
				n[i/20] += v.asked.Load()
			}
			return n
		}
		var before [2]int64
		s.at = []cause{
			{3 * second, half(func(v *server) { v.machine.Cut() })},
			{6 * second, half(func(v *server) { v.machine.Heal() })},
			{8 * second, func(c *cluster) { before = asked(c) }},
		}
		c := play(t, s)
		if e := c.errorRate(3*second, 6*second); e < 0.05 {
			t.Errorf("the partition does no harm: %v fail", e)
		}
		c.holds(t, "after the partition", 8*second, s.length, 0)
		after := asked(c)
		if a, b := after[0]-before[0], after[1]-before[1]; a < b/4 {
			t.Errorf("the servers that were away have %d calls, the others %d", a, b)
		}
	})
}

// TestClientCut: the only client is off the network for five seconds. A second after it is back no call fails.
func TestClientCut(t *testing.T) {
	protocols(t, func(t *testing.T, protocol string) {
		s := ordinary(20, 0.2)
		s.clients, s.protocol = 1, protocol
		s.at = []cause{
			{3 * second, func(c *cluster) { c.clients[0].machine.Cut() }},
			{8 * second, func(c *cluster) { c.clients[0].machine.Heal() }},
		}
		c := play(t, s)
		if e := c.errorRate(3*second, 8*second); e < 0.5 {
			t.Errorf("the cut does no harm: %v fail", e)
		}
		c.holds(t, "after the cut", 9*second, s.length, 0)
	})
}

// TestMetastable: a cause that brings a cluster into overload, where users call again at once as often as they like, ends with it: three seconds later all is
// as before. With a fixed number of workers the queues last for longer.
func TestMetastable(t *testing.T) {
	const from, to = 4 * second, 7 * second
	base := func(load float64) setup {
		s := ordinary(10, load)
		s.length, s.workers, s.queue, s.adaptive, s.patience, s.options.Timeout = 16*second, 8, 100, true, 6, second
		return s
	}
	storm := base(0.7)
	storm.at = []cause{{from, func(c *cluster) { c.speed.Store(300) }}, {to, func(c *cluster) { c.speed.Store(1000) }}}
	cold := base(0.45)
	cold.cold = 40
	cold.at = []cause{{to, func(c *cluster) {
		for _, v := range c.servers {
			v.forget()
		}
	}}}
	together := base(0.7)
	together.at = []cause{{to, func(c *cluster) { c.burst(3000) }}} // five seconds' worth
	for what, s := range map[string]setup{"retry storm": storm, "cold caches": cold, "synchronised clients": together} {
		t.Run(what, func(t *testing.T) {
			c := play(t, s)
			before, during := c.quantile(0.5, 3*second, 4*second), max(c.quantile(0.5, to-second, to), c.quantile(0.5, to, to+second/2))
			t.Logf("half of the calls take %v, then %v, of which %.3f fail", before, during, c.errorRate(from, to+second))
			if during < before*3/2 {
				t.Errorf("the cause does no harm: half of the calls take %v, before %v", during, before)
			}
			for at := to + 3*second; at < s.length; at += second {
				if d, e := c.quantile(0.5, at, at+second), c.errorRate(at, at+second); d > 2*before || e > 0.01 {
					t.Errorf("%v after the end of the cause half of the calls take %v, before %v; %v fail", at-to, d, before, e)
				}
			}
		})
	}
}
