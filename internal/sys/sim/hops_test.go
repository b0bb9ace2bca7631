package sim_test

import (
	"bytes"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/simhook"
)

// pool makes a pool whose workers the world runs.
func (t *trial) pool(name string) *executor.Pool {
	p, err := executor.NewFixed(executor.Options{Name: name, Workers: 1 + t.n(3), Queue: pick(t, 0, 1, 4), OnPanic: func(any, []byte) {}})
	if err != nil {
		panic(err)
	}
	simhook.SimulatePool(p, t.w.Workers())
	return p
}

// Detach makes a frame's body its own.
func (f frame) Detach() any {
	f.body = bytes.Clone(f.body)
	return f
}

// hops: handlers and encoders on pools that are too small, with everything that crosses between them and the loop.
func hops(t *trial) {
	s := &framesServer{t: t, pooled: true}
	marks := t.marks()
	marks.Max = 1 << 20
	srv := &eddy.Server{CloseOnEOF: t.once(2), Watermarks: marks}
	work := t.pool("work")
	srv.Pools = append(srv.Pools, work)
	codec := work
	if t.once(2) {
		codec = t.pool("codec")
		srv.Pools = append(srv.Pools, codec)
	}
	encode, polite, patient, loose := t.once(2), t.once(2), t.once(2), t.once(2)
	s.loose = loose
	srv.Init = func(p *eddy.Pipeline) error {
		if err := p.Add("frames", frameDecoder{}); err != nil {
			return err
		}
		if encode {
			if err := p.Add("encoder", encoder{t}, eddy.On(codec)); err != nil {
				return err
			}
		}
		opts := []eddy.AddOption{eddy.On(work)}
		if loose {
			if err := p.Add("side by side", &looseWatch{poolWatch: poolWatch{t: t}}, eddy.OnUnordered(work), eddy.RejectPause()); err != nil {
				return err
			}
			opts = []eddy.AddOption{eddy.OnUnordered(work)}
		}
		switch {
		case polite:
			opts = append(opts, eddy.RejectFunc(s.rejected))
		case patient:
			opts = append(opts, eddy.RejectPause())
		}
		if err := p.Add("orders", eddy.Handle(s.slow), opts...); err != nil {
			return err
		}
		return p.Add("watch", &poolWatch{t: t}, eddy.On(work))
	}
	addr := t.listen(srv)
	t.allow(eddy.CloseBackpressureLimit)
	s.answersFrom()
	t.disturb(&crowd{srv: srv, mild: true})
	t.relieve(srv)
	clients := make([]*framesClient, 1+t.n(12))
	for i := range clients {
		clients[i] = s.client(addr)
	}
	if t.load(8000) {
		t.finish()
	}
	if t.w.Err() == nil {
		for _, c := range clients {
			if l := t.lifeOf(c.client); l != nil && l.reason != eddy.CloseBackpressureLimit {
				c.verdict(!srv.CloseOnEOF)
			}
		}
	}
}

func (t *trial) lifeOf(c *client) *life {
	for _, l := range t.lives {
		if t.peers[l.conn.RemoteAddr()] == c {
			return l
		}
	}
	return nil
}

// slow carries out an order on a pool, slowly.
func (s *framesServer) slow(ctx *eddy.Context, f frame) error {
	if !s.t.w.IsCalm() && s.t.once(4) {
		s.t.w.Doze(time.Duration(s.t.n(int(3 * time.Millisecond))))
	}
	return s.handle(ctx, f)
}

// rejected answers, on the loop, orders that the pool has no room for.
func (s *framesServer) rejected(ctx *eddy.Context, msg any, _ *eddy.HopError) error {
	f := msg.(frame)
	if f.order >= orderFail {
		ctx.Close(eddy.CloseBackpressureLimit)
		return nil
	}
	if err := ctx.Write(encodeFrame(f.order, f.id, f.body)); err != nil {
		ctx.Close(eddy.CloseBackpressureLimit)
	}
	return nil
}

// encoder only crosses to its pool.
type encoder struct{ t *trial }

func (e encoder) HandleWrite(ctx *eddy.Context, msg any) error {
	if !e.t.w.IsCalm() && e.t.once(6) {
		e.t.w.Doze(time.Duration(e.t.n(int(time.Millisecond))))
	}
	return ctx.Write(msg)
}

// poolWatch receives every event of a connection on a pool.
type poolWatch struct {
	t              *trial
	opened, closed int
}

func (p *poolWatch) HandleOpen(*eddy.Context) error {
	if p.opened++; p.opened > 1 || p.closed > 0 {
		p.t.w.Failf("on its pool a connection was opened %d times, closed %d times", p.opened, p.closed)
	}
	return nil
}

func (p *poolWatch) HandleRead(ctx *eddy.Context, msg any) error {
	if p.closed > 0 {
		p.t.w.Failf("a message came to its pool after the end of its connection")
	}
	ctx.FireRead(msg)
	return nil
}

// looseWatch is a poolWatch whose messages run side by side, some of them for a while.
type looseWatch struct {
	poolWatch
	running int
}

func (p *looseWatch) HandleRead(ctx *eddy.Context, msg any) error {
	if p.opened != 1 {
		p.t.w.Failf("a message ran before its handler was opened")
	}
	p.running++
	if !p.t.w.IsCalm() && p.t.once(4) {
		p.t.w.Doze(time.Duration(p.t.n(int(3 * time.Millisecond))))
	}
	defer func() { p.running-- }()
	return p.poolWatch.HandleRead(ctx, msg)
}

func (p *looseWatch) HandleClose(ctx *eddy.Context, reason eddy.CloseReason, err error) {
	if p.running > 0 {
		p.t.w.Failf("the close was told while %d messages run", p.running)
	}
	p.poolWatch.HandleClose(ctx, reason, err)
}

func (p *poolWatch) HandleWritability(*eddy.Context, bool) error { return nil }

func (p *poolWatch) HandleClose(*eddy.Context, eddy.CloseReason, error) {
	if p.closed++; p.closed > 1 {
		p.t.w.Failf("on its pool a connection was closed %d times", p.closed)
	}
}
