package eddy

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/transport"
)

// maxFutures bounds the unfinished WriteFutures of one connection.
const maxFutures = 4096

var errUnsent = errors.New("eddy: the message was released before it was sent")

// WriteFuture writes msg as Write does and returns the Future of the outcome. The Future succeeds when the kernel has taken
// the last byte of what the message became. Otherwise it fails, with
//
//   - the *CloseError of the connection that ended first,
//   - ErrBackpressure, ErrSaturated, a *ClassError or a pool's error when the message was refused,
//   - a *ClassError with Dropped when the policy of its class dropped it,
//   - the error of a WriteHandler, or of a piece that a WriteHandler wrote, also when that handler goes on.
//
// Such an error is the Future's alone: it reaches no ErrorHandler and does not close the connection. An error of Write may do both, because nobody else would learn of it.
//
// The message becomes everything that WriteHandlers, on the loop or on pools, write through their Context during the
// HandleWrite calls for it; for a FlushHandler, also in the HandleFlush that follows. A WriteHandler that writes nothing and
// returns nil has succeeded. A handler that keeps the message for later says so with Context.HoldFuture. After a panic in a
// WriteHandler the Future fails with the connection.
//
// At most 4096 futures of a connection may be unfinished; beyond that the Future fails with ErrBackpressure and nothing is
// written. Any goroutine; WriteFuture never blocks and never returns nil. The message is given away as with Write.
func (c *Conn) WriteFuture(msg any) *Future {
	w := c.newWrite(msg, nil)
	if w.pending() {
		if err := c.submitWrite(nil, &w.message); err != nil {
			refuse(&w.message, err)
		}
	}
	return &w.Future
}

// WriteFuture is Write with the Future of the outcome, see Conn.WriteFuture. Inside HandleWrite the new Future is also a part
// of the Future of the message that is being handled.
func (ctx *Context) WriteFuture(msg any) *Future {
	w := ctx.conn.newWrite(msg, ctx.handled())
	if w.pending() {
		ctx.writeFor(w)
	}
	return &w.Future
}

// SentFuture returns a Future that succeeds when the kernel has taken the last byte of all that is queued for the peer now. It
// fails as the Future of a write does, and counts as one. What a WriteHandler keeps for later is not queued. Loop only.
func (c *Conn) SentFuture() *Future {
	w := c.newWrite(nil, nil)
	if w.pending() {
		w.fix()
		c.placeMark(w, nil)
		w.partEnded(nil, c.loop)
	}
	return &w.Future
}

// writeFor is Write for a future, which is told the errors.
func (ctx *Context) writeFor(w *writeFuture) {
	c, at, msg := ctx.conn, ctx.place(), &w.message
	if ctx.onLoop() {
		if err := at.writeOnLoop(msg); err != nil {
			w.settle(futureFailed, err, c.loop)
		}
		return
	}
	if at == ctx {
		if p := ctx.writeTo(); p != nil {
			_ = p.writeOnPool(msg)
			return
		}
		if by := ctx.heir(); by != nil {
			by.writeFor(w)
			return
		}
		if s := ctx.findStrand(); s != nil && s.class != nil {
			withClass(s.class, msg)
		}
	}
	if err := c.submitWrite(at, msg); err != nil {
		refuse(msg, err)
	}
}

// handled returns the Future of the message that ctx's HandleWrite is handling, nil for none.
func (ctx *Context) handled() *writeFuture {
	switch {
	case ctx.onLoop():
		return ctx.conn.loop.out.tracking.of(ctx.conn)
	case ctx.loose() != nil: // it has no HandleWrite of its own
		return nil
	}
	return ctx.findStrand().tracked()
}

// HoldFuture lets a WriteHandler keep a message for later. The Future of the message that is being handled does not complete
// before the hold has ended, unless the connection ends first. Inside HandleWrite only. Without a Future HoldFuture returns
// nil, which works as a hold, too.
func (ctx *Context) HoldFuture() *FutureHold {
	w := ctx.handled()
	if w == nil {
		return nil
	}
	w.addPart()
	return &FutureHold{ctx: ctx, part: tracked{future: w}}
}

