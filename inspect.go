package eddy

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/wheel"
)

// inspection checks the invariants of a loop that is about to wait. Only the simulation uses it.
type inspection struct {
	l       *loop
	queue   map[*Conn]submitted
	reports simhook.Inspector
	err     error

	heldIn, heldOut int64   // by all connections
	piped           []*Conn // whose bytes are in pipes
}

// submitted is what the task queue holds for one connection.
type submitted struct {
	bytes int64
	kinds uint32 // bit per taskKind
}

func (s submitted) has(kinds ...taskKind) bool {
	for _, k := range kinds {
		if s.kinds&(1<<k) != 0 {
			return true
		}
	}
	return false
}

func newInspection(l *loop) *inspection {
	k := &inspection{l: l}
	k.reports, _ = l.Poller.(simhook.Inspector)
	waiting := 0
	l.Tasks.Inspect(func(t task) {
		waiting++
		if t.conn != nil {
			k.submit(t)
		}
	})
	if n := l.Tasks.Depth(); n != waiting {
		k.fail("the task queue holds %d and counts %d", waiting, n)
	}
	return k
}

func (k *inspection) submit(t task) {
	if k.queue == nil {
		k.queue = make(map[*Conn]submitted)
	}
	s := k.queue[t.conn]
	if t.kind == taskWrite {
		s.bytes += int64(t.size)
	}
	s.kinds |= 1 << t.kind
	k.queue[t.conn] = s
}

func (k *inspection) fail(format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf(format, args...)
	}
}

// connFail is fail for one connection.
func (k *inspection) connFail(c *Conn, format string, args ...any) {
	if k.err == nil {
		k.fail("connection %v (descriptor %d, phase %v, interest %d, paused %d, queued %d, end %v): "+format,
			append([]any{c.ID(), c.fd, c.phase, c.interest, c.paused, c.queued.Load(), c.ended.Load()}, args...)...)
	}
}

// slots checks that every connection stands in exactly one slot, under its own generation.
func (k *inspection) slots() {
	l := k.l
	for c := range l.table.All() {
		if c.loop != l || c.gen == 0 || l.table.Lookup(c.token()) != c {
			k.fail("a slot holds connection %v, which is not its own", c.ID())
		}
	}
	if err := l.table.Check(); err != nil {
		k.fail("%w", err)
	}
}

// lists checks that a connection is on a list exactly if its bit says so.
func (k *inspection) lists() {
	l := k.l
	on := func(name string, list []*Conn, flag func(*Conn) bool) {
		for i, c := range list {
			if !flag(c) || c.loop != l || slices.Contains(list[:i], c) {
				k.connFail(c, "is on the %s list wrongly", name)
			}
		}
		for c := range l.table.All() {
			if flag(c) && !slices.Contains(list, c) {
				k.connFail(c, "is not on the %s list", name)
			}
		}
	}
	on("ready", l.lists.ready, func(c *Conn) bool { return c.has(listedReady) })
	on("dirty", l.lists.dirty, func(c *Conn) bool { return c.has(listedDirty) })
	if len(l.lists.closing) > 0 {
		k.fail("%d connections were not closed at the end of the iteration", len(l.lists.closing))
	}
}

func (k *inspection) conn(c *Conn) {
	k.phase(c)
	k.interest(c)
	k.outbound(c)
	k.memory(c)
	k.marks(c)
	k.futures(c)
	if c.phase < PhaseClosing {
		k.reads(c)
		k.ends(c)
	}
}

// phase checks that an ending connection has a reason and a deadline.
func (k *inspection) phase(c *Conn) {
	ending := c.phase == PhaseClosing
	switch {
	case c.phase == PhaseClosed || c.has(listedClose):
		k.connFail(c, "is closed and still there")
	case (c.ended.Load() != nil) != (c.phase == PhaseClosing):
		k.connFail(c, "ends and does not say so")
	case ending && c.ended.Load().Reason == CloseUnset:
		k.connFail(c, "ends without a reason")
	case c.has(finishing) && (!ending || c.clock.Until() == 0):
		k.connFail(c, "finishes without a deadline")
	case c.has(lingering) && (!c.has(finishing) || c.out.Head != nil):
		k.connFail(c, "lingers before it has finished")
	case ending && !c.has(finishing):
		k.connFail(c, "ends, but neither now nor in order")
	case ending && c.has(handshaking):
		k.connFail(c, "ends and has a handshake to do")
	case c.has(handshaking) && c.clock.Until() == 0:
		k.connFail(c, "has a handshake without a deadline")
	case c.counts.inflight.Load() < 0 || c.counts.encoding.Load() < 0 || c.counts.transit.Load() < 0:
		k.connFail(c, "counts less than nothing in flight")
	}
}

