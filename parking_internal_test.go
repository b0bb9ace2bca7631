package eddy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
)

// excuser is an ErrorHandler that handles all, and notes their trace.
type excuser struct {
	errs   []error
	traces []any
}

func (h *excuser) HandleError(ctx *Context, err error) error {
	h.errs = append(h.errs, err)
	h.traces = append(h.traces, ctx.Trace().Value(testTrace{}))
	return nil
}

// parked is a connection whose messages wait for room in a full pool.
type parked struct {
	c    *Conn
	l    *loop
	h    *takesAll
	errs *excuser
	pool *executor.Pool
	msg  *buf.Shared
	free func()
}

func newParked(t *testing.T) *parked {
	t.Helper()
	pool, fill := occupied(t)
	s := &parked{h: &takesAll{}, errs: &excuser{}, pool: pool}
	reads := struct {
		ReadHandler
		WriteHandler
	}{s.h, s.h}
	st, l := newStage(t, countedServer(func(p *Pipeline) error {
		if err := p.Add("h", reads, On(pool), RejectPause()); err != nil {
			return err
		}
		return p.Add("errors", s.errs)
	}))
	s.c, s.l = st.connect(l).conn, l
	s.msg = s.c.Buffers().Copy(make([]byte, 5000))
	free := fill()
	freed := false
	s.free = func() {
		if !freed {
			freed = true
			free()
		}
	}
	t.Cleanup(func() {
		s.free()
		s.c.beginClose(CloseNormal, nil)
		l.Iterate()
		if _, err := pool.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if n := s.msg.Refs(); n != 1 {
			t.Errorf("%d references after the end, want the test's own", n)
		}
	})
	return s
}

func (s *parked) send(t *testing.T, n int) {
	t.Helper()
	for range n {
		s.c.fireReadFromHead(s.msg.Retain())
	}
	if s.c.paused&pausePark == 0 {
		t.Fatal("nothing waits")
	}
}

// TestParkedBound: a connection keeps parkBound messages for a pool that has no room. The next one is refused as one too many of
// the connection; those that were kept are handled when there is room.
func TestParkedBound(t *testing.T) {
	s := newParked(t)
	s.send(t, parkBound)
	if len(s.errs.errs) != 0 || s.msg.Refs() != 1+parkBound {
		t.Errorf("%d errors, %d references at the bound", len(s.errs.errs), s.msg.Refs())
	}
	s.send(t, 1)
	if len(s.errs.errs) != 1 {
		t.Fatalf("%d errors beyond the bound, want one", len(s.errs.errs))
	}
	var e *HopError
	if err := s.errs.errs[0]; !errors.As(err, &e) || e.Code != rejectedConnection || !strings.Contains(err.Error(), fmt.Sprint(parkBound)) {
		t.Errorf("%v, want a HopError with code %v that names the limit", err, rejectedConnection)
	}
	if n, refs := s.c.counts.inflight.Load(), s.msg.Refs(); n != parkBound || refs != 1+parkBound {
		t.Errorf("%d in flight, %d references beyond the bound", n, refs)
	}
	s.free()
	stepUntil(t, "the messages", func() bool { s.l.Iterate(); return s.c.counts.inflight.Load() == 0 })
	if s.h.read != parkBound || s.c.paused&pausePark != 0 {
		t.Errorf("%d messages handled, reads paused: %v", s.h.read, s.c.paused&pausePark != 0)
	}
}

// TestWritesDoNotWaitBehindParked: an outbound message for a pool in which another one waits for room does not wait behind
// it: its writer is told.
func TestWritesDoNotWaitBehindParked(t *testing.T) {
	s := newParked(t)
	s.send(t, 1)
	var e *HopError
	if err := s.c.writeFromTail([]byte("x")); !errors.As(err, &e) || e.Code != rejectedFull {
		t.Errorf("the writer was told %v, want a HopError with code %v", err, rejectedFull)
	}
}

// TestParkedOfAClosedPool: what waits for room in a pool that is closed is refused with its own trace, is in flight no
// more, and the connection goes on if an ErrorHandler says so; what comes then is refused without waiting.
func TestParkedOfAClosedPool(t *testing.T) {
	s := newParked(t)
	s.l.setTrace(s.c, context.WithValue(context.Background(), testTrace{}, "of the message"))
	s.send(t, 1)
	s.l.traceOver()
	s.pool.Close()
	stepUntil(t, "the refusal", func() bool { s.l.Iterate(); return len(s.errs.errs) == 1 })
	var e *HopError
	if err := s.errs.errs[0]; !errors.As(err, &e) || e.Code != rejectedClosed || s.errs.traces[0] != any("of the message") {
		t.Errorf("%v with the trace %v, want a HopError with code %v", err, s.errs.traces[0], rejectedClosed)
	}
	if n, refs := s.c.counts.inflight.Load(), s.msg.Refs(); n != 0 || refs != 1 || s.c.paused&pausePark != 0 || s.c.closedError() != nil {
		t.Errorf("%d in flight, %d references, paused %v, closed %v", n, refs, s.c.paused&pausePark != 0, s.c.closedError())
	}
	s.c.fireReadFromHead(s.msg.Retain())
	if len(s.errs.errs) != 2 || s.c.paused&pausePark != 0 {
		t.Errorf("%d errors, paused %v: the pool takes nothing any more", len(s.errs.errs), s.c.paused&pausePark != 0)
	}
}

// TestParkedWithATrace: a message that carries a trace is released when its connection ends while it waits.
func TestParkedWithATrace(t *testing.T) {
	s := newParked(t)
	s.l.setTrace(s.c, context.WithValue(context.Background(), testTrace{}, "of the message"))
	s.send(t, 3)
	s.l.traceOver()
	s.c.beginClose(CloseNormal, nil)
	s.l.Iterate()
	if n, refs := s.c.counts.inflight.Load(), s.msg.Refs(); n != 0 || refs != 1 {
		t.Errorf("%d in flight, %d references after the end", n, refs)
	}
}
