package sim_test

import (
	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// admission: more peers than the server takes, while descriptors run out.
func admission(t *trial) {
	limit := 1 + t.n(8)
	srv := &eddy.Server{MaxConns: limit, Backlog: pick(t, 0, 1, 4)}
	open := 0
	switch t.n(4) {
	case 0:
		srv.Admission = eddy.Admission{MaxPerIP: 1 + t.n(3), IPv4Prefix: 28, MaxPerLoop: 1 + t.n(4)}
	case 1:
		srv.Admission = eddy.Admission{OnLimit: eddy.DecisionPause}
		t.queues = true
	case 2:
		srv.Admission = eddy.Admission{Rate: 50 + t.n(500), Burst: pick(t, 0, 1), OnLimit: pick(t, eddy.DecisionReject, eddy.DecisionPause)}
		t.queues = srv.Admission.OnLimit == eddy.DecisionPause
	}
	srv.Init = func(p *eddy.Pipeline) error {
		if err := p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) })); err != nil {
			return err
		}
		return p.Add("count", &gauge{t: t, open: &open, limit: limit})
	}
	addr := t.listen(srv)
	for range 10 + t.n(60) {
		c := t.echoClient()
		c.refusable = true
		t.join(addr, c)
	}
	t.disturb(&crowd{srv: srv, mild: t.once(2)})
	t.relieve(srv)
	t.w.Often(sim.OutOfDescriptors)
	if t.once(4) {
		t.w.Often(sim.ModifyFails)
	}
	if t.load(6000) {
		t.finish()
	}
	if open != 0 {
		t.w.Failf("%d connections are open after the end", open)
	}
}

// gauge counts open connections.
type gauge struct {
	t     *trial
	open  *int
	limit int
}

func (g *gauge) HandleOpen(ctx *eddy.Context) error {
	ctx.SetState(g)
	if *g.open++; *g.open > g.limit {
		g.t.w.Failf("%d connections are open, the limit is %d", *g.open, g.limit)
	}
	return nil
}

func (g *gauge) HandleClose(ctx *eddy.Context, _ eddy.CloseReason, _ error) {
	if ctx.State() != nil { // a connection that could not be registered is closed without having been open
		*g.open--
	}
}