// interest checks that the poller's registration matches the connection's, and that write interest is on only while bytes
// wait.
func (k *inspection) interest(c *Conn) {
	pending := c.out.Head != nil
	switch {
	case !c.has(registered):
		k.connFail(c, "is not registered")
	case c.interest&sys.Write != 0 && !pending:
		k.connFail(c, "has write interest and nothing to write")
	case c.later() != 0 && c.phase < PhaseClosing && !c.has(listedDirty):
		k.connFail(c, "has something to do later (%b), and nobody will", c.later())
	case c.interest&sys.Write == 0 && pending && !c.has(listedDirty):
		k.connFail(c, "has %d bytes to write, and nobody will", c.out.Head.Len())
	}
	if k.reports == nil {
		return
	}
	if in, token, ok := k.reports.Registration(c.fd); !ok || in != c.interest || token != c.token() {
		k.connFail(c, "is registered: %v, with interest %d and token %x", ok, in, token)
	}
}

// outbound checks that bytes counted as queued are in the queue or on their way to it.
func (k *inspection) outbound(c *Conn) {
	sum := k.queue[c].bytes + c.reservedBytes()
	last := c.out.Head
	var units []unit
	if c.has(marked) {
		units = c.outMarks().Units()
	}
	for s := c.out.Head; s != nil; s = s.Next {
		if s.Len() == 0 {
			i := slices.IndexFunc(units, func(u unit) bool { return u.File != nil })
			if i < 0 {
				k.connFail(c, "has an empty segment in its queue")
				break
			}
			sum += int64(window(units[i].Left))
			k.pipe(c, units[i])
			units = units[i+1:]
		}
		sum += int64(s.Len())
		last = s
	}
	if last != c.out.Tail {
		k.connFail(c, "has a queue whose tail is not its last segment")
	}
	if sum != c.queued.Load() {
		k.connFail(c, "holds %d bytes outbound", sum)
	}
}

// pipe notes whose reads wait for a pipe in the queue of c.
func (k *inspection) pipe(c *Conn, u unit) {
	p, ok := u.File.(*pipe)
	if !ok {
		return
	}
	if p.left == 0 || int64(p.left) != u.Left || p.loop != k.l || p.from == nil || p.from.loop != k.l {
		k.connFail(c, "has a pipe with %d bytes, %d counted, from %v", p.left, u.Left, p.from)
	}
	k.piped = append(k.piped, p.from)
}

// pipes checks that a connection waits for a pipe exactly if there is one with its bytes, and that no pipe is lost.
func (k *inspection) pipes() {
	l := k.l
	for c := range l.table.All() {
		if waits, n := c.paused&pauseSplice != 0, slices.Contains(k.piped, c); waits != n {
			k.connFail(c, "waits for a pipe: %v; there is one: %v", waits, n)
		}
	}
	if ps := &l.mem.pipes; ps.lent != len(k.piped) || ps.lent > maxPipes || len(ps.idle) > maxIdlePipes {
		k.fail("%d pipes hold bytes, %d are lent, %d idle", len(k.piped), ps.lent, len(ps.idle))
	}
}

// reservedBytes returns the bytes of messages that count as queued and are not written yet.
func (c *Conn) reservedBytes() int64 {
	if x := c.ext.Load(); x != nil {
		return x.reserved.Load()
	}
	return 0
}

// memory checks that the budget counts what the connection holds, as soon as it is flushed.
func (k *inspection) memory(c *Conn) {
	out, in := c.holds()
	if c.held.in != in || c.held.out != out && !c.has(listedDirty) && k.queue[c].bytes == 0 && !k.queue[c].has(taskSignal) {
		k.connFail(c, "counts for %d bytes outbound and %d inbound, and holds %d and %d", c.held.out, c.held.in, out, in)
	}
	if m := c.cell(); c.paused&pauseBudget != 0 && !slices.Contains(m.paused, c.token()) {
		k.connFail(c, "is paused for a budget that will not resume it")
	}
	k.heldOut += int64(c.held.out)
	k.heldIn += int64(c.held.in)
}

