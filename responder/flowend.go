package responder

import (
	"context"

	"github.com/go-eddy/eddy"

	"github.com/go-eddy/eddy/internal/list"
)

// deliver brings a call back from the pool. The goroutine of the pool has no part in the call any more.
func (f *flow[Req]) deliver(c *call[Req]) {
	f.mu.Lock()
	if f.over {
		f.mu.Unlock()
		c.answer.Release()
		c.recycle()
		return
	}
	first := f.tail == nil
	if first {
		f.done = c
	} else {
		f.tail.nextDone = c
	}
	f.tail = c
	f.mu.Unlock()
	if first {
		_ = f.back.Raise() // a loop that has ended has told the handlers the close
	}
}

func (f *flow[Req]) delivered(over bool) *call[Req] {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.done
	f.done, f.tail = nil, nil
	f.over = f.over || over
	return c
}

// collect takes what the pool has brought.
func (f *flow[Req]) collect() {
	for c := f.delivered(false); c != nil; {
		behind := c.nextDone
		c.nextDone, c.running = nil, false
		if c.answered {
			f.remove(c)
			f.startNext()
		} else if !c.ready { // else it waits for its turn, decided on the loop
			f.ready(c)
		}
		c = behind
	}
}

// close ends the calls of a connection that has ended.
func (f *flow[Req]) close() {
	for c := f.delivered(false); c != nil; c = c.nextDone {
		c.running = false
	}
	if f.paused {
		f.paused = false
		f.ctx.ReleaseReads()
	}
	for c := range f.calls.All() {
		f.abandon(c)
	}
	f.calls, f.turn, f.byID = list.List[call[Req]]{}, nil, nil
	f.count, f.owed = 0, 0
	for c := f.delivered(true); c != nil; { // from here on deliver ends those that still run
		behind := c.nextDone
		c.answer.Release()
		c.recycle()
		c = behind
	}
}

// abandon ends a call of a closed connection, except what the call needs while it runs.
func (f *flow[Req]) abandon(c *call[Req]) {
	if f.outlives(c) {
		return
	}
	if c.running && c.claim() { // before the request's end, which is the end of its own context
		c.ctx.end(endOf(f.conn.CloseError()))
	}
	lost := !c.answered
	if lost {
		c.answered = true
		c.request.End()
	}
	if !c.running {
		c.answer.Release()
		c.recycle()
	}
	if lost { // last: a reader of the count finds the request decided
		f.r.abandoned.Add(1)
	}
}

// outlives reports whether a call goes on without its connection. Only a one-way request that its pool has does, since nobody
// there waits for an answer. A timer of the loop takes the place of the connection's; without room for it the call ends.
func (f *flow[Req]) outlives(c *call[Req]) bool {
	if !c.oneWay || !c.running || c.answered {
		return false
	}
	switch f.conn.CloseError().Reason {
	case eddy.CloseServerShutdown, eddy.CloseHandlerTimeout:
		return false
	}
	if due, ok := c.ctx.Deadline(); ok {
		x := c.ctx // c may be another request's by then
		t, err := f.loop.After(max(0, due.Sub(f.loop.Now())), func() { x.end(context.DeadlineExceeded) })
		if err != nil {
			return false
		}
		c.expiry = t
	}
	c.answered = true
	c.request.End()
	return true
}
