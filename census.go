package eddy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/transport"
)

// ConnInfo describes a connection: for EachConn as its loop found it, for RecentCloses after its end. A connection that has
// ended has ID, Remote, Tenant, Phase, Reason, Cause and Ago.
type ConnInfo struct {
	ID            ConnID
	Loop          string         // the loop that owns the connection
	Remote, Local netip.AddrPort // zero for Unix sockets
	Tenant        string         // "" = nobody's
	Phase         Phase
	Reason        CloseReason   // why the connection ends or has ended; CloseUnset while it is open
	Cause         string        // of Reason once it has ended, at most 200 bytes; "" = none
	Ago           time.Duration // since the end; 0 before
	Outbound      int64         // bytes queued for the peer
	Inbound       int64         // bytes received and not decoded yet, or kept: see Context.KeepInput
	InFlight      int           // requests that have not ended
	Idle          time.Duration // since the last byte read or written
	ReadPaused    bool          // its reads are held back, by the engine or the application
	Unwritable    bool          // its outbound queue is above the watermark
}

// censusBatch is how many slots a loop looks at in one iteration.
const censusBatch = 256

// EachConn calls f for each connection of the server, on the caller's goroutine, until f returns false. A connection
// that is open all the time is told exactly once; a connection that opens or ends meanwhile may be told. All loops are
// asked at the same time. A loop looks at no more than 256 slots per iteration, and goes on when f has had those. So a walk
// through many connections delays nobody.
// The error is nil, ErrOnLoop, or joins one error for each loop that could not be asked to the end. Such a loop is full
// (ErrSaturated) or has ended (ErrClosed), or ctx ended first. Connections of the other loops have been told then. Before
// Listen there are no connections. Any goroutine but a loop.
func (s *Server) EachConn(ctx context.Context, f func(ConnInfo) bool) error {
	e := s.running()
	if e == nil {
		return nil
	}
	if reactor.OnLoop() {
		return ErrOnLoop
	}
	w := &census{owner: &s.endpoint, ready: make(chan struct{}, len(e.workers))}
	for _, l := range e.workers {
		w.ask(&censusPiece{loop: l, infos: make([]ConnInfo, 0, censusBatch)})
	}
	for len(w.asked) > 0 {
		if !e.kernel.wait(w.ready, ctx.Done()) {
			w.late(ctx.Err())
			break
		}
		p := w.take()
		for _, c := range p.infos {
			if !f(c) {
				return nil
			}
		}
		if !p.last {
			w.ask(p)
		}
	}
	return errors.Join(w.errs...)
}

// census is one walk through the connections of a server. Its pieces go to the loops and back, one per loop.
type census struct {
	owner *endpoint
	ready chan struct{} // an element for each piece that is back
	asked []*censusPiece
	errs  []error

	mu   sync.Mutex
	back []*censusPiece
}

// censusPiece belongs to its loop until it is back. A piece that is never fetched is garbage.
type censusPiece struct {
	loop   *loop
	cursor int // slots below it are done
	last   bool
	infos  []ConnInfo
}

// ask sends a piece to its loop.
func (w *census) ask(p *censusPiece) {
	p.infos = p.infos[:0]
	if err := p.loop.Tasks.PushTail(func() { w.fill(p) }); err != nil {
		w.errs = append(w.errs, fmt.Errorf("eddy: connections of loop %s: %w", p.loop.Name, err))
		return
	}
	w.asked = append(w.asked, p)
}

// fill looks at the next slots. On the loop.
func (w *census) fill(p *censusPiece) {
	l := p.loop
	part, end := l.table.Part(p.cursor, censusBatch)
	for _, c := range part {
		if c != nil && c.set.owner == w.owner {
			p.infos = append(p.infos, c.info())
		}
	}
	p.cursor, p.last = end, end == l.table.Len()
	w.mu.Lock()
	w.back = append(w.back, p)
	w.mu.Unlock()
	w.ready <- struct{}{}
}

// take fetches a piece that is back.
func (w *census) take() *censusPiece {
	w.mu.Lock()
	p := w.back[0]
	w.back = w.back[1:]
	w.mu.Unlock()
	for i, a := range w.asked {
		if a == p {
			w.asked = append(w.asked[:i], w.asked[i+1:]...)
			break
		}
	}
	return p
}

// late notes the loops that have not answered in time.
func (w *census) late(err error) {
	for _, p := range w.asked {
		w.errs = append(w.errs, fmt.Errorf("eddy: connections of loop %s: it did not answer: %w", p.loop.Name, err))
	}
}