// marks checks that the connection is unwritable exactly while its queue is above its marks. Its reads are then paused,
// unless they go on under ReadOn.
func (k *inspection) marks(c *Conn) {
	over := c.shows(unwritable)
	q, told := c.queued.Load(), k.queue[c].has(taskWrite, taskReadState, taskSignal)
	switch {
	case (over && !c.has(readsOn)) != (c.paused&pauseOutbound != 0):
		k.connFail(c, "over its high mark: %v, reads on: %v", over, c.has(readsOn))
	case c.phase == PhaseClosing || told:
	case over && q <= c.low():
		k.connFail(c, "is below its low mark and still unwritable")
	case c.shows(toldFull) && q <= c.low():
		k.connFail(c, "has told that it is unwritable, and not that it is writable again")
	case !over && q >= c.high():
		k.connFail(c, "is above its high mark and still writable")
	}
}

// reads checks that a connection reads and decodes unless something holds its reads back.
func (k *inspection) reads(c *Conn) {
	if c.paused&pauseHop != 0 && c.awaitedStrand() == nil && !k.queue[c].has(taskReadState) {
		k.connFail(c, "is paused for a strand that it does not wait for")
	}
	if c.shows(readTask) != k.queue[c].has(taskReadState) {
		k.connFail(c, "has a task for its reads: %v", c.shows(readTask))
	}
	if c.readPaused() || c.has(listedReady) || k.queue[c].has(taskReadState) {
		return
	}
	switch {
	case c.paused&pauseInner != 0 && c.lastInHand() == nil, c.paused&pauseInner == 0 && c.lastInHand() != nil:
		k.connFail(c, "has frames in hand further down: %v", c.paused&pauseInner != 0)
	case c.framesInHand():
		k.connFail(c, "has bytes to decode, and nobody will")
	case !c.has(inputEnded) && c.interest&sys.Read == 0:
		k.connFail(c, "is not paused and does not read")
	}
}

// ends checks that an end that was requested or has become due will come.
func (k *inspection) ends(c *Conn) {
	s, late := k.queue[c], c.paused&pauseEnd != 0
	switch {
	case c.closeRequested() != nil && !late && !s.has(taskClose):
		k.connFail(c, "was asked to close (%v), and nobody will", c.closeRequested().reason)
	case late && c.clock.Until() == 0:
		k.connFail(c, "will end without a deadline")
	case late && c.counts.encoding.Load() == 0 && !s.has(taskCheckDrain):
		k.connFail(c, "waits for writes on pools, of which there are none")
	case c.shows(idleTask) != s.has(taskCheckDrain):
		k.connFail(c, "has a task for its drain: %v", c.shows(idleTask))
	case c.has(draining|inputEnded) && c.idle() && !s.has(taskCheckDrain, taskWrite, taskClose):
		k.connFail(c, "is idle at its end (draining %v, half-closed %v) and stays", c.has(draining), c.has(inputEnded))
	}
}

// wheel checks that all armed entries belong to live connections or timers, and that every deadline is armed in time.
func (k *inspection) wheel() {
	l, armed := k.l, 0
	for c := range l.table.All() {
		if c.timer != 0 {
			armed++
			if payload, ok := l.deadlines.wheel.Armed(c.timer); !ok || payload != c.token() {
				k.connFail(c, "has a deadline armed as %x: %v", payload, ok)
			}
		}
		if next := c.nextDeadline(); next != 0 && (c.timer == 0 || l.deadlines.wheel.When(c.timer) > wheel.After(next, wheelTick)) {
			k.connFail(c, "has a deadline at %d, which entry %d does not keep", next, c.timer)
		}
	}
	for _, t := range l.Timers.All() {
		if x, ok := t.Owner().(*connExt); ok && (x.conn.loop != l || l.table.Lookup(x.conn.token()) != x.conn) {
			k.fail("a timer for %d is armed that belongs to nobody", t.When())
		}
	}
	if armed != l.deadlines.wheel.Len() {
		k.fail("%d connections have a deadline armed, the wheel holds %d", armed, l.deadlines.wheel.Len())
	}
}

