package eddy

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/allowance"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/wheel"
)

// How a Server keeps to its MemoryBudget.
const (
	// budgetFree is the share of the budget, a tenth, that must be free before reads go on again.
	budgetFree = 10
	// budgetExcess is the share, a quarter, above which there is no grace: the slowest connection closes, and writes from
	// other goroutines are refused.
	budgetExcess = 4
	// budgetGrace is how long the server may stay above its budget before the slowest connection closes.
	budgetGrace = time.Second
	// readersGrace is how long the pressure may last before a connection whose peer reads closes, too.
	readersGrace = 30 * time.Second
	// stuckGrace is how long a peer must have taken nothing to be closed when the pressure came back within budgetGrace.
	// Without it a crowd of slow readers would be served one by one, each for another grace.
	stuckGrace = 100 * time.Millisecond
	// pressureTick is how often a loop looks at the pressure; at most one connection closes per tick.
	pressureTick = wheelTick
	// victimPatience is how long the next close waits until the victim before is gone, whose loop may be held up.
	victimPatience = 10 * pressureTick
	// budgetScan bounds the connections a loop looks at in one tick for its slowest.
	budgetScan = 4096
	// countAtOnce is how much a connection may queue between two messages without being counted.
	countAtOnce = 16 << 10
	// budgetResume bounds the connections of a loop whose reads go on in one tick.
	budgetResume = 1024
)

// budget is what an endpoint's connections hold together: incomplete input and outbound queues, in bytes.
type budget struct {
	limit, low, hard int64 // 0 = no limit
	step             int64 // a loop reports a larger change at once

	cells      []*memoryCell // by index of the loop
	held       atomic.Int64
	pressed    atomic.Bool  // above the limit, and not below low since
	began      atomic.Int64 // when the pressure began
	ended      atomic.Int64
	since      atomic.Int64 // when it began, breaks shorter than budgetGrace left out
	nextRelief atomic.Int64
	victim     atomic.Pointer[Conn] // the last connection that was told to close
	episodes   atomic.Uint64        // times that the limit was passed
	closed     atomic.Uint64        // connections closed to get below it
	refused    atomic.Uint64        // writes from other goroutines
}

// defaultMemoryBudget returns the MemoryBudget of a Server that sets none, in bytes. That budget is a quarter of the least of
// three: Go's own limit (GOMEMLIMIT), the limits of the control groups that the process is in, and the machine's memory. 0 is
// no limit, because nothing is known. The function reads files. Listen calls it once.
func defaultMemoryBudget() int {
	return allowance.Files(os.ReadFile).Least(debug.SetMemoryLimit(-1), allowance.Total).Budget()
}

func (b *budget) setLimit(bytes int) {
	b.limit = int64(bytes)
	b.low = b.limit - b.limit/budgetFree
	b.hard = b.limit + min(b.limit/budgetExcess, math.MaxInt64-b.limit)
	b.step = math.MaxInt64
	if bytes > 0 {
		b.step = b.limit / 64
	}
}

// roomy reports whether the batches of all loops fit below half the limit, so that no batch passes the limit.
func (b *budget) roomy() bool {
	return b.limit == 0 || b.held.Load()+int64(len(b.cells))*batchHolds <= b.limit/2
}

// join prepares the endpoint for the loops that will own its connections. bytes is what the connections may hold together,
// 0 for no limit. Before the first connection.
func (e *endpoint) join(loops []*loop, bytes int) {
	e.tally.Idle = make(chan struct{}, 1)
	b := &e.budget
	b.setLimit(bytes)
	if len(b.cells) > 0 && b.cells[0].loop != loops[0] {
		b.cells = nil // of a Listen that failed; on a shared group they stay
	}
	e.relief.queued = make([][reliefKinds]atomic.Bool, len(loops))
	for _, l := range loops[len(b.cells):] {
		b.cells = append(b.cells, &memoryCell{loop: l, owner: e})
	}
}

