package eddy

import (
	"sync/atomic"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/transport"
	"github.com/go-eddy/eddy/internal/wheel"
)

type wheelHandle = wheel.Handle

// loop is a reactor and what lives on it: the connections it owns. Only its own goroutine touches its fields, except for
// those that are atomic.
type loop struct {
	reactor.Loop[task]

	index  uint32
	crew   *crew
	set    *loopSettings
	kernel *kernel
	sock   sys.Sockets
	logs   *logSamplers
	handle Loop

	serving  atomic.Pointer[Conn] // for the watchdog
	table    transport.Table[Conn]
	lists    connLists
	inHand   inHand
	out      outbox
	hops     hopBatches
	notices  notices
	walks    []walk // over all connections, which many iterations share
	memory   pressure
	attempts list.List[attempt] // outbound connections that are not established yet
	io       ioBatch
	batch    *Conn // connection whose batch is running; afterActivity flushes it, so it is not listed as dirty
	builder  pipelineBuilder

	mem       loopMemory
	deadlines deadlines

	writeInterest int64
	assigned      atomic.Int64 // connections given to this loop and not yet closed
}

// loopMemory is memory that all connections of a loop share.
type loopMemory struct {
	scratch  []byte // a read goes here
	segments *buf.Pool
	gather   [][]byte // the pieces of one write call
	pipes    pipes
}

// deadlines are the entries of a loop's connections in its wheel.
type deadlines struct {
	wheel  *wheel.Wheel
	expire func(wheelHandle, uint64)
}

// connLists are the connections that the iteration has to come back to, each at most once on a list.
type connLists struct {
	ready   []*Conn // hold frames that were not decoded yet
	dirty   []*Conn // hold bytes that were not flushed yet
	closing []*Conn // will be closed at the end of the iteration
	spare   []*Conn // emptied list, reused
}

// inHand is what the loop is handling in this moment.
type inHand struct {
	ctx        *Context      // context of the running handler, for panics
	descriptor *Registration // the registration whose HandleReady is running
	tracing    loopTrace     // of the message that is being handled
	granted    int           // bytes of the current submitted write, admitted at its submission
	prepaid    prepaid       // the same bytes, counted as queued
	ago        int64         // age in ns of the current message, if it comes from a pool
	turn       int64         // when the current connection's turn was looked at first, 0 before
}

// outbox is what a handler's write needs on its way to the queue.
type outbox struct {
	collect  collector
	tracking tracking
	carriers []*buf.Bytes // spare, for messages of WriteBytes to a WriteHandler
	joint    []byte       // memory for WriteParts, nil while a message uses it
	borrowed buf.Bytes
}

// hopBatches are the pools that the iteration has given work to and not woken.
type hopBatches struct {
	wakes   []*executor.Pool
	unwoken int // strands that wait for their pool in wakes
}

// notices are Futures whose listeners are to run.
type notices struct {
	list   []*Future
	spare  []*Future // emptied list, reused
	nested int       // running listeners
}

// pressure is what the loop's connections hold for the budgets of their endpoints.
type pressure struct {
	cells   []*memoryCell // shares of budgets that this iteration changed
	pressed int           // cells under pressure
}

// newLoop builds a loop and opens its poller. Start starts the goroutine.
func newLoop(w *crew, index int, name string) (*loop, error) {
	k, set := w.kernel, w.set
	l := &loop{
		index:  uint32(index),
		crew:   w,
		set:    set,
		kernel: k,
		logs:   &w.logs,
		mem: loopMemory{
			scratch: make([]byte, scratchSize), segments: buf.NewPool(retainedBuffers), gather: make([][]byte, 0, transport.MaxGather),
		},
	}
	system := &reactor.Kernel{
		Clock: k.clock,
		Open:  func() (sys.Poller, error) { return k.poller(set.poller, set.wait) },
		Pause: k.pause,
		Yield: k.yield,
	}
	if err := l.Init(l, name, set.reactor(index), system, set.log, &w.logs.panics); err != nil {
		return nil, err
	}
	l.sock = k.sockets()
	l.mem.segments.Watch(w.leaks)
	l.handle.l = l
	l.deadlines.wheel = wheel.New(wheelTick, l.Now)
	l.deadlines.expire = l.expire
	return l, nil
}

