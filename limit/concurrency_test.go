package limit

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// server is a simulated server in front of a bottleneck: work that is admitted waits for one of some places, and then takes a while.
type server struct {
	c       *Concurrency
	rand    *rand.Rand
	now     time.Duration
	events  events
	waiting []time.Duration // work that came and was not admitted yet, the newest last
	inner   []*work         // waits for a place
	serving int
	random  bool                         // the time of work is exponential, else nearly constant
	dead    func(now time.Duration) bool // nothing is served
	gives   time.Duration                // after which a client gives up; work that has a place then keeps it. 0 = none does

	places   func(now time.Duration) int
	mean     func(now time.Duration) time.Duration
	offered  func(now time.Duration) float64 // relative to what the server can do
	done     int
	took     time.Duration
	possible float64 // work that could have been done
}

const patience = 50 * time.Millisecond // of work that waits

// work is what has been admitted.
type work struct {
	begun, due  time.Duration
	began, over bool
}

type event struct {
	at time.Duration
	w  *work // that ends, or whose client gives up; nil = work comes
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (s *server) clock() time.Time { return time.Unix(0, 0).Add(s.now) }

// run lets time pass, and returns the share of the possible work that was done, and its mean time.
func (s *server) run(d time.Duration) (goodput float64, mean time.Duration) {
	s.done, s.took, s.possible = 0, 0, 0
	for end := s.now + d; ; {
		e := heap.Pop(&s.events).(event)
		if e.at > end {
			heap.Push(&s.events, e)
			s.now = end
			return float64(s.done) / s.possible, s.took / time.Duration(max(s.done, 1))
		}
		s.now = e.at
		switch {
		case e.w == nil:
			s.come()
		case e.w.began && e.at == e.w.due && !e.w.over: // it has a place
		case !e.w.over:
			s.end(e.w)
		}
		s.admit()
		s.serve()
	}
}

// admit takes the newest of what waits.
func (s *server) admit() {
	for s.c.busy < s.c.Limit() && len(s.waiting) > 0 {
		last := len(s.waiting) - 1
		came := s.waiting[last]
		if s.now-came > patience {
			s.waiting = s.waiting[:0]
			return
		}
		s.waiting = s.waiting[:last]
		s.c.Begin(s.clock())
		w := &work{begun: s.now}
		if s.gives > 0 {
			w.due = came + s.gives
			heap.Push(&s.events, event{w.due, w})
		}
		s.inner = append(s.inner, w)
	}
}

func (s *server) come() {
	s.waiting = append(s.waiting, s.now)
	capacity := float64(s.places(s.now)) / s.mean(s.now).Seconds()
	gap := s.rand.ExpFloat64() / (s.offered(s.now) * capacity)
	s.possible += min(capacity, s.offered(s.now)*capacity) * gap
	heap.Push(&s.events, event{at: s.now + time.Duration(gap*float64(time.Second))})
}

func (s *server) end(w *work) {
	w.over = true
	if w.began {
		s.serving--
	}
	useful := w.due == 0 || s.now < w.due
	if useful {
		s.done++
		s.took += s.now - w.begun
	}
	s.c.End(s.clock(), s.now-w.begun, useful)
}

func (s *server) serve() {
	if s.dead != nil && s.dead(s.now) {
		return
	}
	for s.serving < s.places(s.now) && len(s.inner) > 0 {
		w := s.inner[0]
		s.inner = s.inner[1:]
		if w.over {
			continue
		}
		d := float64(s.mean(s.now))
		if s.random {
			d *= s.rand.ExpFloat64()
		} else {
			d *= 0.9 + 0.2*s.rand.Float64()
		}
		w.began = true
		heap.Push(&s.events, event{s.now + time.Duration(d), w})
		s.serving++
	}
}

func newServer(t *testing.T, seed uint64, o Options, places int, mean time.Duration, offered float64, random bool) *server {
	t.Helper()
	c, err := NewConcurrency(o)
	if err != nil {
		t.Fatal(err)
	}
	return &server{
		c: c, rand: rand.New(rand.NewPCG(seed, 1)), random: random, events: events{{}},
		places:  func(time.Duration) int { return places },
		mean:    func(time.Duration) time.Duration { return mean },
		offered: func(time.Duration) float64 { return offered },
	}
}

// TestGoodput: whatever the bottleneck, the work and the load, the server does nearly what it can, before, while and after it can do half as much; and what is
// admitted does not wait long for the bottleneck.
func TestGoodput(t *testing.T) {
	const phase, seed = 15 * time.Second, 7
	for _, b := range []struct {
		places int
		mean   time.Duration
	}{{2, 5 * time.Millisecond}, {20, 10 * time.Millisecond}, {20, 100 * time.Millisecond}, {150, 50 * time.Millisecond}} {
		for _, random := range []bool{false, true} {
			if random && b.mean == 100*time.Millisecond {
				continue // so few results a second, and so different, that it takes minutes to be sure; see the documentation
			}
			for _, offered := range []float64{0.9, 1.5, 10} {
				if b.places > 100 && offered > 2 {
					continue // most of the time of the test
				}
				for _, slower := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d×%v/random=%v/load=%v/slower=%v", b.places, b.mean, random, offered, slower), func(t *testing.T) {
						t.Parallel()
						s := newServer(t, seed, Options{Max: 200}, b.places, b.mean, offered, random)
						half := func(now time.Duration) bool { return now >= 2*phase && now < 3*phase }
						if slower {
							s.mean = func(now time.Duration) time.Duration {
								if half(now) {
									return 2 * b.mean
								}
								return b.mean
							}
						} else {
							s.places = func(now time.Duration) int {
								if half(now) {
									return b.places / 2
								}
								return b.places
							}
						}
						least, times := 0.9, 2.5
						if random {
							least, times = 0.85, 4
						}
						s.run(phase)
						for i := range 3 {
							s.run(5 * time.Second) // to recover
							goodput, mean := s.run(phase - 5*time.Second)
							t.Logf("phase %d: %.3f, %v, limit %d", i, goodput, mean, s.c.Limit())
							if goodput < least {
								t.Errorf("phase %d: goodput %.3f of what was possible, limit %d", i, goodput, s.c.Limit())
							}
							if float64(mean) > times*float64(s.mean(s.now-1)) && offered > 1 {
								t.Errorf("phase %d: work takes %v at the bottleneck of %v", i, mean, s.mean(s.now-1))
							}
						}
					})
				}
			}
		}
	}
}

