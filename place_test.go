package eddy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/testkit"
)

// shards places "acme" on the first loop and "zeta" on the second. The name ends with a blank.
func shards(_ netip.AddrPort, first []byte, _ []*Loop) int {
	name, _, whole := bytes.Cut(first, []byte(" "))
	switch {
	case !whole:
		return PlaceMore
	case string(name) == "acme":
		return 0
	}
	return 1
}

// halfName returns shards, and a channel that is told of each time it asks for more.
func halfName() (Placer, chan string) {
	halves := make(chan string, 100)
	return func(peer netip.AddrPort, first []byte, loops []*Loop) int {
		at := shards(peer, first, loops)
		if at == PlaceMore {
			halves <- string(first)
		}
		return at
	}, halves
}

// seats notes on which loop each connection was opened, and echoes.
type seats struct {
	mu    sync.Mutex
	loops map[string]string // by remote address
}

func (s *seats) init(p *Pipeline) error {
	c := p.Conn()
	s.mu.Lock()
	if s.loops == nil {
		s.loops = map[string]string{}
	}
	s.loops[c.RemoteAddr().String()] = c.Loop().Name()
	s.mu.Unlock()
	return p.Add("echo", Handle(func(ctx *Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
}

func (s *seats) of(c net.Conn) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loops[c.LocalAddr().String()]
}

// say sends two pieces, the second one when halves has told of the first, and waits for the echo of both.
func say(t *testing.T, c net.Conn, halves <-chan string, one, two string) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, one)
	if halves != nil {
		if got := testkit.Receive(t, "the look at one half", halves); got != one {
			t.Fatalf("the Placer is shown %q, want %q", got, one)
		}
	}
	io.WriteString(c, two)
	b := make([]byte, len(one+two))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != one+two {
		t.Fatalf("echo %q, %v, want %q", b, err, one+two)
	}
}

