package eddy

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/transport"
)

// TestProgressIsWhatThePeerAcknowledges: a socket that stays full ends no connection whose peer acknowledges MinWriteRate and
// more, by none of the limits. One whose peer acknowledges less, or stops, ends within the limit and half of it. The system
// is asked a few times within a limit, and never about a connection that is not stuck.
func TestProgressIsWhatThePeerAcknowledges(t *testing.T) {
	const limit, step = 10 * time.Minute, 10 * time.Second
	for reason, set := range map[CloseReason]func(*Server){
		CloseWriteTimeout:      func(s *Server) { s.WriteTimeout = limit },
		CloseBackpressureLimit: func(s *Server) { s.BackpressureTimeout = limit },
		CloseIdleTimeout:       func(s *Server) { s.IdleTimeout = limit },
	} {
		t.Run(reason.String(), func(t *testing.T) {
			srv := cutServer(func(ctx *Context, _ string) error { return ctx.Write(make([]byte, 2000)) })
			srv.Watermarks = Watermarks{Low: 100, High: 200, Max: 40_000}
			set(srv)
			st, l := newStage(t, srv)
			fast, reads, trickles := st.connect(l), st.connect(l), st.connect(l)
			all := []*actor{fast, reads, trickles}
			for _, a := range all {
				a.unacked = new(int)
			}
			*reads.unacked, *trickles.unacked, reads.room, trickles.room = 8<<20, 8<<20, 0, 0
			for _, a := range all {
				a.send("go;")
			}
			l.Iterate()
			pass := func(d time.Duration, perStep int) {
				for ; d > 0; d -= step {
					*reads.unacked -= perStep
					*trickles.unacked -= 255 * int(step/time.Second)
					st.pass(l, step, step)
				}
			}
			before := reads.asked
			pass(6*limit, 256*int(step/time.Second))
			reads.wantEnd(t, "reading at the lowest rate", CloseUnset)
			if n := reads.asked - before; n < 12 || n > 13 {
				t.Errorf("asked %d times within six limits", n)
			}
			if fast.asked != 0 {
				t.Errorf("asked %d times about a peer that takes everything", fast.asked)
			}
			pass(limit/5, 2560*int(step/time.Second))
			pass(limit-step, 0)
			reads.wantEnd(t, "shortly before the limit without a byte", CloseUnset)
			pass(limit/2+2*step, 0)
			reads.wantEnd(t, "after the limit and half of it", reason)
			if reason != CloseIdleTimeout { // to which any byte is activity
				pass(300*limit, 0)
				trickles.wantEnd(t, "trickling", reason)
			}
		})
	}
}

// TestProgressCountsOnce: what the kernel takes while the peer acknowledges nothing is no progress, as long as the system
// tells; when the peer acknowledges it later, it is.
func TestProgressCountsOnce(t *testing.T) {
	const limit = time.Minute
	srv := cutServer(func(ctx *Context, msg string) error { return ctx.Write(make([]byte, len(msg)<<10)) })
	srv.WriteTimeout = limit
	st, l := newStage(t, srv)
	for _, acknowledges := range []bool{false, true} {
		a := st.connect(l)
		a.unacked, a.room = new(int), 0
		*a.unacked = 50_000
		a.send("0123456789012345678901234567890123456789;")
		l.Iterate()
		for i := range 4 {
			a.room = 1000 // a buffer that grows
			if !acknowledges {
				*a.unacked += 1000
			}
			st.pass(l, limit/4, time.Second)
			if acknowledges {
				continue
			}
			want := CloseUnset
			if i == 3 {
				want = CloseWriteTimeout
			}
			a.wantEnd(t, fmt.Sprintf("with %d bytes taken by the kernel", (i+1)*1000), want)
		}
		if acknowledges {
			a.wantEnd(t, "with all of them acknowledged", CloseUnset)
			a.unacked = nil // the system stops to tell: what was known stays
			st.pass(l, limit/3, time.Second)
			a.wantEnd(t, "without any more", CloseWriteTimeout)
		}
	}
}

// TestProgressUnderNewLimits: limits that a protocol sets on a connection that is stuck already know what the peer
// acknowledges, too.
func TestProgressUnderNewLimits(t *testing.T) {
	srv := cutServer(func(ctx *Context, _ string) error { return ctx.Write(make([]byte, 2000)) })
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.unacked, a.room = new(int), 0
	*a.unacked = 1 << 20
	a.send("go;")
	l.Iterate()
	if a.asked != 0 {
		t.Errorf("asked %d times for no limit", a.asked)
	}
	if err := a.conn.SetDeadlines(&Deadlines{Write: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		*a.unacked -= 60 << 10
		st.pass(l, 30*time.Second, time.Second)
	}
	a.wantEnd(t, "reading", CloseUnset)
	a.room = 1 << 20
	st.pass(l, time.Second, time.Second)
	if len(a.out) != 2000 {
		t.Fatalf("%d bytes written", len(a.out))
	}
	a.room = 0
	*a.unacked = 0
	a.send("go;")
	l.Iterate()
	st.pass(l, time.Minute+time.Second, time.Second)
	a.wantEnd(t, "stuck once more, and not reading", CloseWriteTimeout)
}

// TestStuckAtTheEndOfABudget: a socket that is full to the byte when a flush has used up its calls is stuck like any other.
func TestStuckAtTheEndOfABudget(t *testing.T) {
	const pieces = writeCallBudget * transport.MaxGather
	piece := make([]byte, adoptSize)
	srv := cutServer(func(ctx *Context, _ string) error {
		for range pieces + 1 {
			if err := ctx.Write(piece); err != nil {
				return err
			}
		}
		return nil
	})
	srv.WriteTimeout = time.Minute
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.room = pieces * adoptSize
	a.send("go;")
	l.Iterate()
	if len(a.out) != pieces*adoptSize || len(a.writes) != writeCallBudget {
		t.Fatalf("%d bytes written in %d calls", len(a.out), len(a.writes))
	}
	st.pass(l, 2*time.Minute, time.Second)
	a.wantEnd(t, "with a piece that the peer does not take", CloseWriteTimeout)
}
