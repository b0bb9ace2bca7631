// Package sim is a simulated machine for the engine: sockets, pollers, a clock and a scheduler, all driven by one seed.
//
// A World runs everything in the goroutine that calls it. Loops and other goroutines are coroutines that give control
// back where they would wait. So exactly one runs at any time, and the seed decides which comes next. Nothing asks the
// real time, no map is walked, and only the seed gives chance. The same seed gives the same run to the last system
// call.
//
// The machine is an unfriendly one. Calls do less than they were asked, fail, and are interrupted; peers are slow,
// vanish and reset; time jumps; other goroutines act in the middle of a system call. After every step of a loop, the
// world has the loop check its own state. The machine itself reports what no correct program does: using or closing a
// descriptor that is not open, closing one that is still registered, two loops reading one connection, waiting forever
// with work in hand.
package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/internal/sys"
)

// Next is an actor's answer: how long it sleeps, or one of the constants.
type Next time.Duration

const (
	Done    Next = -1 // it will never act again
	Blocked Next = -2 // it can do nothing until something changes
)

// Actor acts on the world as a peer, or as a goroutine that uses the engine from outside. A call does one small thing
// and must not wait.
type Actor func() Next

type actor struct {
	name    string
	act     Actor
	offLoop bool // may act in the middle of a system call
	done    bool
	until   int64
	seen    uint64 // when it was blocked: the epoch, or the turn for an offLoop actor; 0 if it was not blocked
}

// World is one simulated machine. It belongs to one goroutine.
type World struct {
	rng    *rand.Rand
	now    int64
	rates  [faults]uint32
	counts Counts
	calm   bool // no more trouble

	files     []*file // by descriptor
	listeners []*listener
	pollers   []*poller
	ends      int
	peers     int
	outbound  uint16
	purge     bool // a reset discards what had arrived
	splices   Splices

	actors   []*actor
	routines []*routine
	cur      *routine // nil while the world itself runs
	nested   bool     // an off-loop actor runs in the middle of a system call
	later    []event
	choices  []int

	epoch uint64 // counts changes of the network and the pollers
	turn  uint64 // counts possible changes of the process's memory
	steps int
	idle  int // steps of loops since the last change
	err   error
	log   tracer
}

// event is a future action of the machine itself.
type event struct {
	at int64
	do func()
}

// startTime is the time when worlds begin. It is not 0, which is not a valid time.
const startTime = int64(time.Hour)

// New makes a world.
func New(seed uint64) *World {
	w := &World{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), now: startTime, epoch: 1, turn: 1}
	w.purge = w.rng.IntN(2) == 0
	w.weather()
	w.files = make([]*file, firstDescriptor, 64)
	return w
}

// Host returns the machine as an engine sees it.
func (w *World) Host() simhook.Host {
	return simhook.Host{
		Sockets: func() sys.Sockets { return sockets{w} },
		Clock:   clock{w},
		Poller:  w.newPoller,
		Start:   w.start,
		Await:   w.await,
		Pause:   w.rest,
	}
}

// Rand returns the world's only source of chance.
func (w *World) Rand() *rand.Rand { return w.rng }

// Now returns the virtual monotonic time.
func (w *World) Now() int64 { return w.now }

// Epoch counts the changes that an actor may have waited for.
func (w *World) Epoch() uint64 { return w.epoch }

// Calm ends all trouble. From now on every call does what it can, so that everything begun can end.
func (w *World) Calm() {
	w.calm = true
	w.changed()
}

// IsCalm reports whether Calm was called.
func (w *World) IsCalm() bool { return w.calm }

// Progress says that the loops make progress, although the machine sees none.
func (w *World) Progress() { w.idle = 0 }

// Failf ends the run with a failure. Only the first one is kept.
func (w *World) Failf(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("step %d, %v: "+format, append([]any{w.steps, time.Duration(w.now - startTime)}, args...)...)
	}
}

// Err returns the first failure.
func (w *World) Err() error { return w.err }

// Steps returns how many steps the run has taken.
func (w *World) Steps() int { return w.steps }