// TestPlaceByTenant: two tenants whose connections name them in their first message end up on their loops, whatever the
// backend and wherever the listener lives. They get back all that they send.
func TestPlaceByTenant(t *testing.T) {
	for _, poller := range backend.Available() {
		for _, topology := range []Topology{BossWorkers, ListenerPerLoop} {
			t.Run(fmt.Sprint(poller, topology), func(t *testing.T) {
				var s seats
				choose, halves := halfName()
				srv := &Server{Poller: poller, Topology: topology, Loops: 2, LingerTimeout: brief, Init: s.init, Placement: Placement{
					Choose: choose, Timeout: time.Hour,
				}}
				listenOn(t, srv)
				for i := range 12 {
					tenant, loop := "acme", "worker-0"
					if i%3 > 0 {
						tenant, loop = "zeta", "worker-1"
					}
					c, err := net.Dial("tcp", srv.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					if i%2 == 0 {
						say(t, c, nil, tenant+" ", "hello")
					} else {
						say(t, c, halves, tenant[:2], tenant[2:]+" hello")
					}
					if got := s.of(c); got != loop {
						t.Errorf("connection %d of %s is on %s, want %s", i, tenant, got, loop)
					}
				}
				testkit.Eventually(t, "the counts", func() bool { return srv.Stats().Placed == 12 }) // after the hand-over
				if st := srv.Stats(); st.Unplaced+st.EndedPlacing != 0 || st.Placing != 0 || st.Active != 12 {
					t.Errorf("%d not placed, %d ended, %d wait, %d active", st.Unplaced, st.EndedPlacing, st.Placing, st.Active)
				}
			})
		}
	}
}

// TestPlaceTimeout: a connection that says nothing is served when its time is over, as the Chooser decides. Its deadlines begin
// then.
func TestPlaceTimeout(t *testing.T) {
	opened := make(chan string, 1)
	srv := &Server{Loops: 2, LingerTimeout: brief, Placement: Placement{Choose: shards, Timeout: brief}, Init: func(p *Pipeline) error {
		opened <- p.Conn().Loop().Name()
		return p.Add("echo", Handle(func(ctx *Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
	}}
	listenOn(t, srv)
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := testkit.Receive(t, "the connection", opened); got != "worker-0" { // the first in turn
		t.Errorf("it is on %s", got)
	}
	testkit.Eventually(t, "the count", func() bool { return srv.Stats().Unplaced == 1 })
	if st := srv.Stats(); st.Placed != 0 || st.Placing != 0 || st.Active != 1 {
		t.Errorf("%d placed, %d wait, %d active", st.Placed, st.Placing, st.Active)
	}
}

// silent makes n connections that say nothing, and waits until all of them wait.
func silent(t *testing.T, srv *Server, n int) (all []net.Conn) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", srv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		all = append(all, c)
	}
	testkit.Eventually(t, "the wait", func() bool { return srv.Stats().Placing == int64(n) })
	return all
}

// TestShutdownWhilePlacing: a server that drains serves what a connection that waited has sent, and ends it in order.
func TestShutdownWhilePlacing(t *testing.T) {
	var s seats
	choose, halves := halfName()
	srv := &Server{Loops: 2, Init: s.init, Placement: Placement{Choose: choose, Timeout: time.Hour}}
	listenOn(t, srv)
	conns := silent(t, srv, 3)
	io.WriteString(conns[0], "acm") // never a whole name
	conns[0].(*net.TCPConn).CloseWrite()
	testkit.Receive(t, "the look at one half", halves)
	report, err := srv.Shutdown(t.Context())
	if err != nil || report != (DrainReport{Drained: 3}) {
		t.Errorf("report %+v, %v", report, err)
	}
	if b, err := io.ReadAll(conns[0]); string(b) != "acm" || err != nil {
		t.Errorf("answered %q, %v", b, err)
	}
	for _, c := range conns[1:] {
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("the end is %q, %v", b, err)
		}
	}
	if st := srv.Stats(); st.Unplaced != 3 || st.EndedPlacing+st.Placed != 0 || st.Active != 0 {
		t.Errorf("%d unplaced, %d ended before, %d active", st.Unplaced, st.EndedPlacing, st.Active)
	}
}

// TestEndWhilePlacing: the end of the server, or of the loops, closes what waits, once and counted.
func TestEndWhilePlacing(t *testing.T) {
	for name, end := range map[string]func(*Server, *Group) error{
		"server": func(s *Server, _ *Group) error { return s.Close() },
		"loops": func(s *Server, boss *Group) error {
			err := boss.Close()
			testkit.Eventually(t, "the end of what waits", func() bool { return s.Stats().Active == 0 })
			return errors.Join(err, s.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			boss := &Group{Name: "front", Loops: 1}
			defer boss.Close()
			srv := &Server{Loops: 2, Boss: boss, Init: new(seats).init, Placement: Placement{Choose: shards, Timeout: time.Hour}}
			listenOn(t, srv)
			conns := silent(t, srv, 3)
			if err := end(srv, boss); err != nil {
				t.Fatal(err)
			}
			for _, c := range conns {
				if b, _ := io.ReadAll(c); len(b) > 0 {
					t.Errorf("read %q", b)
				}
			}
			if st := srv.Stats(); st.EndedPlacing != 3 || st.Closed[CloseServerShutdown] != 3 || st.Active != 0 || st.Placing != 0 {
				t.Errorf("%d ended, closed %v, %d active", st.EndedPlacing, st.Closed, st.Active)
			}
			if e := &srv.endpoint; e.ended.Load() != 3 || e.forced.Load() != 3 {
				t.Errorf("%d count as ended, %d as forced", e.ended.Load(), e.forced.Load())
			}
		})
	}
}

// TestResetWhilePlacing: a connection that is reset while it waits ends with CloseIOError.
func TestResetWhilePlacing(t *testing.T) {
	srv := &Server{Loops: 2, Logger: slog.New(slog.DiscardHandler), Init: new(seats).init, Placement: Placement{Choose: shards, Timeout: time.Hour}}
	listenOn(t, srv)
	c := silent(t, srv, 1)[0].(*net.TCPConn)
	if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the end", func() bool { return srv.Stats().Active == 0 })
	if st := srv.Stats(); st.EndedPlacing != 1 || st.Closed[CloseIOError] != 1 || st.Boss.Resets != 1 {
		t.Errorf("%d ended, closed %v, %d resets", st.EndedPlacing, st.Closed, st.Boss.Resets)
	}
}

// placing makes a boss without a goroutine, which places for two workers, and a connection that has sent a byte.
func placing(t *testing.T, log *slog.Logger, choose Placer) (st *stage, boss *loop, workers []*loop) {
	t.Helper()
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Logger, srv.TaskQueue = log, 1
	srv.Placement.Choose = choose
	st, first := newStage(t, srv)
	workers = []*loop{first, st.loop("worker-1")}
	st.crew.loops, st.crew.handles = workers, st.crew.handlesOf(workers)
	boss = st.loop("boss")
	st.listen(boss, workers...)
	st.pending = 1
	boss.Iterate()
	st.socks[st.lastFD].send("x")
	boss.Iterate()
	for _, w := range workers {
		w.Iterate()
	}
	return st, boss, workers
}

// TestPlacerAnswers: a Placer that panics, or names a loop that does not exist, costs its choice and is logged by its name; the
// Chooser decides. A loop that is full is passed over.
func TestPlacerAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		choose Placer
		placed uint64
		on     int
		log    string
	}{
		"the last":       {func(_ netip.AddrPort, _ []byte, l []*Loop) int { return len(l) - 1 }, 1, 1, ""},
		"the Chooser":    {func(netip.AddrPort, []byte, []*Loop) int { return PlaceDefault }, 0, 0, ""},
		"one beyond":     {func(_ netip.AddrPort, _ []byte, l []*Loop) int { return len(l) }, 0, 0, "Placement.Choose named a loop that does not exist"},
		"below all":      {func(netip.AddrPort, []byte, []*Loop) int { return PlaceDefault - 1 }, 0, 0, "Placement.Choose named a loop that does not exist"},
		"a panic":        {func(netip.AddrPort, []byte, []*Loop) int { panic("no choice") }, 0, 0, "handler=Placement.Choose panic=\"no choice\""},
		"a full one":     {func(_ netip.AddrPort, _ []byte, l []*Loop) int { stuff(l[1].l); return 1 }, 1, 0, ""},
		"none but full ": {func(_ netip.AddrPort, _ []byte, l []*Loop) int { stuff(l[0].l); stuff(l[1].l); return 1 }, 0, -1, "cause=task_queue"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			st, boss, workers := placing(t, slog.New(slog.NewTextHandler(&log, nil)), c.choose)
			for i, w := range workers {
				if got, want := w.table.Active(), 0; i == c.on && got != 1 || i != c.on && got != want {
					t.Errorf("loop %d has %d connections", i, got)
				}
			}
			tally := &st.srv.endpoint.tally
			if got := tally.Placed.Load(); got != c.placed {
				t.Errorf("%d placed, want %d", got, c.placed)
			}
			if lines := strings.Count(log.String(), "level="); (c.log == "") != (lines == 0) || lines > 1 || !strings.Contains(log.String(), c.log) {
				t.Errorf("log %q, want %q", log.String(), c.log)
			}
			if n := boss.Counters[meter.Refused]; (c.on < 0) != (n == 1) || tally.Placing.Load() != 0 {
				t.Errorf("%d refused, %d wait", n, tally.Placing.Load())
			}
		})
	}
}

