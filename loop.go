package eddy

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/wheel"
)

type wheelHandle = wheel.Handle

// loop is one reactor: a goroutine, a poller, and the connections it owns. Only its own goroutine touches its fields,
// except the task queue, the published counters and the atomic fields.
type loop struct {
	name   string
	index  uint32
	crew   *crew
	set    *loopSettings
	kernel *kernel
	sock   sys.Sockets
	clock  sys.Clock
	poller sys.Poller
	log    *slog.Logger
	logs   *logSamplers

	now    int64 // monotonic ns, read once per wait
	events []sys.Event
	tasks  taskQueue
	handle Loop
	dog    *watchdog // nil without one
	lag    lagMeter

	// The time for tasks (taskphase.go).
	ioTime int64 // of an earlier iteration
	ioFrom int64 // end of the tasks, 0 if unknown
	hadIO  bool  // something was ready in this iteration

	// Waiting (wait.go) and the poller's failures (rebuild.go).
	strategy  WaitStrategy
	empty     int   // polls in a row that brought nothing
	premature int   // waits in a row that returned early
	polled    bool  // the poller was asked in this iteration and did not fail
	failures  int   // of the poller, in a row
	faults    int   // panics of the engine, in a row
	retryAt   int64 // if in the future, the poller is left alone until then
	resting   atomic.Bool
	sick      atomic.Bool
	alarm     chan struct{} // ends a rest
	awakener  atomic.Pointer[sys.Poller]
	cancelled int // registrations that ended in this iteration

	// For the watchdog.
	busyFrom  atomic.Int64 // start of the iteration, 0 while the loop sleeps
	stalledAt atomic.Int64 // start of the last iteration that was a stall
	stalls    atomic.Uint64
	serving   atomic.Pointer[Conn]

	slots   []*Conn
	gens    []uint32
	free    []uint32
	special []*special
	unused  []uint32 // indexes of special that are free
	retired []uint32 // indexes that become free when the iteration is over
	active  int

	scratch  []byte
	pool     *buf.Pool
	borrowed buf.Bytes
	carriers []*buf.Bytes // spare, for messages of WriteBytes to a WriteHandler
	joint    []byte       // memory for WriteParts, nil while a message uses it
	gather   [][]byte
	builder  pipelineBuilder

	wheel      *wheel.Wheel
	expireFunc func(wheelHandle, uint64)
	timers     timerQueue

	cells   []*memoryCell // shares of budgets that this iteration changed
	pressed int           // cells under pressure

	ready   []*Conn // hold frames that were not decoded yet
	dirty   []*Conn // hold bytes that were not flushed yet
	closing []*Conn // will be closed at the end of the iteration
	spare   []*Conn // emptied list, reused
	wakes   []*executor.Pool
	unwoken int // strands that wait for their pool in wakes

	current   *Context      // context of the running handler, for panics
	tracing   loopTrace     // of the message that is being handled
	granted   int           // bytes of the current submitted write, admitted at its submission
	prepaid   prepaid       // the same bytes, counted as queued
	inHandler *Registration // the registration whose HandleReady is running
	orphaned  bool          // a handler has ended the loop's goroutine
	stopping  bool
	walks     []drainWalk
	forces    []forceWalk
	attempts  roster[*attempt] // outbound connections that are not established yet
	done      chan struct{}
	io        ioBatch
	batch     *Conn // connection whose batch is running; afterActivity flushes it, so it is not listed as dirty
	collect   collector
	tracking  tracking
	ago       int64 // age in ns of the current message, if it comes from a pool

	notices      []*Future // have listeners to run
	spareNotices []*Future // emptied list, reused
	notifying    int       // running listeners, nested

	counters      [counterCount]uint64
	writeInterest int64
	stats         published
	goid          atomic.Uint64
	assigned      atomic.Int64 // connections given to this loop and not yet closed
}

