// Package cluster simulates clients that call many servers, one event after the other, in virtual time and by a seed. It knows no balancer: those under
// test are Pickers, so that the same cluster runs with others.
//
// A server works on one request at a time, in order. It does not begin one whose time is over, and refuses what would wait too long; a refusal costs it
// some work, too.
package cluster

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// Outcome is how an attempt has ended.
type Outcome uint8

// The outcomes.
const (
	OK       Outcome = iota
	Failed           // an error, a lost connection, or no answer in time
	Refused          // the server is full
	outcomes = 3
)

// Picker is the balancer of one client.
type Picker interface {
	// Pick returns the server for an attempt, of which Done tells the end; -1 for none. tried are those of earlier attempts at the same call.
	Pick(tried []int) int
	// Done tells how an attempt has ended, and what the server says of its load.
	Done(server int, latency time.Duration, o Outcome, load Load)
	// SetUp tells that the connection to a server was lost, or is there again.
	SetUp(server int, up bool)
}

// Load is what a server reports of itself with each answer.
type Load struct{ Rate, Utilization float64 } // requests a second; share of its time

// Budget bounds the attempts beyond the first; see package balance.
type Budget interface {
	Call()
	Take() bool
}

// Server is one of the cluster.
type Server struct {
	Zone  int
	Speed float64 // 1 = ordinary
	Lies  bool    // it answers at once with an error, and reports no load
	Dead  bool    // nothing that is sent to it is answered

	down   bool
	times  int // it has gone down so often
	freeAt time.Duration
	work   time.Duration // of this second
	calls  int           // of this second
	load   Load          // of the second before
	Served int           // requests that it has answered well
	Busy   time.Duration // work that it has done
}

// Config says what is simulated. All fields without a comment that says otherwise are required.
type Config struct {
	Seed    uint64
	Servers []Server
	Clients int
	Rate    float64 // calls a second, of all clients
	Length  time.Duration

	Service time.Duration // mean time of a request on an ordinary server, exponential
	Queue   time.Duration // a request that would wait longer is refused
	Refusal float64       // cost of a refusal, in mean requests
	Near    time.Duration // there and back, within a zone
	Far     time.Duration // to another one
	Zones   int           // of clients, who are in turn in each

	Timeout  time.Duration // of an attempt
	Attempts int           // at a call
	Pause    time.Duration // before a further one
	Jitter   bool          // a part of the pause is by chance
	Budget   func() Budget // of each client; nil = none
	Cache    *Cache        // nil = none

	Picker  func(client int, now func() time.Duration) Picker
	Causes  []Cause
	Advance func(time.Duration) // waits in somebody else's virtual time; nil = not
}

// Cause changes the cluster at a time.
type Cause struct {
	At time.Duration
	Do func(*Run)
}

// Cache stands in front of what the servers compute: clients fill it with the answers that they get in time.
type Cache struct {
	Keys int           // how many answers fill it
	Life time.Duration // after which an answer has to be computed again
	Miss float64       // the cost of a request that it does not have, in mean requests
	Hits float64       // share of the requests that it has
	last time.Duration
}

// Second is what happened in one.
type Second struct{ Calls, Failed, Attempts int }

// Run is a simulation under way, and its result.
type Run struct {
	Config
	Now     time.Duration
	Seconds []Second // by the time at which calls end
	Latency []time.Duration
	Calls   int
	Ends    [outcomes]int // of attempts

	random  *rand.Rand
	events  events
	seq     uint64
	clients []client
	waited  time.Duration
}

type client struct {
	picker Picker
	budget Budget
	zone   int
}

// call is one call of a client.
type call struct {
	client   int
	begun    time.Duration
	attempts int
	tried    []int
}