// FutureHold keeps the Future of a message from completing, see Context.HoldFuture. The hold ends with the first call of Write
// or Release. A later Write only calls its function, and a later Release does nothing.
type FutureHold struct {
	ctx  *Context
	part tracked
	over atomic.Bool
}

// Write calls write and ends the hold. Everything that write writes through the Context of the handler that made the hold
// belongs to the message. The error of write is returned and fails the Future. On the handler's executor only.
func (h *FutureHold) Write(write func() error) error {
	if h == nil || h.over.Swap(true) {
		return write()
	}
	var err error
	pass := func(any) error { err = write(); return err }
	if h.ctx.node.pool == nil {
		_ = h.ctx.conn.writeTracked(&h.part, pass) // the future is told
	} else {
		h.ctx.trackOnPool(&h.part, pass)
	}
	return err
}

// Release ends the hold: nil says that nothing is left to do for the message, an error fails the Future. Any goroutine.
func (h *FutureHold) Release(err error) {
	if h != nil && !h.over.Swap(true) {
		h.part.end(err, nil)
	}
}

// writeFuture is the Future of a write, on its connection's list until it completes.
type writeFuture struct {
	Future
	message tracked
	place   list.Place[writeFuture] // in connExt.futures, under its mutex
	span    transport.Span          // the bytes it waits for, owned by the loop
}

// Span implements transport.Waiter.
func (w *writeFuture) Span() *transport.Span { return &w.span }

// tracked is a message on its way through the pipeline for a Future. It counts as a part of the Future until end.
type tracked struct {
	future *writeFuture
	msg    any
	ended  bool
}

// end gives the part back. Only the first call counts; a message has one owner at a time, so they do not race.
func (t *tracked) end(err error, on *loop) {
	if !t.ended {
		t.ended = true
		t.future.partEnded(err, on)
	}
}

// take returns the message, which the caller then owns.
func (t *tracked) take() any {
	msg := t.msg
	t.msg = nil
	return msg
}

// Release implements Releaser: the message goes no further.
func (t *tracked) Release() {
	err := t.future.conn.closedError()
	if err == nil {
		err = errUnsent
	}
	t.end(err, nil)
	release(t.take())
}

// Detach implements Detacher.
func (t *tracked) Detach() any {
	if d, ok := t.msg.(Detacher); ok {
		t.msg = d.Detach()
	}
	return t
}

// refuse releases a message that was not taken and tells its Future why.
func refuse(msg any, err error) {
	if t, ok := msg.(*tracked); ok {
		t.end(err, nil)
	}
	release(msg)
}

// classOf returns the class that msg is marked with.
func classOf(msg any) (m *classed, ok bool) {
	if t, tracks := msg.(*tracked); tracks {
		msg = t.msg
	}
	m, ok = msg.(*classed)
	return m, ok
}

// withClass makes msg part of a message of class k, unless msg has a class.
func withClass(k *MessageClass, msg any) any {
	switch m := msg.(type) {
	case *tracked:
		m.msg = withClass(k, m.msg)
		return m
	case *classed:
		return m
	}
	return k.Wrap(msg)
}

// newWrite makes the Future of a write, as a part of above unless that is nil. When the connection has ended, or has too many
// futures, the Future has failed already and msg is released.
func (c *Conn) newWrite(msg any, above *writeFuture) *writeFuture {
	w := new(writeFuture)
	w.loop, w.conn, w.write, w.parts = c.loop, c, w, 1
	w.message = tracked{future: w, msg: msg}
	if above != nil {
		above.addPart()
		w.above = []*Future{&above.Future}
	}
	if err := c.extend().enlist(c, w); err != nil {
		refuse(&w.message, err)
	}
	return w
}

// part returns msg as one more part of w, for its way to another goroutine.
func (w *writeFuture) part(msg any) any {
	if _, is := msg.(*tracked); is || w == nil {
		return msg
	}
	w.addPart()
	return &tracked{future: w, msg: msg}
}

// futureList are a connection's unfinished writes, oldest first.
type futureList struct {
	list.List[writeFuture]
	n int
}