// newLoop builds a loop and its poller; the goroutine starts with run.
func newLoop(w *crew, index int, name string) (*loop, error) {
	k, set := w.kernel, w.set
	poller, err := k.poller(set.poller, set.wait)
	if err != nil {
		return nil, fmt.Errorf("eddy: poller of loop %s: %w", name, err)
	}
	l := &loop{
		name:    name,
		index:   uint32(index),
		crew:    w,
		set:     set,
		kernel:  k,
		sock:    k.sockets(),
		clock:   k.clock,
		log:     set.log,
		logs:    &w.logs,
		events:  make([]sys.Event, min(minEvents, set.maxEvents)),
		scratch: make([]byte, scratchSize),
		pool:    buf.NewPool(retainedBuffers),
		gather:  make([][]byte, 0, maxGather),
		done:    make(chan struct{}),

		alarm:    make(chan struct{}, 1),
		strategy: set.strategy,
	}
	l.pool.Watch(w.leaks)
	l.handle.l = l
	l.usePoller(poller)
	l.now = l.clock.Now()
	l.lag.start(l.now)
	l.wheel = wheel.New(wheelTick, l.now)
	l.expireFunc = l.expire
	l.tasks.limit = set.taskQueue
	l.tasks.wake = l.wakeup
	return l, nil
}

// iterate runs one iteration and reports whether there will be another. The check follows every iteration, even one that
// a panic has cut short.
func (l *loop) iterate() bool {
	l.turn()
	if l.stopping {
		l.closeDown()
		l.notifyFutures()
	}
	l.wakePools()
	l.publish()
	return !l.stopped()
}

// closeDown closes everything that a stopping loop still owns, whatever became of the iteration.
func (l *loop) closeDown() {
	defer l.survive()
	l.closeAll()
	l.finishCloses()
}

// repollAfter is the number of registrations that may end during the handling of events before the poller is asked again
// in the same iteration.
const repollAfter = 256

// processEvents handles the readiness that wait reported. If many connections or registrations ended meanwhile, it closes
// their descriptors and asks the poller once more without waiting, for a fresh view.
func (l *loop) processEvents(n int) {
	l.dispatch(n)
	l.growEvents(n)
	if l.cancelled+len(l.closing) <= repollAfter {
		return
	}
	l.finishCloses()
	l.counters[countRepolls]++
	n, err := l.poller.Wait(l.events, 0)
	if err != nil {
		l.pollFailed(err)
		return
	}
	l.counters[countEvents] += uint64(n)
	l.dispatch(n)
}

// dispatch hands each event to its descriptor and clears its entry.
func (l *loop) dispatch(n int) {
	for i := range n {
		ev := l.events[i]
		l.events[i] = sys.Event{}
		if ev.Token>>32 == 0 {
			l.readySpecial(ev)
			continue
		}
		c := l.lookup(ev.Token)
		if c == nil {
			l.counters[countStaleEvents]++
			continue
		}
		if ev.Ready == sys.Readable && c.batchable() {
			l.joinBatch(c)
			continue
		}
		l.processConn(c, ev.Ready)
	}
	l.endBatch()
}

// processConn handles one connection's readiness: write first (it frees memory), then read, then flush what the handlers
// queued. Empty readiness counts as readable, so that it cannot be reported forever. Connecting is handled earlier, by an
// attempt.
func (l *loop) processConn(c *Conn, ready sys.Ready) {
	defer l.contain(c)
	l.serving.Store(c)
	const failed = sys.Hangup | sys.Failed
	l.batch = c
	if ready == 0 {
		ready = sys.Readable
	}
	if ready&sys.Writable != 0 || ready&failed != 0 && c.interest&sys.Write != 0 {
		c.flush()
	}
	if ready&(sys.Readable|failed) != 0 {
		c.frames = frameBudget
		if l.pressed > 0 {
			c.pauseForBudget()
		}
		c.readReady(ready)
	}
	l.afterActivity(c)
}

// afterActivity follows a connection's activity, once per batch. The handlers' output is flushed, input memory that the
// leftover does not need is freed, and a draining connection may end.
func (l *loop) afterActivity(c *Conn) {
	l.batch = nil
	if c.later() != 0 {
		c.runLater()
	}
	if c.out.head != nil && c.interest&sys.Write == 0 && c.phase < PhaseClosing {
		c.flush()
	}
	if c.in != nil {
		c.trimInput()
	}
	c.requestOver()
	c.checkDrain()
	c.account()
}