// Act adds an actor on the network's side.
func (w *World) Act(name string, a Actor) { w.actors = append(w.actors, &actor{name: name, act: a}) }

// OffLoop adds an actor that stands for a goroutine of the server's process. It may also act in the middle of a loop's
// system call.
func (w *World) OffLoop(name string, a Actor) {
	w.actors = append(w.actors, &actor{name: name, act: a, offLoop: true})
}

// Go runs f as a goroutine would. Await is the only place where f may wait.
func (w *World) Go(name string, f func()) { w.spawn(&routine{name: name}, f) }

// WithTimeout returns a context that ends after d of virtual time.
func (w *World) WithTimeout(d time.Duration) context.Context {
	c := &simContext{Context: context.Background(), done: make(chan struct{})}
	w.After(d, func() {
		c.over = true
		close(c.done)
	})
	return c
}

type simContext struct {
	context.Context
	done chan struct{}
	over bool
}

func (c *simContext) Done() <-chan struct{} { return c.done }

func (c *simContext) Err() error {
	if c.over {
		return context.DeadlineExceeded
	}
	return nil
}

// After makes the machine call f after d.
func (w *World) After(d time.Duration, f func()) {
	w.later = append(w.later, event{w.now + int64(d), f})
}

// changed notes that blocked actors may go on.
func (w *World) changed() {
	w.epoch++
	w.idle = 0
}

// Run takes steps until the condition holds. It fails when nothing can happen any more, or after limit steps.
func (w *World) Run(what string, limit int, until func() bool) error {
	for n := 0; w.err == nil && !until(); n++ {
		if n == limit {
			w.Failf("%s: still not after %d steps", what, limit)
		} else if !w.step() {
			w.Failf("%s: nothing can happen any more, but: %s", what, w.waiting())
		}
	}
	return w.err
}

// Rest takes at most that many steps. It ends early and returns true when nothing can happen any more.
func (w *World) Rest(steps int) bool {
	for range steps {
		if !w.step() {
			return w.err == nil
		}
	}
	return false
}

// waiting says what each routine and actor waits for.
func (w *World) waiting() string {
	s := ""
	for _, r := range w.routines {
		if !r.done {
			s += fmt.Sprintf("%s waits (timeout %v) ", r.name, r.timeout)
		}
	}
	for _, a := range w.actors {
		if !a.done {
			s += a.name + " is blocked "
		}
	}
	return s
}

// step lets one routine or actor go on, or lets time pass when none can. It returns false when both are impossible.
func (w *World) step() bool {
	if w.err != nil {
		return false
	}
	w.steps++
	w.passTime()
	w.choices = w.choices[:0]
	for i, r := range w.routines {
		if w.canRun(r) {
			w.choices = append(w.choices, i)
		}
	}
	loops := len(w.choices)
	for i, a := range w.actors {
		if !a.done && a.until <= w.now && a.seen != w.clock(a) {
			w.choices = append(w.choices, i)
		}
	}
	if len(w.choices) == 0 {
		return w.skipTime()
	}
	n := w.rng.IntN(len(w.choices))
	if n < loops {
		w.resume(w.routines[w.choices[n]])
	} else {
		w.perform(w.actors[w.choices[n]])
	}
	return w.err == nil
}

// passTime moves the clock a little, or a lot when a fault says so.
func (w *World) passTime() {
	w.advance(int64(w.rng.Uint64() & 0xffff))
	if w.Hit(TimeJump) {
		w.advance(int64(time.Millisecond) << w.rng.IntN(17))
	}
	if len(w.routines) > 0 && w.Hit(Stall) {
		r := w.routines[w.rng.IntN(len(w.routines))]
		r.frozen = w.now + int64(time.Millisecond)<<w.rng.IntN(10)
	}
}

func (w *World) advance(d int64) {
	w.now += d
	for i := 0; i < len(w.later); i++ {
		if e := w.later[i]; e.at <= w.now {
			w.later = append(w.later[:i], w.later[i+1:]...)
			i--
			e.do()
			w.turn++
			w.changed()
		}
	}
}

