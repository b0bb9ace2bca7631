package eddy

import (
	"context"
	"errors"
	"testing"
)

// endingContext ends, and something else with it, when it is waited for.
type endingContext struct {
	context.Context
	end func()
}

func (c endingContext) Done() <-chan struct{} {
	c.end()
	done := make(chan struct{})
	close(done)
	return done
}

func (endingContext) Err() error { return context.Canceled }

// TestWriteContextTellsTheClose: a writer whose context ends because the connection does is told why that ended; one whose
// context ends by itself is told so.
func TestWriteContextTellsTheClose(t *testing.T) {
	for _, closes := range []bool{true, false} {
		st, l := newStage(t, echoServer())
		c := st.connect(l).conn
		c.queued.Store(int64(c.set.marks.High)) // nobody can write
		ctx := endingContext{t.Context(), func() {
			if closes {
				c.beginClose(CloseWriteTimeout, nil)
			}
		}}
		err := c.WriteContext(ctx, "late")
		var ce *CloseError
		if closes && (!errors.As(err, &ce) || ce.Reason != CloseWriteTimeout) || !closes && err != context.Canceled {
			t.Errorf("connection closed %v: %v", closes, err)
		}
	}
}

// TestWritersWaitIsNoted: the loop looks for waiting writers while there may be some, and no longer.
func TestWritersWaitIsNoted(t *testing.T) {
	st, l := newStage(t, echoServer())
	c := st.connect(l).conn
	high := int64(c.set.marks.High)
	c.queued.Store(high)
	c.noteWatermarks()
	wake := c.awaitWritable().Done()
	if c.noteWatermarks(); !c.shows(writersWait) {
		t.Error("nobody waits, it says")
	}
	select {
	case <-wake:
		t.Error("woken above the mark")
	default:
	}
	c.queued.Store(0)
	c.noteWatermarks()
	select {
	case <-wake:
	default:
		t.Error("not woken below the mark")
	}
	if c.shows(writersWait) {
		t.Error("it says that somebody waits")
	}
	c.beginClose(CloseNormal, nil)
	l.Iterate()
}

// wholeWindow are the default marks, set: a connection has them from its begin.
var wholeWindow = Watermarks{Low: defaultLowWatermark, High: defaultHighWatermark}

// TestWindowGrows: where the marks are not set, a connection begins with a sixteenth of the defaults, and its window doubles
// whenever its queue has been emptied eight times. Where one is set, all hold from the begin.
func TestWindowGrows(t *testing.T) {
	st, l := newStage(t, echoServer())
	c := st.connect(l).conn
	for doubled := range 5 {
		high, low := int64(defaultHighWatermark)>>(4-doubled), int64(defaultLowWatermark)>>(4-doubled)
		for range windowDrains {
			c.queued.Store(high - 1)
			if c.noteWatermarks(); !c.Writable() {
				t.Fatalf("doubled %d times: not writable with %d bytes", doubled, high-1)
			}
			c.queued.Store(high)
			c.noteWatermarks()
			c.queued.Store(low + 1)
			if c.noteWatermarks(); c.Writable() {
				t.Fatalf("doubled %d times: writable with %d bytes, after %d", doubled, low+1, high)
			}
			c.queued.Store(low)
			if c.noteWatermarks(); !c.Writable() {
				t.Fatalf("doubled %d times: not writable with %d bytes", doubled, low)
			}
		}
	}
	if c.high() != defaultHighWatermark || c.low() != defaultLowWatermark {
		t.Errorf("at last the marks are %d and %d", c.low(), c.high())
	}
	c.queued.Store(0)
	c.beginClose(CloseNormal, nil)
	l.Iterate()
	for _, marks := range []Watermarks{{Low: defaultLowWatermark}, {High: defaultHighWatermark}} {
		srv := echoServer()
		srv.Watermarks = marks
		st, l := newStage(t, srv)
		if c := st.connect(l).conn; c.high() != defaultHighWatermark || c.low() != defaultLowWatermark {
			t.Errorf("with %+v the marks are %d and %d", marks, c.low(), c.high())
		}
	}
}

