package eddy

import (
	"context"
	"fmt"
	"time"

	"github.com/go-eddy/eddy/internal/wheel"
)

// deliver brings a call back from the pool. The goroutine of the pool has no part in the call any more.
func (f *flow[Req]) deliver(c *call[Req]) {
	f.mu.Lock()
	if f.over {
		f.mu.Unlock()
		c.dropAnswer()
		c.recycle()
		return
	}
	if f.tail == nil {
		f.done = c
	} else {
		f.tail.nextDone = c
	}
	f.tail = c
	post := !f.posted
	f.posted = true
	f.mu.Unlock()
	if post { // a loop that has ended has told the handlers the close
		_ = f.conn.loop.Tasks.PushControl(task{kind: taskResponses, conn: f.conn, msg: f.collectFunc})
	}
}

func (f *flow[Req]) delivered(over bool) *call[Req] {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.done
	f.done, f.tail, f.posted = nil, nil, false
	f.over = f.over || over
	return c
}

// collect is the task that takes what the pool has brought.
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
	if f.conn.phase < PhaseClosing {
		f.conn.writeSettled()
	} else {
		f.conn.account()
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
	for c := f.first; c != nil; {
		behind := c.next
		f.abandon(c)
		c = behind
	}
	f.first, f.last, f.turn, f.byID = nil, nil, nil, nil
	f.count, f.owed = 0, 0
	for c := f.delivered(true); c != nil; { // from here on deliver ends those that still run
		behind := c.nextDone
		c.dropAnswer()
		c.recycle()
		c = behind
	}
}

// abandon ends a call of a closed connection, except what the call needs while it runs.
func (f *flow[Req]) abandon(c *call[Req]) {
	if f.outlives(c) {
		return
	}
	lost := !c.answered
	if lost {
		c.answered = true
		c.request.End()
	}
	if !c.running {
		c.dropAnswer()
		c.recycle()
	} else if c.claim() {
		c.ctx.end(contextError(f.conn.ended.Load().Reason))
	}
	if lost { // last: a reader of the count finds the request decided
		f.r.abandoned.Add(1)
	}
}

// outlives reports whether a call goes on without its connection. Only a one-way request that its pool has does, since nobody
// there waits for an answer. A timer of the loop takes the place of the connection's.
func (f *flow[Req]) outlives(c *call[Req]) bool {
	l, ended := f.conn.loop, f.conn.ended.Load().Reason
	if !c.oneWay || !c.running || c.answered || ended == CloseServerShutdown || ended == CloseHandlerTimeout {
		return false
	}
	c.answered = true
	c.request.End()
	due := c.due
	if limit := f.conn.limits().Handler; limit > 0 && c.request.since != 0 {
		due = earlier(due, wheel.After(c.request.since, limit))
	}
	if x := c.ctx; due != 0 { // c may be another request's by then
		c.expiry, _ = l.After(nil, time.Duration(max(0, due-l.Clock.Now())), func() { x.end(context.DeadlineExceeded) }) // the loop takes timers while it lives
	}
	return true
}

// answerFailed returns the error that ends a connection whose response could not be made.
func answerFailed(v any) error {
	return WithReason(CloseInternalError, fmt.Errorf("eddy: ResponderOptions.Answer panicked: %v", v))
}
