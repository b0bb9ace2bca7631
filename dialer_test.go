package eddy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// answers collects what the peer of an outbound connection sent.
func answers(got chan<- string) func(*Pipeline) error {
	return func(p *Pipeline) error {
		return p.Add("answers", Handle(func(_ *Context, m *buf.Bytes) error { got <- string(m.Bytes()); return nil }))
	}
}

// closing ends d with the test.
func closing(t *testing.T, d *Dialer) *Dialer {
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// TestDial: connections to a server by address, by name and by Unix socket carry messages both ways, know their addresses,
// and end with the dialer.
func TestDial(t *testing.T) {
	var last atomic.Pointer[Conn]
	srv := &Server{Loops: 1, Init: echoing(&last)}
	listenOn(t, srv)
	_, port, _ := net.SplitHostPort(srv.Addr().String())
	local := &Server{Loops: 1, Init: echoing(&last)}
	path := filepath.Join(t.TempDir(), "s")
	if err := local.Listen("unix", path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	got := make(chan string, 1)
	d := closing(t, &Dialer{Init: answers(got)})
	for i, to := range [][2]string{{"tcp", srv.Addr().String()}, {"tcp", "localhost:" + port}, {"tcp4", ":" + port}, {"unix", path}} {
		c, err := d.Dial(t.Context(), to[0], to[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write("ping"); err != nil {
			t.Fatal(err)
		}
		if s := <-got; s != "ping" {
			t.Errorf("%v answered %q", to, s)
		}
		if peer := last.Load(); to[0] != "unix" && (peer.RemoteAddr() != c.LocalAddr() || peer.LocalAddr() != c.RemoteAddr()) {
			t.Errorf("%v: %v to %v, the server sees %v to %v", to, c.LocalAddr(), c.RemoteAddr(), peer.RemoteAddr(), peer.LocalAddr())
		}
		if st := d.Stats(); st.Active != int64(i+1) || st.Dialed != uint64(i+1) || st.Failed != 0 {
			t.Errorf("stats %+v", st)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if st := d.Stats(); st.Active != 0 || st.Closed[CloseServerShutdown] != 4 || len(st.Loops) != 1 || st.Loops[0].Opened != 4 || st.SharedLoops {
		t.Errorf("stats %+v", st)
	}
	if _, err := d.Dial(t.Context(), "tcp", srv.Addr().String()); err != ErrDialerClosed {
		t.Errorf("Dial after Close = %v", err)
	}
}

// TestDialOnTheServersLoops: a handler of a server connects through a dialer on the server's own group: no other goroutine
// takes part, and blocking calls are refused there.
func TestDialOnTheServersLoops(t *testing.T) {
	var last atomic.Pointer[Conn]
	backend := &Server{Loops: 1, Init: echoing(&last)}
	listenOn(t, backend)
	g := &Group{Loops: 2}
	defer g.Close()
	var front *Conn
	d := &Dialer{Group: g, Init: func(p *Pipeline) error {
		return p.Add("back", Handle(func(_ *Context, m *buf.Bytes) error { return front.Write(append([]byte("via "), m.Bytes()...)) }))
	}}
	onLoop := make(chan error, 1)
	srv := &Server{Group: g, Init: func(p *Pipeline) error {
		return p.Add("front", Handle(func(ctx *Context, m *buf.Bytes) error {
			_, err := d.Dial(context.Background(), "tcp", backend.Addr().String())
			onLoop <- err
			front = ctx.Conn()
			request := string(m.Bytes())
			_, err = d.DialAddr(backend.Addr(), DialOptions{}, func(c *Conn, err error) {
				if err != nil || c.loop.Vitals.Goroutine.Load() != goroutineID() {
					t.Errorf("done(%v) on goroutine %d", err, goroutineID())
					return
				}
				_ = c.Write(request)
			})
			return err
		}))
	}}
	listenOn(t, srv)
	defer d.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "hello")
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	answer := make([]byte, len("via hello"))
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "via hello" {
		t.Errorf("read %q, %v", answer, err)
	}
	if err := <-onLoop; err != ErrOnLoop {
		t.Errorf("Dial on the loop = %v", err)
	}
}

// TestDialOptions: a connection may have a loop and a pipeline of its own; what the dialer cannot give is told, and nothing is
// begun.
func TestDialOptions(t *testing.T) {
	var last atomic.Pointer[Conn]
	srv := &Server{Loops: 1, Init: echoing(&last)}
	listenOn(t, srv)
	g, other := &Group{Loops: 4}, &Group{Name: "other", Loops: 1}
	if err := errors.Join(g.Start(), other.Start()); err != nil {
		t.Fatal(err)
	}
	d := &Dialer{Group: g}
	defer func() { _ = errors.Join(d.Close(), g.Close(), other.Close()) }()
	for i := range g.Loops {
		l := g.Loop(i)
		got := make(chan string, 1)
		done := make(chan *Conn, 1)
		if _, err := d.DialAddr(srv.Addr(), DialOptions{Loop: l, Init: answers(got)}, func(c *Conn, err error) {
			if err != nil {
				t.Error(err)
			}
			done <- c
		}); err != nil {
			t.Fatal(err)
		}
		c := testkit.Receive(t, "the connection", done)
		if c.Loop() != l {
			t.Errorf("the connection is on %s, want %s", c.Loop().Name(), l.Name())
		}
		_ = c.Write("mine")
		if s := testkit.Receive(t, "the answer", got); s != "mine" {
			t.Errorf("answered %q", s)
		}
	}
	for want, o := range map[string]DialOptions{
		`DialOptions.Loop is "other-0", which is not of the Dialer's Group`: {Loop: other.Loop(0), Init: echoing(&last)},
		"Dialer.Init is nil, and so is DialOptions.Init":                    {Loop: g.Loop(0)},
	} {
		if _, err := d.DialAddr(srv.Addr(), o, func(*Conn, error) { t.Error("told of what was refused") }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if st := d.Stats(); st.Active != int64(g.Loops) || st.Failed != 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestDialErrors: what keeps a connection from standing is told, with the address, and leaves nothing behind.
func TestDialErrors(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	free.Close()
	var last atomic.Pointer[Conn]
	srv := &Server{Loops: 1, Init: echoing(&last)}
	listenOn(t, srv)
	ok := srv.Addr().String()
	broken := errors.New("no pipeline today")
	for name, c := range map[string]struct {
		d                *Dialer
		network, address string
		want             func(error) bool
	}{
		"refused": {&Dialer{Init: echoing(&last)}, "tcp", nobody, func(err error) bool {
			return errors.Is(err, syscall.ECONNREFUSED) && strings.Contains(err.Error(), nobody)
		}},
		"unknown network": {&Dialer{Init: echoing(&last)}, "udp", nobody, func(err error) bool { return strings.Contains(err.Error(), "unknown network udp") }},
		"no port":         {&Dialer{Init: echoing(&last)}, "tcp", "127.0.0.1", func(err error) bool { return strings.Contains(err.Error(), "missing port") }},
		"no such service": {&Dialer{Init: echoing(&last)}, "tcp", "127.0.0.1:nonsense-service", func(err error) bool { return strings.Contains(err.Error(), "nonsense-service") }},
		"no socket file":  {&Dialer{Init: echoing(&last)}, "unix", filepath.Join(t.TempDir(), "none"), func(err error) bool { return errors.Is(err, os.ErrNotExist) }},
		"foreign source":  {&Dialer{Init: echoing(&last), LocalAddr: netip.MustParseAddrPort("192.0.2.1:0")}, "tcp", ok, func(err error) bool { return errors.Is(err, syscall.EADDRNOTAVAIL) }},
		"failing Init":    {&Dialer{Init: func(*Pipeline) error { return broken }, Logger: slog.New(slog.DiscardHandler)}, "tcp", ok, func(err error) bool { return errors.Is(err, broken) }},
		"no Init":         {&Dialer{}, "tcp", ok, func(err error) bool { return strings.Contains(err.Error(), "Dialer.Init is nil") }},
		"negative field":  {&Dialer{Init: echoing(&last), ConnectTimeout: -1}, "tcp", ok, func(err error) bool { return strings.Contains(err.Error(), "Dialer.ConnectTimeout is -1") }},
	} {
		conn, err := closing(t, c.d).Dial(t.Context(), c.network, c.address)
		if err == nil || conn != nil || !c.want(err) {
			t.Errorf("%s: %v, %v", name, conn, err)
		}
		until(t, name+": nothing left", func() bool { return c.d.Stats().Active == 0 })
	}
}

// TestSourceAddress: LocalAddr is what the server sees.
func TestSourceAddress(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs all of 127/8 on the loopback interface")
	}
	var last atomic.Pointer[Conn]
	srv := &Server{Loops: 1, Init: echoing(&last)}
	listenOn(t, srv)
	got := make(chan string, 1)
	d := closing(t, &Dialer{Init: answers(got), LocalAddr: netip.MustParseAddrPort("127.0.0.7:0")})
	c, err := d.Dial(t.Context(), "tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Write("x")
	<-got
	if ip := last.Load().RemoteAddr().Addr().String(); ip != "127.0.0.7" {
		t.Errorf("the server sees %s", ip)
	}
}

// TestDialLimit: attempts and open connections count together, and a close makes room.
func TestDialLimit(t *testing.T) {
	var last atomic.Pointer[Conn]
	srv := &Server{Loops: 1, Init: echoing(&last)}
	listenOn(t, srv)
	d := closing(t, &Dialer{Init: echoing(&last), MaxConns: 1})
	c, err := d.Dial(t.Context(), "tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dial(t.Context(), "tcp", srv.Addr().String()); err == nil || !strings.Contains(err.Error(), "Dialer.MaxConns is 1") {
		t.Errorf("the second Dial = %v", err)
	}
	c.Close(CloseNormal)
	<-c.CloseFuture().Done()
	until(t, "room", func() bool { return d.Stats().Active == 0 })
	if _, err := d.Dial(t.Context(), "tcp", srv.Addr().String()); err != nil {
		t.Error(err)
	}
}

// hanging is a kernel whose connections never stand by themselves.
type hanging struct {
	*stage
	outcome error
}

func (h *hanging) ConnectError(int) error { return h.outcome }

// hangingDialer makes a dialer on one loop that is stepped by hand.
func hangingDialer(t *testing.T) (*Dialer, *hanging, *loop) {
	t.Helper()
	st, _ := newStage(t, cutServer(func(*Context, string) error { return nil }))
	h := &hanging{stage: st, outcome: sys.ErrAgain}
	st.crew.kernel.sockets = func() sys.Sockets { return hangingSockets{stageSockets{st}, h} }
	l := st.loop("dialer")
	d := &Dialer{Init: func(p *Pipeline) error { return p.Add("cut", &cut{}) }, ConnectTimeout: time.Second}
	set, err := d.settings()
	if err != nil {
		t.Fatal(err)
	}
	st.crew.loops = []*loop{l}
	d.eng = &dialing{set: set, crew: st.crew, group: &Group{}, stopped: make(chan struct{}), dial: &dialSettings{failed: &d.failed, timeout: time.Second}}
	d.endpoint.join(st.loops, 0)
	return d, h, l
}

type hangingSockets struct {
	stageSockets
	h *hanging
}

func (s hangingSockets) ConnectError(fd int) error { return s.h.ConnectError(fd) }

// TestAttemptsEndOnce: an attempt that stands, fails, times out, is cancelled or loses its dialer tells so once, leaves
// the poller and closes its descriptor; readiness without an outcome changes nothing.
func TestAttemptsEndOnce(t *testing.T) {
	gaveUp := errors.New("gave up")
	for name, c := range map[string]struct {
		end  func(d *Dialer, h *hanging, l *loop, cancel func(error))
		want error
	}{
		"stands":    {func(_ *Dialer, h *hanging, _ *loop, _ func(error)) { h.outcome = nil }, nil},
		"fails":     {func(_ *Dialer, h *hanging, _ *loop, _ func(error)) { h.outcome = syscall.ECONNREFUSED }, syscall.ECONNREFUSED},
		"times out": {func(_ *Dialer, h *hanging, _ *loop, _ func(error)) { h.now.Add(int64(2 * time.Second)) }, os.ErrDeadlineExceeded},
		"cancelled": {func(_ *Dialer, _ *hanging, _ *loop, cancel func(error)) { cancel(gaveUp) }, gaveUp},
		"drained":   {func(d *Dialer, _ *hanging, l *loop, _ func(error)) { l.startDrain(&d.endpoint) }, ErrDialerClosed},
		"closed": {func(d *Dialer, _ *hanging, l *loop, _ func(error)) {
			l.startWalk(walk{owner: &d.endpoint, over: make(chan struct{})})
		}, ErrDialerClosed},
	} {
		t.Run(name, func(t *testing.T) {
			d, h, l := hangingDialer(t)
			told := 0
			var conn *Conn
			var got error
			cancel, err := d.DialAddr(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}, DialOptions{}, func(c *Conn, err error) {
				told++
				conn, got = c, err
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 5 { // writable all the time, as spurious events are
				l.Iterate()
			}
			if told != 0 || l.attempts.Len() != 1 || d.endpoint.tally.Active.Load() != 1 {
				t.Fatalf("told %d times, %d attempts, %d active", told, l.attempts.Len(), d.endpoint.tally.Active.Load())
			}
			c.end(d, h, l, cancel)
			for range 5 {
				l.Iterate()
			}
			cancel(errors.New("too late"))
			h.now.Add(int64(time.Minute))
			l.Iterate()
			if told != 1 || !errors.Is(got, c.want) || l.attempts.Len() != 0 || len(l.Timers.All()) != 0 {
				t.Errorf("told %d times: %v, %v; %d attempts left", told, conn, got, l.attempts.Len())
			}
			open, closed := int64(0), 1
			if c.want == nil {
				open, closed = 1, 0
			}
			if n := h.socks[h.lastFD].closed; n != closed || d.endpoint.tally.Active.Load() != open || (conn != nil) != (c.want == nil) {
				t.Errorf("closed %d times, %d active, connection %v", n, d.endpoint.tally.Active.Load(), conn)
			}
			if n := len(l.Poller.(*stagePoller).regs); n != int(open) {
				t.Errorf("%d descriptors registered, want %d", n, open)
			}
		})
	}
}

// TestDialCanceled: Dial returns when its context ends, and the attempt with it.
func TestDialCanceled(t *testing.T) {
	d, h, l := hangingDialer(t)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := d.Dial(ctx, "tcp", "192.0.2.1:9")
		result <- err
	}()
	for l.attempts.Len() == 0 {
		l.Iterate()
		runtime.Gosched()
	}
	cancel()
	for {
		l.Iterate()
		select {
		case err := <-result:
			if !errors.Is(err, context.Canceled) || h.socks[h.lastFD].closed != 1 {
				t.Errorf("Dial = %v, closed %d times", err, h.socks[h.lastFD].closed)
			}
			return
		default:
			runtime.Gosched()
		}
	}
}

// TestDialerShutdown: requests in flight on outbound connections finish.
func TestDialerShutdown(t *testing.T) {
	var last atomic.Pointer[Conn]
	srv := &Server{Loops: 1, Init: echoing(&last)}
	listenOn(t, srv)
	got := make(chan string, 1)
	d := closing(t, &Dialer{LingerTimeout: brief, Init: answers(got)})
	c, err := d.Dial(t.Context(), "tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Begin()
	ended := make(chan DrainReport, 1)
	go func() {
		report, err := d.Shutdown(t.Context())
		if err != nil {
			t.Error(err)
		}
		ended <- report
	}()
	until(t, "the drain", func() bool { return d.endpoint.phase.Load() == int32(serverDraining) })
	if err := c.Write("the last one"); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "the last one" {
		t.Errorf("got %q", s)
	}
	select {
	case r := <-ended:
		t.Fatalf("Shutdown did not wait: %+v", r)
	default:
	}
	c.End()
	if r := <-ended; r != (DrainReport{Drained: 1}) {
		t.Errorf("report %+v", r)
	}
}

// TestCloseMeetsTheFirstDial: whichever comes first, Close returns, Dial has an outcome, and no goroutine is left.
func TestCloseMeetsTheFirstDial(t *testing.T) {
	var last atomic.Pointer[Conn]
	srv := &Server{Loops: 1, Init: echoing(&last)}
	listenOn(t, srv)
	for range 200 {
		d := &Dialer{Init: echoing(&last)}
		dialed := make(chan error, 1)
		go func() {
			_, err := d.Dial(t.Context(), "tcp", srv.Addr().String())
			dialed <- err
		}()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-dialed; err != nil && !errors.Is(err, ErrDialerClosed) && !errors.Is(err, ErrClosed) {
			t.Fatalf("Dial = %v", err)
		}
		if n := d.Stats().Active; n != 0 {
			t.Fatalf("%d connections left", n)
		}
	}
}
