package eddy

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/transport"
)

// Request is one request in flight, for protocols whose requests end in any order. Embed it in the protocol's own type
// for a request. A Request counts as Begin and End do, and the handler deadline applies to the oldest Request that has
// not ended. (With Begin and End alone, the time begins anew at each End, because nobody says whose end it is.)
type Request struct {
	conn  *Conn
	since int64
	place list.Place[Request] // in connExt.requests, under its mutex
	ctx   atomic.Pointer[requestContext]
}

// BeginRequest counts r as in flight until its End. r must not be in use. Any goroutine.
func (c *Conn) BeginRequest(r *Request) {
	*r = Request{conn: c}
	c.counts.inflight.Add(1)
	if c.limits().Handler == 0 {
		return
	}
	r.since = c.loop.Clock.Now()
	x := c.extend()
	x.mu.Lock()
	x.requests.Push(&r.place, r)
	x.mu.Unlock()
	c.watchRequest()
}

// End undoes BeginRequest and cancels the request's Context. Call it once, after the response was written. Any goroutine.
func (r *Request) End() {
	c := r.conn
	if x := r.ctx.Load(); x != nil {
		x.end(context.Canceled)
	}
	if x := c.ext.Load(); r.place.Taken() {
		x.mu.Lock()
		x.requests.Remove(&r.place)
		x.mu.Unlock()
	}
	c.finished(&c.counts.inflight)
}

// Cancel ends the request's Context before its End, because nobody wants the result any more. The request stays in flight.
// Any goroutine, until End.
func (r *Request) Cancel() { r.Context().(*requestContext).end(context.Canceled) }

// Deadline returns when the request must be over: the earlier of the handler deadline and that of Conn.BaseContext, false
// if there is neither. Any goroutine.
func (r *Request) Deadline() (time.Time, bool) {
	d, _ := r.conn.deadlineFrom(r.since)
	return r.conn.within(d)
}

// Context returns the context of the request; the first call makes it. Its values are those of Conn.BaseContext, and its
// deadline is that of Deadline. It ends with the request, the connection, the deadline or the base context. Any
// goroutine, until End.
func (r *Request) Context() context.Context {
	if x := r.ctx.Load(); x != nil {
		return x
	}
	x := r.conn.newContext(r.since)
	if r.ctx.CompareAndSwap(nil, x) {
		return x
	}
	x.end(context.Canceled)
	return r.ctx.Load()
}

// requestClock times requests of which only the number is known. Their time runs since the first began or, if later,
// since one of several ended. Number and time change together under connExt.mu; otherwise a new request could meet the
// expired time of an earlier one.
type requestClock struct {
	count atomic.Int32
	since int64
}

func (x *connExt) begin(now int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.begun.count.Add(1) == 1 {
		x.begun.since = now
	}
}

func (x *connExt) end(now int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.begun.count.Load() > 0 && x.begun.count.Add(-1) > 0 {
		x.begun.since = now
	}
}

// watchRequest makes the loop check the request that began just now when its deadline has come. One check within that
// time is enough for all requests that begin before it. Any goroutine.
func (c *Conn) watchRequest() {
	if !c.shows(watched) && c.mark(watched) {
		_ = c.loop.Tasks.PushControl(task{kind: taskWatch, conn: c}) // a stopped loop has closed everything
	}
}

// watch lets the wheel fire when a request that begins now must be over.
func (c *Conn) watch() {
	if limit := c.limits().Handler; limit > 0 && c.phase < PhaseClosing {
		c.armAt(c.loop.timeout(limit))
		if !c.shows(watched) {
			c.mark(watched)
		}
	}
}

