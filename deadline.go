package eddy

import (
	"fmt"
	"time"
)

// wheelTick is the resolution of every deadline of a loop.
const wheelTick = 10 * time.Millisecond

// Timer is a function that runs once on a connection's loop. See Context.After.
type Timer struct {
	loop   *loop
	conn   *Conn
	f      func()
	handle wheelHandle
	index  uint32

	next, prev *Timer // the connection's other timers
}

// Stop prevents the timer from firing and reports whether it did. Call it on the loop only.
func (t *Timer) Stop() bool {
	if t.f == nil {
		return false
	}
	t.loop.wheel.Cancel(t.handle)
	t.loop.dropTimer(t)
	return true
}

// after schedules f on the loop, for c, or for the loop itself when c is nil.
func (l *loop) after(c *Conn, d time.Duration, f func()) (*Timer, error) {
	if c != nil && c.phase == PhaseClosed {
		return nil, c.closedError()
	}
	if d < 0 || f == nil {
		return nil, fmt.Errorf("eddy: After(%v): the delay must not be negative and the function not nil", d)
	}
	t := &Timer{loop: l, conn: c, f: f}
	t.index = l.keepTimer(t)
	t.handle = l.wheel.Schedule(l.clock.Now()+int64(d), timerPayload(t.index))
	if c != nil {
		c.linkTimer(t)
	}
	return t, nil
}

func (c *Conn) linkTimer(t *Timer) {
	x := c.extend()
	t.next = x.timers
	if t.next != nil {
		t.next.prev = t
	}
	x.timers = t
}

func (c *Conn) unlinkTimer(t *Timer) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		c.ext.Load().timers = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.next, t.prev = nil, nil
}

// stopTimers ends what a closed connection has armed: a timer that is far off must not keep it in memory.
func (c *Conn) stopTimers() {
	if x := c.ext.Load(); x != nil {
		for x.timers != nil {
			x.timers.Stop()
		}
	}
}

// keepTimer gives t an index that a wheel entry can carry.
func (l *loop) keepTimer(t *Timer) uint32 {
	if n := len(l.freeTimers); n > 0 {
		i := l.freeTimers[n-1]
		l.freeTimers = l.freeTimers[:n-1]
		l.timers[i] = t
		return i
	}
	l.timers = append(l.timers, t)
	return uint32(len(l.timers) - 1)
}

func (l *loop) dropTimer(t *Timer) {
	l.timers[t.index] = nil
	l.freeTimers = append(l.freeTimers, t.index)
	if t.conn != nil {
		t.conn.unlinkTimer(t)
	}
	t.f, t.conn = nil, nil
}

// A wheel entry's payload is a connection's token (generation in the upper half, never 0) or a timer's index.
func timerPayload(index uint32) uint64 { return uint64(index) }

// expireDeadlines is the phase that closes what is overdue and runs timers.
func (l *loop) expireDeadlines() {
	if l.wheel.Len() == 0 {
		return
	}
	l.wheel.Advance(l.now, deadlineBudget, l.expireFunc)
}

// expire handles one fired wheel entry.
func (l *loop) expire(_ wheelHandle, payload uint64) {
	if payload>>32 == 0 {
		l.fireTimer(l.timers[uint32(payload)])
		return
	}
	if c := l.lookup(payload); c != nil {
		c.timer = 0
		c.checkDeadlines()
	}
}

func (l *loop) fireTimer(t *Timer) {
	f, c := t.f, t.conn
	l.dropTimer(t)
	defer l.contain(c)
	f()
	if c != nil {
		l.afterActivity(c)
	}
}
