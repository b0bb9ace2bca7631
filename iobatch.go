package eddy

import "github.com/go-eddy/eddy/internal/sys"

const (
	// batchMax is the number of connections in one batch.
	batchMax = 16
	// batchRead is the read space of each connection in a batch.
	batchRead = 4 << 10
	// batchFull is the number of bytes that end a batch. More bytes, with the answers beside them, would not stay in the
	// processor's nearest cache.
	batchFull = 4 << 10
	// cacheLine is the alignment, in bytes, of each connection's input in the batch.
	cacheLine = 64
	// batchHolds bounds what a batch may hold before the memory budget is checked: its input and the answers to it.
	batchHolds = batchMax*batchRead + batchFull + batchRead
	// batchTime is how long the handlers of a batch may take, in nanoseconds. The first answer leaves only when the last
	// handler has returned, so slow handlers make batches smaller, down to one connection.
	batchTime = 64 << 10
	// batchTimed is the length from which a batch is timed even if it is not full.
	batchTimed = 5
)

// ioBatch takes connections that are only readable through reading, handling and writing together. First the kernel is
// asked for the bytes of all, then all are handled, then the kernel gets the answers of all. A send evicts the engine's
// and the handlers' code from the processor's caches. In a batch that happens once for sixteen messages (figures in
// bench/README.md).
//
// To handlers it is as if each connection had been read a moment earlier and flushed a moment later. If a handler ends
// the loop's goroutine, no bytes are lost: the next iteration begins with the rest of the batch.
type ioBatch struct {
	list  []batched
	mem   []byte // the input of all connections
	used  int    // of mem
	sent  bool   // the answers are out
	next  int    // first of list not handled; once the answers are out, first not concluded
	limit int    // bound of list's length
}

// batched is one connection of a batch.
type batched struct {
	conn    *Conn
	from    int // start of its bytes in mem
	n       int // bytes read, later bytes written
	offered int // bytes that were to be written, 0 for none
	err     error
}

// batchable reports whether a connection that is readable goes through a batch, because nothing else is to be done for
// it.
func (c *Conn) batchable() bool {
	return !c.in.Held() && c.phase < PhaseClosing && !c.has(inputEnded|bulk) && c.paused == 0 &&
		!c.shows(appPaused) && c.set.owner.budget.roomy()
}

// joinBatch reads from a connection into the batch and runs the batch when it is full.
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

// endBatch runs the batch if any connection has joined it.
func (l *loop) endBatch() {
	if len(l.io.list) > 0 {
		l.runBatch()
	}
}

// runBatch handles and answers the batch, or finishes one that was cut short.
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

// handleBatch lets the handlers run, and sets the next batch's size from the time they took.
func (l *loop) handleBatch() {
	b := &l.io
	timed := len(b.list) >= min(b.limit, batchTimed)
	begin := int64(0)
	if timed {
		begin = l.Clock.Now()
	}
	for b.next < len(b.list) {
		e := &b.list[b.next]
		b.next++
		end := e.from + max(e.n, 0)
		l.handleBatched(e, b.mem[e.from:end:end])
	}
	if timed {
		b.adapt(l.Clock.Now() - begin)
	}
}

// adapt sets the size of the next batch after one whose handlers needed so long. took is in nanoseconds.
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
	c.beginTurn()
	if e.n <= 0 || e.err != nil {
		c.readEnded(e.err)
	} else {
		if l.memory.pressed > 0 {
			c.pauseForBudget()
		}
		c.decodeScratch(view)
		if len(view) == batchRead {
			c.readMore(e.n)
		}
	}
	if c.queued.Load() > batchRead { // without this flush, many long answers would pile up unnoticed
		l.afterActivity(c)
		return
	}
	l.batch = nil
	if c.later() != 0 {
		c.runLater()
	}
}

// writeBatch offers the kernel the first segment of each connection's queue, and then removes what was sent from the
// queues. No handler runs in between, because until then the queues hold bytes that were sent.
func (l *loop) writeBatch() {
	b := &l.io
	for i := range b.list {
		e := &b.list[i]
		c := e.conn
		e.n, e.err = 0, nil
		if c.out.Head == nil || c.out.Head.Next != nil || c.interest&sys.Write != 0 || c.phase >= PhaseClosing || c.has(marked) || c.later() != 0 {
			continue // afterActivity sees to it
		}
		e.offered = c.out.Head.Len()
		e.n, e.err = l.sock.Write(c.fd, c.out.Head.Bytes())
	}
	for i := range b.list {
		if e := &b.list[i]; e.n > 0 {
			e.conn.sent(e.n)
		}
	}
}

// concludeBatched evaluates the result of the write and does what follows a connection's activity.
func (l *loop) concludeBatched(e *batched) {
	c := e.conn
	defer l.contain(c)
	l.serving.Store(c)
	if e.offered > 0 {
		c.wrote(e.n)
		if c.phase < PhaseClosing && c.tookAll(e.n, e.offered, e.err) && c.out.Head == nil {
			c.flushed()
		}
	}
	l.afterActivity(c)
}
