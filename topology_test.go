package eddy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// brief is how long servers wait for test clients that do not end their side.
const brief = 20 * time.Millisecond

// echoing serves bytes back and keeps the last connection.
func echoing(last *atomic.Pointer[Conn]) func(*Pipeline) error {
	return func(p *Pipeline) error {
		return p.Add("echo", Handle(func(ctx *Context, m *buf.Bytes) error {
			last.Store(ctx.conn)
			return ctx.WriteBytes(m.Bytes())
		}))
	}
}

// exchange sends a byte and waits for its echo.
func exchange(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// connectTo dials srv and makes sure that it is served.
func connectTo(t *testing.T, srv *Server) net.Conn {
	t.Helper()
	c, err := net.Dial(srv.Addr().Network(), srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	exchange(t, c)
	return c
}

func listenOn(t *testing.T, srv *Server) {
	t.Helper()
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
}

// TestSingleReactor: the loop that accepts is the loop that serves; there is no other, and the hand-over is no task.
func TestSingleReactor(t *testing.T) {
	var last atomic.Pointer[Conn]
	srv := &Server{Topology: SingleReactor, Init: echoing(&last)}
	listenOn(t, srv)
	connectTo(t, srv)
	connectTo(t, srv)
	st := srv.Stats()
	if len(st.Loops) != 1 || st.Boss.Name != "" || st.Loops[0].Opened != 2 || srv.running().hosts[0] != last.Load().loop {
		t.Errorf("stats %+v", st)
	}
	if n := st.Loops[0].Tasks; n != 1 { // the registration of the listener
		t.Errorf("%d tasks, want 1", n)
	}
}

// TestServersShareLoops: two servers on one group and one boss are served by the same loops, and end alone.
func TestServersShareLoops(t *testing.T) {
	workers, boss := &Group{Loops: 2}, &Group{Name: "front", Loops: 1}
	defer workers.Close()
	defer boss.Close()
	var lastA, lastB atomic.Pointer[Conn]
	a := &Server{Group: workers, Boss: boss, Init: echoing(&lastA)}
	b := &Server{Group: workers, Boss: boss, LingerTimeout: brief, Init: echoing(&lastB)}
	listenOn(t, a)
	listenOn(t, b)
	if a.running().boss != b.running().boss || a.running().boss.Name != "front-0" {
		t.Errorf("bosses %s and %s", a.running().boss.Name, b.running().boss.Name)
	}
	connectTo(t, a)
	loopOfA := lastA.Load().loop
	toB := connectTo(t, b) // the next loop, in turn over both servers
	if lastB.Load().loop == loopOfA {
		t.Error("two connections of two loops on one of them")
	}
	if err := b.WriteTo(lastA.Load().ID(), "not yours"); err != nil {
		t.Fatal(err)
	}
	until(t, "the refused write", func() bool { return loopOfA.snapshot().DeadWrites == 1 })
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if r := lastA.Load().CloseError(); r == nil || r.Reason != CloseServerShutdown {
		t.Errorf("the connection of the closed server: %v", r)
	}
	exchange(t, toB)
	connectTo(t, b)
	if st := b.Stats(); st.Active != 2 || st.Accepted != 2 || a.Stats().Active != 0 {
		t.Errorf("stats %+v", st)
	}
	if _, err := net.Dial("tcp", a.Addr().String()); err == nil {
		t.Error("the closed server's port is open")
	}
	if _, err := b.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for _, s := range append(workers.Stats(), boss.Stats()...) {
		if s.Active != 0 {
			t.Errorf("loop %s holds %d connections", s.Name, s.Active)
		}
	}
	c := &Server{Group: workers, Boss: boss, Init: echoing(&lastB)}
	listenOn(t, c) // the loops have outlived two servers
	connectTo(t, c)
}

// TestShutdownOfOneServer: the walk that drains one server leaves the other's connections alone, also those that come
// while it lasts.
func TestShutdownOfOneServer(t *testing.T) {
	g := &Group{Loops: 1}
	defer g.Close()
	gate := make(chan struct{})
	pool, err := executor.NewFixed(executor.Options{Name: "slow", Workers: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	slow := &Server{Group: g, LingerTimeout: brief, Init: func(p *Pipeline) error {
		return p.Add("slow", Handle(func(ctx *Context, m *buf.Bytes) error { <-gate; return ctx.WriteBytes(m.Bytes()) }), On(pool))
	}}
	var last atomic.Pointer[Conn]
	other := &Server{Group: g, Init: echoing(&last)}
	listenOn(t, slow)
	listenOn(t, other)
	before := connectTo(t, other)
	c, err := net.Dial("tcp", slow.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "x")
	until(t, "the request", func() bool { st := pool.Stats(); return st.Running == 1 && st.Queued == 0 })
	ended := make(chan error, 1)
	go func() {
		_, err := slow.Shutdown(t.Context())
		ended <- err
	}()
	until(t, "the drain", func() bool { return slow.endpoint.phase.Load() == int32(serverDraining) })
	connectTo(t, other)
	exchange(t, before)
	close(gate)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	exchange(t, before)
	if n := other.Stats().Active; n != 2 {
		t.Errorf("%d connections of the other server, want 2", n)
	}
}

// TestBossPool: servers take the loops of a boss group in turn.
func TestBossPool(t *testing.T) {
	workers, bosses := &Group{Loops: 1}, &Group{Name: "boss", Loops: 2}
	defer workers.Close()
	defer bosses.Close()
	var last atomic.Pointer[Conn]
	var names []string
	for range 3 {
		srv := &Server{Group: workers, Boss: bosses, Init: echoing(&last)}
		listenOn(t, srv)
		connectTo(t, srv)
		names = append(names, srv.running().boss.Name)
	}
	if fmt.Sprint(names) != "[boss-0 boss-1 boss-0]" {
		t.Errorf("bosses %v", names)
	}
}

// TestListenerPerLoop: each loop listens for itself on the one port and serves what it accepts; the kernel distributes.
func TestListenerPerLoop(t *testing.T) {
	if !sys.ReusePortBalances {
		t.Skip("needs a system whose SO_REUSEPORT distributes connections")
	}
	var last atomic.Pointer[Conn]
	srv := &Server{Topology: ListenerPerLoop, Loops: 3, Init: echoing(&last)}
	listenOn(t, srv)
	_, port, _ := net.SplitHostPort(srv.Addr().String())
	seen := map[*loop]bool{}
	for i := 0; len(seen) < 3; i++ {
		if i == 500 {
			t.Fatalf("%d connections went to %d of 3 loops", i, len(seen))
		}
		c := connectTo(t, srv)
		seen[last.Load().loop] = true
		c.Close()
	}
	var opened uint64
	for i, a := range srv.running().acceptors {
		if a.Loop != &srv.running().workers[i].Loop || !strings.HasSuffix(a.Addr.String(), ":"+port) {
			t.Errorf("listener %d is on %v of loop %s", i, a.Addr, a.Loop.Name)
		}
	}
	if n := len(srv.endpoint.tally.Wake); n != 3 {
		t.Errorf("room is told to %d listeners, want 3", n)
	}
	for _, l := range srv.Stats().Loops {
		opened += l.Opened
		if l.Tasks > 3 { // its listener's registration and Close's own; no hand-over
			t.Errorf("loop %s ran %d tasks", l.Name, l.Tasks)
		}
	}
	if n := srv.Stats().Accepted; n != opened {
		t.Errorf("%d accepted, %d opened", n, opened)
	}
}

// TestChoosers compares what each chooser does with loops whose loads are known.
func TestChoosers(t *testing.T) {
	st, first := newStage(t, cutServer(func(*Context, string) error { return nil }))
	loops := []*loop{first, st.loop("worker-1"), st.loop("worker-2")}
	loops[0].assigned.Store(5)
	loops[1].assigned.Store(2)
	loops[2].assigned.Store(9)
	for range 3 {
		_ = loops[0].Tasks.Push(task{kind: taskFunc, msg: func() {}})
		_ = loops[1].Tasks.Push(task{kind: taskFunc, msg: func() {}})
	}
	peer := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	some := peer("192.0.2.1:1000")
	handles := (&crew{}).handlesOf(loops)
	choose := func(c Chooser, n int) (got []int) {
		for range n {
			got = append(got, c(some, handles))
		}
		return got
	}
	for name, c := range map[string]struct {
		chooser Chooser
		want    string
	}{
		"round robin":       {RoundRobin(), "[0 1 2 0]"},
		"least connections": {LeastConnections(), "[1 1 1 1]"},
		"least tasks":       {LeastTasks(), "[2 2 2 2]"},
		"function":          {func(_ netip.AddrPort, l []*Loop) int { return len(l) - 1 }, "[2 2 2 2]"},
	} {
		if got := fmt.Sprint(choose(c.chooser, 4)); got != c.want {
			t.Errorf("%s chose %s, want %s", name, got, c.want)
		}
	}
	loops[1].assigned.Store(5) // two are equal now
	if got := fmt.Sprint(choose(LeastConnections(), 6)); got != "[0 1 0 0 1 0]" {
		t.Errorf("least connections among equals chose %s", got)
	}
	hash := HashIP()
	used := map[int]bool{}
	for i := range 200 {
		ip := fmt.Sprintf("192.0.2.%d", i)
		a, b := hash(peer(ip+":1"), handles), hash(peer("[::ffff:"+ip+"]:2"), handles)
		if a != b || a < 0 || a > 2 {
			t.Fatalf("%s goes to %d and %d", ip, a, b)
		}
		used[a] = true
	}
	if len(used) != 3 {
		t.Errorf("200 addresses use %d loops of 3", len(used))
	}
}

// TestFullLoopIsPassedOver: a loop whose queue is full gets no connection while another takes it, and a chooser that
// names a loop that is not there is taken modulo.
func TestFullLoopIsPassedOver(t *testing.T) {
	for _, choice := range []int{0, 2, -2} {
		srv := cutServer(func(*Context, string) error { return nil })
		srv.TaskQueue = 1
		st, full := newStage(t, srv)
		st.crew.set.chooser = func(netip.AddrPort, []*Loop) int { return choice }
		idle, boss := st.loop("worker-1"), st.loop("boss")
		_ = full.Tasks.Push(task{kind: taskFunc, msg: func() {}})
		st.listen(boss, full, idle)
		st.pending = 1
		boss.Iterate()
		idle.Iterate()
		if idle.table.Active() != 1 || boss.Counters[meter.Refused] != 0 || full.assigned.Load() != 0 || idle.assigned.Load() != 1 {
			t.Errorf("choice %d: %d taken over, %d refused, assigned %d and %d", choice, idle.table.Active(), boss.Counters[meter.Refused],
				full.assigned.Load(), idle.assigned.Load())
		}
	}
}

// TestGroupIsOnePollerPerLoop: a group is a fixed array of loops, each with a poller and a goroutine of its own; its end
// closes them all, and nothing starts on it any more.
func TestGroupIsOnePollerPerLoop(t *testing.T) {
	s := new(spy)
	g := &Group{Loops: 3, platform: s.kernel()}
	if err := g.Close(); err != nil || g.Stats() != nil {
		t.Error("a group that never started does not close")
	}
	g = &Group{Loops: 3, platform: s.kernel()}
	if err := errors.Join(g.Start(), g.Start()); err != nil {
		t.Fatal(err)
	}
	if len(s.pollers) != 3 || len(g.Stats()) != 3 || g.Stats()[2].Name != "worker-2" {
		t.Errorf("%d pollers, stats %+v", len(s.pollers), g.Stats())
	}
	ids := map[uint64]bool{}
	for _, l := range g.crew.Load().loops {
		onLoopOf(t, l, func() {
			ids[goroutineID()] = true
			if err := g.Close(); err != ErrOnLoop {
				t.Errorf("Close on a loop = %v", err)
			}
		})
	}
	if len(ids) != 3 {
		t.Errorf("%d goroutines", len(ids))
	}
	if err := errors.Join(g.Close(), g.Close()); err != nil {
		t.Error(err)
	}
	for i, p := range s.pollers {
		if n := p.closed.Load(); n != 1 {
			t.Errorf("poller %d was closed %d times", i, n)
		}
	}
	if err := g.Start(); err != errGroupClosed {
		t.Errorf("Start after Close = %v", err)
	}
	srv := &Server{Group: g, Init: func(*Pipeline) error { return nil }}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != errGroupClosed {
		t.Errorf("Listen on a closed group = %v", err)
	}
}

// TestClosedGroupEndsItsServers: whoever closes the group first has ended its servers' and dialers' connections.
func TestClosedGroupEndsItsServers(t *testing.T) {
	var last atomic.Pointer[Conn]
	g := &Group{Loops: 2}
	srv := &Server{Group: g, Init: echoing(&last)}
	listenOn(t, srv)
	c := connectTo(t, srv)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes after the end of the group", n)
	}
	if st := srv.Stats(); st.Active != 0 || st.Closed[CloseServerShutdown] != 1 {
		t.Errorf("stats %+v", st)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if err := srv.Wait(); err != ErrServerClosed {
		t.Error(err)
	}
}

// TestContradictingOptions: fields that say different things about the loops are refused by name.
func TestContradictingOptions(t *testing.T) {
	ok := func(*Pipeline) error { return nil }
	two, other := &Group{Loops: 2, Poller: "net"}, &Group{Loops: 1, Poller: "poll"}
	defer two.Close()
	defer other.Close()
	for want, srv := range map[string]*Server{
		"Server.Group is set":             {Init: ok, Group: &Group{}, Loops: 2},
		"Server.Boss is set":              {Init: ok, Boss: &Group{}, Topology: SingleReactor},
		"Server.Loops is 2":               {Init: ok, Loops: 2, Topology: SingleReactor},
		"Server.Topology is 3":            {Init: ok, Topology: 3},
		"both must be net, or neither":    {Init: ok, Group: two, Boss: other},
		"Server.Group has 2 loops":        {Init: ok, Group: two, Topology: SingleReactor},
		"Group.Loops is -1":               {Init: ok, Group: &Group{Loops: -1}},
		"Group.TaskQueue is -7":           {Init: ok, Boss: &Group{TaskQueue: -7}},
		"Server.Init is nil":              {},
		"Server.Watermarks are Low 5":     {Init: ok, Watermarks: Watermarks{Low: 5, High: 4}},
		"eddy: Server.RecvBuffer is -300": {Init: ok, RecvBuffer: -300},
	} {
		if err := srv.Listen("tcp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Listen = %v, want an error with %q", err, want)
			srv.Close()
		}
	}
}

// TestPoolsEndWithTheServer: boss, workers and then the pools that belong to the server end; handlers on them have been
// told the close by then.
func TestPoolsEndWithTheServer(t *testing.T) {
	for name, end := range map[string]func(*Server) error{
		"Close":    (*Server).Close,
		"Shutdown": func(s *Server) error { _, err := s.Shutdown(t.Context()); return err },
	} {
		pool, err := executor.NewFixed(executor.Options{Name: "own", Workers: 1, Queue: 8})
		if err != nil {
			t.Fatal(err)
		}
		told := new(endings)
		var last atomic.Pointer[Conn]
		srv := &Server{Loops: 1, LingerTimeout: brief, Pools: []*executor.Pool{pool}, Init: func(p *Pipeline) error {
			p.Add("told", told, On(pool))
			return echoing(&last)(p)
		}}
		listenOn(t, srv)
		connectTo(t, srv)
		if err := end(srv); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if told.n.Load() != 1 {
			t.Errorf("%s: the handler on the pool was told %d closes", name, told.n.Load())
		}
		if err := pool.SubmitFunc(func() {}); !errors.Is(err, executor.ErrClosed) {
			t.Errorf("%s: the pool takes work: %v", name, err)
		}
	}
}

// TestUnixSocket: a server on a Unix socket serves like one on TCP, and removes its file.
func TestUnixSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Unix sockets of another kind")
	}
	path := filepath.Join(t.TempDir(), "s")
	var last atomic.Pointer[Conn]
	for range 2 { // the second finds the path free
		srv := &Server{Loops: 2, Init: echoing(&last)}
		if err := srv.Listen("unix", path); err != nil {
			t.Fatal(err)
		}
		connectTo(t, srv)
		if a := srv.Addr(); a.Network() != "unix" || a.String() != path || last.Load().RemoteAddr().IsValid() {
			t.Errorf("address %v, peer %v", a, last.Load().RemoteAddr())
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if _, err := net.Dial("unix", path); err == nil {
			t.Error("the socket answers after Close")
		}
	}
}

// TestReadinessIsOnlyAHint: readiness that turns out to be false costs a read and changes nothing.
func TestReadinessIsOnlyAHint(t *testing.T) {
	st, l := newStage(t, cutServer(func(ctx *Context, s string) error { return ctx.Write([]byte(s)) }))
	a := st.connect(l)
	before := a.reads
	for _, ready := range []sys.Ready{sys.Readable, sys.Writable, sys.Readable | sys.Writable} {
		l.processConn(a.conn, ready)
	}
	if a.reads != before+2 || len(a.out) != 0 || a.conn.phase != PhaseReadingHeader || a.conn.CloseError() != nil {
		t.Errorf("%d reads, wrote %q, phase %v, end %v", a.reads-before, a.out, a.conn.phase, a.conn.CloseError())
	}
	a.send("ping;")
	l.Iterate()
	if len(a.out) == 0 {
		t.Error("a true one is not served any more")
	}
}

// secondListenFails is the system, but for one thing.
type secondListenFails struct {
	sys.Sockets
	calls *atomic.Int32
}

func (s secondListenFails) Listen(network, address string, o sys.ListenOptions) (sys.Listener, error) {
	if s.calls.Add(1) == 2 {
		return sys.Listener{FD: -1}, errors.New("no second listener")
	}
	return s.Sockets.Listen(network, address, o)
}

// TestHalfAListen: when not all loops can listen, none does, and a shared group goes on.
func TestHalfAListen(t *testing.T) {
	if !sys.ReusePortBalances {
		t.Skip("needs a system whose SO_REUSEPORT distributes connections")
	}
	k := realKernel(os.Getenv("EDDY_POLLER"))
	calls, plain := new(atomic.Int32), k.sockets
	k.sockets = func() sys.Sockets { return secondListenFails{plain(), calls} }
	g := &Group{Loops: 2, platform: k}
	defer g.Close()
	var last atomic.Pointer[Conn]
	half := &Server{Group: g, Topology: ListenerPerLoop, Init: echoing(&last)}
	if err := half.Listen("tcp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "no second listener") {
		t.Fatalf("Listen = %v", err)
	}
	whole := &Server{Group: g, Topology: ListenerPerLoop, Init: echoing(&last)}
	listenOn(t, whole)
	connectTo(t, whole)
	if half.Addr() != nil || half.Close() != nil {
		t.Error("the server that never listened has an address or does not close")
	}
}
