package eddy

import (
	"errors"
	"fmt"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/transport"
)

const (
	// segmentSize is the capacity of segments that coalesce small writes.
	segmentSize = 4 << 10
	// adoptSize is the length from which a []byte is queued by reference instead of being copied.
	adoptSize = 1 << 10
)

// submitWrite takes a message from any goroutine. From then on its bytes count as queued.
func (c *Conn) submitWrite(from *Context, msg any) error {
	if err := c.writesClosed(); err != nil && !c.finishesWrite(from) {
		return err
	}
	size := sizeOf(msg)
	if err := c.submitWithin(size); err != nil { // must precede reserve, whose bytes the loop may count at any time
		return err
	}
	if err := c.reserve(size); err != nil {
		if err = c.refuseSubmitted(msg, size, err); err != nil {
			c.submitted(size)
			return err
		}
		c.queued.Add(int64(size))
	}
	if from.encodes() {
		c.counts.encoding.Add(1)
	}
	err := c.loop.Tasks.Push(task{kind: taskWrite, conn: c, ctx: from, msg: msg, size: int32(size)})
	if err != nil {
		c.submitted(size)
		if from.encodes() {
			c.finished(&c.counts.encoding)
		}
		c.unreserve(size)
		if closed := c.closedError(); closed != nil {
			return closed
		}
	}
	return err
}

// encodes reports whether ctx is a WriteHandler, whose writes may belong to one from before a close.
func (ctx *Context) encodes() bool { return ctx != nil && ctx.node.ops&opWrite != 0 }

// finishesWrite reports whether ctx may still write although an orderly close, or CloseWrite, was requested.
func (c *Conn) finishesWrite(ctx *Context) bool {
	r := c.closeRequested()
	return ctx.encodes() && c.counts.encoding.Load() > 0 && c.ended.Load() == nil && (r == nil || r.flush)
}

// maxMessage bounds the length of a message in bytes, so that its size fits a task.
const maxMessage = 1 << 30

// admit decides whether n more bytes may be queued.
func (c *Conn) admit(n int) error {
	return c.admitBehind(c.queued.Load()-c.loop.prepaidBytes(c), n)
}

// reserve is admit for goroutines other than the loop; the bytes that it lets through count as queued at once.
func (c *Conn) reserve(n int) error {
	for {
		q := c.queued.Load()
		if err := c.admitBehind(q, n); err != nil {
			return err
		}
		if c.queued.CompareAndSwap(q, q+int64(n)) {
			return nil
		}
	}
}

// unreserve takes back what reserve has counted.
func (c *Conn) unreserve(n int) {
	c.queued.Add(-int64(n))
	c.postReadState() // the loop may have seen the queue with these bytes in it
}

// admitBehind decides whether n more bytes may be queued when q are queued.
func (c *Conn) admitBehind(q int64, n int) error {
	if n > maxMessage {
		return fmt.Errorf("%w: message of %d bytes, limit %d", ErrBackpressure, n, maxMessage)
	}
	if q < int64(c.set.marks.High) || q+int64(n) <= int64(c.set.marks.Max) {
		return nil
	}
	return fmt.Errorf("%w: %d bytes queued, %d more, limit %d", ErrBackpressure, q, n, c.set.marks.Max)
}

// otherSize is the size counted for a message of unknown type until the pipeline has encoded it.
const otherSize = 64

func sizeOf(msg any) int {
	switch m := msg.(type) {
	case []byte:
		return len(m)
	case string:
		return len(m)
	case *buf.Bytes:
		return m.Len()
	case *postedBytes:
		return len(m.bytes)
	case *buf.Shared:
		return m.Len()
	case *buf.Composite:
		return m.Len()
	case *File:
		return window(m.Length)
	case *classed:
		return sizeOf(m.msg)
	case *tracked:
		return sizeOf(m.msg)
	case [][]byte:
		n := 0
		for _, b := range m {
			n += len(b)
		}
		return n
	}
	return otherSize
}

