package eddy

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/wheel"
)

type wheelHandle = wheel.Handle

// readyFunc is called for readiness of a descriptor that is no connection (the listener).
type readyFunc func(sys.Ready)

// loop is one reactor: a goroutine, a poller, and the connections it owns. Everything in it except the task queue and
// the published counters is touched by its own goroutine only.
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

	slots   []*Conn
	gens    []uint32
	free    []uint32
	special []readyFunc
	unused  []uint32 // indexes of special that are free
	retired []uint32 // those that become free when the iteration is over
	active  int

	scratch  []byte
	pool     *buf.Pool
	borrowed buf.Bytes
	gather   [][]byte
	builder  pipelineBuilder

	wheel      *wheel.Wheel
	expireFunc func(wheelHandle, uint64)
	timers     []*Timer
	freeTimers []uint32

	ready   []*Conn // hold frames that were not decoded yet
	dirty   []*Conn // hold bytes that were not flushed yet
	closing []*Conn // will be closed at the end of the iteration
	spare   []*Conn // emptied list, reused

	current  *Context // whose handler is running, for panics
	stopping bool
	walks    []drainWalk
	attempts map[*attempt]struct{} // outbound connections that do not stand yet
	done     chan struct{}
	pollErrs int

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
		poller:  poller,
		log:     set.log,
		logs:    &w.logs,
		events:  make([]sys.Event, 128),
		scratch: make([]byte, scratchSize),
		pool:    buf.NewPool(retainedBuffers),
		gather:  make([][]byte, 0, maxGather),
		done:    make(chan struct{}),

		attempts: make(map[*attempt]struct{}),
	}
	l.pool.Watch(w.leaks)
	l.now = l.clock.Now()
	l.wheel = wheel.New(wheelTick, l.now)
	l.expireFunc = l.expire
	l.tasks.limit = set.taskQueue
	l.tasks.wake = l.wakeup
	return l, nil
}

// wakeup ends the loop's wait. Any goroutine.
func (l *loop) wakeup() {
	if err := l.poller.Wake(); err != nil && !errors.Is(err, sys.ErrPollerClosed) { // closed: the loop has ended
		l.log.Error("eddy: wakeup failed", "loop", l.name, "err", err)
	}
}