// numbers checks the counters against the loop's actual state.
func (k *inspection) numbers(w simhook.Waiting) {
	l := k.l
	var writing int64
	for c := range l.table.All() {
		if c.interest&sys.Write != 0 {
			writing++
		}
	}
	if writing != l.writeInterest {
		k.fail("%d connections have write interest, %d counted", writing, l.writeInterest)
	}
	if in, out := l.Stats.Value(meter.HeldIn), l.Stats.Value(meter.HeldOut); in != k.heldIn || out != k.heldOut {
		k.fail("%d bytes are held inbound and %d outbound, %d and %d published", k.heldIn, k.heldOut, in, out)
	}
	coming := 0
	for _, s := range k.queue {
		if s.has(taskRegister) {
			coming++
		}
	}
	if n := l.assigned.Load(); n != int64(l.table.Active()+coming) {
		k.fail("%d connections and %d to come, %d assigned", l.table.Active(), coming, n)
	}
	if in, out := l.Counters[meter.BytesIn], l.Counters[meter.BytesOut]; in > w.In || in < w.In-w.Late || out != w.Out {
		k.fail("counted %d bytes in and %d out, but %d and %d have passed", in, out, w.In, w.Out)
	}
	if n := l.Counters[meter.Faults]; n > 0 {
		k.fail("%d panics of the loop itself", n)
	}
	if n := l.Counters[meter.PhaseViolations]; n > 0 {
		k.fail("%d impossible phase transitions", n)
	}
	for i, v := range l.Counters {
		if n := l.Stats.Count(meter.Counter(i)); n != v {
			k.fail("counter %d is %d and was published as %d", i, v, n)
		}
	}
	if l.Stats.Value(meter.Active) != int64(l.table.Active()) || l.Stats.Value(meter.WriteInterest) != l.writeInterest || l.Stats.Value(meter.Deadlines) != int64(l.deadlines.wheel.Len()) {
		k.fail("active %d, write interest %d and %d deadlines were not published", l.table.Active(), l.writeInterest, l.deadlines.wheel.Len())
	}
}

// nothingLost checks that a waiting loop has nothing to do and wakes in time for what comes due.
func (k *inspection) nothingLost(w simhook.Waiting) {
	l := k.l
	if w.Timeout == 0 || w.Woken {
		return
	}
	if len(l.lists.ready) > 0 || len(l.lists.dirty) > 0 || l.Stopping || l.walking() {
		k.fail("waits %v with work in hand: %d ready, %d dirty, stopping %v, draining %v", w.Timeout, len(l.lists.ready), len(l.lists.dirty),
			l.Stopping, l.walking())
	}
	if n := k.pressing(w); n > 0 {
		k.fail("waits %v with %d tasks in its queue and nobody to wake it", w.Timeout, n)
	}
	when, ok := l.deadlines.wheel.Next()
	if ok && (w.Timeout < 0 || w.Until > wheel.After(when, wheelTick)) {
		k.fail("waits %v, until %d, but has a deadline at %d", w.Timeout, w.Until, when)
	}
	if when, ok := l.Timers.Next(); ok && (w.Timeout < 0 || w.Until > wheel.After(when, time.Millisecond)) { // time passes on the way to the wait
		k.fail("waits %v, until %d, but has a timer at %d", w.Timeout, w.Until, when)
	}
}

// pressing returns the number of tasks that the loop must not sleep over: all but timers that are not due before it
// wakes.
func (k *inspection) pressing(w simhook.Waiting) int {
	n := 0
	n += k.l.Tasks.Inspect(func(t task) {
		if t.kind != taskTimer || w.Timeout < 0 || t.msg.(*reactor.Timer).When() < w.Until-int64(time.Millisecond) {
			n++
		}
	})
	return n
}

// empty checks that a loop that has ended gave everything back.
func (k *inspection) empty() {
	l := k.l
	if ps := &l.mem.pipes; ps.lent+len(ps.idle) != 0 {
		k.fail("ended with %d pipes lent and %d idle", ps.lent, len(ps.idle))
	}
	if l.table.Active() != 0 || l.assigned.Load() != 0 || l.writeInterest != 0 || l.Tasks.Depth() != 0 || l.attempts.First() != nil {
		k.fail("ended with %d connections, %d assigned, %d that write, %d tasks, %d attempts", l.table.Active(), l.assigned.Load(),
			l.writeInterest, l.Tasks.Depth(), l.attempts.Len())
	}
	for _, t := range l.Timers.All() {
		if x, ok := t.Owner().(*connExt); ok {
			k.connFail(x.conn, "left a timer")
		}
	}
}

// futures checks that the marks lie in the queue, in its order, and that no unfinished write is lost.
func (k *inspection) futures(c *Conn) {
	x := c.ext.Load()
	if x == nil {
		return
	}
	if m := x.marks; c.has(marked) {
		if err := m.Check(&c.out); err != nil {
			k.connFail(c, "%w", err)
		}
	} else if m != nil && len(m.Units())+m.Waiting() > 0 {
		k.connFail(c, "has marks and does not count: %+v", m)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := x.futures.Len(); n != x.futures.n || n > maxFutures {
		k.connFail(c, "has %d futures, %d counted, limit %d", n, x.futures.n, maxFutures)
	}
}
