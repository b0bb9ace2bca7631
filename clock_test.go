package eddy

import (
	"testing"
	"time"
)

// TestContextNow: the loop's time does not change while a handler runs, and goes on with the loop's turns.
func TestContextNow(t *testing.T) {
	var st *stage
	var first, second time.Duration
	srv := cutServer(func(ctx *Context, _ string) error {
		first = ctx.Now()
		st.now.Add(int64(time.Millisecond)) // a handler that takes its time
		second = ctx.Now()
		return nil
	})
	st, l := newStage(t, srv)
	a := st.connect(l)
	var last time.Duration
	for range 5 {
		a.send("x;")
		l.Iterate()
		if first != second {
			t.Errorf("the time changed within a turn, from %v to %v", first, second)
		}
		if first < last+time.Millisecond {
			t.Errorf("%v follows %v, a handler's millisecond later", first, last)
		}
		last = first
	}
}

// TestLoopNowFollowsItsClock: Loop.Now is the time that timers follow, and goes on during an iteration.
func TestLoopNowFollowsItsClock(t *testing.T) {
	st, l := newStage(t, countedServer(nil))
	o := st.connect(l).conn.Loop()
	was := o.Now()
	if st.now.Add(int64(time.Hour)); o.Now().Sub(was) != time.Hour {
		t.Errorf("an hour later it is %v later", o.Now().Sub(was))
	}
}