// oldestRequest returns when the oldest request in flight began, as far as known; 0 if unknown.
func (c *Conn) oldestRequest() int64 {
	var oldest int64
	for s := c.firstStrand(); s != nil; s = s.next {
		oldest = transport.Earlier(oldest, s.oldest())
	}
	x := c.ext.Load()
	if x == nil {
		return oldest
	}
	if x.hops.parking != nil {
		oldest = transport.Earlier(oldest, x.hops.parking.oldest())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.begun.count.Load() > 0 {
		oldest = transport.Earlier(oldest, x.begun.since)
	}
	if r := x.requests.First(); r != nil {
		oldest = transport.Earlier(oldest, r.since)
	}
	return oldest
}

// age returns the age, in milliseconds, of the message that a handler on a pool passes on; 0 when nothing times it.
func (ctx *Context) age() int32 {
	c := ctx.conn
	if c.limits().Handler == 0 {
		return 0
	}
	var since int64
	if m := ctx.loose(); m != nil {
		since = m.at
	} else if s := ctx.findStrand(); s != nil {
		since = s.since.Load()
	}
	if since == 0 {
		return 0
	}
	return int32(min((c.loop.Clock.Now()-since)/int64(time.Millisecond), math.MaxInt32))
}

// continueRead passes on a message that comes from a pool. The message keeps its age on the way to the next pool.
func (l *loop) continueRead(t task) {
	l.inHand.ago = int64(t.size) * int64(time.Millisecond)
	defer func() { l.inHand.ago = 0 }()
	t.ctx.fireRead(l.untrace(t))
}

// oldest returns when the strand's oldest message was dispatched, 0 for none. A message that begins to run at this moment
// may be missed.
func (s *strand) oldest() int64 {
	if k := s.crowd.Load(); k != nil {
		return transport.Earlier(k.oldest(), s.oldestInOrder())
	}
	return s.oldestInOrder()
}

func (s *strand) oldestInOrder() int64 {
	if t := s.since.Load(); t != 0 {
		return t
	}
	if h, ok := s.Peek(); ok && h.op == opRead {
		return h.at
	}
	return 0
}

// done clears the state of the item that has just run, on the item's goroutine.
func (s *strand) done(c *Conn) {
	s.since.Store(0)
	if s.trace != nil {
		left(s.trace, c)
		s.trace = nil
	}
	if s.request != nil {
		s.request.end(context.Canceled)
		s.request = nil
	}
}

// messageDone follows each message handled on the loop. Only connections that have a handler deadline or were asked for a
// context need it.
func (c *Conn) messageDone() {
	c.watch()
	c.requestOver()
}

// requestOver follows each message or task handled on the loop. Without a request in flight, the contexts made on the
// loop end. Otherwise a context with a deadline is kept until its deadline has passed, and the next message gets its own.
func (c *Conn) requestOver() {
	if !c.has(asked) {
		return
	}
	r := c.rare()
	switch {
	case c.counts.inflight.Load() == 0:
		c.clear(asked)
		r.endContexts()
	case r.current != nil && !r.current.deadline.IsZero():
		r.keepContext(c.loop.Clock.Wall())
	}
}

func (r *connRare) endContexts() {
	if r.current != nil {
		r.kept = append(r.kept, r.current)
	}
	for _, ctx := range r.kept {
		ctx.end(context.Canceled)
	}
	r.kept, r.current = nil, nil
}

func (r *connRare) keepContext(now time.Time) {
	r.kept = append(r.kept, r.current)
	r.current = nil
	for ctx := r.kept[0]; !ctx.deadline.After(now); ctx = r.kept[0] {
		ctx.end(context.DeadlineExceeded)
		r.kept[0] = nil
		if r.kept = r.kept[1:]; len(r.kept) == 0 {
			return
		}
	}
}

// Reserved is a message that counts as queued on a connection before it is written. Use it for an answer that exists and has
// to wait for its turn, or that a pool has made and the loop will write. Embed it in the protocol's own type for a request.
// The zero value holds no message.
//
// No bound refuses a Reserved, because its memory is in use already. Bound the requests instead. One goroutine at a time may
// use it.
type Reserved struct {
	conn *Conn
	msg  any
	n    int
}

// Init counts the bytes of msg as queued on c until Write or Release; the length of a message that the pipeline has to
// encode is an estimate. Init takes ownership of msg, as Write does. If the queue passes the high watermark, the
// connection becomes unwritable and its reads pause. Any goroutine, also after the close.
func (m *Reserved) Init(c *Conn, msg any) {
	n := sizeOf(msg)
	*m = Reserved{c, msg, n}
	if c.set.owner.budget.limit > 0 {
		c.cell().pending.Add(int64(n))
	}
	c.extend().reserved.Add(int64(n))
	if q := c.queued.Add(int64(n)); q >= c.high() && !c.shows(unwritable) {
		c.postReadState()
	}
}

// Len returns the number of bytes that count, 0 without a message.
func (m *Reserved) Len() int { return m.n }

// Write passes the message towards the head, from ctx, whatever else is queued meanwhile. The bounds for outbound bytes are
// not applied again. Afterwards m holds no message. Loop only. Errors: ErrClosed.
func (m *Reserved) Write(ctx *Context) error {
	c, msg := m.conn, m.msg
	if c == nil {
		return nil
	}
	m.uncount()
	l := c.loop
	was := l.inHand.granted
	l.inHand.granted = math.MaxInt
	err := ctx.writeOnLoop(msg)
	l.inHand.granted = was
	if c.phase < PhaseClosing { // a handler may have kept or dropped the message
		if c.shows(unwritable | toldFull | writersWait) {
			c.noteWatermarks()
		}
		if l.batch != c && !c.has(listedDirty) {
			c.account()
		}
	}
	return err
}

// Release drops the message, because nobody will get it. Afterwards m holds no message. Any goroutine, also after the close.
func (m *Reserved) Release() {
	c, msg := m.conn, m.msg
	if c == nil {
		return
	}
	if m.uncount() > 0 {
		c.postReadState() // the loop may have seen the queue with these bytes in it
	}
	release(msg)
}

// uncount makes m the zero value and returns how many bytes have counted.
func (m *Reserved) uncount() int {
	c, n := m.conn, m.n
	*m = Reserved{}
	if n > 0 {
		c.queued.Add(-int64(n))
		c.ext.Load().reserved.Add(-int64(n))
		c.submitted(n)
	}
	return n
}
