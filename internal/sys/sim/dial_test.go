package sim_test

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// dial: a group with a server and a dialer. The dialer connects to that server, to scripted ones and to addresses
// without one.
func dial(t *trial) {
	g := t.newGroup(1 + t.n(3))
	t.groups, t.dialed = append(t.groups, g), true
	srv := &eddy.Server{Group: g, Topology: pick(t, eddy.BossWorkers, eddy.ListenerPerLoop), Watermarks: t.marks()}
	srv.Init = func(p *eddy.Pipeline) error {
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
	}
	addr := t.listen(srv)
	t.allow(eddy.CloseNormal, eddy.CloseIOError, eddy.ClosePeerClosed)
	d := &dials{t: t, addr: addr, left: 1 + t.n(40)}
	d.dialer = &eddy.Dialer{
		Group: g, Logger: quiet(), Watermarks: t.marks(), CloseOnEOF: t.once(2), MaxConns: pick(t, 0, 0, 5),
		ConnectTimeout: time.Duration(1+t.n(2000)) * time.Millisecond, IdleTimeout: pick(t, 0, 50*time.Millisecond),
		Init: func(p *eddy.Pipeline) error { return p.Add("caller", &caller{t: t, conn: p.Conn()}) },
	}
	t.scripted = netip.MustParseAddrPort("10.1.1.1:80")
	t.w.Serve(t.scripted, d.serve)
	t.w.OffLoop("dial", d.act)
	t.w.Often(sim.ConnectSlow)
	for range t.n(6) {
		t.join(addr, t.echoClient())
	}
	t.disturb(&crowd{srv: srv, mild: true})
	if !t.load(8000) {
		return
	}
	over := false
	t.w.Go("dialer's end", func() {
		if t.once(2) {
			if err := d.dialer.Close(); err != nil {
				t.w.Failf("close of the dialer: %v", err)
			}
		} else {
			_, _ = d.dialer.Shutdown(t.w.WithTimeout(time.Duration(t.n(3000)) * time.Millisecond)) // forced or not
		}
		over = true
	})
	t.w.Rest(t.n(1000))
	if t.w.Run("the dialer's end", maxSteps, func() bool { return over }) == nil {
		t.finish()
	}
	if d.begun != d.told {
		t.w.Failf("%d attempts to connect, %d outcomes", d.begun, d.told)
	}
	if n := d.dialer.Stats().Active; n != 0 {
		t.w.Failf("%d connections of the dialer are active after its end", n)
	}
}

// dials is a goroutine that dials.
type dials struct {
	t           *trial
	dialer      *eddy.Dialer
	addr        netip.AddrPort
	left        int
	begun, told int
}

func (d *dials) act() sim.Next {
	t := d.t
	if d.left == 0 || t.w.IsCalm() {
		return sim.Done
	}
	d.left--
	to := pick(t, d.addr, d.addr, t.scripted, netip.MustParseAddrPort("10.9.9.9:9"))
	outcomes := 0
	cancel, err := d.dialer.DialAddr(net.TCPAddrFromAddrPort(to), eddy.DialOptions{}, func(c *eddy.Conn, err error) {
		if outcomes++; outcomes > 1 || (c == nil) == (err == nil) {
			t.w.Failf("outcome %d of an attempt: %v, %v", outcomes, c, err)
		}
		d.told++
		if to.Port() == 9 && err == nil {
			t.w.Failf("connected to nobody")
		}
	})
	switch {
	case err == nil:
		d.begun++
		if t.once(5) {
			cancel(errors.New("called off"))
		}
	case errors.Is(err, eddy.ErrDialerClosed), errors.Is(err, eddy.ErrSaturated), d.dialer.MaxConns > 0:
	default:
		t.w.Failf("dial: %v", err)
	}
	return sim.Next(t.n(int(4 * time.Millisecond)))
}

// serve is a scripted server: it echoes for a while, then ends the connection in some way.
func (d *dials) serve(p *sim.Peer) {
	t := d.t
	left := t.n(5000)
	held := []byte(nil)
	b := make([]byte, 512)
	t.w.Act("scripted server", func() sim.Next {
		if left <= 0 {
			if t.once(2) {
				p.Reset()
			} else {
				p.Close()
			}
			return sim.Done
		}
		n, err := p.Read(b)
		held = append(held, b[:n]...)
		left -= n
		m, werr := p.Write(held)
		held = held[m:]
		switch {
		case err == nil && n == 0 || err != nil && !sim.IsAgain(err) || werr != nil && !sim.IsAgain(werr):
			p.Close()
			return sim.Done
		case n == 0 && m == 0:
			return sim.Blocked
		}
		return 0
	})
}

// caller sends a stream when its connection is open, compares what comes back and then ends the connection.
type caller struct {
	t      *trial
	conn   *eddy.Conn
	total  int
	got    int
	opened int
	closed int
}

func (c *caller) HandleOpen(ctx *eddy.Context) error {
	if c.opened++; c.opened > 1 || c.closed > 0 {
		c.t.w.Failf("a dialled connection was opened %d times, closed %d times", c.opened, c.closed)
	}
	c.total = 1 + c.t.n(3000)
	return ctx.Write(stream(7, c.total))
}

func (c *caller) HandleRead(ctx *eddy.Context, msg any) error {
	b := msg.(*buf.Bytes).Bytes()
	c.t.same("the dialer", b, streamAt(7, c.got, len(b)), c.got)
	c.got += len(b)
	if c.got == c.total {
		switch c.t.n(3) {
		case 0:
			ctx.Close(eddy.CloseNormal)
		case 1:
			ctx.CloseAfterFlush(eddy.CloseNormal)
		}
	}
	return nil
}

func (c *caller) HandleClose(*eddy.Context, eddy.CloseReason, error) {
	if c.closed++; c.closed > 1 {
		c.t.w.Failf("a dialled connection was closed %d times", c.closed)
	}
}