// resumeReady continues connections that stopped with frames in hand, without waiting for new bytes.
func (l *loop) resumeReady() { l.visit(&l.ready, (*loop).resumeConn) }

func (l *loop) resumeConn(c *Conn) {
	defer l.contain(c)
	l.serving.Store(c)
	c.clear(listedReady)
	c.frames = frameBudget
	l.batch = c
	if l.pressed > 0 {
		c.pauseForBudget()
	}
	c.resumeDecode()
	l.afterActivity(c)
}

// flushDirty sends what was queued outside the connection's own read batch. Bytes that handlers queue during a flush go
// out in the next iteration, as do those of connections beyond the bound of visit.
func (l *loop) flushDirty() { l.visit(&l.dirty, (*loop).flushConn) }

func (l *loop) flushConn(c *Conn) {
	defer l.contain(c)
	l.serving.Store(c)
	c.clear(listedDirty)
	l.afterActivity(c)
}

// visit calls f for the first connections of a list, at most as many as an iteration takes events. The rest, and
// connections that visit did not reach because of a panic, come first in the next iteration, before those that f lists
// anew.
func (l *loop) visit(list *[]*Conn, f func(*loop, *Conn)) {
	batch := *list
	if len(batch) == 0 {
		return
	}
	*list = l.spare[:0]
	l.spare = nil
	done := 0
	defer func() {
		added := *list
		left := copy(batch, batch[done:])
		clear(batch[left:])
		*list = append(batch[:left], added...)
		clear(added)
		l.spare = added[:0]
	}()
	for _, c := range batch[:min(len(batch), l.set.maxEvents)] {
		done++
		f(l, c)
	}
}

// adopt gives a new connection a slot and a generation.
func (l *loop) adopt(c *Conn) {
	var slot uint32
	if n := len(l.free); n > 0 {
		slot = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		slot = uint32(len(l.slots))
		l.slots = append(l.slots, nil)
		l.gens = append(l.gens, 0)
	}
	l.gens[slot]++
	if l.gens[slot] == 0 { // generation 0 marks special descriptors
		l.gens[slot] = 1
	}
	l.slots[slot] = c
	c.slot, c.gen = slot, l.gens[slot]
	l.active++
}

// release frees a connection's slot; events and handles that still carry its generation are stale from now on.
func (l *loop) release(c *Conn) {
	l.slots[c.slot] = nil
	l.gens[c.slot]++
	l.free = append(l.free, c.slot)
	l.active--
}

// lookup returns the connection that a token or handle names, nil when it has ended.
func (l *loop) lookup(token uint64) *Conn {
	slot, gen := uint32(token), uint32(token>>32)
	if int(slot) >= len(l.slots) || l.gens[slot] != gen {
		return nil
	}
	return l.slots[slot]
}

// stopped reports whether the loop may end: it was told to and owns nothing any more.
func (l *loop) stopped() bool { return l.stopping && l.active == 0 }

// runLast is the reduced iteration of a loop that has ended.
func (l *loop) runLast() {
	l.runTasks(0)
	l.finishCloses()
	l.wakePools()
	l.runTail()
	l.notifyFutures()
}

// teardown runs the tasks accepted before the queue closed, ends the user's registrations and closes the poller.
func (l *loop) teardown() {
	l.tasks.close()
	for l.tasks.waiting() {
		l.runLast()
	}
	for _, s := range l.special {
		if s != nil && s.lost != nil {
			s.lost(ErrClosed)
		}
	}
	for len(l.notices) > 0 || !l.tasks.finish() {
		l.runLast()
	}
	l.busyFrom.Store(0)
	l.publish()
	if err := l.poller.Close(); err != nil && !isPollerClosed(err) {
		l.log.Error("eddy: closing the poller failed", "loop", l.name, "err", err)
	}
}
