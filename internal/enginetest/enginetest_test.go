package enginetest

import (
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func echo() *eddy.Server {
	return &eddy.Server{Loops: 2, Init: func(p *eddy.Pipeline) error {
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
	}}
}

// TestBarrier: after a barrier the server's numbers include everything that a peer has seen the server do, each time.
func TestBarrier(t *testing.T) {
	srv := echo()
	addr := Serve(t, srv)
	var in uint64
	for range 200 {
		p := Dial(t, addr)
		p.Send("hello")
		p.Expect("hello")
		in += 5
		var got uint64
		for _, l := range Stats(t, srv).Loops {
			got += l.BytesIn
		}
		if got != in {
			t.Fatalf("%d bytes in the numbers, %d were echoed", got, in)
		}
		p.Reset()
	}
}

// TestBarrierWaitsForTasks: a barrier also waits for tasks posted before it, with the changes they make.
func TestBarrierWaitsForTasks(t *testing.T) {
	srv := echo()
	Serve(t, srv)
	for n := range uint64(100) {
		before := Stats(t, srv).Loops[0].Timers
		if err := srv.Workers()[0].Post(func() { srv.Workers()[0].After(0, func() {}) }); err != nil {
			t.Fatal(err)
		}
		Barrier(t, srv)
		if tasks := srv.Stats().Loops[0].Tasks; tasks < before+n {
			t.Fatalf("%d tasks after %d", tasks, n)
		}
	}
}

// TestRelaxed: the defaults of the engine are far away, what the test has set stays.
func TestRelaxed(t *testing.T) {
	srv := &eddy.Server{FlushTimeout: time.Second, Group: &eddy.Group{}, Boss: &eddy.Group{StallThreshold: time.Minute}}
	Relax(srv)
	if srv.FlushTimeout != time.Second || srv.LingerTimeout != farAway || srv.Group.StallThreshold != -1 || srv.Boss.StallThreshold != time.Minute {
		t.Errorf("%+v", srv)
	}
	d := &eddy.Dialer{LingerTimeout: time.Second}
	RelaxDialer(d)
	if d.LingerTimeout != time.Second || d.ConnectTimeout != farAway || d.FlushTimeout != farAway {
		t.Errorf("%+v", d)
	}
}

// TestNarrow: bytes that a peer does not read stay with the server after a few buffers' worth.
func TestNarrow(t *testing.T) {
	const size = 64 * Buffer
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		return p.Add("flood", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
			return ctx.WriteBytes([]byte(strings.Repeat("x", size)))
		}))
	}}
	Narrow(srv)
	p := DialNarrow(t, Serve(t, srv))
	p.Send("go")
	p.Expect("x")
	if queued := Stats(t, srv).Loops[0].OutboundBytes; queued < size/2 {
		t.Errorf("%d of %d bytes are with the server", queued, size)
	}
	p.Expect(strings.Repeat("x", size-1))
}

// TestPeer: a script can tell the ends of a connection apart.
func TestPeer(t *testing.T) {
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		return p.Add("end", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if string(m.Bytes()) == "bye" {
				ctx.Conn().CloseAfterFlush(eddy.CloseNormal)
			}
			return ctx.WriteBytes(m.Bytes())
		}))
	}}
	addr := Serve(t, srv)
	p := Dial(t, addr)
	p.Send("hello")
	p.Expect("hello")
	p.Send("bye")
	p.Expect("bye")
	p.ExpectEnd()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p = Dial(t, l.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	(&Peer{TCPConn: c.(*net.TCPConn), t: t}).Reset()
	p.ExpectReset()
}
