package eddy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// spy is the real kernel with a record of who called what.
type spy struct {
	mu      sync.Mutex
	calls   []spyCall
	pollers []*spyPoller
	fail    int // the poller that cannot be opened, counted from 1
}

type spyCall struct {
	loop int // in the order of their making: workers, then the boss
	op   string
	fd   int
	goid uint64
}

func (s *spy) kernel() *kernel {
	return &kernel{
		sockets: func() sys.Sockets {
			return &spySockets{realKernel(os.Getenv("EDDY_POLLER")).sockets(), s, len(s.pollers) - 1}
		},
		clock: sys.NewClock(),
		poller: func(name string, wait WaitMode) (sys.Poller, error) {
			if len(s.pollers)+1 == s.fail {
				return nil, errors.New("no poller left")
			}
			p, err := realPoller(name, wait)
			if err != nil {
				return nil, err
			}
			sp := &spyPoller{Poller: p, s: s, loop: len(s.pollers)}
			s.pollers = append(s.pollers, sp)
			return sp, nil
		},
	}
}

func (s *spy) saw(loop int, op string, fd int) {
	s.mu.Lock()
	s.calls = append(s.calls, spyCall{loop, op, fd, goroutineID()})
	s.mu.Unlock()
}

// of returns the record of some operations, of all when none is named.
func (s *spy) of(ops ...string) []spyCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []spyCall
	for _, c := range s.calls {
		if len(ops) == 0 || slices.Contains(ops, c.op) {
			some = append(some, c)
		}
	}
	return some
}

type spyPoller struct {
	sys.Poller
	s      *spy
	loop   int
	closed atomic.Int32
}

func (p *spyPoller) Add(fd int, in sys.Interest, token uint64) error {
	p.s.saw(p.loop, "add", fd)
	return p.Poller.Add(fd, in, token)
}

func (p *spyPoller) Modify(fd int, in sys.Interest, token uint64) error {
	p.s.saw(p.loop, "modify", fd)
	return p.Poller.Modify(fd, in, token)
}

func (p *spyPoller) Remove(fd int) error {
	p.s.saw(p.loop, "remove", fd)
	return p.Poller.Remove(fd)
}

func (p *spyPoller) Close() error {
	p.closed.Add(1)
	return p.Poller.Close()
}

type spySockets struct {
	sys.Sockets
	s    *spy
	loop int
}

func (k *spySockets) Listen(network, address string, o sys.ListenOptions) (sys.Listener, error) {
	l, err := k.Sockets.Listen(network, address, o)
	k.s.saw(k.loop, "listen", l.FD)
	return l, err
}

func (k *spySockets) Accept(fd int) (int, netip.AddrPort, error) {
	nfd, peer, err := k.Sockets.Accept(fd)
	if err == nil {
		k.s.saw(k.loop, "accept", nfd)
	}
	return nfd, peer, err
}

func (k *spySockets) Read(fd int, p []byte) (int, error) {
	k.s.saw(k.loop, "read", fd)
	return k.Sockets.Read(fd, p)
}

func (k *spySockets) Write(fd int, p []byte) (int, error) {
	k.s.saw(k.loop, "write", fd)
	return k.Sockets.Write(fd, p)
}

func (k *spySockets) Writev(fd int, bufs [][]byte) (int, error) {
	k.s.saw(k.loop, "write", fd)
	return k.Sockets.Writev(fd, bufs)
}

func (k *spySockets) Abort(fd int) error {
	k.s.saw(k.loop, "abort", fd)
	return k.Sockets.Abort(fd)
}

func (k *spySockets) ShutdownWrite(fd int) error {
	k.s.saw(k.loop, "shutdown", fd)
	return k.Sockets.ShutdownWrite(fd)
}

func (k *spySockets) Close(fd int) error {
	k.s.saw(k.loop, "close", fd)
	return k.Sockets.Close(fd)
}

// mine reports calls on the wrong goroutine: every callback of a connection belongs on its loop.
type mine struct {
	t    *testing.T
	open chan *Conn
}

func (m mine) check(ctx *Context, what string) {
	if id := goroutineID(); id != ctx.conn.loop.Vitals.Goroutine.Load() {
		m.t.Errorf("%s ran on goroutine %d, not on the loop", what, id)
	}
}

func (m mine) HandleOpen(ctx *Context) error {
	m.check(ctx, "HandleOpen")
	_, err := ctx.After(10*time.Millisecond, func() { m.check(ctx, "a timer") })
	m.open <- ctx.conn
	return err
}

func (m mine) Decode(ctx *Context, view []byte) (int, error) {
	m.check(ctx, "Decode")
	return len(view), ctx.WriteBytes(view)
}

