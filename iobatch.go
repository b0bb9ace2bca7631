package eddy

import "github.com/go-eddy/eddy/internal/sys"

const (
	// batchMax is the number of connections that are taken through their phases together.
	batchMax = 16
	// batchRead is the room that each of them has for what it reads there.
	batchRead = 4 << 10
	// batchFull is the number of bytes that end a batch: more of them, and the answers beside them, would not stay in the
	// processor's nearest cache.
	batchFull = 4 << 10
	// cacheLine is where what the next connection sent begins, in bytes.
	cacheLine = 64
	// batchHolds is what a batch may hold in all before anybody looks: what was read, and answers to that.
	batchHolds = batchMax*batchRead + batchFull + batchRead
	// batchTime is how long the handlers of a batch may take, in nanoseconds. The first answer leaves when the last
	// handler has returned, so slow handlers make the batches smaller, down to one connection.
	batchTime = 64 << 10
	// batchTimed is the length from which a batch is timed although there is room for more.
	batchTimed = 5
)

// ioBatch takes connections that are readable, and nothing else, through reading, handling and writing together: first
// the kernel is asked for the bytes of all, then all are handled, then the kernel is given the answers of all. A send
// runs through so much of the kernel that the engine's and the handlers' code is out of the processor's caches
// afterwards; like this it comes back once for sixteen messages (bench/README.md has the figures).
//
// To handlers it is as if each connection had been read a moment earlier and flushed a moment later. Whatever ends the
// goroutine of the loop inside a handler, the others' bytes are there: the next turn begins with them.
type ioBatch struct {
	list  []batched
	mem   []byte // what was read, one after the other
	used  int    // of mem
	sent  bool   // the answers are out
	next  int    // first in list that was not handled, or when the answers are out not concluded
	limit int    // of the length of list
}

// batched is one connection of a batch.
type batched struct {
	conn    *Conn
	from    int // where in mem the bytes are that were read
	n       int // bytes read, later bytes written
	offered int // bytes that were to be written, 0 for none
	err     error
}

// batchable reports whether a connection that is readable goes through a batch: there is nothing else to it.
func (c *Conn) batchable() bool {
	return c.in == nil && c.phase < PhaseClosing && !c.has(inputEnded|bulk) && c.paused == 0 &&
		!c.shows(appPaused) && c.set.owner.budget.roomy()
}

// joinBatch reads what a connection has sent and goes on with the batch when that is full.
func (l *loop) joinBatch(c *Conn) {
	b := &l.io
	if b.mem == nil {
		b.list, b.mem, b.limit = make([]batched, 0, batchMax), make([]byte, batchFull+batchRead), batchMax
	}
	n, err := l.sock.Read(c.fd, b.mem[b.used:b.used+batchRead])
	b.list = append(b.list, batched{conn: c, from: b.used, n: n, err: err})
	b.used += (max(n, 0) + cacheLine - 1) &^ (cacheLine - 1)
	if b.used >= batchFull || len(b.list) >= b.limit {
		l.runBatch()
	}
}

// endBatch runs what has joined the batch.
func (l *loop) endBatch() {
	if len(l.io.list) > 0 {
		l.runBatch()
	}
}

// runBatch handles and answers, or does what is left of it.
func (l *loop) runBatch() {
	b := &l.io
	if !b.sent {
		l.handleBatch()
		l.writeBatch()
		b.sent, b.next = true, 0
	}
	for b.next < len(b.list) {
		e := &b.list[b.next]
		b.next++
		l.concludeBatched(e)
	}
	clear(b.list)
	b.list, b.used, b.sent, b.next = b.list[:0], 0, false, 0
}

// handleBatch has what was read handled, and learns from the time it took how many connections the next batch may have.
func (l *loop) handleBatch() {
	b := &l.io
	timed := len(b.list) >= min(b.limit, batchTimed)
	begin := int64(0)
	if timed {
		begin = l.clock.Now()
	}
	for b.next < len(b.list) {
		e := &b.list[b.next]
		b.next++
		end := e.from + max(e.n, 0)
		l.handleBatched(e, b.mem[e.from:end:end])
	}
	if timed {
		b.adapt(l.clock.Now() - begin)
	}
}

// adapt follows a batch whose handlers took so long, in nanoseconds.
func (b *ioBatch) adapt(took int64) {
	switch {
	case took > batchTime:
		b.limit = max(1, int(int64(b.limit)*batchTime/took))
	case took < batchTime/4:
		b.limit = min(2*b.limit, batchMax)
	}
}

// handleBatched is the part of readLoop that follows the read.
func (l *loop) handleBatched(e *batched, view []byte) {
	c := e.conn
	if e.n > 0 {
		c.received(e.n)
	}
	if c.phase >= PhaseClosing { // ended by the handler of another connection
		return
	}
	defer l.contain(c)
	l.serving.Store(c)
	l.batch = c
	c.frames = frameBudget
	if e.n <= 0 || e.err != nil {
		c.readEnded(e.err)
	} else {
		if l.pressed > 0 {
			c.pauseForBudget()
		}
		c.decodeScratch(view)
		if len(view) == batchRead {
			c.readMore(e.n)
		}
	}
	if c.queued.Load() > batchRead { // many answers that long would not be noticed before they are all there
		l.afterActivity(c)
		return
	}
	l.batch = nil
	if c.later() != 0 {
		c.runLater()
	}
}

// writeBatch offers the kernel the first segment of each connection's queue, and then takes off the queues what it took.
// No handler runs meanwhile: until then the queues hold bytes that were sent.
func (l *loop) writeBatch() {
	b := &l.io
	for i := range b.list {
		e := &b.list[i]
		c := e.conn
		e.n, e.err = 0, nil
		if c.out.head == nil || c.out.head.Next != nil || c.interest&sys.Write != 0 || c.phase >= PhaseClosing || c.has(marked) || c.later() != 0 {
			continue // afterActivity sees to it
		}
		e.offered = c.out.head.Len()
		e.n, e.err = l.sock.Write(c.fd, c.out.head.Bytes())
	}
	for i := range b.list {
		if e := &b.list[i]; e.n > 0 {
			e.conn.sent(e.n)
		}
	}
}

// concludeBatched draws the conclusions from the write and does what follows a connection's activity.
func (l *loop) concludeBatched(e *batched) {
	c := e.conn
	defer l.contain(c)
	l.serving.Store(c)
	if e.offered > 0 {
		c.wrote(e.n)
		if c.phase < PhaseClosing && c.tookAll(e.n, e.offered, e.err) && c.out.head == nil {
			c.flushed()
		}
	}
	l.afterActivity(c)
}