// attempt is one at a call.
type attempt struct {
	*call
	server  int
	begun   time.Duration
	end     Outcome
	load    Load
	times   int // the server's, when it began to work on it
	checked bool
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// step is the most that Advance is given at a time.
const step = time.Millisecond

// Simulate runs a cluster to its end.
func Simulate(c Config) *Run {
	r := &Run{Config: c, random: rand.New(rand.NewPCG(c.Seed, 0)), Seconds: make([]Second, int(c.Length/time.Second)+1)}
	r.Servers = append([]Server(nil), c.Servers...)
	if c.Cache != nil {
		cache := *c.Cache
		r.Cache = &cache
	}
	for i := range c.Clients {
		cl := client{picker: c.Picker(i, func() time.Duration { return r.Now }), zone: i % max(1, c.Zones)}
		if c.Budget != nil {
			cl.budget = c.Budget()
		}
		r.clients = append(r.clients, cl)
		r.At(r.gap(), func() { r.arrive(i) })
	}
	for _, cause := range c.Causes {
		r.At(cause.At, func() { cause.Do(r) })
	}
	r.At(time.Second, r.report)
	for len(r.events) > 0 {
		e := heap.Pop(&r.events).(event)
		if e.at > c.Length {
			break
		}
		r.Now = e.at
		if d := r.Now - r.waited; c.Advance != nil && d >= step {
			c.Advance(d)
			r.waited = r.Now
		}
		e.do()
	}
	return r
}

// At has f called at a time.
func (r *Run) At(at time.Duration, f func()) {
	r.seq++
	heap.Push(&r.events, event{at, r.seq, f})
}

// gap returns the time to a client's next call.
func (r *Run) gap() time.Duration {
	return r.Now + time.Duration(r.random.ExpFloat64()*float64(time.Second)*float64(r.Clients)/r.Rate)
}

func (r *Run) arrive(client int) {
	r.At(r.gap(), func() { r.arrive(client) })
	r.begin(client)
}

// Burst has the clients begin so many calls at once.
func (r *Run) Burst(calls int) {
	for i := range calls {
		r.begin(i % len(r.clients))
	}
}

func (r *Run) begin(client int) {
	if b := r.clients[client].budget; b != nil {
		b.Call()
	}
	r.attempt(&call{client: client, begun: r.Now})
}

func (r *Run) second() *Second { return &r.Seconds[min(int(r.Now/time.Second), len(r.Seconds)-1)] }

// attempt makes an attempt at a call.
func (r *Run) attempt(c *call) {
	r.second().Attempts++
	c.attempts++
	a := &attempt{call: c, begun: r.Now, server: r.clients[c.client].picker.Pick(c.tried)}
	if a.server < 0 {
		a.end = Failed
		r.At(r.Now+r.Near, func() { r.finish(a) })
		return
	}
	c.tried = append(c.tried, a.server)
	r.At(r.Now+r.trip(a)/2, func() { r.reach(a) })
}

// trip returns how long it takes to the server and back.
func (r *Run) trip(a *attempt) time.Duration {
	if r.Servers[a.server].Zone == r.clients[a.client].zone {
		return r.Near
	}
	return r.Far
}

// reach brings an attempt to its server.
func (r *Run) reach(a *attempt) {
	s := &r.Servers[a.server]
	back, over := r.trip(a)/2, a.begun+r.Timeout
	s.calls++
	switch {
	case s.Dead:
		r.answer(a, over, Failed, over)
	case s.down, s.Lies:
		r.answer(a, r.Now+back, Failed, over)
	default:
		wait := max(0, s.freeAt-r.Now)
		cost := time.Duration(float64(r.Service) / s.Speed)
		if wait > r.Queue {
			r.spend(s, time.Duration(r.Refusal*float64(cost)))
			r.answer(a, r.Now+back, Refused, over)
			return
		}
		if r.Now+wait > over { // nobody waits for it any more
			r.answer(a, over, Failed, over)
			return
		}
		cost = time.Duration(float64(cost) * r.random.ExpFloat64() * r.miss())
		r.spend(s, cost)
		a.times, a.checked = s.times, true
		r.answer(a, s.freeAt+back, OK, over)
	}
}

// spend has a server work.
func (r *Run) spend(s *Server, d time.Duration) {
	s.freeAt = max(s.freeAt, r.Now) + d
	s.work += d
	s.Busy += d
}

// miss returns the cost of a request, by the cache.
func (r *Run) miss() float64 {
	c := r.Cache
	if c == nil || r.random.Float64() < c.Hits {
		return 1
	}
	return c.Miss
}

// fill notes an answer in the cache.
func (r *Run) fill() {
	if c := r.Cache; c != nil {
		c.Hits -= c.Hits * min(1, float64(r.Now-c.last)/float64(c.Life))
		c.last = r.Now
		c.Hits += (1 - c.Hits) / float64(c.Keys)
	}
}

// answer brings the end of an attempt to its client, at the attempt's timeout at the latest.
func (r *Run) answer(a *attempt, at time.Duration, o Outcome, over time.Duration) {
	a.end = o
	if at > over {
		at, a.end = over, Failed
	}
	r.At(at, func() {
		s := &r.Servers[a.server]
		if a.checked && a.times != s.times { // it has gone down since
			a.end = Failed
		}
		if !s.Lies {
			a.load = s.load
		}
		if a.end == OK {
			s.Served++
		}
		r.clients[a.client].picker.Done(a.server, r.Now-a.begun, a.end, a.load)
		r.finish(a)
	})
}

// finish ends a call, or makes another attempt.
func (r *Run) finish(a *attempt) {
	c := a.call
	r.Ends[a.end]++
	if a.end != OK && c.attempts < r.Attempts {
		if b := r.clients[c.client].budget; b == nil || b.Take() {
			pause := r.Pause << (c.attempts - 1)
			if r.Jitter {
				pause = pause/2 + time.Duration(r.random.Float64()*float64(pause/2))
			}
			r.At(r.Now+pause, func() { r.attempt(c) })
			return
		}
	}
	r.Calls++
	s := r.second()
	s.Calls++
	if a.end != OK {
		s.Failed++
		return
	}
	r.fill()
	r.Latency = append(r.Latency, r.Now-c.begun)
}

// report has the servers measure their load.
func (r *Run) report() {
	for i := range r.Servers {
		s := &r.Servers[i]
		s.load = Load{float64(s.calls), min(1, s.work.Seconds())}
		s.calls, s.work = 0, 0
	}
	r.At(r.Now+time.Second, r.report)
}

// Down takes a server down: what it was working on is lost, and clients lose their connections.
func (r *Run) Down(server int) {
	s := &r.Servers[server]
	s.down, s.freeAt = true, r.Now
	s.times++
	for _, c := range r.clients {
		c.picker.SetUp(server, false)
	}
}

// Up brings a server back.
func (r *Run) Up(server int) {
	r.Servers[server].down = false
	for _, c := range r.clients {
		c.picker.SetUp(server, true)
	}
}