// enqueue is the head of the pipeline: it queues messages for the socket. Loop only.
func (c *Conn) enqueue(msg any) error {
	switch m := msg.(type) {
	case []byte:
		return c.enqueueOwned(m)
	case *buf.Bytes:
		return c.enqueueCopy(m.Bytes())
	case string:
		return c.enqueueCopy([]byte(m))
	case [][]byte:
		return c.enqueueParts(m)
	case *buf.Shared:
		return c.enqueueShared(m)
	case *buf.Composite:
		return c.enqueueComposite(m)
	case *File:
		return c.enqueueFile(m)
	case *classed:
		return c.writeClassed(m, c.enqueue)
	case *tracked:
		return c.writeTracked(m, c.enqueue)
	}
	return c.unencoded(msg)
}

// enqueueOwned queues b, by reference when it is long.
func (c *Conn) enqueueOwned(b []byte) error {
	if err := c.admitOnLoop(len(b)); err != nil {
		return err
	}
	c.appendOwned(b)
	c.queuedMore(len(b))
	return nil
}

// enqueueParts queues a message of several slices, all or none.
func (c *Conn) enqueueParts(parts [][]byte) error {
	total := sizeOf(parts)
	if err := c.admitOnLoop(total); err != nil {
		return err
	}
	for _, b := range parts {
		c.appendOwned(b)
	}
	c.queuedMore(total)
	return nil
}

// enqueueCopy queues a copy of p.
func (c *Conn) enqueueCopy(p []byte) error {
	if err := c.admitOnLoop(len(p)); err != nil {
		return err
	}
	c.appendCopy(p)
	c.queuedMore(len(p))
	return nil
}

func (c *Conn) appendOwned(b []byte) {
	if len(b) < adoptSize {
		c.appendCopy(b)
		return
	}
	c.target().Push(c.loop.mem.segments.Adopt(b))
}

// enqueueShared queues the bytes of s, by reference when they are long; the reference is released after the last byte.
func (c *Conn) enqueueShared(s *buf.Shared) error {
	n := s.Len()
	if err := c.admitOnLoop(n); err != nil {
		s.Release()
		return err
	}
	c.appendPart(buf.Part{Bytes: s.Bytes(), Owner: s})
	c.queuedMore(n)
	return nil
}

// enqueueComposite queues the parts of m, all or none.
func (c *Conn) enqueueComposite(m *buf.Composite) error {
	n := m.Len()
	if err := c.admitOnLoop(n); err != nil {
		m.Release()
		return err
	}
	for _, p := range m.Take() {
		c.appendPart(p)
	}
	c.queuedMore(n)
	return nil
}

func (c *Conn) appendPart(p buf.Part) {
	switch {
	case p.Owner == nil:
		c.appendOwned(p.Bytes)
	case len(p.Bytes) < adoptSize:
		c.appendCopy(p.Bytes)
		p.Owner.Release()
	default:
		c.target().Push(c.loop.mem.segments.AdoptShared(p.Bytes, p.Owner))
	}
}

// target returns the queue that bytes go to: the connection's, or that of the message of a class being collected.
func (c *Conn) target() *transport.Queue {
	if c.loop.out.collect.conn == c {
		return &c.loop.out.collect.queue
	}
	return &c.out
}

// appendCopy coalesces p with what is queued already.
func (c *Conn) appendCopy(p []byte) {
	q, size := c.target(), segmentSize
	if q != &c.out {
		size = 0 // few bytes will be added to it
	}
	for len(p) > 0 {
		var room []byte
		if q.Tail != nil {
			room = q.Tail.Free()
		}
		if len(room) == 0 {
			q.Push(c.loop.mem.segments.Get(min(max(len(p), size), scratchSize)))
			room = q.Tail.Free()
		}
		n := copy(room, p)
		q.Tail.Commit(n)
		p = p[n:]
	}
}

