package sim_test

import (
	"net/netip"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// placed: an echo server whose connections go to loops by their first bytes, while those come late, in pieces or never. What
// chooses the loop may panic, or name one that does not exist.
func placed(t *trial) {
	srv := &eddy.Server{Watermarks: t.marks(), MaxConns: pick(t, 0, 0, 5)}
	wishes := map[netip.AddrPort]*eddy.Loop{} // loops that were named
	need := 1 + t.n(pick(t, 2, 40, 400))
	wrong := t.once(3)
	choose := func(peer netip.AddrPort, first []byte, loops []*eddy.Loop) int {
		c := t.peers[peer]
		switch {
		case len(first) == 0 || c != nil && string(first) != string(c.out[:min(len(first), len(c.out))]):
			t.w.Failf("%v is shown %q", peer, first)
		case len(first) < need:
			return eddy.PlaceMore
		case wrong && t.once(4):
			return pick(t, -3, len(loops), eddy.PlaceDefault)
		case wrong && t.once(4):
			t.panics++
			panic("no choice")
		}
		i := int(first[0]) % len(loops)
		wishes[peer] = loops[i]
		return i
	}
	srv.Placement = eddy.Placement{
		Choose: choose, Bytes: pick(t, 0, 0, 16), MaxWaiting: pick(t, 0, 1, 3),
		Timeout: time.Duration(1+t.n(1<<(4+t.n(9)))) * time.Millisecond,
	}
	srv.Init = func(p *eddy.Pipeline) error {
		if err := p.Add("placed", &wish{t: t, loops: wishes}); err != nil {
			return err
		}
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
	}
	addr := t.listen(srv)
	for range 1 + t.n(40) {
		c := t.echoClient()
		c.refusable = srv.MaxConns > 0
		t.join(addr, c)
	}
	t.disturb(&crowd{srv: srv, mild: true})
	if t.load(6000) {
		t.finish()
	}
	st := srv.Stats()
	if st.Placing != 0 || st.Placed > uint64(len(wishes)) {
		t.w.Failf("after the end %d wait, %d were placed of %d that named a loop", st.Placing, st.Placed, len(wishes))
	}
}

// wish checks that a connection is on the loop that its first bytes have named. A loop whose poller fails or whose task queue is
// full takes none.
type wish struct {
	t     *trial
	loops map[netip.AddrPort]*eddy.Loop
}

func (h *wish) HandleOpen(ctx *eddy.Context) error {
	c := ctx.Conn()
	counts := h.t.w.Counts()
	if want := h.loops[c.RemoteAddr()]; want != nil && c.Loop() != want && counts[sim.WaitFails]+counts[sim.TaskStorm] == 0 {
		h.t.w.Failf("%v is on loop %s, want %s", c.RemoteAddr(), c.Loop().Name(), want.Name())
	}
	return nil
}
