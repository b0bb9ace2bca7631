package balance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
)

// rig is a Balancer whose clock and chance are the test's.
type rig struct {
	*Balancer
	t   *testing.T
	now int64
	day time.Time
}

func newRig(t *testing.T, o Options, instances ...discovery.Instance) *rig {
	t.Helper()
	r := &rig{t: t, day: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	random := rand.New(rand.NewPCG(1, 2))
	o.Now, o.Wall, o.Rand = func() int64 { return r.now }, func() time.Time { return r.day }, random.Uint64
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Balancer = b
	b.Update(instances, nil)
	return r
}

func (r *rig) pass(d time.Duration) {
	r.now += int64(d)
	r.day = r.day.Add(d)
}

// node returns the node of an address.
func (r *rig) node(addr string) *Node {
	r.t.Helper()
	for _, n := range r.Nodes() {
		if n.Instance.Addr == addr {
			return n
		}
	}
	r.t.Fatalf("no node %s", addr)
	return nil
}

// picks returns how often each address is picked in so many calls that end at once.
func (r *rig) picks(calls int, hash uint64) map[string]int {
	got := map[string]int{}
	for range calls {
		if n := r.Pick(hash, nil); n != nil {
			got[n.Instance.Addr]++
		} else {
			got["none"]++
		}
	}
	return got
}

// fail lets calls to an address fail.
func (r *rig) fail(addr string, calls int) {
	n := r.node(addr)
	for range calls {
		n.Observe(time.Millisecond, Failed)
	}
}

func servers(n int) []discovery.Instance {
	list := make([]discovery.Instance, n)
	for i := range list {
		list[i].Addr = fmt.Sprintf("s%04d:1", i)
	}
	return list
}

// TestRefusedOptions: an error names the option that makes no sense, and its value.
func TestRefusedOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"Policy is 9":       {Policy: 9},
		"Warmup is -1ns":    {Warmup: -1},
		"Decay -1ns":        {Decay: -1},
		"Bound is 0.5":      {Bound: 0.5},
		"Bound is NaN":      {Bound: math.NaN()},
		"SuccessRate is -1": {Eject: Ejection{SuccessRate: -1}},
		"Interval is -1ns":  {Eject: Ejection{Interval: -1}},
		"MaxShare is 2":     {Eject: Ejection{MaxShare: 2}},
		"Failures is -1":    {Eject: Ejection{Trip: Trip{Failures: -1}}},
		"Ratio is 2":        {Eject: Ejection{Trip: Trip{Ratio: 2}}},
		"Open -1ns":         {Eject: Ejection{Trip: Trip{Open: -1}}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for want, a := range map[string]Attempts{
		"Max is 11": {Max: 11}, "Pause is -1ns": {Pause: -1}, "Hedge -1ns": {Hedge: -1}, "HedgeAt is 1": {HedgeAt: 1}, "Breaker.Failures is -1": {Breaker: Trip{Failures: -1}},
	} {
		if err := a.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := NewBudget(-1, 0); err == nil || !strings.Contains(err.Error(), "Budget is -1") {
		t.Error(err)
	}
	if _, err := NewBreaker(Trip{Window: -1}); err == nil {
		t.Error("a negative window was taken")
	}
	if got := fmt.Sprint(RoundRobin, Weighted, LeastRequests, PeakEWMA, Hash, Policy(9)); got != "round robin weighted least requests peak ewma hash policy 9" {
		t.Error(got)
	}
}

// TestTurns: round robin is exact, and goes on where it was after an Update. Nodes that were tried are passed over.
func TestTurns(t *testing.T) {
	r := newRig(t, Options{}, servers(4)...)
	if got := r.picks(400, 0); got["s0000:1"] != 100 || got["s0003:1"] != 100 {
		t.Error(got)
	}
	tried := []*Node{r.node("s0000:1"), r.node("s0001:1"), r.node("s0002:1")}
	for range 8 {
		if n := r.Pick(0, tried); n.Instance.Addr != "s0003:1" {
			t.Error(n.Instance.Addr)
		}
	}
	if n := r.Pick(0, r.Nodes()); n == nil {
		t.Error("nothing is picked when all were tried")
	}
	if n := newRig(t, Options{}).Pick(0, nil); n != nil {
		t.Error("a node of none")
	}
}

// TestWeighted: shares follow the weights, and the turns of an instance are spread.
func TestWeighted(t *testing.T) {
	r := newRig(t, Options{Policy: Weighted}, discovery.Instance{Addr: "a:1", Weight: 300}, discovery.Instance{Addr: "b:1"}, discovery.Instance{Addr: "c:1", Weight: 50})
	got := r.picks(9000, 0)
	for addr, want := range map[string]int{"a:1": 6000, "b:1": 2000, "c:1": 1000} {
		if n := got[addr]; n < want*98/100 || n > want*102/100 {
			t.Errorf("%s: %d, want %d", addr, n, want)
		}
	}
	row, longest := 0, 0
	for range 900 {
		if r.Pick(0, nil).Instance.Addr == "a:1" {
			row++
		} else {
			longest, row = max(longest, row), 0
		}
	}
	if longest > 4 {
		t.Errorf("%d turns in a row", longest)
	}
}

// TestLeastRequests: the idle one is picked, by weight, among few and among many.
func TestLeastRequests(t *testing.T) {
	r := newRig(t, Options{Policy: LeastRequests}, discovery.Instance{Addr: "a:1"}, discovery.Instance{Addr: "b:1", Weight: 300})
	for range 400 {
		r.Pick(0, nil).Begin()
	}
	if a, b := r.node("a:1").InFlight(), r.node("b:1").InFlight(); a < 98 || a > 102 || a+b != 400 {
		t.Errorf("%d and %d", a, b)
	}
	r.node("b:1").End()
	if n := r.Pick(0, nil); n.Instance.Addr != "b:1" {
		t.Error(n.Instance.Addr)
	}
	r = newRig(t, Options{Policy: LeastRequests}, servers(1000)...)
	for range 10_000 {
		r.Pick(0, nil).Begin()
	}
	low, high := math.MaxInt, 0
	for _, n := range r.Nodes() {
		low, high = min(low, n.InFlight()), max(high, n.InFlight())
	}
	if low < 7 || high > 12 {
		t.Errorf("from %d to %d", low, high)
	}
}

// TestPeakEWMA: a slow instance and one that fails fast get few calls; what is not known yet gets one at a time; old news lose their weight.
func TestPeakEWMA(t *testing.T) {
	r := newRig(t, Options{Policy: PeakEWMA}, servers(20)...)
	serve := func(calls int) map[string]int {
		got := map[string]int{}
		for range calls {
			n := r.Pick(0, nil)
			got[n.Instance.Addr]++
			r.pass(time.Millisecond)
			switch n.Instance.Addr {
			case "s0000:1":
				n.Observe(100*time.Millisecond, Succeeded)
			case "s0001:1":
				n.Observe(time.Microsecond, Failed)
			default:
				n.Observe(5*time.Millisecond, Succeeded)
			}
		}
		return got
	}
	if got := serve(1000); got["s0000:1"] > 20 || got["s0001:1"] > 20 {
		t.Error(got)
	}
	r.pass(10 * time.Minute)
	if got := serve(1000); got["s0000:1"] == 0 {
		t.Error("a slow instance is never asked again", got)
	}
	r.Update(append(servers(20), discovery.Instance{Addr: "new:1"}), nil)
	for range 1000 {
		if n := r.Pick(0, nil); n.Instance.Addr == "new:1" {
			n.Begin()
		}
	}
	if n := r.node("new:1").InFlight(); n != 1 {
		t.Errorf("%d calls to an instance of which nothing is known", n)
	}
	n := r.node("s0003:1")
	before := n.lag.Load()
	n.Observe(time.Microsecond, Unknown)
	if n.lag.Load() != before {
		t.Error("a call that was given up early has made an instance faster")
	}
	if n.Observe(time.Second, Unknown); n.lag.Load() == before {
		t.Error("a call that was given up late has told nothing")
	}
}

// TestHash: a key stays where it is, moves only when it must, and goes on along the ring when its instance is full.
func TestHash(t *testing.T) {
	r := newRig(t, Options{Policy: Hash}, servers(20)...)
	where := map[string]string{}
	for i := range 1000 {
		key := fmt.Sprint("key ", i)
		where[key] = r.Pick(Key(key), nil).Instance.Addr
		if got := r.picks(3, Key(key)); got[where[key]] != 3 {
			t.Fatal(got)
		}
	}
	r.Update(servers(20)[1:], nil)
	for key, addr := range where {
		if got := r.Pick(Key(key), nil).Instance.Addr; addr != "s0000:1" && got != addr {
			t.Errorf("%s has moved from %s to %s", key, addr, got)
		}
	}
	for range 1900 { // all the same key
		r.Pick(Key("hot"), nil).Begin()
	}
	for _, n := range r.Nodes() {
		if n.InFlight() > 126 {
			t.Errorf("%s has %d calls in flight, the average is 100", n.Instance.Addr, n.InFlight())
		}
	}
	for _, n := range r.Nodes() {
		for n.InFlight() > 0 {
			n.End()
		}
	}
	if r.total.Load() != 0 {
		t.Errorf("%d in flight", r.total.Load())
	}
	if got := r.picks(1000, 0); len(got) != 19 {
		t.Errorf("calls without a key meet %d instances", len(got))
	}
}

// TestZone: the own zone has all calls while it is well, and gives up some when it is ejected or refuses.
func TestZone(t *testing.T) {
	list := servers(20)
	for i := range list {
		list[i].Zone = string(rune('a' + i%2))
	}
	r := newRig(t, Options{Zone: "a", Eject: Ejection{Trip: Trip{Failures: 3}, MaxShare: 1}}, list...)
	far := func(calls int) (n int) {
		for addr, got := range r.picks(calls, 0) {
			if r.node(addr).Instance.Zone != "a" {
				n += got
			}
		}
		return n
	}
	if n := far(1000); n != 0 {
		t.Errorf("%d of 1000 have left a zone that is well", n)
	}
	for i := range 5 { // half of the zone
		r.fail(list[2*i].Addr, 3)
	}
	if n := far(1000); n < 200 || n > 400 { // 0.5 * 1.4 stay
		t.Errorf("%d of 1000 have left a zone that is half ejected", n)
	}
	for i := range 5 {
		r.fail(list[10+2*i].Addr, 3)
	}
	if n := far(1000); n != 1000 {
		t.Errorf("%d of 1000 have left a zone that is gone", n)
	}
	if n := r.Stats().Spilled; n < 1200 {
		t.Errorf("%d spilled", n)
	}
	r = newRig(t, Options{Zone: "a"}, list...)
	for range 100 { // ten seconds in which the zone is full
		r.pass(100 * time.Millisecond)
		for range 30 {
			if n := r.Pick(0, nil); n.Instance.Zone == "a" {
				n.Observe(0, Refused)
			}
		}
	}
	if n := far(1000); n < 900 || n > 990 {
		t.Errorf("%d of 1000 have left a zone that is full", n)
	}
	for range 2000 {
		r.pass(100 * time.Millisecond)
		for range 30 {
			r.Pick(0, nil).Observe(0, Succeeded)
		}
	}
	if n := far(1000); n != 0 {
		t.Errorf("%d of 1000 have left a zone that is well again", n)
	}
}

// TestWarmup: an instance that is new, or says so, gets its share step by step. A clock that jumps changes nothing.
func TestWarmup(t *testing.T) {
	r := newRig(t, Options{Warmup: time.Minute}, servers(4)...)
	if got := r.picks(400, 0); got["s0000:1"] != 100 {
		t.Errorf("those of the beginning are not warm: %v", got)
	}
	list := append(servers(4), discovery.Instance{Addr: "new:1", Since: r.day.Add(time.Hour)}) // of a clock that is ahead
	r.Update(list, nil)
	share := func() float64 { return float64(r.picks(4000, 0)["new:1"]) / 4000 }
	if s := share(); s < 0.015 || s > 0.035 { // 0.1/4.1
		t.Errorf("a new instance has %.3f", s)
	}
	r.day = r.day.Add(-time.Hour)
	r.pass(30 * time.Second)
	r.Update(list, nil)
	if s := share(); s < 0.10 || s > 0.12 { // 0.5/4.5
		t.Errorf("after half of the time it has %.3f", s)
	}
	r.day = r.day.Add(1000 * time.Hour)
	r.pass(31 * time.Second)
	if s := share(); s != 0.2 {
		t.Errorf("in the end it has %.3f", s)
	}
	list[4].Since = r.day // restarted
	r.Update(list, nil)
	if s := share(); s > 0.035 {
		t.Errorf("after its restart it has %.3f", s)
	}
	r.Update(list[:4], nil) // it flaps
	r.pass(40 * time.Second)
	r.Update(list, nil)
	if s := share(); s < 0.12 {
		t.Errorf("after it has flapped it has %.3f", s)
	}
	list = append(list, discovery.Instance{Addr: "old:1", Since: r.day.Add(-time.Hour)})
	r.Update(list, nil)
	r.pass(time.Minute)
	if got := r.picks(600, 0); got["old:1"] != 100 {
		t.Errorf("an instance that was up for an hour: %v", got)
	}
}

// TestEject: failures in a row take an instance out for a time that grows; probes bring it back.
func TestEject(t *testing.T) {
	r := newRig(t, Options{Eject: Ejection{Trip: Trip{Failures: 5, Probes: 2}}}, servers(4)...)
	r.fail("s0000:1", 4)
	r.node("s0000:1").Observe(0, Succeeded)
	r.fail("s0000:1", 4)
	r.node("s0000:1").Observe(0, Refused) // neither
	if r.picks(4, 0)["s0000:1"] != 1 {
		t.Error("ejected before its time")
	}
	out := time.Duration(0)
	for round, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		r.fail("s0000:1", 1)
		for out = 0; r.picks(40, 0)["s0000:1"] == 0; out += 100 * time.Millisecond {
			r.pass(100 * time.Millisecond)
		}
		if out != want {
			t.Errorf("round %d: out for %v, want %v", round, out, want)
		}
	}
	if got := r.picks(40, 0)["s0000:1"]; got != 0 { // the loop above has taken both probes
		t.Errorf("%d more than the probes", got)
	}
	n := r.node("s0000:1")
	n.Observe(0, Succeeded)
	n.Observe(0, Unknown) // gives its probe back
	if got := r.picks(40, 0)["s0000:1"]; got != 1 {
		t.Errorf("%d probes, want 1", got)
	}
	n.Observe(0, Succeeded)
	if got := r.picks(40, 0)["s0000:1"]; got != 10 {
		t.Errorf("%d of 40 after the probes have succeeded", got)
	}
	if s := r.Stats(); s.Ejections != 3 || s.Ejected != 0 || s.Usable != 4 || s.Instances != 4 {
		t.Errorf("%+v", s)
	}
}

// TestProbesThatTellNothing: an instance whose probes never end gets others.
func TestProbesThatTellNothing(t *testing.T) {
	r := newRig(t, Options{Eject: Ejection{Trip: Trip{Failures: 1, Probes: 1}}}, servers(2)...)
	r.fail("s0000:1", 1)
	for round := range 3 {
		r.pass(5 * time.Second)
		if got := r.picks(20, 0)["s0000:1"]; got != 1 {
			t.Errorf("round %d: %d probes", round, got)
		}
	}
}

// TestMaxShare: no more than a share is ejected, never all, and something is picked whatever happens.
func TestMaxShare(t *testing.T) {
	for share, want := range map[float64]int{0.3: 3, 1: 9, 0: 5, 0.01: 1} {
		r := newRig(t, Options{Eject: Ejection{Trip: Trip{Failures: 1}, MaxShare: share}}, servers(10)...)
		for _, i := range servers(10) {
			r.fail(i.Addr, 1)
		}
		if s := r.Stats(); s.Ejected != want || s.Spared != uint64(10-want) {
			t.Errorf("share %v: %+v", share, s)
		}
		if got := r.picks(100, 0); got["none"] > 0 || len(got) != 10-want {
			t.Errorf("share %v: %v", share, got)
		}
	}
	r := newRig(t, Options{Eject: Ejection{Trip: Trip{Failures: 1}}}, servers(2)...)
	r.fail("s0000:1", 1)
	r.node("s0001:1").SetHealthy(false)
	if got := r.picks(100, 0); got["none"] > 0 || r.Stats().Fallbacks == 0 {
		t.Errorf("nothing is picked, though an instance lives: %v", got)
	}
	r.node("s0001:1").SetUp(false)
	if got := r.picks(100, 0); got["s0000:1"] != 100 {
		t.Errorf("the only one that is up: %v", got)
	}
	r.node("s0000:1").SetUp(false)
	if got := r.picks(10, 0); got["none"] != 10 {
		t.Errorf("all are down: %v", got)
	}
	r.node("s0001:1").SetUp(true)
	r.node("s0001:1").SetHealthy(true)
	if got := r.picks(10, 0); got["s0001:1"] != 10 {
		t.Error(got)
	}
}

// TestSuccessRate: an instance that fails more often than others is ejected, though never several times in a row.
func TestSuccessRate(t *testing.T) {
	r := newRig(t, Options{Eject: Ejection{SuccessRate: 1.9}}, servers(20)...)
	for range 200 {
		r.pass(100 * time.Millisecond)
		for range 20 {
			n := r.Pick(0, nil)
			o := Succeeded
			if n.Instance.Addr == "s0007:1" && n.good.Load() > n.bad.Load() {
				o = Failed
			}
			n.Observe(time.Millisecond, o)
		}
	}
	if s := r.Stats(); s.Ejections == 0 || r.node("s0007:1").bits.Load()&nodeOpen == 0 || s.Ejected != 1 {
		t.Errorf("%+v", s)
	}
	r = newRig(t, Options{Eject: Ejection{SuccessRate: 1.9}}, servers(4)...) // too few to judge by
	for range 100 {
		r.pass(time.Second)
		r.fail("s0000:1", 20)
		for i := range 3 {
			for range 20 {
				r.node(fmt.Sprintf("s%04d:1", i+1)).Observe(0, Succeeded)
			}
		}
		r.Pick(0, nil)
	}
	if s := r.Stats(); s.Ejections != 0 {
		t.Errorf("%+v", s)
	}
}

// TestUpdate: what stays keeps its state, what is there twice counts once, and what flaps is remembered for a minute.
func TestUpdate(t *testing.T) {
	r := newRig(t, Options{Eject: Ejection{Trip: Trip{Failures: 1, Open: time.Hour}}}, servers(3)...)
	kept, attached := r.node("s0001:1"), 0
	r.fail("s0000:1", 1)
	r.Update(append(servers(4)[1:], servers(2)...), func(n *Node) {
		attached++
		n.Value = n.Instance.Addr
	})
	if attached != 1 || r.node("s0003:1").Value != "s0003:1" || r.node("s0001:1") != kept || r.Stats().Ejected != 1 || r.Stats().Instances != 4 {
		t.Errorf("%d attached, %+v", attached, r.Stats())
	}
	for _, away := range []time.Duration{time.Second, time.Hour} {
		r.Update(servers(4)[1:], nil)
		if r.Stats().Ejected != 0 {
			t.Error("one that is gone is ejected")
		}
		r.pass(away)
		r.Update(servers(4)[1:], nil)
		r.Update(servers(4), nil)
		if got, want := r.picks(100, 0)["s0000:1"] == 0, away == time.Second; got != want {
			t.Errorf("away for %v: ejected %v", away, got)
		}
	}
	for i := range 5 {
		r.Update(servers(4096 + 4096*(i%2))[4096*(i%2):], nil)
	}
	if len(r.past) > 4096 {
		t.Errorf("%d are remembered", len(r.past))
	}
}

// TestBreaker: a share of failures opens it; refusals do not; probes close it.
func TestBreaker(t *testing.T) {
	b, err := NewBreaker(Trip{Ratio: 0.5, Open: time.Second, MaxOpen: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	call := func(o Outcome) {
		if b.Done(now, o) {
			b.Open(now)
		}
	}
	for range 30 {
		call(Succeeded)
		call(Refused)
	}
	for i := range 29 {
		if call(Failed); !b.Closed() {
			t.Fatalf("open after %d failures of %d calls", i+1, 31+i)
		}
	}
	now += int64(20 * time.Second) // all of that is forgotten
	for range 19 {
		call(Failed)
	}
	if !b.Closed() {
		t.Error("open before MinCalls")
	}
	if call(Failed); b.Closed() || b.Allow(now) {
		t.Error("it is not open")
	}
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		from := now
		for !b.Allow(now) {
			now += int64(100 * time.Millisecond)
		}
		if now-from != int64(want) {
			t.Errorf("open for %v, want %v", time.Duration(now-from), want)
		}
		call(Failed)
	}
	now += int64(3 * time.Second)
	for i := range 5 {
		if got := b.Allow(now); got != (i < DefaultProbes) {
			t.Errorf("probe %d: %v", i, got)
		}
	}
	for range DefaultProbes {
		call(Succeeded)
	}
	if !b.Closed() || !b.Allow(now) {
		t.Error("it stays open")
	}
}

// TestBudget: further attempts come to a tenth of the calls, and to the reserve at once.
func TestBudget(t *testing.T) {
	b, err := NewBudget(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for range 10_000 {
		b.Call()
		for b.Take() {
			taken++
		}
	}
	if taken < 1000 || taken > 1000+DefaultReserve {
		t.Errorf("%d of 10,000", taken)
	}
	for range 10_000 {
		b.Call()
	}
	for taken = 0; b.Take(); taken++ {
	}
	if taken != DefaultReserve {
		t.Errorf("a reserve of %d", taken)
	}
}

// TestLatency: a share of the calls ends within what At says, and old calls are forgotten.
func TestLatency(t *testing.T) {
	var l Latency
	for i := range 99 {
		l.Add(time.Duration(i+1) * time.Millisecond)
	}
	if _, ok := l.At(0.9); ok {
		t.Error("known after 99 calls")
	}
	l.Add(100 * time.Millisecond)
	if d, ok := l.At(0.9); !ok || d < 90*time.Millisecond || d > 102*time.Millisecond {
		t.Errorf("%v, %v", d, ok)
	}
	for range 100_000 {
		l.Add(time.Second)
	}
	if d, _ := l.At(0.01); d < time.Second {
		t.Errorf("%v after many calls of a second", d)
	}
	for _, d := range []time.Duration{-1, 0, 1, math.MaxInt64} {
		l.Add(d)
	}
	if d, ok := l.At(1); !ok || d < time.Minute {
		t.Errorf("%v", d)
	}
}

// TestPickAllocatesNothing: no policy allocates, with everything switched on.
func TestPickAllocatesNothing(t *testing.T) {
	for p := range policies {
		r := newRig(t, Options{Policy: p, Zone: "a", Warmup: time.Minute, Eject: Ejection{Trip: Trip{Failures: 5, Ratio: 0.5}, SuccessRate: 1.9}}, servers(100)...)
		tried := slices.Clone(r.Nodes()[:2])
		n := testing.AllocsPerRun(1000, func() {
			n := r.Pick(Key("x"), tried)
			n.Begin()
			n.End()
			n.Observe(time.Millisecond, Succeeded)
		})
		if n != 0 {
			t.Errorf("%v: %v allocations", p, n)
		}
	}
}