// told counts what a handler is told of writability.
type told struct{ off, on int }

func (w *told) HandleWritability(_ *Context, writable bool) error {
	if writable {
		w.on++
	} else {
		w.off++
	}
	return nil
}

// TestWritableIsPaired: who was told that the connection is not writable is told when it is again, also when the loop never
// saw together what others have submitted, and so never told its handlers.
func TestWritableIsPaired(t *testing.T) {
	w := &told{}
	srv := echoServer()
	srv.Watermarks = wholeWindow
	init := srv.Init
	srv.Init = func(p *Pipeline) error {
		if err := init(p); err != nil {
			return err
		}
		return p.Add("told", w)
	}
	st, l := newStage(t, srv)
	c := st.connect(l).conn
	marks := c.set.marks
	expect := func(what string, off, on int, writable bool) {
		t.Helper()
		c.noteWatermarks()
		if w.off != off || w.on != on || c.Writable() != writable {
			t.Errorf("%s: told %+v, want %d and %d; writable %v", what, *w, off, on, c.Writable())
		}
	}
	c.queued.Store(int64(marks.High) - 1)
	expect("below the high mark", 0, 0, true)
	c.queued.Store(int64(marks.High))
	if c.Writable() {
		t.Error("writable at the high mark")
	}
	c.queued.Store(int64(marks.Low) + 1)
	expect("between the marks", 0, 0, false)
	c.queued.Store(int64(marks.Low))
	expect("at the low mark", 0, 1, true)
	c.queued.Store(int64(marks.High))
	if c.Writable() {
		t.Error("writable at the high mark")
	}
	expect("when the loop has seen it, too", 1, 1, false)
	c.queued.Store(0)
	expect("with an empty queue", 1, 2, true)
	c.beginClose(CloseNormal, nil)
	l.Iterate()
}

// TestOnWritable: the function is called once, on the loop: soon if the connection is writable, when it becomes so, or with
// the reason of its end.
func TestOnWritable(t *testing.T) {
	srv := echoServer()
	srv.Watermarks = wholeWindow
	st, l := newStage(t, srv)
	c := st.connect(l).conn
	var calls []error
	ask := func() { c.OnWritable(func(err error) { calls = append(calls, err) }) }
	expect := func(what string, want ...error) {
		t.Helper()
		l.Iterate()
		if len(calls) != len(want) {
			t.Fatalf("%s: %d calls, want %d", what, len(calls), len(want))
		}
		for i, err := range want {
			if !errors.Is(calls[i], err) {
				t.Errorf("%s: call %d was told %v, want %v", what, i, calls[i], err)
			}
		}
		calls = nil
	}
	ask()
	expect("a writable one", nil)
	expect("once is enough")
	c.queued.Store(int64(c.set.marks.High))
	c.noteWatermarks()
	ask()
	ask()
	expect("above the mark")
	c.queued.Store(int64(c.set.marks.Low))
	c.noteWatermarks()
	expect("below the marks", nil, nil)
	c.queued.Store(int64(c.set.marks.High))
	ask()
	c.beginClose(CloseNormal, nil)
	expect("the end", ErrClosed)
	ask()
	expect("after the end", ErrClosed)
}

// TestListenersAfterTheLoop: a Future that has completed runs each listener also when its loop has ended.
func TestListenersAfterTheLoop(t *testing.T) {
	st, l := newStage(t, echoServer())
	c := st.connect(l).conn
	f := c.CloseFuture()
	c.beginClose(CloseNormal, nil)
	l.Iterate()
	l.Teardown()
	for i := range 3 {
		ran := false
		if f.OnDone(func(*Future) { ran = true }); !ran {
			t.Errorf("listener %d was lost", i)
		}
	}
}
