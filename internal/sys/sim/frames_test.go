package sim_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// A frame is a length of two bytes, an order of one byte, an id of two bytes and a body of length-3 bytes.
const (
	frameHead = 5
	frameMax  = 3000

	linger = 2 * time.Second // the server's LingerTimeout
)

// The orders of a frame to the server.
const (
	orderEcho  = iota // answer now
	orderDefer        // answer later, from another goroutine
	orderTimer        // answer when a timer fires
	orderPause        // answer, and pause reads until another goroutine resumes them
	orderFail         // return an error
	orderPanic        // panic
	orderBye          // answer, then close in order
	orderBad          // no such order: a protocol error
	orders
	orderTooLong = 0xee // with a length beyond the limit
)

var errOrder = errors.New("no such order")

// frameDecoder cuts frames and hands on their order, id and body.
type frameDecoder struct{}

type frame struct {
	order byte
	id    uint16
	body  []byte
}

func (frameDecoder) Decode(ctx *eddy.Context, view []byte) (int, error) {
	if len(view) < 2 {
		return 0, nil
	}
	n := int(binary.BigEndian.Uint16(view))
	if n > frameMax {
		return 0, eddy.WithReason(eddy.CloseFrameTooLarge, nil)
	}
	if len(view) < 2+n {
		if len(view) >= frameHead {
			ctx.Conn().SetPhase(eddy.PhaseReadingBody)
		}
		return 0, nil
	}
	ctx.Conn().SetPhase(eddy.PhaseReadingHeader)
	ctx.FireRead(frame{view[2], binary.BigEndian.Uint16(view[3:]), view[frameHead : 2+n]})
	return 2 + n, nil
}

func encodeFrame(order byte, id uint16, body []byte) []byte {
	b := make([]byte, frameHead, frameHead+len(body))
	binary.BigEndian.PutUint16(b, uint16(3+len(body)))
	b[2] = order
	binary.BigEndian.PutUint16(b[3:], id)
	return append(b, body...)
}

// framesServer carries out the orders.
type framesServer struct {
	t      *trial
	later  []func() // what another goroutine will do
	pooled bool     // orders are carried out on a pool
	loose  bool     // side by side
}

func (s *framesServer) handle(ctx *eddy.Context, f frame) error {
	c := ctx.Conn()
	s.t.take(c, int(f.id))
	answer := encodeFrame(f.order, f.id, f.body)
	switch f.order {
	case orderEcho:
		return s.t.answer(ctx, answer)
	case orderDefer:
		c.Begin()
		s.later = append(s.later, func() { s.submit(c, answer) })
	case orderTimer:
		if s.pooled { // timers are for the loop
			return s.t.answer(ctx, answer)
		}
		c.Begin()
		due := s.t.w.Now() + int64(f.id%64)*int64(time.Millisecond)
		_, err := ctx.After(time.Duration(f.id%64)*time.Millisecond, func() {
			if s.t.w.Now() < due {
				s.t.w.Failf("a timer fired %v early", time.Duration(due-s.t.w.Now()))
			}
			if err := s.t.answer(ctx, answer); err != nil && c.CloseError() == nil {
				s.t.w.Failf("write in a timer: %v", err)
			}
			c.End()
		})
		return err
	case orderPause:
		c.PauseRead()
		s.later = append(s.later, c.ResumeRead)
		return s.t.answer(ctx, answer)
	case orderFail:
		return errors.New("as ordered")
	case orderPanic:
		if !s.pooled {
			s.t.panics++
		}
		panic("as ordered")
	case orderBye:
		if err := s.t.answer(ctx, answer); err != nil {
			return err
		}
		s.t.lifeOf(s.t.peers[c.RemoteAddr()]).told = s.t.w.Now()
		ctx.CloseAfterFlush(eddy.CloseNormal)
	default:
		return eddy.WithReason(eddy.CloseProtocolError, errOrder)
	}
	return nil
}

// submit answers from another goroutine. A full queue is tried again.
func (s *framesServer) submit(c *eddy.Conn, answer []byte) {
	switch err := c.Write(answer); {
	case c.CloseError() != nil:
	case errors.Is(err, eddy.ErrSaturated), errors.Is(err, eddy.ErrBackpressure):
		peer := s.t.peers[c.RemoteAddr()]
		if peer.ending != vanish || !s.t.w.IsCalm() {
			s.later = append(s.later, func() { s.submit(c, answer) })
			return
		}
		peer.closedFor = append(peer.closedFor, eddy.CloseBackpressureLimit)
		c.Close(eddy.CloseBackpressureLimit) // nobody will ever read it
	case err != nil && !errors.Is(err, eddy.ErrClosed):
		s.t.w.Failf("write: %v", err)
	}
	c.End()
}

// answersFrom adds the goroutine that sends the answers put off by submit.
func (s *framesServer) answersFrom() {
	s.t.w.OffLoop("answers", func() sim.Next {
		if len(s.later) == 0 {
			return sim.Blocked
		}
		i := s.t.n(len(s.later))
		f := s.later[i]
		s.later = append(s.later[:i], s.later[i+1:]...)
		f()
		return sim.Next(s.t.n(int(300 * time.Microsecond)))
	})
}

// pieces is a decoder in front of another one. It passes the bytes on unchanged, in pieces of any size.
type pieces struct{ t *trial }

func (p pieces) Decode(ctx *eddy.Context, view []byte) (int, error) {
	n := 1 + p.t.n(min(len(view), 4*frameMax))
	ctx.FireRead(buf.Own(bytes.Clone(view[:n])))
	return n, nil
}

// frames: a request protocol whose frames come in pieces and whose answers come at any time.
func frames(t *trial) { t.frames(false) }

// inner: the same protocol behind another decoder.
func inner(t *trial) { t.frames(true) }

func (t *trial) frames(inner bool) {
	s := &framesServer{t: t}
	marks := t.marks()
	marks.Max = 1 << 20
	srv := &eddy.Server{CloseOnEOF: t.once(2), Watermarks: marks}
	srv.Init = func(p *eddy.Pipeline) error {
		if inner {
			if err := p.Add("pieces", pieces{t}); err != nil {
				return err
			}
		}
		if err := p.Add("frames", frameDecoder{}); err != nil {
			return err
		}
		return p.Add("orders", eddy.Handle(s.handle))
	}
	addr := t.listen(srv)
	if t.once(4) {
		t.w.Often(sim.ShutdownFails)
	}
	s.answersFrom()
	t.disturb(&crowd{srv: srv, mild: true})
	t.relieve(srv)
	clients := make([]*framesClient, 1+t.n(20))
	for i := range clients {
		clients[i] = s.client(addr)
	}
	if t.load(8000) {
		t.finish()
	}
	if t.w.Err() == nil {
		for _, c := range clients {
			c.verdict(!srv.CloseOnEOF)
		}
	}
}