// TestClientsGiveUp: what the server could just do before is twice what it can do now, and each piece of work that waits for the bottleneck ends when its client gives up.
// The server goes on with what it can do in time, soon, whatever the limit was; and when it can do all again, it does.
func TestClientsGiveUp(t *testing.T) {
	const phase, recover = 15 * time.Second, 5 * time.Second
	for _, most := range []int{200, 1000} {
		for _, b := range []struct {
			places int
			mean   time.Duration
		}{{20, 20 * time.Millisecond}, {40, 5 * time.Millisecond}, {20, 50 * time.Millisecond}} {
			for _, initial := range []int{20, most} {
				for _, load := range []float64{0.9, 1, 3} {
					if load > 1 && b.mean < 10*time.Millisecond || initial < most && most > 200 {
						continue // most of the time of the test; nothing new
					}
					for _, random := range []bool{false, true} {
						t.Run(fmt.Sprintf("%d×%v/of=%d/from=%d/load=%v/random=%v", b.places, b.mean, most, initial, load, random), func(t *testing.T) {
							t.Parallel()
							s := newServer(t, 3, Options{Max: most, Initial: initial}, b.places, b.mean, load, random)
							s.gives = 250 * time.Millisecond
							half := func(now time.Duration) bool { return now >= phase && now < 2*phase }
							s.places = func(now time.Duration) int {
								if half(now) {
									return b.places / 2
								}
								return b.places
							}
							s.offered = func(now time.Duration) float64 {
								if half(now) {
									return 2 * load
								}
								return load
							}
							for i := range 3 {
								s.run(recover)
								goodput, mean := s.run(phase - recover)
								t.Logf("phase %d: %.3f, %v, limit %d", i, goodput, mean, s.c.Limit())
								least := 0.85
								if random {
									least = 0.8
								}
								if goodput < least {
									t.Errorf("phase %d: goodput %.3f of what was possible, limit %d", i, goodput, s.c.Limit())
								}
								if initial < most && load >= 1 && !random && mean > b.mean*3/2 { // although the limit is hardly reached
									t.Errorf("phase %d: work takes %v at the bottleneck of %v, limit %d", i, mean, b.mean, s.c.Limit())
								}
							}
						})
					}
				}
			}
		}
	}
}