// info describes the connection. Loop only.
func (c *Conn) info() ConnInfo {
	out, in := c.holds()
	i := ConnInfo{
		ID: c.ID(), Loop: c.loop.Name, Remote: c.RemoteAddr(), Local: c.LocalAddr(), Tenant: c.tenant(), Phase: c.phase,
		Outbound: int64(out), Inbound: int64(in), InFlight: int(c.counts.inflight.Load()),
		Idle: time.Duration(max(c.loop.Now-c.lastActive, 0)), ReadPaused: c.readPaused(), Unwritable: c.shows(unwritable),
	}
	if e := c.ended.Load(); e != nil {
		i.Reason = e.Reason
	}
	return i
}

// CloseConn ends the connection that id names, as Conn.CloseWith does or, with flush, as CloseAfterFlush, and reports
// whether the server has such a connection. CloseConn waits until the loop has looked, but not for the end. Errors:
// ErrOnLoop; ErrSaturated; ErrClosed after the server has stopped; ctx's, after which the close may still happen. Any
// goroutine but a loop.
func (s *Server) CloseConn(ctx context.Context, id ConnID, flush bool, reason CloseReason, cause error) (found bool, err error) {
	if reactor.OnLoop() {
		return false, ErrOnLoop
	}
	e := s.running()
	if e == nil || int(id.loop) >= len(e.workers) {
		return false, nil
	}
	l, looked, known := e.workers[id.loop], make(chan struct{}), new(bool)
	err = l.Tasks.PushTail(func() {
		defer close(looked)
		if c := l.table.Lookup(transport.Token(id.slot, id.gen)); c != nil && c.set.owner == &s.endpoint {
			*known = true
			c.requestClose(closeRequest{reason: reason, err: cause, flush: flush})
		}
	})
	if err != nil {
		return false, fmt.Errorf("eddy: closing connection %v: %w", id, err)
	}
	if !e.kernel.wait(looked, ctx.Done()) {
		return false, fmt.Errorf("eddy: closing connection %v: loop %s did not answer: %w", id, l.Name, ctx.Err())
	}
	return *known, nil
}

// Workers returns the loops that serve the connections, nil before Listen; with a shared Group they are the group's. Any
// goroutine.
func (s *Server) Workers() []*Loop {
	e := s.running()
	if e == nil {
		return nil
	}
	all := make([]*Loop, len(e.workers))
	for i, l := range e.workers {
		all[i] = &l.handle
	}
	return all
}

// Draining reports whether the end of the server has begun, by Shutdown or Close, or is over. Any goroutine.
func (s *Server) Draining() bool { return s.endpoint.phase.Load() != int32(serverRunning) }

// ParseConnID reads what ConnID.String wrote.
func ParseConnID(text string) (ConnID, error) {
	var id ConnID
	if n, err := fmt.Sscanf(text, "%d.%d.%d", &id.loop, &id.slot, &id.gen); n != 3 || err != nil || id.String() != text {
		return ConnID{}, fmt.Errorf("eddy: %q is no connection id: write loop.slot.generation, such as 0.12.3", firstBytes(text, 64))
	}
	return id, nil
}

// Compare orders ids by loop, slot and generation, as slices.SortFunc wants it.
func (id ConnID) Compare(other ConnID) int {
	return cmp.Or(cmp.Compare(id.loop, other.loop), cmp.Compare(id.slot, other.slot), cmp.Compare(id.gen, other.gen))
}

// maxKeepCloses bounds Server.KeepCloses.
const maxKeepCloses = 1 << 16

// RecentCloses returns the last connections that ended, the latest first, at most Server.KeepCloses. Refused connections
// are not included. Any goroutine.
func (s *Server) RecentCloses() []ConnInfo {
	e := s.running()
	if e == nil {
		return nil
	}
	var all []ConnInfo
	s.endpoint.recent.Each(e.kernel.clock.Now(), func(c closedConn, ago time.Duration) {
		all = append(all, ConnInfo{ID: c.id, Remote: c.remote, Tenant: c.tenant, Phase: PhaseClosed, Reason: c.reason, Cause: c.cause, Ago: ago})
	})
	return all
}

// closes returns the counts of closes by reason.
func closes(n *meter.Counts) map[CloseReason]uint64 {
	m := make(map[CloseReason]uint64)
	n.Each(func(reason int, times uint64) { m[CloseReason(reason)] = times })
	return m
}

// labelCounts returns the counts by label. A label that is called as the rest counts together with it.
func labelCounts[K comparable](t *meter.Labels[K]) map[string]map[CloseReason]uint64 {
	all := make(map[string]map[CloseReason]uint64)
	for _, n := range t.List() {
		of := closes(n.Counts)
		for reason, times := range all[n.Label] {
			of[reason] += times
		}
		all[n.Label] = of
	}
	return all
}