func (m mine) HandleWritability(ctx *Context, _ bool) error {
	m.check(ctx, "HandleWritability")
	return nil
}

func (m mine) HandleClose(ctx *Context, _ CloseReason, _ error) { m.check(ctx, "HandleClose") }

// TestOneLoopOwnsAConnection: the boss accepts and hands over, and does nothing else; each connection then
// belongs to one worker, chosen in turn, whose goroutine makes every call for it, whoever asked: one registration, all
// reads, writes and interest changes, one close.
func TestOneLoopOwnsAConnection(t *testing.T) {
	const workers, conns = 3, 9
	s, h := new(spy), mine{t, make(chan *Conn, conns)}
	// Nobody is closed before the last one has come: a descriptor has one owner in the record.
	srv := &Server{Loops: workers, FlushTimeout: 5 * time.Minute, LingerTimeout: 5 * time.Minute, platform: s.kernel(), Init: func(p *Pipeline) error { return p.Add("mine", h) }}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	var wg sync.WaitGroup
	for range conns {
		c, err := net.Dial("tcp", srv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(testkit.Patience))
		conn := <-h.open
		io.WriteString(c, "first") // is read before writes may pause reading
		if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { io.Copy(io.Discard, c) })
		wg.Go(func() { // the peer's side
			for range 50 {
				io.WriteString(c, "some bytes")
			}
		})
		for range 2 { // other goroutines of the server
			wg.Go(func() {
				for i := range 30 {
					if err := conn.Write(make([]byte, 64<<10)); err != nil && !errors.Is(err, ErrBackpressure) && !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					conn.PauseRead()
					_ = conn.QueuedBytes()
					conn.ResumeRead()
					if i%10 == 0 {
						runtime.Gosched()
					}
				}
				conn.CloseAfterFlush(CloseNormal)
			})
		}
	}
	wg.Wait()
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	st := srv.Stats()
	for i, l := range st.Loops {
		if l.Opened != conns/workers || l.BytesIn == 0 {
			t.Errorf("worker %d took over %d connections and read %d bytes, want %d connections", i, l.Opened, l.BytesIn, conns/workers)
		}
	}
	if st.Accepted != conns || st.Boss.Opened != 0 || st.Boss.BytesIn != 0 {
		t.Errorf("boss: %+v, %d accepted", st.Boss, st.Accepted)
	}
	checkOwners(t, s, workers)
}

// TestCallsOfAShortConnection: a connection with one request costs no call of the poller but the two for its registration, although the peer's end takes its
// reads away.
func TestCallsOfAShortConnection(t *testing.T) {
	s := new(spy)
	srv := &Server{Loops: 1, platform: s.kernel(), Init: func(p *Pipeline) error { return p.Add("echo", Handle((*Context).Write)) }}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(testkit.Patience))
	io.WriteString(c, "hello")
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).CloseWrite()
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("read %v, want EOF", err)
	}
	fd := s.of("accept")[0].fd
	var ops []string
	for _, o := range s.of("add", "modify", "remove") {
		if o.fd == fd {
			ops = append(ops, o.op)
		}
	}
	if !slices.Equal(ops, []string{"add", "remove"}) {
		t.Errorf("%v", ops)
	}
}

// checkOwners looks through the record of a server that has ended.
func checkOwners(t *testing.T, s *spy, workers int) {
	t.Helper()
	listener := s.of("listen")[0].fd
	owner := map[int]spyCall{} // by descriptor: the registration
	for _, c := range s.of("accept") {
		owner[c.fd] = spyCall{}
		if c.loop != workers {
			t.Errorf("loop %d accepted", c.loop)
		}
	}
	count := map[string]int{}
	for _, c := range s.of() {
		_, isConn := owner[c.fd]
		switch {
		case c.op == "accept" || c.op == "listen":
		case c.loop == workers: // the boss
			allowed := c.fd == listener && slices.Contains([]string{"add", "remove", "close"}, c.op) || !isConn && c.op == "close"
			if !allowed {
				t.Errorf("the boss made %q on descriptor %d", c.op, c.fd)
			}
		case !isConn:
			t.Errorf("loop %d made %q on descriptor %d, which is no connection", c.loop, c.op, c.fd)
		case c.op == "add":
			if owner[c.fd].op != "" {
				t.Errorf("descriptor %d was registered twice", c.fd)
			}
			owner[c.fd] = c
		default:
			if o := owner[c.fd]; c.loop != o.loop || c.goid != o.goid {
				t.Errorf("%q on a connection of loop %d (goroutine %d) by loop %d (goroutine %d)", c.op, o.loop, o.goid, c.loop, c.goid)
			}
			count[fmt.Sprint(c.op, c.fd)]++
		}
	}
	for fd, o := range owner {
		if o.op == "" || count[fmt.Sprint("remove", fd)] != 1 || count[fmt.Sprint("close", fd)] != 1 || count[fmt.Sprint("read", fd)] == 0 {
			t.Errorf("descriptor %d: registration %+v, calls %v", fd, o, count)
		}
	}
}

