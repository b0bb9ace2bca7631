package eddy

import (
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/go-eddy/eddy/internal/reactor"
)

// Stall is an iteration of a loop that has lasted for Group.StallThreshold: some handler, task or timer blocks the loop
// and everything on it.
type Stall struct {
	Loop    string
	For     time.Duration  // so far
	Handler string         // function of the application that the engine or a protocol has called, "" for none
	Starved bool           // no handler runs; the loop itself waits for a processor
	Conn    ConnID         // the connection being served, zero when there is none
	Peer    netip.AddrPort // of Conn
	Stack   string         // stack of the loop's goroutine; "" after too many recent stalls
}

// newWatchdog makes the watchdog of the loops, which tells the log and the listener of stalls.
func (w *crew) newWatchdog() *reactor.Watchdog {
	vitals := make([]*reactor.Vitals, len(w.loops))
	for i, l := range w.loops {
		vitals[i] = &l.Vitals
	}
	return reactor.NewWatchdog(w.kernel.clock, w.set.stall, vitals, func(i int, took time.Duration) { w.reportStall(w.loops[i], took) })
}

// reportStall tells the log and the listener.
func (w *crew) reportStall(l *loop, took time.Duration) {
	s := Stall{Loop: l.Name, For: took}
	if c := l.serving.Load(); c != nil {
		s.Conn, s.Peer = c.ID(), c.RemoteAddr()
	}
	ok, held := w.logs.stalls.Allow(w.kernel.clock.Now())
	if ok {
		s.Stack = reactor.StackOf(l.Vitals.Goroutine.Load())
		s.Handler = reactor.HandlerIn(s.Stack)
		s.Starved = s.Handler == "" && reactor.Starved(s.Stack)
		text := "eddy: a handler blocks its loop"
		if s.Starved {
			text = "eddy: a loop gets no processor"
		}
		w.set.log.Warn(text, "loop", s.Loop, "for", s.For, "handler", s.Handler, "conn", s.Conn, "peer", s.Peer, "held_back", held, "stack", s.Stack)
	}
	if w.set.onStall != nil {
		w.tellStall(s)
	}
}

func (w *crew) tellStall(s Stall) {
	defer func() {
		if v := recover(); v != nil {
			w.set.log.Error("eddy: panic in OnStall", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	w.set.onStall(s)
}