// stuff leaves no room in the task queue of a loop.
func stuff(l *loop) { _ = l.Tasks.Push(task{kind: taskFunc, msg: func() {}}) }

// TestPlaceByKey: connections with one key go to one loop, keys use all loops, and a connection without a key is the Chooser's.
func TestPlaceByKey(t *testing.T) {
	place := PlaceByKey(func(first []byte) ([]byte, bool) {
		key, _, whole := bytes.Cut(first, []byte(" "))
		return key, whole
	})
	loops := make([]*Loop, 3)
	ask := func(first string) int { return place(netip.AddrPort{}, []byte(first), loops) }
	used := map[int]bool{}
	for i := range 100 {
		at := ask(fmt.Sprintf("tenant-%d hello", i))
		if again := ask(fmt.Sprintf("tenant-%d other words", i)); at != again || at < 0 || at > 2 {
			t.Fatalf("tenant %d goes to %d and %d", i, at, again)
		}
		used[at] = true
	}
	if len(used) != 3 || ask("tenant") != PlaceMore || ask(" nobody") != PlaceDefault {
		t.Errorf("%d loops used; half a key %d, no key %d", len(used), ask("tenant"), ask(" nobody"))
	}
}

// TestPlacementIsChecked: values that make no sense are refused by name.
func TestPlacementIsChecked(t *testing.T) {
	for want, p := range map[string]Placement{
		"Placement.Choose":     {Bytes: 1},
		"Placement.Bytes":      {Choose: shards, Bytes: maxPlaceBytes + 1},
		"Placement.Timeout":    {Choose: shards, Timeout: maxPlaceTimeout + 1},
		"Placement.MaxWaiting": {Choose: shards, MaxWaiting: -1},
	} {
		srv := &Server{Init: func(*Pipeline) error { return nil }, Placement: p}
		if err := srv.Listen("tcp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "Server."+want) {
			t.Errorf("%+v: %v, want one that names %s", p, err, want)
		}
	}
}

// TestNothingWaitsForOneLoop: with one loop there is no choice, so nobody is asked and nothing waits.
func TestNothingWaitsForOneLoop(t *testing.T) {
	opened := make(chan struct{}, 1)
	srv := &Server{Loops: 1, LingerTimeout: brief, Placement: Placement{Choose: shards, Timeout: time.Hour}, Init: func(p *Pipeline) error {
		opened <- struct{}{}
		return p.Add("echo", Handle(func(ctx *Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
	}}
	listenOn(t, srv)
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	testkit.Receive(t, "the connection", opened)
	if st := srv.Stats(); st.Placed+st.Unplaced != 0 {
		t.Errorf("%d placed, %d not", st.Placed, st.Unplaced)
	}
}

// TestWaitingFillsLoops: connections that wait count towards MaxPerLoop of the loops that are left for them.
func TestWaitingFillsLoops(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Logger, srv.Placement.Choose, srv.Admission.MaxPerLoop = slog.New(slog.DiscardHandler), shards, 2
	st, first := newStage(t, srv)
	workers := []*loop{first, st.loop("worker-1")}
	st.crew.loops, st.crew.handles = workers, st.crew.handlesOf(workers)
	boss := st.loop("boss")
	st.listen(boss, workers...)
	st.connect(first)
	st.pending = 5
	boss.Iterate()
	tally := &srv.endpoint.tally
	if n, refused := tally.Placing.Load(), tally.Refused()[RefusePerLoop]; n != 3 || refused != 2 {
		t.Errorf("%d wait, %d refused, want 3 and 2", n, refused)
	}
}