// TestFailedLoopClosesTheOthers: when a loop cannot be built, or the address cannot be bound, the loops that were built
// are closed.
func TestFailedLoopClosesTheOthers(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct {
		fail, built int
		want        string
		addr        string
	}{
		{3, 2, "worker-2", "127.0.0.1:0"},
		{4, 3, "boss", "127.0.0.1:0"},
		{0, 4, busy.Addr().String(), busy.Addr().String()},
	} {
		s := &spy{fail: c.fail}
		srv := &Server{Loops: 3, platform: s.kernel(), Init: func(*Pipeline) error { return nil }}
		if err := srv.Listen("tcp", c.addr); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Listen = %v, want an error with %q", err, c.want)
		}
		if len(s.pollers) != c.built {
			t.Fatalf("%d pollers opened, want %d", len(s.pollers), c.built)
		}
		for i, p := range s.pollers {
			if n := p.closed.Load(); n != 1 {
				t.Errorf("%s failed: poller %d was closed %d times", c.want, i, n)
			}
		}
	}
}

// endings counts HandleClose calls and keeps the server's phase at the last one.
type endings struct{ n, phase atomic.Int32 }

func (e *endings) HandleClose(ctx *Context, _ CloseReason, _ error) {
	e.phase.Store(ctx.conn.set.owner.phase.Load())
	e.n.Add(1)
}

// TestCloseEndsEverything: after panics in tasks and handlers, with requests in hand, connections half written and
// timers armed, Close and a forced Shutdown end every connection, every poller and every loop.
func TestCloseEndsEverything(t *testing.T) {
	for name, end := range map[string]func(srv *Server) error{
		"Close": (*Server).Close,
		"forced Shutdown": func(srv *Server) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if _, err := srv.Shutdown(ctx); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("Shutdown = %w", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, told := new(spy), new(endings)
			var log bytes.Buffer
			srv := &Server{Loops: 2, IdleTimeout: time.Hour, platform: s.kernel(), Logger: slog.New(slog.NewTextHandler(&log, nil)), Init: func(p *Pipeline) error {
				p.Add("cut", &cut{})
				p.Add("app", Handle(func(ctx *Context, m *buf.Bytes) error {
					if string(m.Bytes()) == "panic" {
						panic("as asked")
					}
					ctx.Conn().Begin() // a request that never ends
					return ctx.Write(make([]byte, 32<<20))
				}))
				return p.Add("told", told)
			}}
			if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			const conns = 6
			for i := range conns {
				c, err := net.Dial("tcp", srv.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				io.WriteString(c, []string{"panic;", "big;half"}[i%2])
			}
			for _, l := range srv.running().workers {
				if err := l.Tasks.Push(task{kind: taskFunc, msg: func() { panic("in a task") }}); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "the panics, and half of the connections to be written to", func() bool {
				st := srv.Stats()
				return st.Loops[0].Panics+st.Loops[1].Panics >= 2+conns/2 && st.Loops[0].WriteInterest+st.Loops[1].WriteInterest >= conns/2
			})
			if err := end(srv); err != nil {
				t.Fatal(err)
			}
			if err := srv.Wait(); err != ErrServerClosed {
				t.Errorf("Wait = %v", err)
			}
			for _, l := range append(srv.running().workers, srv.running().boss) {
				select {
				case <-l.Done:
				default:
					t.Errorf("loop %s runs on", l.Name)
				}
			}
			for i, p := range s.pollers {
				if n := p.closed.Load(); n != 1 {
					t.Errorf("poller %d was closed %d times", i, n)
				}
			}
			if opened, closed, removed := len(s.of("accept")), workerCalls(s, "close"), workerCalls(s, "remove"); opened != conns || closed != conns || removed != conns {
				t.Errorf("%d accepted, %d deregistered, %d closed, want %d", opened, removed, closed, conns)
			}
			if n := told.n.Load(); n != conns {
				t.Errorf("%d connections were told their end, want %d", n, conns)
			}
			if p := serverPhase(told.phase.Load()); p != serverClosing {
				t.Errorf("the last connections were told in server phase %d, want %d", p, serverClosing)
			}
			if n := srv.Stats().Active; n != 0 {
				t.Errorf("%d still counted as open", n)
			}
		})
	}
}

// workerCalls counts calls of loops that are not the boss, the last one.
func workerCalls(s *spy, op string) (n int) {
	for _, c := range s.of(op) {
		if c.loop < len(s.pollers)-1 {
			n++
		}
	}
	return n
}
