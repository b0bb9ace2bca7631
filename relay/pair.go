package relay

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// pair is an accepted connection, the client, and the server's connection that was dialed for it.
type pair struct {
	relay     *Relay
	client    side
	server    side
	target    net.Addr
	connected func(ctx *eddy.Context, err error)

	// The client's loop only.
	near   bool // the server's side is on that loop
	cancel func(error)
	stands bool // both sides are connected; stays set
	began  time.Duration
	took   time.Duration
	quiet  int   // checks in a row without a byte
	seen   int64 // bytes moved at the last check

	open   atomic.Int32 // sides that have not ended
	first  atomic.Bool  // reason and err are set
	reason eddy.CloseReason
	err    error
}

// side is the handler of one of the two connections. Its fields belong to its loop, except for atomic ones.
type side struct {
	pair  *pair
	other *side
	ctx   *eddy.Context
	conn  *eddy.Conn
	name  string // its address
	moved atomic.Int64
	held  [][]byte // pieces that the other side's loop had no room for
	eof   bool     // the peer has ended its stream
	ended bool
}

// HandleOpen implements eddy.OpenHandler.
func (s *side) HandleOpen(ctx *eddy.Context) error {
	s.ctx, s.conn = ctx, ctx.Conn()
	s.conn.Begin() // a drain waits for what is relayed
	s.conn.ResetOnCut()
	s.conn.ReadOn() // what is read goes elsewhere
	p := s.pair
	if s == &p.server {
		s.conn.HandshakeDone()
		s.conn.PauseRead() // until settle, or its bytes would precede what connected writes, or take its room
		return nil
	}
	s.name = s.conn.RemoteAddr().String()
	return p.begin()
}

// begin connects to the target. Until then the client is not read.
func (p *pair) begin() error {
	r := p.relay
	r.active.Add(1)
	r.pairs.Add(1)
	p.open.Store(2)
	p.began = p.client.ctx.Now()
	p.client.ctx.HoldReads()
	err := p.dial()
	if err != nil {
		p.noServer(err)
	}
	return nil
}

func (p *pair) dial() (err error) {
	r, c := p.relay, p.client.conn
	if p.target == nil {
		if p.target, err = r.o.Target(c); err != nil {
			return fmt.Errorf("relay: Options.Target: %w", err)
		}
	}
	if p.target == nil {
		return errors.New("relay: Options.Target gave no address")
	}
	p.server.name = p.target.String()
	o := eddy.DialOptions{Init: p.initServer}
	if p.near = r.serves(c.Loop()); p.near {
		o.Loop = c.Loop()
	}
	p.cancel, err = r.o.Dialer.DialAddr(p.target, o, p.dialed)
	return err
}

// serves reports whether the dialer can make a connection on the loop.
func (r *Relay) serves(l *eddy.Loop) bool {
	if g := r.o.Dialer.Group; g != nil {
		for i := 0; g.Loop(i) != nil; i++ {
			if g.Loop(i) == l {
				return true
			}
		}
	}
	return false
}

func (p *pair) initServer(b *eddy.Pipeline) error {
	if front := p.relay.o.Dialer.Init; front != nil {
		if err := front(b); err != nil {
			return err
		}
	}
	return b.Add("relay", &p.server)
}

// dialed receives the outcome of the dial, on the loop that the server's side is on or was to be on.
func (p *pair) dialed(c *eddy.Conn, err error) {
	if p.near {
		p.settle(c, err)
		return
	}
	perr := p.client.conn.Post(func() { p.settle(c, err) })
	if perr == nil {
		return
	}
	p.client.conn.Reset(eddy.CloseBackpressureLimit, perr)
	if err == nil {
		c.Reset(eddy.CloseBackpressureLimit, perr)
	} else {
		p.noServerSide()
	}
}

// settle begins the exchange or ends the client, on the client's loop.
func (p *pair) settle(c *eddy.Conn, err error) {
	switch {
	case err != nil:
		p.noServer(err)
	case p.client.ended:
		c.Reset(eddy.CloseNormal, nil)
	default:
		p.stands = true
		p.client.conn.HandshakeDone() // connecting to the target counts as the handshake
		if p.connected != nil {
			p.connected(p.client.ctx, nil)
		}
		if p.near {
			p.client.spliceTo(&p.server)
			p.server.spliceTo(&p.client)
		}
		p.client.ctx.ReleaseReads()
		c.ResumeRead()
		if idle := p.relay.o.Idle; idle > 0 {
			p.watch(idle)
		}
	}
}

// spliceTo has the kernel move what comes in bulk. The other side's queue bounds it.
func (s *side) spliceTo(to *side) { s.ctx.SpliceTo(to.ctx, func(n int) { s.moved.Add(int64(n)) }) }

// noServer ends a client whose server could not be connected, on the client's loop.
func (p *pair) noServer(err error) {
	p.note(eddy.CloseIOError, err)
	p.noServerSide()
	switch {
	case p.client.ended:
	case p.connected != nil:
		p.connected(p.client.ctx, err)
		p.client.ctx.CloseAfterFlush(eddy.CloseIOError)
	default:
		p.client.conn.Reset(eddy.CloseIOError, err)
	}
}

// noServerSide counts the server's side as ended if it was never opened, because its HandleClose does not count it
// then.
func (p *pair) noServerSide() {
	if p.server.conn == nil {
		p.over()
	}
}

