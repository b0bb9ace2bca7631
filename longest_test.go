package eddy

import (
	"math"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/reactor"
)

// longest is the longest duration there is.
const longest = time.Duration(math.MaxInt64)

// TestLongestLimits: a limit as long as a duration can be is one that nobody reaches.
func TestLongestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*Server)
		send string
		room int // what the peer takes of the answers
	}{
		"IdleTimeout":         {func(s *Server) { s.IdleTimeout = longest }, "nothing;", 0},
		"ReadTimeout":         {func(s *Server) { s.ReadTimeout = longest }, "a part of a fra", 0},
		"BodyTimeout":         {func(s *Server) { s.BodyTimeout = longest }, "body;", 0},
		"HandlerTimeout":      {func(s *Server) { s.HandlerTimeout = longest }, "begin;", 0},
		"WriteTimeout":        {func(s *Server) { s.WriteTimeout = longest }, "answer;", 0},
		"BackpressureTimeout": {func(s *Server) { s.BackpressureTimeout = longest }, "answer;", 0},
		"HandshakeTimeout":    {func(s *Server) { s.HandshakeTimeout = longest }, "nothing;", 0},
		"FlushTimeout":        {func(s *Server) { s.FlushTimeout = longest }, "close;", 0},
		"LingerTimeout":       {func(s *Server) { s.LingerTimeout = longest }, "close;", 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			srv := cutServer(func(ctx *Context, msg string) error {
				switch msg {
				case "body":
					ctx.Conn().SetPhase(PhaseReadingBody)
				case "begin":
					ctx.Conn().BeginRequest(new(Request))
				case "answer":
					return ctx.Write(make([]byte, 3000))
				case "close":
					if err := ctx.Write([]byte("the last words")); err != nil {
						return err
					}
					ctx.CloseAfterFlush(CloseNormal)
				}
				return nil
			})
			srv.Watermarks = Watermarks{Low: 1000, High: 2000, Max: 4000}
			srv.FlushTimeout, srv.LingerTimeout = 100*time.Hour, 100*time.Hour
			c.set(srv)
			st, l := newStage(t, srv)
			a := st.connect(l)
			a.room = c.room
			a.send(c.send)
			st.pass(l, 10*time.Hour, time.Hour)
			if a.closed > 0 {
				t.Errorf("the connection ended with %v", a.conn.CloseError())
			}
		})
	}
}

// TestLongestTimers: a timer that is set for as long as a duration can be does not run, and neither does a second run of
// one whose period is that long.
func TestLongestTimers(t *testing.T) {
	for name, start := range map[string]func(st *stage, l *loop, f func()) (*Timer, error){
		"Context.After": func(st *stage, l *loop, f func()) (*Timer, error) {
			return st.connect(l).conn.head.After(longest, f)
		},
		"Loop.After":      func(_ *stage, l *loop, f func()) (*Timer, error) { return l.handle.After(longest, f) },
		"Loop.Every":      func(_ *stage, l *loop, f func()) (*Timer, error) { return l.handle.Every(longest, f) },
		"Loop.EveryAfter": func(_ *stage, l *loop, f func()) (*Timer, error) { return l.handle.EveryAfter(longest, f) },
		"again at a fixed rate": func(_ *stage, l *loop, _ func()) (*Timer, error) {
			timer, err := l.handle.Every(time.Hour, func() {})
			(*reactor.Timer)(timer).Repeat(longest, false)
			return timer, err
		},
		"again with a fixed delay": func(_ *stage, l *loop, _ func()) (*Timer, error) {
			timer, err := l.handle.EveryAfter(time.Hour, func() {})
			(*reactor.Timer)(timer).Repeat(longest, true)
			return timer, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, l := newStage(t, cutServer(func(*Context, string) error { return nil }))
			timer, err := start(st, l, func() { t.Error("it ran") })
			if err != nil {
				t.Fatal(err)
			}
			st.pass(l, 10*time.Hour, time.Hour)
			if when := (*reactor.Timer)(timer).When(); when != math.MaxInt64 || !timer.Stop() {
				t.Errorf("it is due at %d, or was not armed", when)
			}
		})
	}
}

// TestLongestStallThreshold: with the longest threshold nothing is a stall.
func TestLongestStallThreshold(t *testing.T) {
	st, l, dog, _ := watchedStage(t, &Group{StallThreshold: longest, OnStall: func(s Stall) { t.Errorf("told of %+v", s) }})
	work(t, l, func() {
		st.now.Add(int64(time.Hour))
		if next, _ := dog.Look(); next <= 0 {
			t.Errorf("the watchdog looks again in %v", next)
		}
	})
}