// run is the loop's goroutine.
func (l *loop) run() {
	defer close(l.done)
	if l.set.wait == WaitPinned {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	l.goid.Store(goroutineID())
	for l.iterate() {
	}
	l.teardown()
}

// iterate is one turn of the loop (DESIGN 3.3) and reports whether there will be another.
func (l *loop) iterate() bool {
	n := l.wait()
	l.runTasks()
	l.processEvents(n)
	l.resumeReady()
	l.expireDeadlines()
	l.flushDirty()
	l.continueDrain()
	l.finishCloses()
	l.reuseSpecials()
	l.publish()
	return !l.stopped()
}

// wait polls, and parks when there is nothing to do until the next deadline, an event or a task.
func (l *loop) wait() int {
	timeout := l.waitTimeout()
	if timeout != 0 && !l.tasks.sleep() {
		timeout = 0
	}
	n, err := l.poller.Wait(l.events, timeout)
	l.tasks.awake()
	l.now = l.clock.Now()
	l.counters[countIterations]++
	if err != nil {
		l.pollFailed(err)
		return 0
	}
	l.pollErrs = 0
	l.counters[countEvents] += uint64(n)
	return n
}

// waitTimeout is 0 while work is pending, negative when only an event or a task can bring more.
func (l *loop) waitTimeout() time.Duration {
	if len(l.ready) > 0 || len(l.dirty) > 0 || len(l.closing) > 0 || l.tasks.depth() > 0 || l.stopping {
		return 0
	}
	if l.walking() {
		return 0
	}
	when, ok := l.wheel.Next()
	if !ok {
		return -1
	}
	return max(0, time.Duration(when-l.clock.Now()))
}

// maxPollErrors consecutive failures of the poller end the loop: its connections are closed, the process lives.
const maxPollErrors = 16

func (l *loop) pollFailed(err error) {
	l.pollErrs++
	l.counters[countPollErrors]++
	l.log.Error("eddy: poller failed", "loop", l.name, "err", err, "in_a_row", l.pollErrs)
	if l.pollErrs == maxPollErrors {
		l.closeAll(nil, CloseInternalError, err)
		l.stopping = true
	}
}

// processEvents handles the readiness that wait reported.
func (l *loop) processEvents(n int) {
	for i := range n {
		ev := l.events[i]
		if ev.Token>>32 == 0 {
			l.readySpecial(ev)
			continue
		}
		c := l.lookup(ev.Token)
		if c == nil {
			l.counters[countStaleEvents]++
			continue
		}
		l.processConn(c, ev.Ready)
	}
	if n == len(l.events) && n < maxEvents {
		l.events = make([]sys.Event, 2*n)
	}
}

// maxEvents bounds the growth of the event array.
const maxEvents = 4096

func (l *loop) readySpecial(ev sys.Event) {
	if f := l.special[uint32(ev.Token)]; f != nil {
		f(ev.Ready)
	}
}

// processConn handles one connection's readiness: write first (it frees memory), then read, then flush what the
// handlers queued.
func (l *loop) processConn(c *Conn, ready sys.Ready) {
	defer l.contain(c)
	const failed = sys.Hangup | sys.Failed
	if ready&sys.Writable != 0 || ready&failed != 0 && c.interest&sys.Write != 0 {
		c.flush()
	}
	if ready&(sys.Readable|failed) != 0 {
		c.frames = frameBudget
		c.readReady(ready&failed != 0)
	}
	l.afterActivity(c)
}

// afterActivity flushes what a connection's handlers queued, once per batch, keeps no more memory than the leftover needs,
// and lets a draining connection end.
func (l *loop) afterActivity(c *Conn) {
	if c.out.head != nil && c.interest&sys.Write == 0 && c.phase < PhaseClosing {
		c.flush()
	}
	if c.in != nil {
		c.trimInput()
	}
	c.checkDrain()
}

// resumeReady continues connections that stopped with frames in hand, without waiting for new bytes.
func (l *loop) resumeReady() { l.visit(&l.ready, (*loop).resumeConn) }

func (l *loop) resumeConn(c *Conn) {
	defer l.contain(c)
	c.clear(listedReady)
	c.frames = frameBudget
	c.resumeDecode()
	l.afterActivity(c)
}

// flushDirty sends what was queued outside the connection's own read batch. What a flush makes its handlers queue goes
// out in the next iteration.
func (l *loop) flushDirty() { l.visit(&l.dirty, (*loop).flushConn) }

func (l *loop) flushConn(c *Conn) {
	defer l.contain(c)
	c.clear(listedDirty)
	l.afterActivity(c)
}

// visit empties a list and calls f for what was on it. What f puts on the list anew is left for the next iteration.
func (l *loop) visit(list *[]*Conn, f func(*loop, *Conn)) {
	batch := *list
	if len(batch) == 0 {
		return
	}
	*list = l.spare[:0]
	for i, c := range batch {
		batch[i] = nil
		f(l, c)
	}
	l.spare = batch[:0]
}

// contain turns a panic of a handler into the close of its connection; the loop goes on.
func (l *loop) contain(c *Conn) {
	v := recover()
	if v == nil {
		return
	}
	stack := debug.Stack()
	l.counters[countPanics]++
	ctx := l.current
	l.current = nil
	name := ""
	if ctx != nil {
		name = ctx.node.name
	}
	l.logPanic(name, v, stack)
	if c == nil {
		return
	}
	perr := &PanicError{Value: v, Stack: stack}
	if ctx != nil && ctx.conn == c {
		l.tellPanic(ctx, perr)
	}
	c.closeFlushed(CloseInternalError, perr)
}

// tellPanic gives the ErrorHandlers a last word; one that panics itself has had it.
func (l *loop) tellPanic(ctx *Context, perr *PanicError) {
	defer func() {
		if v := recover(); v != nil {
			l.log.Error("eddy: panic in an error handler", "loop", l.name, "panic", v)
		}
		l.current = nil
	}()
	ctx.fireErrorFrom(ctx, perr, false)
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

// lookup finds the connection a token or handle means, nil when it has ended.
func (l *loop) lookup(token uint64) *Conn {
	slot, gen := uint32(token), uint32(token>>32)
	if int(slot) >= len(l.slots) || l.gens[slot] != gen {
		return nil
	}
	return l.slots[slot]
}

// addSpecial registers a descriptor that is no connection.
func (l *loop) addSpecial(fd int, in sys.Interest, f readyFunc) (token uint64, err error) {
	if n := len(l.unused); n > 0 {
		token = uint64(l.unused[n-1])
		l.unused = l.unused[:n-1]
		l.special[token] = f
	} else {
		token = uint64(len(l.special))
		l.special = append(l.special, f)
	}
	if err := l.poller.Add(fd, in, token); err != nil {
		l.special[token] = nil
		l.unused = append(l.unused, uint32(token))
		return 0, err
	}
	return token, nil
}

// removeSpecial undoes addSpecial. Its token is used again in the next iteration at the earliest: this one may still
// hold events of it.
func (l *loop) removeSpecial(fd int, token uint64) error {
	l.special[token] = nil
	l.retired = append(l.retired, uint32(token))
	return l.poller.Remove(fd)
}

func (l *loop) reuseSpecials() {
	l.unused = append(l.unused, l.retired...)
	l.retired = l.retired[:0]
}

// stopped reports whether the loop may end: it was told to and owns nothing any more.
func (l *loop) stopped() bool { return l.stopping && l.active == 0 }

// teardown runs what was accepted before the queue closed, then gives the poller back.
func (l *loop) teardown() {
	l.tasks.close()
	for l.tasks.depth() > 0 {
		l.runTasks()
		l.finishCloses()
	}
	l.publish()
	if err := l.poller.Close(); err != nil {
		l.log.Error("eddy: closing the poller failed", "loop", l.name, "err", err)
	}
}