// start runs the loop. The error tells why it cannot.
func (l *loop) start() error {
	if l.kernel.start != nil {
		l.kernel.start(l)
		return nil
	}
	if err := l.Start(); err != nil {
		return &LoopError{Loop: l.Name, Op: "pin to its processor", Err: err}
	}
	return nil
}

// The phases of an iteration, as package reactor calls them: Begin, RunTask for each task, Events, Finish.

// Begin ends the batch of reads that the iteration before did not end, because of a panic or the end of its goroutine.
func (l *loop) Begin() (input bool) {
	l.endBatch()
	return len(l.lists.ready) > 0
}

// Finish is what follows the events.
func (l *loop) Finish() {
	l.resumeReady()
	l.expireDeadlines()
	l.notifyFutures()
	l.flushDirty()
	l.continueWalks()
	l.FinishCloses()
	l.notifyFutures()
}

// Waiting reports whether the next iteration has something to do that no event will announce.
func (l *loop) Waiting() bool {
	return len(l.lists.ready) > 0 || len(l.lists.dirty) > 0 || len(l.lists.closing) > 0 || len(l.notices.list) > 0 || l.walking()
}

// Deadline returns when the wheel is due.
func (l *loop) Deadline() (when int64, ok bool) { return l.deadlines.wheel.Next() }

// Leave closes everything that a stopping loop still owns.
func (l *loop) Leave() {
	l.closeAll()
	l.FinishCloses()
	l.closePipes()
	l.notifyFutures()
}

// Empty reports whether the loop owns no connection any more.
func (l *loop) Empty() bool { return l.table.Active() == 0 }

// Last is the reduced iteration of a loop that has ended.
func (l *loop) Last() (more bool) {
	l.FinishCloses()
	l.wakePools()
	l.notifyFutures()
	return len(l.notices.list) > 0
}

// Migrate registers the connections with the loop's new poller and closes those that cannot be.
func (l *loop) Migrate(old sys.Poller) (migrated, lost int) {
	for c := range l.table.All() {
		if !c.has(registered) {
			continue
		}
		if err := l.Adopt(old, c.fd, c.interest, c.token()); err != nil {
			c.clear(registered)
			c.beginClose(CloseInternalError, err)
			lost++
			continue
		}
		migrated++
	}
	return migrated, lost
}

// Events hands each event to its descriptor and clears its entry. It returns how many connections have ended.
func (l *loop) Events(events []sys.Event) (ended int) {
	for i, ev := range events {
		events[i] = sys.Event{}
		if ev.Token>>32 == 0 {
			l.serving.Store(nil)
			l.Ready(ev)
			continue
		}
		c := l.table.Lookup(ev.Token)
		if c == nil {
			l.Counters[meter.StaleEvents]++
			continue
		}
		if ev.Ready == sys.Readable && c.batchable() {
			l.joinBatch(c)
			continue
		}
		l.processConn(c, ev.Ready)
	}
	l.endBatch()
	return len(l.lists.closing)
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
		if l.memory.pressed > 0 {
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
	if c.out.Head != nil && c.interest&sys.Write == 0 && c.phase < PhaseClosing {
		c.flush()
	}
	if c.in.Held() {
		c.in.Trim(l.mem.segments)
	}
	c.requestOver()
	c.checkDrain()
	c.account()
}

// resumeReady continues connections that stopped with frames in hand, without waiting for new bytes.
func (l *loop) resumeReady() { l.visit(&l.lists.ready, (*loop).resumeConn) }

func (l *loop) resumeConn(c *Conn) {
	defer l.contain(c)
	l.serving.Store(c)
	c.clear(listedReady)
	if c.phase < PhaseClosing {
		c.beginTurn()
	}
	l.batch = c
	if l.memory.pressed > 0 {
		c.pauseForBudget()
	}
	c.resumeDecode()
	l.afterActivity(c)
}

// flushDirty sends what was queued outside the connection's own read batch. Bytes that handlers queue during a flush go
// out in the next iteration, as do those of connections beyond the bound of visit.
func (l *loop) flushDirty() { l.visit(&l.lists.dirty, (*loop).flushConn) }

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
	*list = l.lists.spare[:0]
	l.lists.spare = nil
	done := 0
	defer func() {
		added := *list
		left := copy(batch, batch[done:])
		clear(batch[left:])
		*list = append(batch[:left], added...)
		clear(added)
		l.lists.spare = added[:0]
	}()
	for _, c := range batch[:min(len(batch), l.set.maxEvents)] {
		done++
		f(l, c)
	}
}