// HandleRead implements eddy.ReadHandler.
func (s *side) HandleRead(_ *eddy.Context, msg any) error {
	var p []byte
	switch m := msg.(type) {
	case *buf.Bytes:
		p = m.Bytes()
	case []byte:
		p = m
	case *buf.Shared:
		defer m.Release()
		p = m.Bytes()
	default:
		s.conn.Reset(eddy.CloseInternalError, fmt.Errorf("relay: message of type %T: want the bytes of the connection; no decoder may stand in front", msg))
		return nil
	}
	s.moved.Add(int64(len(p)))
	if len(s.held) == 0 {
		err := s.give(p)
		if err == nil {
			s.yield()
			return nil
		}
		if errors.Is(err, eddy.ErrClosed) {
			return nil // the HandleClose of the other side ends the pair
		}
	}
	if s.held = append(s.held, slices.Clone(p)); len(s.held) == 1 {
		s.conn.PauseRead()
		return s.retryLater()
	}
	return nil
}

// give writes a piece to the other side.
func (s *side) give(p []byte) error {
	if s.pair.near {
		return s.other.ctx.WriteBytes(p)
	}
	return s.other.conn.Write(s.conn.Buffers().Copy(p))
}

// yield stops reading while the other side has no room.
func (s *side) yield() {
	if to := s.other.conn; !to.Writable() {
		s.conn.PauseRead()
		to.OnWritable(s.goOn)
	}
}

// goOn ends a pause of yield, on the other side's loop.
func (s *side) goOn(error) { s.conn.ResumeRead() }

// retryDelay is the time between two offers of a piece that the other side's loop, or the memory budget, has no room
// for.
const retryDelay = 10 * time.Millisecond

func (s *side) retryLater() error {
	_, err := s.ctx.After(retryDelay, s.retry)
	return err
}

// retry offers the held pieces again.
func (s *side) retry() {
	for len(s.held) > 0 && !s.ended {
		switch err := s.give(s.held[0]); {
		case errors.Is(err, eddy.ErrClosed):
			return
		case err != nil:
			if err = s.retryLater(); err != nil {
				s.conn.Reset(eddy.CloseInternalError, err)
			}
			return
		}
		s.held = s.held[1:]
	}
	s.held = nil
	if s.eof {
		_ = s.other.conn.CloseWrite() // an error means that it has ended
	}
	s.conn.ResumeRead()
	s.yield()
}

// HandleEvent implements eddy.EventHandler. The end of this side's stream ends the other's.
func (s *side) HandleEvent(ctx *eddy.Context, ev any) error {
	if ev == (eddy.InputClosedEvent{}) {
		s.eof = true
		if len(s.held) == 0 {
			_ = s.other.conn.CloseWrite() // an error means that it has ended
		}
	}
	ctx.FireEvent(ev)
	return nil
}

// HandleClose implements eddy.CloseHandler.
func (s *side) HandleClose(ctx *eddy.Context, reason eddy.CloseReason, err error) {
	if s.conn == nil {
		return // it was never opened: nothing has begun, or the dialer reports the failure
	}
	p := s.pair
	s.ended = true
	p.note(reason, err)
	switch {
	case s == &p.client && !p.stands:
		if p.cancel != nil {
			p.cancel(eddy.ErrClosed)
		}
	case (reason == eddy.ClosePeerClosed || reason == eddy.CloseNormal) && len(s.held) == 0:
		if !s.eof {
			s.other.conn.CloseAfterFlush(eddy.CloseNormal)
		}
	default:
		s.other.conn.Reset(reason, err)
	}
	if s == &p.client {
		p.took = ctx.Now() - p.began
	}
	p.over()
}

// note keeps the first reason for which the pair ends.
func (p *pair) note(reason eddy.CloseReason, err error) {
	if p.first.CompareAndSwap(false, true) {
		p.reason, p.err = reason, err
	}
}

// over counts the end of a side. The second one ends the pair.
func (p *pair) over() {
	if p.open.Add(-1) > 0 {
		return
	}
	r := p.relay
	in, out := p.client.moved.Load(), p.server.moved.Load()
	r.in.Add(uint64(in))
	r.out.Add(uint64(out))
	r.active.Add(-1)
	if !p.stands && p.err != nil {
		r.failed.Add(1)
		if ok, held := r.lines.Allow(int64(p.began)); ok {
			r.o.Logger.Warn("relay: no connection to the target", "client", p.client.name, "target", p.server.name, "err", p.err, "held_back", held)
		}
	}
	if r.o.Done != nil {
		r.o.Done(Report{Client: p.client.name, Target: p.server.name, In: in, Out: out, Took: p.took, Reason: p.reason, Err: p.err})
	}
}

// looks is how often a pair is checked within Options.Idle.
const looks = 4

// watch ends the pair when nothing has moved for long enough. On the client's loop.
func (p *pair) watch(idle time.Duration) {
	_, err := p.client.ctx.After(idle/looks, func() {
		now := p.client.moved.Load() + p.server.moved.Load()
		if p.quiet++; now != p.seen {
			p.quiet, p.seen = 0, now
		}
		if p.quiet < looks {
			p.watch(idle)
			return
		}
		p.client.conn.Reset(eddy.CloseIdleTimeout, &eddy.DeadlineError{Reason: eddy.CloseIdleTimeout, Limit: idle})
	})
	if err != nil && !errors.Is(err, eddy.ErrClosed) {
		p.client.conn.Reset(eddy.CloseInternalError, err)
	}
}
