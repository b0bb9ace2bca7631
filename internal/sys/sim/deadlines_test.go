package sim_test

import (
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// deadlines: idle peers are closed in time and never early, timers fire once and never early.
func deadlines(t *trial) {
	idle := time.Duration(20+t.n(3000)) * time.Millisecond
	srv := &eddy.Server{IdleTimeout: idle, Watermarks: t.marks(), CloseOnEOF: t.once(2)}
	some := func(r eddy.CloseReason) time.Duration {
		if t.once(2) {
			return 0
		}
		t.allow(r)
		return time.Duration(5+t.n(1000)) * time.Millisecond
	}
	srv.WriteTimeout = some(eddy.CloseWriteTimeout)
	srv.ReadTimeout = some(eddy.CloseReadTimeout)
	srv.HandlerTimeout = some(eddy.CloseHandlerTimeout)
	srv.BackpressureTimeout = some(eddy.CloseBackpressureLimit)
	armed, fired, stopped := 0, 0, 0
	srv.Init = func(p *eddy.Pipeline) error {
		if err := p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if err := ctx.WriteBytes(m.Bytes()); err != nil {
				return err
			}
			d := time.Duration(t.n(1<<t.n(30))) * time.Nanosecond
			due := t.w.Now() + int64(d)
			ran := false
			timer, err := ctx.After(d, func() {
				if now := t.w.Now(); now < due || ran || ctx.Conn().Phase() == eddy.PhaseClosed {
					t.w.Failf("a timer fired at %d, was due at %d, had fired %v, in phase %v", now, due, ran, ctx.Conn().Phase())
				}
				ran = true
				fired++
			})
			if err != nil {
				return err
			}
			armed++
			if t.once(4) && timer.Stop() {
				stopped++
				ran = true
			}
			return nil
		})); err != nil {
			return err
		}
		return p.Add("idle", &idleWatch{t: t, idle: idle})
	}
	addr := t.listen(srv)
	t.allow(eddy.CloseIdleTimeout)
	for range 1 + t.n(20) {
		t.join(addr, t.echoClient())
	}
	t.disturb(&crowd{srv: srv, mild: true})
	t.relieve(srv)
	if t.load(4000) {
		t.finish()
	}
	if fired+stopped > armed {
		t.w.Failf("%d timers were armed, %d fired and %d were stopped", armed, fired, stopped)
	}
}

// idleWatch compares an idle timeout with the silence of the connection.
type idleWatch struct {
	t    *trial
	idle time.Duration
}

func (i *idleWatch) HandleClose(ctx *eddy.Context, reason eddy.CloseReason, _ error) {
	c := i.t.peers[ctx.Conn().RemoteAddr()]
	if reason == eddy.CloseIdleTimeout && c.p.Silence() < i.idle {
		i.t.w.Failf("%s ended as idle after %v, the limit is %v", c.name, c.p.Silence(), i.idle)
	}
}
