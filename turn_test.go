package eddy

import (
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
)

// TestTurnTime: a connection whose frames take long gives way after turnTime, so that the others of the iteration need not
// wait for frameBudget frames. The time is looked at after eight frames, and after each long one.
func TestTurnTime(t *testing.T) {
	short, long := "x;", strings.Repeat("x", turnBytes)+";"
	for _, c := range []struct {
		name  string
		frame string
		each  time.Duration
		want  int
		inner bool // the frames are in an envelope
	}{
		{"short and quick", short, 0, frameBudget, false},
		{"short and slow", short, turnTime / turnFrames, 2 * turnFrames, false},
		{"long and quick", long, 0, frameBudget - 1, false}, // the end of the read, inside one, counts
		{"long and slow", long, turnTime / 2, 3, false},
		{"long and very slow", long, turnTime, 2, false},
		{"slow and in an envelope", short, turnTime / turnFrames, 2*turnFrames - 1, true}, // which is a frame
	} {
		t.Run(c.name, func(t *testing.T) {
			got, each := 0, c.each
			var st *stage
			do := func(*Context, string) error {
				got++
				st.now.Add(int64(each))
				return nil
			}
			srv := cutServer(do)
			all := strings.Repeat(c.frame, 2*frameBudget)
			if c.inner {
				srv, all = innerServer(1, do), envelope(all)
			}
			st, l := newStage(t, srv)
			slow, other := st.connect(l), st.connect(l)
			slow.send(all)
			l.Serve(l.Wait())
			if got != c.want || len(l.lists.ready) != 1 {
				t.Fatalf("%d frames in a turn, want %d; %d connections go on", got, c.want, len(l.lists.ready))
			}
			each = 0
			if quick := "x;"; c.inner {
				other.send(envelope(quick))
			} else {
				other.send(quick)
			}
			for range 2*frameBudget + 2 {
				l.Iterate()
			}
			if got != 2*frameBudget+1 || len(l.lists.ready) != 0 {
				t.Errorf("%d frames in the end, %d connections go on", got, len(l.lists.ready))
			}
		})
	}
}

// TestTurnBegins: the time of a turn is that of one connection in one iteration.
func TestTurnBegins(t *testing.T) {
	var st *stage
	got := map[*Conn]int{}
	srv := cutServer(func(ctx *Context, _ string) error {
		got[ctx.Conn()]++
		st.now.Add(int64(turnTime / 4))
		return nil
	})
	st, l := newStage(t, srv)
	all := []*actor{st.connect(l), st.connect(l), st.connect(l)}
	for _, a := range all {
		a.send(strings.Repeat(strings.Repeat("x", turnBytes)+";", 4))
	}
	for range 2 { // the second iteration has nothing left
		l.Iterate()
	}
	for i, a := range all {
		if got[a.conn] != 4 {
			t.Errorf("connection %d was served %d frames, want 4", i, got[a.conn])
		}
	}
	if n := len(l.lists.ready); n != 0 {
		t.Errorf("%d connections go on", n)
	}
}

// TestLingerIsBounded: a connection that lingers drops 2 MiB of what its peer still sends, and as many short reads as come. A peer that sends
// on is not waited for.
func TestLingerIsBounded(t *testing.T) {
	for name, endless := range map[string]bool{"a peer that ends": false, "a peer that sends on": true} {
		t.Run(name, func(t *testing.T) {
			st, l := newStage(t, &Server{Loops: 1, Init: func(p *Pipeline) error {
				return p.Add("close", Handle(func(ctx *Context, _ *buf.Bytes) error { ctx.CloseAfterFlush(CloseNormal); return nil }))
			}})
			a := st.connect(l)
			a.send("x")
			l.Iterate()
			if !a.conn.has(lingering) || a.closed != 0 {
				t.Fatal("the connection does not linger")
			}
			a.reads, a.endless = 0, endless
			if !endless {
				for range 2 * lingerPieces {
					a.send("x")
				}
			}
			const most = lingerPieces*lingerPiece/scratchSize + 1
			for range 2 * lingerPieces {
				l.Iterate()
			}
			if endless {
				if a.closed != 1 || a.reads != most {
					t.Errorf("closed %d times after %d reads, want once after %d", a.closed, a.reads, most)
				}
				return
			}
			if a.closed != 0 || a.reads != 2*lingerPieces {
				t.Fatalf("closed %d times after %d reads, before the peer has ended", a.closed, a.reads)
			}
			a.eof = true
			l.Iterate()
			if a.closed != 1 {
				t.Errorf("closed %d times after the peer's end", a.closed)
			}
		})
	}
}

// TestLingerAfterALongTurn: a connection that is closed by a handler at the end of its turn, with frames in hand, drops as much as any other.
func TestLingerAfterALongTurn(t *testing.T) {
	for name, frames := range map[string]int{"by the last frame of the turn": 2, "with frames in hand": 4} {
		t.Run(name, func(t *testing.T) {
			var st *stage
			got := 0
			srv := cutServer(func(ctx *Context, _ string) error {
				st.now.Add(int64(turnTime))
				if got++; got == 2 {
					ctx.CloseAfterFlush(CloseNormal)
				}
				return nil
			})
			st, l := newStage(t, srv)
			a := st.connect(l)
			a.send(strings.Repeat(strings.Repeat("x", turnBytes)+";", frames))
			l.Iterate()
			if !a.conn.has(lingering) || a.conn.frames != lingerPieces {
				t.Fatalf("%d pieces are left, want %d", a.conn.frames, lingerPieces)
			}
			l.lists.ready = append(l.lists.ready, a.conn) // as one that a task has closed while frames were in hand
			l.Iterate()
			if a.conn.frames != lingerPieces || a.closed != 0 {
				t.Errorf("%d pieces are left, closed %d times", a.conn.frames, a.closed)
			}
		})
	}
}

// TestLoopsYield: the loops of the operating system's kernel let other goroutines run; see reactor's TestYield.
func TestLoopsYield(t *testing.T) {
	g := &Group{Loops: 1}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if g.crew.Load().loops[0].Kernel.Yield == nil {
		t.Error("it does not")
	}
}
