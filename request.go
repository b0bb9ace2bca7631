package eddy

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// Request is one request in flight, for protocols whose requests end in any order: embed it in what stands for a request
// there. It counts as Begin and End do, and the handler deadline is held against the oldest one that has not ended. (With
// Begin and End alone the time begins anew at each End, since nobody says whose end it is.)
type Request struct {
	conn       *Conn
	since      int64
	next, prev *Request
	listed     bool
	ctx        atomic.Pointer[requestContext]
}

// requestList holds the requests that have not ended, oldest first; connExt.mu guards it.
type requestList struct{ first, last *Request }

// BeginRequest counts r as in flight until its End. r must not be in use. Any goroutine.
func (c *Conn) BeginRequest(r *Request) {
	*r = Request{conn: c}
	c.inflight.Add(1)
	if c.limits().Handler == 0 {
		return
	}
	r.since = c.loop.clock.Now()
	x := c.extend()
	x.mu.Lock()
	defer x.mu.Unlock()
	r.listed = true
	r.prev = x.requests.last
	if r.prev != nil {
		r.prev.next = r
	} else {
		x.requests.first = r
	}
	x.requests.last = r
}

// End undoes BeginRequest and cancels the request's Context. Call it once, after the response was written. Any goroutine.
func (r *Request) End() {
	c := r.conn
	if x := r.ctx.Load(); x != nil {
		x.end(context.Canceled)
	}
	if r.listed {
		c.ext.Load().remove(r)
	}
	c.finished(&c.inflight)
}

func (x *connExt) remove(r *Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		x.requests.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		x.requests.last = r.prev
	}
	r.next, r.prev, r.listed = nil, nil, false
}

// Deadline returns when the request has to be over, false if there is no handler deadline. Any goroutine.
func (r *Request) Deadline() (time.Time, bool) { return r.conn.deadlineFrom(r.since) }

// Context returns the context of the request, which is made by the first call: its deadline is the connection's handler
// deadline, and it ends with the request, the connection or the deadline. Any goroutine, until End.
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

// requestClock times requests of which only the number is known: since the first began or, if that is later, since one
// ended and others were left.
type requestClock struct {
	count atomic.Int32
	since atomic.Int64
}

func (k *requestClock) begin(now int64) {
	if k.count.Add(1) == 1 {
		k.since.Store(now)
	}
}

func (k *requestClock) end(now int64) {
	if k.count.Add(-1) > 0 {
		k.since.Store(now)
	}
}

// oldestRequest returns when the oldest request in flight began as far as is known, 0 if it is not.
func (c *Conn) oldestRequest() int64 {
	var oldest int64
	for s := c.firstStrand(); s != nil; s = s.next {
		oldest = earlier(oldest, s.oldest())
	}
	x := c.ext.Load()
	if x == nil {
		return oldest
	}
	if x.begun.count.Load() > 0 {
		oldest = earlier(oldest, x.begun.since.Load())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if r := x.requests.first; r != nil {
		oldest = earlier(oldest, r.since)
	}
	return oldest
}

// age returns for how many milliseconds the message that a handler on a pool passes on has been under way, 0 when nothing
// times it.
func (ctx *Context) age() int32 {
	c := ctx.conn
	s := ctx.findStrand()
	if c.limits().Handler == 0 || s == nil || s.since.Load() == 0 {
		return 0
	}
	return int32(min((c.loop.clock.Now()-s.since.Load())/int64(time.Millisecond), math.MaxInt32))
}

// continueRead passes on a message that comes from a pool. On its way to the next one it keeps its age.
func (l *loop) continueRead(t task) {
	l.ago = int64(t.size) * int64(time.Millisecond)
	defer func() { l.ago = 0 }()
	t.ctx.fireRead(t.msg)
}

// oldest returns when the strand's oldest message was dispatched, 0 for none. It may miss one that begins to run in this
// moment.
func (s *strand) oldest() int64 {
	if t := s.since.Load(); t != 0 {
		return t
	}
	if h, ok := s.Peek(); ok && h.op == opRead {
		return h.at
	}
	return 0
}

// done follows an item on its goroutine.
func (s *strand) done() {
	s.since.Store(0)
	if s.request != nil {
		s.request.end(context.Canceled)
		s.request = nil
	}
}

// messageDone follows a message on the loop, for connections that have a handler deadline or were asked for a context.
func (c *Conn) messageDone() {
	if limit := c.limits().Handler; limit > 0 && c.phase < PhaseClosing {
		c.armAt(c.loop.now + int64(limit))
	}
	c.requestOver()
}

// requestOver ends the context that was asked for on the loop when no request is in flight any more.
func (c *Conn) requestOver() {
	if c.has(asked) && c.inflight.Load() == 0 {
		c.clear(asked)
		x := c.ext.Load()
		x.current.end(context.Canceled)
		x.current = nil
	}
}