// TestBottleneckIsGone: for a while nothing is served, and everything ends when its client gives up. The limit stays, but for attempts with less. When the bottleneck is back,
// the server does what it can within seconds, although it is asked for all of it.
func TestBottleneckIsGone(t *testing.T) {
	const phase, recover = 30 * time.Second, 5 * time.Second
	for _, load := range []float64{0.9, 1, 3} {
		s := newServer(t, 3, Options{Max: 400, Initial: 400}, 20, 20*time.Millisecond, load, false)
		s.gives = 250 * time.Millisecond
		s.dead = func(now time.Duration) bool { return now >= phase && now < 2*phase }
		s.run(phase)
		before := s.c.middle
		highest, lower, attempts := 0, false, 0
		for range int(phase / (100 * time.Millisecond)) {
			s.run(100 * time.Millisecond)
			highest = max(highest, s.c.Limit())
			if low := s.c.Limit() == 1; low != lower {
				lower = low
				if low {
					attempts++
				}
			}
		}
		if attempts < 2 {
			t.Errorf("load %v: tried with the least limit %d times", load, attempts)
		}
		if float64(highest) < before/2 {
			t.Errorf("load %v: the limit was %v, and %d at most while nothing was served", load, before, highest)
		}
		s.run(recover)
		if goodput, mean := s.run(phase - recover); goodput < 0.85 {
			t.Errorf("load %v: goodput %.3f of what was possible, %v, limit %d", load, goodput, mean, s.c.Limit())
		}
	}
}

// TestSteady: while nothing changes, the limit hardly does. Where the server is asked for just what it can do, and the limit is reached half the time only, work does
// not wait long for the bottleneck.
func TestSteady(t *testing.T) {
	t.Parallel()
	const seeds, parts = 16, 200
	for _, test := range []struct {
		load                    float64
		random                  bool
		goodput, mean, deviates float64 // least; ms and relative, at most
	}{{1, false, 0.94, 21, 0.04}, {1, true, 0.9, 22, 0.15}, {2, false, 0.96, 21, 0.02}, {2, true, 0.92, 22, 0.1}} {
		var goodput, mean, deviates float64
		for seed := range uint64(seeds) {
			s := newServer(t, seed, Options{Max: 200}, 20, 20*time.Millisecond, test.load, test.random)
			s.run(5 * time.Second)
			var sum, squares float64
			for range parts {
				g, m := s.run(100 * time.Millisecond)
				goodput, mean = goodput+g/seeds/parts, mean+m.Seconds()*1000/seeds/parts
				l := math.Log(s.c.middle)
				sum, squares = sum+l/parts, squares+l*l/parts
			}
			deviates += math.Sqrt(squares-sum*sum) / seeds
		}
		t.Logf("load %v, random %v: goodput %.3f, %.1f ms, deviates by %.3f", test.load, test.random, goodput, mean, deviates)
		if goodput < test.goodput || mean > test.mean || deviates > test.deviates {
			t.Errorf("wanted %.2f at least, %.1f ms and %.2f at most", test.goodput, test.mean, test.deviates)
		}
	}
}