// admitOnLoop is admit for the loop; under OverflowClose a refusal closes the connection.
func (c *Conn) admitOnLoop(n int) error {
	switch {
	case c.phase >= PhaseClosing:
		return c.ended.Load()
	case c.has(outputEnds | outputEnded):
		return c.admitLate(n)
	case c.loop.out.collect.conn == c:
		return nil // decided once the whole message is there
	}
	err := c.admit(n)
	if err != nil && n <= c.loop.inHand.granted {
		c.loop.inHand.granted -= n
		return nil
	}
	if err != nil && c.set.overflow == OverflowClose {
		c.beginClose(CloseBackpressureLimit, err)
	}
	if err != nil {
		c.refused(err)
	}
	return err
}

// queuedMore follows n bytes that were appended to target.
func (c *Conn) queuedMore(n int) {
	switch o := &c.loop.out; {
	case n == 0:
	case o.collect.conn == c:
		o.collect.size += n
		if o.tracking.conn == c {
			o.tracking.gather = o.tracking.nested
		}
	default:
		c.grown(n)
		c.count(n)
	}
}

// count follows n bytes that are in the queue now, and sees to it that they are flushed.
func (c *Conn) count(n int) {
	l := c.loop
	more := int64(n)
	if p := &l.inHand.prepaid; p.conn == c {
		k := min(more, p.n)
		p.n -= k
		more -= k
	}
	c.queued.Add(more)
	c.setPhaseWriting()
	c.noteWatermarks()
	if l.batch != c && !c.has(listedDirty) && c.interest&sys.Write == 0 {
		c.raise(listedDirty)
		l.lists.dirty = append(l.lists.dirty, c)
	}
	if c.interest&sys.Write != 0 { // no flush will follow
		c.account()
	}
}

func (c *Conn) setPhaseWriting() {
	if c.phase < PhaseWriting {
		c.setPhase(PhaseWriting)
	}
}

// noteWatermarks compares the queue with its watermarks and tells the pipeline of a crossing.
func (c *Conn) noteWatermarks() {
	q := c.queued.Load()
	switch {
	case !c.shows(unwritable) && q >= c.high():
		if !c.has(readsOn) {
			c.paused |= pauseOutbound
		}
		c.mark(unwritable)
		c.breachBegins()
		c.loop.Counters[meter.OutboundPauses]++
		c.tellWritability(false)
	case c.shows(unwritable) && q <= c.low():
		c.widen()
		c.paused &^= pauseOutbound
		c.unmark(unwritable | toldFull)
		c.breachEnds()
		if !c.readPaused() {
			c.markReady()
		}
		c.tellWritability(true)
	case c.shows(toldFull) && q <= c.low():
		c.unmark(toldFull)
		c.tellWritability(true)
	}
	if c.shows(writersWait) && c.roomy() {
		c.wakeWriters()
	}
}

// high and low are the watermarks that hold now. Where Server.Watermarks says nothing, a connection begins with a sixteenth of
// the defaults. Its window doubles after the peer has emptied it some times, so that nobody fills a megabyte for a peer that
// reads nothing. Any goroutine.
func (c *Conn) high() int64 { return int64(c.set.marks.High) >> c.narrowed() }
func (c *Conn) low() int64  { return int64(c.set.marks.Low) >> c.narrowed() }

// narrowed returns how often the window has still to double.
func (c *Conn) narrowed() uint32 {
	return (c.shared.Load()>>windowShift + windowDrains - 1) / windowDrains
}

// widen counts that the peer has emptied the queue.
func (c *Conn) widen() {
	if c.narrowed() > 0 {
		c.shared.Add(^(windowStep - 1)) // one step less
	}
}

// tellWritability calls the handlers, and keeps their writes apart from the message that caused the call.
func (c *Conn) tellWritability(writable bool) {
	l := c.loop
	was := l.out.tracking
	l.out.tracking = tracking{}
	c.fireWritability(writable)
	l.out.tracking = was
}

// failWrite handles an outbound handler's error for a write whose caller has not waited for it.
func (c *Conn) failWrite(err error) {
	if c.phase >= PhaseClosing {
		return
	}
	c.loop.Counters[meter.WriteErrors]++
	if ce := (*ClassError)(nil); errors.As(err, &ce) && !ce.Dropped || c.set.overflow == OverflowReject && reasonOf(err) == CloseBackpressureLimit {
		return
	}
	c.closeFlushed(reasonOf(err), err)
}