// skipTime moves the clock to the next moment at which something can happen.
func (w *World) skipTime() bool {
	at := int64(-1)
	sooner := func(t int64) {
		if at < 0 || t < at {
			at = t
		}
	}
	for _, r := range w.routines {
		if r.done {
			continue
		}
		if r.frozen > w.now {
			sooner(r.frozen)
		}
		if r.alarm != nil || r.poller != nil && r.timeout >= 0 {
			sooner(r.deadline)
		}
	}
	for _, a := range w.actors {
		if !a.done && a.until > w.now {
			sooner(a.until)
		}
	}
	for _, e := range w.later {
		sooner(e.at)
	}
	if at < 0 {
		return false
	}
	w.advance(max(0, at-w.now))
	return true
}

// clock returns the counter that changes when a may go on.
func (w *World) clock(a *actor) uint64 {
	if a.offLoop {
		return w.turn
	}
	return w.epoch
}

func (w *World) perform(a *actor) {
	w.trace(a.name, 0, 0, nil)
	switch next := a.act(); next {
	case Done:
		a.done = true
		w.turn++
		w.changed()
	case Blocked:
		a.seen = w.clock(a)
	default:
		w.turn++
		a.until, a.seen = w.now+int64(next), 0
	}
}

// enter begins a system call. The call takes a moment, in which another goroutine may do something.
func (w *World) enter(op string, fd int) {
	w.now += int64(w.rng.Uint64() & 0x3ff)
	w.trace(op, fd, 0, nil)
	if w.cur == nil || w.nested || w.calm || w.rates[Interleave] == 0 || uint32(w.rng.Uint64()&(scale-1)) >= w.rates[Interleave] {
		return
	}
	w.nested = true
	w.interleave()
	w.nested = false
}

// Instant is a moment in the middle of a loop's work in which another goroutine may act, as in a system call.
func (w *World) Instant() { w.enter("instant", 0) }

// interleave lets an actor or routine that is no loop act while a loop is in a system call.
func (w *World) interleave() {
	n := len(w.actors) + len(w.routines)
	for i, k := 0, w.rng.IntN(n); i < n; i, k = i+1, k+1 {
		k %= n
		if k >= len(w.actors) {
			if r := w.routines[k-len(w.actors)]; r.loop == nil && r != w.cur && w.canRun(r) {
				w.Note(Interleave)
				w.resume(r)
				return
			}
		} else if a := w.actors[k]; a.offLoop && !a.done {
			w.Note(Interleave)
			w.perform(a)
			return
		}
	}
}

// routine is a coroutine: a loop, or a goroutine of the server's process.
type routine struct {
	name     string
	loop     simhook.Loop // nil for a routine that is no loop
	next     func() (struct{}, bool)
	yield    func(struct{}) bool
	done     bool
	poller   *poller         // the routine is in its Wait
	alarm    <-chan struct{} // ends the routine's Pause, nil outside
	timeout  time.Duration
	deadline int64
	frozen   int64  // the routine gets no processor before
	seen     uint64 // turn in which it was blocked; 0 if it was not
	in, out  uint64 // bytes read and written
	late     uint64 // of in, bytes read after the end of what is written
}

func (w *World) start(l simhook.Loop) { w.spawn(&routine{name: l.Name(), loop: l}, l.Run) }

func (w *World) spawn(r *routine, f func()) {
	r.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		r.yield = yield
		defer func() {
			if v := recover(); v != nil {
				w.Failf("panic in %s: %v\n%s", r.name, v, debug.Stack())
			}
		}()
		f()
	})
	w.routines = append(w.routines, r)
}

func (r *routine) state() string {
	if r.loop == nil {
		return ""
	}
	return r.loop.State()
}

// canRun reports whether a routine can make progress now.
func (w *World) canRun(r *routine) bool {
	switch {
	case r.done || r.frozen > w.now || r.seen == w.turn:
		return false
	case r.alarm != nil:
		return len(r.alarm) > 0 || r.deadline <= w.now
	case r.poller == nil:
		return true
	}
	return r.timeout >= 0 && r.deadline <= w.now || r.poller.wakes()
}