// TestFewAreNoEvidence: that all or most of a few pieces of work end too late says nothing of the limit.
func TestFewAreNoEvidence(t *testing.T) {
	c, err := NewConcurrency(Options{Max: 100})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	for round := range 10 {
		for range 5 {
			c.Begin(now)
		}
		turned := false
		for i := range 5 {
			took := minWindow / 2
			if i == 4 { // ends the window
				took = 10 * minWindow
			}
			turned = c.End(now.Add(took), took, round%2 == 0 && i < 2)
		}
		if now = now.Add(10 * minWindow); !turned || c.Limit() != DefaultInitial {
			t.Fatalf("round %d: limit %d, set again: %t", round, c.Limit(), turned)
		}
	}
}

// TestNothingHoldsItBack: where more work at once takes no longer, the limit rises to its maximum.
func TestNothingHoldsItBack(t *testing.T) {
	s := newServer(t, 1, Options{Max: 500}, 10_000, 20*time.Millisecond, 1, false)
	s.run(20 * time.Second)
	if got := s.c.Limit(); got < 450 {
		t.Errorf("limit %d of 500", got)
	}
}

// TestUnreachedLimit: a limit that is not reached stays.
func TestUnreachedLimit(t *testing.T) {
	s := newServer(t, 1, Options{Max: 500, Initial: 100}, 10, 20*time.Millisecond, 0.5, true)
	s.run(20 * time.Second)
	if got := s.c.Limit(); got != 100 {
		t.Errorf("limit %d, want 100 still", got)
	}
}

// TestLeave: work that waits for somebody else is not in progress, and its time does not count.
func TestLeave(t *testing.T) {
	c, err := NewConcurrency(Options{Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	c.Begin(now)
	c.Leave(now.Add(time.Minute))
	c.Begin(now.Add(time.Minute))
	if !c.End(now.Add(2*time.Minute), time.Second, true) || c.Mean() != time.Second || c.busy != 0 {
		t.Errorf("mean %v, busy %d", c.Mean(), c.busy)
	}
	if c.Rate() != 1.0/120 || c.Limit() != 1 {
		t.Errorf("rate %v, limit %d", c.Rate(), c.Limit())
	}
}

// TestOptions: what cannot be is refused by its name and value.
func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"Max is 0":       {},
		"Min is -1":      {Min: -1, Max: 3},
		"Min is 4":       {Min: 4, Max: 3},
		"Initial is 4":   {Max: 3, Initial: 4},
		"Initial is 1: ": {Min: 2, Max: 3, Initial: 1},
	} {
		if _, err := NewConcurrency(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
	for want, o := range map[int]Options{20: {Max: 200}, 3: {Max: 3}, 50: {Min: 50, Max: 200}} {
		if c, err := NewConcurrency(o); err != nil || c.Limit() != want {
			t.Errorf("%+v: %v, want %d", o, err, want)
		}
	}
}

// TestClasses: a class has a name, a rank, and what says nothing is critical.
func TestClasses(t *testing.T) {
	for rank, name := range classNames {
		if c, ok := ParseClass(name); !ok || c.Rank() != rank || c.String() != name || !c.Valid() {
			t.Errorf("%s: %v, %v", name, c, ok)
		}
	}
	if c, ok := ParseClass("Critical"); ok || c != Critical {
		t.Errorf("%v, %v", c, ok)
	}
	var zero Class
	if zero != Critical {
		t.Error("the zero class is not critical")
	}
	if Class(7).Rank() != Classes-1 || Class(-7).Rank() != 0 {
		t.Error("a class that is none has a rank that is none")
	}
	if Class(7).Valid() || Class(7).String() != "class 7" {
		t.Error(Class(7))
	}
}