// enlist adds w to those that fail with the connection.
func (x *connExt) enlist(c *Conn, w *writeFuture) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if end := c.ended.Load(); end != nil {
		return end
	}
	q := &x.futures
	if q.n >= maxFutures {
		return fmt.Errorf("%w: %d futures of writes wait, limit %d", ErrBackpressure, q.n, maxFutures)
	}
	q.Push(&w.place, w)
	q.n++
	return nil
}

// leave takes w off its connection's list.
func (w *writeFuture) leave() {
	x := w.conn.ext.Load()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.futures.Remove(&w.place) {
		x.futures.n--
	}
}

// failFutures fails every unfinished write of a connection that ends, oldest first, wherever the write is.
func (c *Conn) failFutures() {
	x := c.ext.Load()
	if x == nil {
		return
	}
	end := c.ended.Load()
	for {
		x.mu.Lock()
		w := x.futures.First()
		x.mu.Unlock()
		if w == nil {
			return
		}
		w.span = transport.Span{}
		if !w.settle(futureFailed, end, c.loop) {
			w.leave() // it has been completed elsewhere and is about to leave
		}
	}
}

// tracking is what a loop knows of the Future whose message a WriteHandler on it handles, or whose bytes the head queues.
type tracking struct {
	conn   *Conn // nil for none
	future *writeFuture
	from   int64 // outMarks.End when the handling began
	length int   // of what was queued for it so far, as outMarks counts
	nested bool  // inside a message of a class: bytes are gathered with that message
	gather bool  // some bytes are gathered so
	err    error // of a piece that was refused
}

// of returns the Future whose message c is handling, nil for none.
func (t *tracking) of(c *Conn) *writeFuture {
	if t.conn != c {
		return nil
	}
	return t.future
}

// tracked is tracking.of for a strand. On its goroutine.
func (s *strand) tracked() *writeFuture {
	if s == nil {
		return nil
	}
	return s.future
}

// refused notes that a piece of the message being handled was not taken.
func (c *Conn) refused(err error) {
	if t := &c.loop.out.tracking; t.conn == c && t.err == nil {
		t.err = err
	}
}

// writeTracked passes a message on with pass, for its Future. There is no error to return, because the Future is told the
// outcome. Loop only.
func (c *Conn) writeTracked(t *tracked, pass func(msg any) error) error {
	l, w := c.loop, t.future
	if !w.fix() { // cancelled, or failed with another part
		t.Release()
		return nil
	}
	outer := l.out.tracking
	l.out.tracking = tracking{conn: c, future: w, from: c.outMarks().End(), nested: l.out.collect.conn == c}
	returned := false
	var err error
	defer func() {
		k := l.out.tracking
		l.out.tracking = outer
		if returned {
			c.trackedOver(t, &k, err)
		} // else a handler panicked: the future fails with the connection
	}()
	err = pass(t.take())
	returned = true
	return nil
}

// trackedOver ends the part of a message that was handled, and notes for the Future what is left to wait for.
func (c *Conn) trackedOver(t *tracked, k *tracking, err error) {
	l, w := c.loop, t.future
	if err == nil {
		err = k.err
	}
	switch {
	case err != nil:
		l.Counters[meter.WriteErrors]++
	case c.later()&laterFlush != 0:
		w.addPart()
		r := c.rarely()
		r.gathered = append(r.gathered, w)
	case k.gather:
		w.addPart()
		l.out.collect.futures = append(l.out.collect.futures, w)
	case k.length > 0:
		c.placeMark(w, k)
	}
	t.end(err, l)
}

// gatheredOut runs after the last call of the FlushHandlers and ends the futures' parts for what they had gathered.
func (c *Conn) gatheredOut(err error) {
	r := c.rare()
	if r == nil || r.gathered == nil {
		return
	}
	list := r.gathered
	r.gathered = nil
	for _, w := range list {
		if err == nil {
			c.placeMark(w, nil)
		}
		w.partEnded(err, c.loop)
	}
}

// trackOnPool is writeTracked for a WriteHandler on a pool.
func (ctx *Context) trackOnPool(t *tracked, pass func(msg any) error) {
	w, s := t.future, ctx.findStrand()
	if !w.fix() {
		t.Release()
		return
	}
	was := s.future
	s.future = w
	defer func() { s.future = was }()
	t.end(pass(t.take()), nil) // not reached by a panic: the future fails with the connection
}
