package cluster

import (
	"math"
	"slices"
	"testing"
	"time"
)

// turns is a Picker.
type turns struct{ n, next int }

func (p *turns) Pick(tried []int) int {
	for p.next++; slices.Contains(tried, p.next%p.n); p.next++ {
	}
	return p.next % p.n
}
func (p *turns) Done(int, time.Duration, Outcome, Load) {}
func (p *turns) SetUp(int, bool)                        {}

func simple(servers int) Config {
	c := Config{
		Seed: 1, Servers: make([]Server, servers), Clients: 1, Length: 20 * time.Second, Service: 10 * time.Millisecond, Queue: time.Second,
		Timeout: time.Second, Attempts: 1, Picker: func(int, func() time.Duration) Picker { return &turns{n: servers} },
	}
	for i := range c.Servers {
		c.Servers[i].Speed = 1
	}
	return c
}

// TestQueueing: a server with random arrivals is as slow as the theory of queues says (M/M/1: the mean is 1/(μ-λ)), and the same seed gives the same run.
func TestQueueing(t *testing.T) {
	c := simple(1)
	c.Length = 1000 * time.Second
	for _, load := range []float64{0.5, 0.8} {
		c.Rate = load * 100
		r := Simulate(c)
		var sum time.Duration
		for _, d := range r.Latency {
			sum += d
		}
		got, want := (sum / time.Duration(len(r.Latency))).Seconds(), 1/(100-c.Rate)
		if math.Abs(got-want) > 0.1*want {
			t.Errorf("load %v: %v s, want %v s", load, got, want)
		}
		if again := Simulate(c); again.Calls != r.Calls || again.Quantile(0.99) != r.Quantile(0.99) {
			t.Error("the same seed gives another run")
		}
	}
}

// TestTroubles: what is dead, down, lying or full fails, and another attempt helps.
func TestTroubles(t *testing.T) {
	for what, x := range map[string]struct {
		change func(*Config)
		rate   float64
	}{
		"dead":  {func(c *Config) { c.Servers[0].Dead = true }, 0.5},
		"lying": {func(c *Config) { c.Servers[0].Lies = true }, 0.5},
		"down":  {func(c *Config) { c.Causes = []Cause{{0, func(r *Run) { r.Down(0) }}} }, 0.5},
		"back": {func(c *Config) {
			c.Causes = []Cause{{0, func(r *Run) { r.Down(0) }}, {10 * time.Second, func(r *Run) { r.Up(0) }}}
		}, 0.25},
		"well": {func(*Config) {}, 0},
	} {
		c := simple(2)
		c.Rate = 10
		x.change(&c)
		r := Simulate(c)
		if got := r.ErrorRate(0, 20); math.Abs(got-x.rate) > 0.06 {
			t.Errorf("%s: %v fail, want %v", what, got, x.rate)
		}
		c.Attempts = 2
		if r = Simulate(c); r.ErrorRate(0, 20) > 0 || what != "well" && r.Amplification(0, 20) < 1.1 {
			t.Errorf("%s: %v fail with a second attempt, %v attempts", what, r.ErrorRate(0, 20), r.Amplification(0, 20))
		}
	}
	c := simple(1)
	c.Rate, c.Queue = 300, 100*time.Millisecond
	if r := Simulate(c); r.Ends[Refused] < r.Calls/2 || r.Quantile(1) > time.Second {
		t.Errorf("three times what it can do: %v of %d, %v", r.Ends, r.Calls, r.Quantile(1))
	}
}

// TestSpread: turns spread evenly, and what is not ordinary is left out.
func TestSpread(t *testing.T) {
	c := simple(10)
	c.Rate = 500
	c.Servers[0].Speed = 0.5
	if deviation, most := Simulate(c).Spread(); deviation > 0.1 || most > 1.2 {
		t.Errorf("%v, %v", deviation, most)
	}
}