// memoryCell is one loop's share of a budget. Owned by the loop, except the atomic fields.
type memoryCell struct {
	loop    *loop
	owner   *endpoint
	in, out int64 // bytes held by the endpoint's connections on the loop
	told    struct{ in, out int64 }
	listed  bool // in loop.cells

	pressed bool     // reads pause
	paused  []uint64 // tokens of the connections whose reads pause, in order
	timer   *reactor.Timer
	cursor  int // of the search for the slowest connection
	best    nominee

	shared  struct{ in, out atomic.Int64 }
	pending atomic.Int64 // bytes submitted from other goroutines; counted when there is a limit
	slowest atomic.Pointer[nominee]
}

// nominee is the connection of a loop that would close first.
type nominee struct {
	conn  *Conn
	held  int64
	stuck time.Duration // since its peer last took some of what waits for it
	score int64
	reads bool // its peer has just taken some
}

func (c *Conn) cell() *memoryCell { return c.set.owner.budget.cells[c.loop.index] }

// account counts what the connection holds now. It follows every batch of activity. A connection that still holds nothing
// costs a comparison.
func (c *Conn) account() {
	out, in := c.holds()
	if out != c.held.out || in != c.held.in {
		c.recount(out, in)
	}
}

// countAnswers counts what the messages of one read have queued or submitted so far, when that is much. Above the high
// watermark or the budget the messages behind them wait.
func (c *Conn) countAnswers() {
	if c.queued.Load()-int64(c.held.out) <= countAtOnce {
		return
	}
	c.account()
	c.noteWatermarks()
	if c.loop.memory.pressed > 0 {
		c.pauseForBudget()
	}
}

