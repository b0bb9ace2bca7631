package hub

import (
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/trace"
)

// Timed is a Conn that knows when messages pass the engine. The traces of its commands then have these times.
type Timed interface {
	Conn
	// Behind returns how long the message that Receive is called with has waited for the connection's loop.
	Behind() time.Duration
	// Sent ends a request as soon as the kernel has taken everything that Send has queued. Any goroutine may call it.
	Sent(r *trace.Request)
}

// sample returns the record of a command that has just come, nil if it is not sampled. The trace of a trusted client decides
// about all commands of its session.
func (s *Session) sample() *trace.Request {
	rec := s.hub.o.Trace
	if rec == nil {
		return nil
	}
	if !rec.Sample(&s.peer.Trace) {
		rec.Unsampled(trace.Parent{}) // counts it
		return nil
	}
	about := trace.About{Protocol: "desk", Name: "unknown"}
	if c, ok := s.conn.(Timed); ok {
		about.Waited = c.Behind()
	}
	return rec.Begin(s.peer.Trace, about)
}

// told ends the record of a command whose answer is queued, or that has none.
func (s *Session) told(r *trace.Request) {
	if !r.Sampled() {
		return
	}
	if c, ok := s.conn.(Timed); ok {
		c.Sent(r)
		return
	}
	r.End()
}

// mute reports whether a command has no answer.
func mute(payload any) bool {
	switch payload.(type) {
	case *proto.Active, *proto.Typing, *proto.Receipt, *proto.Visit:
		return true
	}
	return false
}

// requestOf returns the request that a command of the store belongs to, nil for none that is sampled.
func requestOf(cmd store.Command) *trace.Request {
	if t, ok := cmd.(store.Traced); ok {
		return t.Request
	}
	return nil
}

// ofTurn returns the command that ends a turn, which belongs to the trace of what has begun the turn.
func (h *Hub) ofTurn(c store.BotTurn) store.Command {
	h.turns.mu.Lock()
	defer h.turns.mu.Unlock()
	if t := h.turns.open[c.Conv]; t != nil && t.Turn.ID == c.Turn && t.Trace != "" {
		return store.Traced{Command: c, Trace: t.Trace}
	}
	return c
}
