package eddy

import (
	"time"

	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/reactor"
)

// Timer is a function that runs on a loop at a later time, once or periodically. Context.After and Loop.After make one.
// Timers of a loop run in the order of their deadlines; equal deadlines run in the order of the calls that made them.
type Timer reactor.Timer

// Stop prevents the timer from running (again) and reports whether it did. False means that a one-shot timer has run or
// is running, or that the timer was stopped before. Stop does not wait for a run that has begun. Any goroutine. An armed
// timer's function is released at once, the timer itself some time later.
func (t *Timer) Stop() bool { return (*reactor.Timer)(t).Stop() }

// after schedules f on the connection's loop. Loop only.
func (c *Conn) after(d time.Duration, f func()) (*Timer, error) {
	if c.phase == PhaseClosed {
		return nil, c.closedError()
	}
	t, err := c.loop.After(c.extend(), d, f)
	return (*Timer)(t), err
}

// TimerList makes the connection an owner of timers.
func (x *connExt) TimerList() *list.List[reactor.Timer] { return &x.timers }

// stopTimers ends the timers of a closed connection: a timer that is far off must not keep it in memory.
func (c *Conn) stopTimers() {
	if x := c.ext.Load(); x != nil {
		reactor.StopAll(&x.timers)
	}
}

// Call runs a function that belongs to the owner of a timer, which is a connection, or to none.
func (l *loop) Call(o reactor.Owner, f func()) {
	var c *Conn
	if o != nil {
		c = o.(*connExt).conn
	}
	defer l.contain(c)
	l.serving.Store(c)
	f()
	if c != nil {
		l.afterActivity(c)
	}
}