// holds returns what is queued and what is left over, at most 4 GiB of each.
func (c *Conn) holds() (out, left uint32) {
	most := func(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
	return most(c.queued.Load()), most(int64(c.in.Len()) + int64(c.innerBytes()))
}

func (c *Conn) recount(out, in uint32) {
	if c.phase == PhaseClosed && out|in != 0 {
		return // what is still on its way to the connection is dropped
	}
	m := c.cell()
	m.out += int64(out) - int64(c.held.out)
	m.in += int64(in) - int64(c.held.in)
	c.held.out, c.held.in = out, in
	if !m.listed {
		m.listed = true
		m.loop.memory.cells = append(m.loop.memory.cells, m)
	}
	if change := m.in + m.out - m.told.in - m.told.out; m.pressed || change > m.owner.budget.step {
		m.tell()
	}
}

// publishMemory tells the endpoints what the iteration changed.
func (l *loop) publishMemory() {
	for _, m := range l.memory.cells {
		m.listed = false
		m.tell()
	}
	l.memory.cells = l.memory.cells[:0]
}

// tell adds the loop's change to the endpoint's sum. A sum above the limit, with what is submitted, begins the pressure. Up
// to half the limit nothing is asked, because the bound of submitted bytes suffices.
func (m *memoryCell) tell() {
	in, out := m.in-m.told.in, m.out-m.told.out
	if in == 0 && out == 0 {
		return
	}
	m.told.in, m.told.out = m.in, m.out
	m.shared.in.Store(m.in)
	m.shared.out.Store(m.out)
	l, b := m.loop, &m.owner.budget
	l.Stats.Add(meter.HeldIn, in)
	l.Stats.Add(meter.HeldOut, out)
	if held := b.held.Add(in + out); b.limit > 0 && held > b.limit/2 && b.claimed() > b.limit {
		m.alarm()
		m.press() // at once: the task for it may be behind a batch of reads
	}
}

func (b *budget) snapshot() MemoryStats {
	st := MemoryStats{
		Budget:    b.limit,
		Pressure:  b.pressed.Load(),
		Pressures: b.episodes.Load(),
		Closed:    b.closed.Load(),
		Refused:   b.refused.Load(),
	}
	for _, m := range b.cells {
		st.Outbound += m.shared.out.Load()
		st.Inbound += m.shared.in.Load()
	}
	return st
}

// alarm begins the pressure on the other loops, unless there is pressure.
func (m *memoryCell) alarm() {
	b := &m.owner.budget
	if !b.pressed.CompareAndSwap(false, true) {
		return
	}
	now := m.loop.Now
	b.began.Store(now)
	if now-b.ended.Load() >= int64(budgetGrace) {
		b.since.Store(now)
	}
	b.episodes.Add(1)
	for _, other := range b.cells {
		if other != m {
			other.loop.post(other.press)
		}
	}
}

// relax ends the pressure; the loops notice at their next tick.
func (e *endpoint) relax(now int64) {
	if e.budget.pressed.Load() && e.budget.pressed.CompareAndSwap(true, false) {
		e.budget.ended.Store(now)
		e.tally.RoomAgain()
	}
}

// press pauses the reads of the endpoint's connections on this loop, each when it next has something to read.
func (m *memoryCell) press() {
	if m.pressed || m.loop.Stopping {
		return
	}
	m.pressed = true
	m.loop.memory.pressed++
	m.arm()
}

func (m *memoryCell) arm() {
	if m.timer == nil {
		m.timer, _ = m.loop.After(nil, pressureTick, m.tick) // the delay is valid and there is no connection: no error
	}
}

// pauseForBudget pauses reads that a budget forbids.
func (c *Conn) pauseForBudget() {
	if c.phase >= PhaseClosing || c.has(inputEnded) || c.paused&pauseBudget != 0 {
		return
	}
	if m := c.cell(); m.pressed {
		c.paused |= pauseBudget
		m.paused = append(m.paused, c.token())
	}
}

// tick looks for the slowest connection while there is pressure, and lets reads go on when the pressure is over.
func (m *memoryCell) tick() {
	m.timer = nil
	b := &m.owner.budget
	if b.pressed.Load() && b.claimed() <= b.low {
		m.owner.relax(m.loop.Now)
	}
	if b.claimed() > b.limit { // bytes that came between the look and the end have told nobody
		m.alarm()
	}
	if b.pressed.Load() {
		m.nominate()
		b.relieve(m.loop.Now)
		m.arm()
		return
	}
	m.resume()
}

// resume lets reads go on, those that were paused first before the others.
func (m *memoryCell) resume() {
	if m.pressed {
		m.pressed = false
		m.loop.memory.pressed--
		m.cursor, m.best = 0, nominee{}
		m.slowest.Store(nil)
	}
	n := min(len(m.paused), budgetResume)
	for _, token := range m.paused[:n] {
		if c := m.loop.table.Lookup(token); c != nil {
			c.paused &^= pauseBudget
			if !c.readPaused() {
				c.markReady()
			}
		}
	}
	if m.paused = m.paused[n:]; len(m.paused) > 0 {
		m.arm()
		return
	}
	m.paused = nil
}

// nominate goes through a part of the loop's connections. After the last part it names the slowest connection.
func (m *memoryCell) nominate() {
	least, _ := m.owner.budget.patience(m.loop.Now)
	spared := m.owner.budget.sparesReaders(m.loop.Now)
	part, end := m.loop.table.Part(m.cursor, budgetScan)
	for _, c := range part {
		if c == nil || c.set.owner != m.owner || c.phase >= PhaseClosing {
			continue
		}
		if n := c.nominee(); n.score > m.best.score && n.stuck >= least && !(n.reads && spared) {
			m.best = n
		}
	}
	if m.cursor = end; end < m.loop.table.Len() {
		return
	}
	var named *nominee
	if m.best.conn != nil {
		n := m.best
		named = &n
	}
	m.slowest.Store(named)
	m.cursor, m.best = 0, nominee{}
}

// nominee scores the connection by the bytes it holds times the milliseconds since its peer last took some, between 10 ms
// and 10 s. A peer that has stopped goes before a peer that reads, unless it holds next to nothing. Input counts for its
// bytes alone, because it is the server that does not read on.
func (c *Conn) nominee() nominee {
	const least, most = int64(10), int64(10_000)
	n := nominee{conn: c, held: int64(c.held.out) + int64(c.held.in)}
	c.askProgress()
	if since := c.progress().Stuck; since != 0 {
		n.stuck = time.Duration(c.loop.Now - since)
	}
	n.reads = c.held.out > 0 && n.stuck < stuckGrace
	n.score = int64(c.held.out)*min(max(n.stuck.Milliseconds(), least), most) + int64(c.held.in)*least
	return n
}

// sparesReaders reports whether a connection whose peer has just taken some may not be closed: unless twice the budget is held,
// which answers that began together can do, or the pressure lasts.
func (b *budget) sparesReaders(now int64) bool {
	held := b.held.Load()
	return held-b.limit <= b.limit && now-b.since.Load() < int64(readersGrace)
}

// patience returns how long a connection must have been stuck to be closed now, and whether any is to be closed.
func (b *budget) patience(now int64) (stuck time.Duration, over bool) {
	switch held := b.held.Load(); {
	case held <= b.low:
		return 0, false
	case held > b.hard || now-b.began.Load() >= int64(budgetGrace):
		return 0, true
	case now-b.since.Load() >= int64(budgetGrace):
		return stuckGrace, true
	}
	return 0, false
}

// relieve closes the slowest connection of all loops when it is time to. At most one loop does so per tick.
func (b *budget) relieve(now int64) {
	next := b.nextRelief.Load()
	if v := b.victim.Load(); v != nil && !v.shows(gone) && now < next+int64(victimPatience) {
		return
	}
	least, over := b.patience(now)
	if !over || now < next || !b.nextRelief.CompareAndSwap(next, wheel.After(now, pressureTick)) {
		return
	}
	var cell *memoryCell
	var worst *nominee
	for _, m := range b.cells {
		if n := m.slowest.Load(); n != nil && n.stuck >= least && (worst == nil || n.score > worst.score) {
			cell, worst = m, n
		}
	}
	b.victim.Store(nil)
	if worst == nil || !cell.slowest.CompareAndSwap(worst, nil) || worst.conn.closedError() != nil {
		return
	}
	b.closed.Add(1)
	b.victim.Store(worst.conn)
	worst.conn.CloseWith(CloseBackpressureLimit, fmt.Errorf("%w: %d bytes held in all, budget %d; this connection holds %d",
		errBudget, b.held.Load(), b.limit, worst.held))
}

var errBudget = errors.New("eddy: the server is above its MemoryBudget")

// submitWithin counts bytes that another goroutine submits, and refuses them above the hard limit.
func (c *Conn) submitWithin(size int) error {
	b := &c.set.owner.budget
	if b.limit == 0 {
		return nil
	}
	m := c.cell()
	if m.pending.Add(int64(size)) <= b.step && b.held.Load() <= b.limit {
		return nil // far from the hard limit, whatever the other loops were given: their counts stay in their caches
	}
	if held := b.claimed(); held > b.hard {
		m.pending.Add(-int64(size))
		b.refused.Add(1)
		return fmt.Errorf("%w: the server holds %d bytes, budget %d", ErrBackpressure, held, b.limit)
	}
	return nil
}

// claimed returns the bytes that are held and those that have been submitted, on all loops. A connection's submitted bytes
// count twice when the loop counted the connection since. Bytes that a loop has not told yet, at most step, are missing.
func (b *budget) claimed() (bytes int64) {
	for _, m := range b.cells {
		bytes += m.pending.Load()
	}
	return bytes + b.held.Load()
}

// submitted undoes submitWithin, when the loop has the message or nobody has.
func (c *Conn) submitted(size int) {
	if c.set.owner.budget.limit > 0 && size > 0 {
		c.cell().pending.Add(-int64(size))
	}
}

// MemoryStats are what a server's connections hold, and what was done to keep it within MemoryBudget.
type MemoryStats struct {
	Budget    int64  // Server.MemoryBudget or its default; 0 = no limit
	Outbound  int64  // bytes queued for peers
	Inbound   int64  // bytes received and not decoded yet, or kept: see Context.KeepInput
	Pressure  bool   // reads pause: the sum is above the budget, or was and is not yet well below
	Pressures uint64 // times Pressure began
	Closed    uint64 // connections closed to end the pressure, the slowest first
	Refused   uint64 // writes from other goroutines refused during pressure
}
