package eddy

import (
	"errors"
	"testing"
)

// TestCloseWriteOnStage: our side ends behind what was written before and once; the peer's goes on, and its end is that of the
// connection, whatever is in flight.
func TestCloseWriteOnStage(t *testing.T) {
	var got string
	st, l := newStage(t, cutServer(func(_ *Context, m string) error { got += m + ";"; return nil }))
	a := st.connect(l)
	a.conn.Begin() // a request in flight does not keep what cannot be answered any more
	a.room = 3
	if err := errors.Join(a.conn.Write("first "), a.conn.Write("second"), a.conn.CloseWrite(), a.conn.CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if err := a.conn.Write("late"); err != ErrWriteClosed || !errors.Is(err, ErrClosed) {
		t.Errorf("a write after CloseWrite: %v", err)
	}
	l.Iterate()
	if err := a.conn.writeFromTail("late"); err != ErrWriteClosed {
		t.Errorf("a write on the loop after CloseWrite: %v", err)
	}
	if string(a.out) != "fir" || a.shutdown {
		t.Errorf("with room for 3 bytes %q is sent, and the end: %v", a.out, a.shutdown)
	}
	a.room = 1 << 20
	a.send("request;")
	l.Iterate()
	if string(a.out) != "first second" || !a.shutdown || got != "request;" {
		t.Errorf("%q is sent, the end: %v, and %q was read", a.out, a.shutdown, got)
	}
	a.shutdown = false
	a.send("more;")
	l.Iterate()
	if got != "request;more;" || a.closed > 0 {
		t.Errorf("behind our end %q was read, closed %d times", got, a.closed)
	}
	a.eof = true
	l.Iterate()
	a.wantEnd(t, "when both sides have ended", ClosePeerClosed)
	if a.shutdown {
		t.Error("our side was ended twice")
	}
	if err := a.conn.CloseWrite(); !errors.Is(err, ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}

// TestCloseWriteMeets: the end of our side together with the other ends.
func TestCloseWriteMeets(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(a *actor)
		want CloseReason
	}{
		"the peer's end before":     {func(a *actor) { a.eof = true; a.conn.loop.Iterate(); a.conn.CloseWrite() }, ClosePeerClosed},
		"the peer's end meanwhile":  {func(a *actor) { a.conn.CloseWrite(); a.eof = true }, ClosePeerClosed},
		"inside a request":          {func(a *actor) { a.conn.CloseWrite(); a.send("half"); a.eof = true }, CloseIncompleteRequest},
		"CloseAfterFlush before it": {func(a *actor) { a.conn.CloseAfterFlush(CloseNormal); a.conn.CloseWrite(); a.eof = true }, CloseNormal},
		"CloseAfterFlush behind it": {func(a *actor) {
			a.conn.CloseWrite()
			a.conn.loop.Iterate()
			a.shutdown = false // once is enough
			a.conn.CloseAfterFlush(CloseNormal)
			a.conn.loop.Iterate()
			if a.shutdown {
				t.Error("our side was ended twice")
			}
			a.eof = true
		}, CloseNormal},
		"a drain": {func(a *actor) {
			a.conn.CloseWrite()
			a.conn.loop.startDrain(a.conn.set.owner)
			a.conn.End()
			a.eof = true
		}, ClosePeerClosed},
		"Close": {func(a *actor) { a.conn.CloseWrite(); a.conn.Close(CloseNormal) }, CloseNormal},
	} {
		t.Run(name, func(t *testing.T) {
			st, l := newStage(t, cutServer(func(*Context, string) error { return nil }))
			a := st.connect(l)
			a.conn.Begin()
			if err := a.conn.Write("answer"); err != nil {
				t.Fatal(err)
			}
			c.do(a)
			for range 4 {
				l.Iterate()
			}
			a.wantEnd(t, name, c.want)
			if name != "Close" && string(a.out) != "answer" || a.closed != 1 {
				t.Errorf("%q was sent, closed %d times", a.out, a.closed)
			}
		})
	}
}

// TestResetOnCut: an end that cuts what our side sends is a reset, one that leaves it whole is not.
func TestResetOnCut(t *testing.T) {
	for name, c := range map[string]struct {
		do  func(a *actor)
		cut bool
	}{
		"a forced end":                     {func(a *actor) { a.conn.force(nil) }, true},
		"an end with bytes queued":         {func(a *actor) { a.room = 0; a.conn.CloseWrite(); a.conn.loop.Iterate(); a.conn.Close(CloseNormal) }, true},
		"a forced end behind our own":      {func(a *actor) { a.conn.CloseWrite(); a.conn.loop.Iterate(); a.conn.force(nil) }, false},
		"an orderly end":                   {func(a *actor) { a.conn.CloseAfterFlush(CloseNormal); a.conn.loop.Iterate(); a.eof = true }, false},
		"an orderly end behind the peer's": {func(a *actor) { a.eof = true; a.conn.loop.Iterate(); a.conn.CloseAfterFlush(CloseNormal) }, false},
		"an orderly end that is cut": {func(a *actor) {
			a.room = 0
			a.conn.CloseAfterFlush(CloseNormal)
			a.conn.loop.Iterate()
			a.conn.force(nil)
			a.conn.kill()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			st, l := newStage(t, cutServer(func(*Context, string) error { return nil }))
			for _, asked := range []bool{false, true} {
				a := st.connect(l)
				a.conn.Begin()
				if asked {
					a.conn.ResetOnCut()
				}
				if err := a.conn.Write("part"); err != nil {
					t.Fatal(err)
				}
				c.do(a)
				for range 4 {
					l.Iterate()
				}
				if a.closed != 1 || a.aborted != (asked && c.cut) {
					t.Errorf("asked %v: closed %d times, reset %v", asked, a.closed, a.aborted)
				}
			}
		})
	}
}

// TestReadOn: a full queue does not pause the reads of a connection that was told so, before or after it was full, and its
// handlers are told of the marks as ever.
func TestReadOn(t *testing.T) {
	for _, late := range []bool{false, true} {
		got := ""
		srv := cutServer(func(_ *Context, m string) error { got += m; return nil })
		srv.Watermarks = Watermarks{Low: 4, High: 8, Max: 100}
		st, l := newStage(t, srv)
		a := st.connect(l)
		if !late {
			a.conn.ReadOn()
		}
		a.room = 0
		if err := a.conn.Write("more than eight"); err != nil {
			t.Fatal(err)
		}
		l.Iterate()
		a.send("a;")
		l.Iterate()
		if late {
			if got != "" {
				t.Fatalf("behind a full queue %q was read", got)
			}
			a.conn.ReadOn()
			l.Iterate()
			l.Iterate()
		}
		if got != "a" || a.conn.Writable() {
			t.Errorf("late %v: %q was read, writable %v", late, got, a.conn.Writable())
		}
		a.room = 100
		l.Iterate()
		l.Iterate()
		if !a.conn.Writable() || string(a.out) != "more than eight" {
			t.Errorf("late %v: %q is sent, writable %v", late, a.out, a.conn.Writable())
		}
	}
}