// resume lets a routine run until it waits or ends.
func (w *World) resume(r *routine) {
	w.trace(r.name, 0, 0, nil)
	if r.seen == 0 {
		w.turn++
		w.idle++
	}
	if w.idle > spinLimit {
		w.Failf("%s spins: %d steps without any change; %s", r.name, w.idle, r.state())
		return
	}
	outer := w.cur
	w.cur = r
	_, ok := r.next()
	w.cur = outer
	if !ok {
		r.done = true
		r.poller = nil
		if r.loop == nil {
			w.routines = slices.DeleteFunc(w.routines, func(o *routine) bool { return o == r })
		}
		w.turn++
		w.changed()
		if r.loop != nil && w.err == nil {
			w.judge(r, r.loop.CheckEnd())
		}
		return
	}
	if r.poller != nil || r.alarm != nil {
		w.check(r)
	}
}

// spinLimit is the number of steps that loops may take without a change to the world. A loop that decodes a full read
// of tiny frames within its budget needs some hundred.
const spinLimit = 5000

// check makes a waiting loop check its own state.
func (w *World) check(r *routine) {
	if r.loop == nil || w.err != nil {
		return
	}
	woken := len(r.alarm) > 0 || r.poller != nil && r.poller.woken
	w.judge(r, r.loop.Check(simhook.Waiting{Timeout: r.timeout, Until: r.deadline, Woken: woken, In: r.in, Late: r.late, Out: r.out}))
}

func (w *World) judge(r *routine, err error) {
	if err != nil {
		w.Failf("%s: %w", r.name, err)
	}
}

// CheckAll makes every waiting loop check its own state.
func (w *World) CheckAll() error {
	for _, r := range w.routines {
		if r.poller != nil {
			w.check(r)
		}
	}
	return w.err
}

// pause gives control back to the world.
func (w *World) pause() {
	w.cur.yield(struct{}{})
}

// Doze lets the calling routine wait for d.
func (w *World) Doze(d time.Duration) {
	w.cur.frozen = w.now + int64(d)
	w.pause()
}

// Workers returns the machine as a pool sees it.
func (w *World) Workers() simhook.Workers { return workers{w} }

type workers struct{ w *World }

func (m workers) Go(name string, f func())                { m.w.Go(name, f) }
func (m workers) Pause()                                  { m.w.pause() }
func (m workers) Await(a, b <-chan struct{}) (first bool) { return m.w.await(a, b) }

// rest is the pause of a loop whose poller is out of order.
func (w *World) rest(d time.Duration, alarm <-chan struct{}) {
	w.enter("pause", int(d))
	r := w.cur
	r.alarm, r.timeout, r.deadline = alarm, d, w.now+int64(d)
	w.pause()
	r.alarm = nil
	select {
	case <-alarm:
	default:
	}
}

// Block makes the calling routine wait until something changes.
func (w *World) Block() {
	w.cur.seen = w.turn
	w.pause()
	w.cur.seen = 0
}

// await stands for a select over two channels.
func (w *World) await(a, b <-chan struct{}) bool {
	defer func() { w.turn++ }()
	for {
		select {
		case <-a:
			return true
		default:
		}
		select {
		case <-b:
			return false
		default:
		}
		switch {
		case w.cur != nil:
			w.Block()
		case !w.step():
			w.Failf("nothing can happen any more, but the caller waits: %s", w.waiting())
			panic(errStuck)
		}
	}
}

var errStuck = errors.New("sim: the world stands still")

// End checks that all routines have ended and that all descriptors and pollers were closed.
func (w *World) End() error {
	for _, r := range w.routines {
		if !r.done {
			w.Failf("%s has not ended", r.name)
		}
	}
	for fd, f := range w.files {
		if f != nil {
			w.Failf("descriptor %d (%s) was not closed", fd, f.what())
		}
	}
	for _, p := range w.pollers {
		if !p.closed {
			w.Failf("a poller was not closed")
		}
	}
	return w.err
}

type clock struct{ w *World }

func (c clock) Now() int64 {
	c.w.enter("now", 0)
	return c.w.now
}

func (c clock) Wall() time.Time { return time.Unix(1_000_000_000, c.w.now) }
