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
	wake := c.awaitWritable()
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
	l.iterate()
}
