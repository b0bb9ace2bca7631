package eddy

import "testing"

// TestResponseAfterThePeersEnd: a request that was complete before the peer's end of stream is answered on a server with
// half-close, and then the connection ends; by default it ends at once.
func TestResponseAfterThePeersEnd(t *testing.T) {
	for _, half := range []bool{true, false} {
		srv := cutServer(func(ctx *Context, _ string) error { ctx.conn.Begin(); return nil })
		srv.CloseOnEOF = !half
		st, l := newStage(t, srv)
		a := st.connect(l)
		a.send("request;")
		l.Iterate()
		a.eof = true
		l.Iterate()
		if open := a.closed == 0; open != half {
			t.Fatalf("half-close %v: open after the peer's end: %v", half, open)
		}
		if half {
			if err := a.conn.Write("response"); err != nil {
				t.Fatal(err)
			}
			a.conn.End()
			for range 3 {
				l.Iterate()
			}
		}
		if want := map[bool]string{true: "response"}[half]; string(a.out) != want || a.closed != 1 || a.conn.CloseError().Reason != ClosePeerClosed {
			t.Errorf("half-close %v: wrote %q, closed %d times, %v", half, a.out, a.closed, a.conn.CloseError())
		}
	}
}

// TestOwnEndBeforeThePeers: who ends a connection after its last answer decides the reason, also when the loop finds it idle
// behind the peer's end before it comes to that.
func TestOwnEndBeforeThePeers(t *testing.T) {
	st, l := newStage(t, cutServer(func(ctx *Context, _ string) error { ctx.conn.Begin(); return nil }))
	a := st.connect(l)
	a.send("request;")
	l.Iterate()
	a.eof = true
	l.Iterate()
	a.conn.CloseAfterFlush(CloseNormal)
	a.conn.counts.inflight.Add(-1) // End, but for the task that it posts
	a.conn.checkHalfClosed()
	l.Iterate()
	a.wantEnd(t, "the end that was asked for", CloseNormal)
}
