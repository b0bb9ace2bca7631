package eddy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// toldOf is what EachConn tells, by id.
func toldOf(t *testing.T, srv *eddy.Server) map[eddy.ConnID]eddy.ConnInfo {
	t.Helper()
	all := make(map[eddy.ConnID]eddy.ConnInfo)
	err := srv.EachConn(testkit.Context(t), func(c eddy.ConnInfo) bool {
		if _, twice := all[c.ID]; twice {
			t.Errorf("%v is told twice", c.ID)
		}
		all[c.ID] = c
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEachConn: every connection of the server is told once, with its loop's look at it, those of another server on the same
// loops are not, and a loop looks at 256 slots per turn and no more.
func TestEachConn(t *testing.T) {
	g := &eddy.Group{Loops: 1}
	defer g.Close()
	serve := func() *eddy.Server {
		srv := &eddy.Server{Group: g, KeepCloses: 2, Init: func(p *eddy.Pipeline) error {
			p.Add("line", line.Codec(100))
			return p.Add("keep", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
				ctx.Conn().PauseRead()
				return ctx.Conn().SetTenant(string(l.Text()))
			}))
		}}
		if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		return srv
	}
	srv, other := serve(), serve()
	defer srv.Close()
	defer other.Close()
	const conns = 300
	peers := make(map[string]net.Conn)
	for range conns {
		c := dial(t, srv.Addr().String())
		peers[c.LocalAddr().String()] = c
	}
	dial(t, other.Addr().String())
	waitFor(t, "the connections", func() bool { return g.Stats()[0].Active == conns+1 })
	first := dial(t, srv.Addr().String())
	fmt.Fprint(first, "somebody\nrest")
	waitFor(t, "the paused one", func() bool {
		for _, c := range toldOf(t, srv) {
			if c.Remote.String() == first.LocalAddr().String() {
				return c.ReadPaused && c.Tenant == "somebody" && c.Inbound == 4
			}
		}
		return false
	})
	enginetest.Barrier(t, srv)
	before := g.Stats()[0]
	all := toldOf(t, srv)
	enginetest.Barrier(t, srv)
	after := g.Stats()[0]
	if len(all) != conns+1 {
		t.Errorf("%d connections are told, there are %d", len(all), conns+1)
	}
	for id, c := range all {
		if peers[c.Remote.String()] == nil && c.Remote.String() != first.LocalAddr().String() {
			t.Errorf("%v is of nobody: %+v", id, c)
		}
		if c.Loop != "worker-0" || c.Local.String() != srv.Addr().String() || c.Phase != eddy.PhaseReadingHeader || c.Idle < 0 || c.Reason != eddy.CloseUnset {
			t.Errorf("%+v", c)
		}
		if got, err := eddy.ParseConnID(id.String()); got != id || err != nil {
			t.Errorf("%v reads as %v, %v", id, got, err)
		}
	}
	const pieces = (conns + 2 + 255) / 256
	if n := after.TailCallbacks - before.TailCallbacks; n != pieces || after.Iterations-before.Iterations < pieces {
		t.Errorf("%d slots were looked at in %d pieces and %d turns, want %d pieces, each in a turn of its own", conns+2, n, after.Iterations-before.Iterations, pieces)
	}
	n := 0
	if err := srv.EachConn(context.Background(), func(eddy.ConnInfo) bool { n++; return n < 10 }); err != nil || n != 10 {
		t.Errorf("told %d after being asked to stop at 10, %v", n, err)
	}
}

// TestEachConnOfStuckLoop: a loop that does not answer is named when the time is over, and the connections of the others are
// told; on a loop the call is refused.
func TestEachConnOfStuckLoop(t *testing.T) {
	srv := &eddy.Server{Loops: 2, Init: initWith(echo)}
	if err := srv.EachConn(context.Background(), func(eddy.ConnInfo) bool { return true }); err != nil {
		t.Errorf("before Listen: %v", err)
	}
	if srv.Workers() != nil || srv.Draining() {
		t.Error("loops before Listen")
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	dial(t, srv.Addr().String())
	dial(t, srv.Addr().String())
	waitFor(t, "both", func() bool { s := srv.Stats(); return s.Loops[0].Active == 1 && s.Loops[1].Active == 1 })
	stuck, release := srv.Workers()[1], make(chan struct{})
	refused := make(chan error, 3)
	if err := stuck.Post(func() {
		_, err := new(eddy.Server).CloseConn(context.Background(), eddy.ConnID{}, false, eddy.CloseNormal, nil)
		refused <- err
		refused <- srv.EachConn(context.Background(), nil)
		_, err = srv.CloseConn(context.Background(), eddy.ConnID{}, false, eddy.CloseNormal, nil)
		refused <- err
		<-release
	}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := <-refused; !errors.Is(err, eddy.ErrOnLoop) {
			t.Errorf("on a loop: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var loops []string
	err := srv.EachConn(ctx, func(c eddy.ConnInfo) bool {
		loops = append(loops, c.Loop)
		cancel()
		return true
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(fmt.Sprint(err), "loop worker-1") || strings.Contains(fmt.Sprint(err), "worker-0") || len(loops) != 1 {
		t.Errorf("told %v, %v", loops, err)
	}
	id, _ := eddy.ParseConnID("1.0.1")
	if found, err := srv.CloseConn(ctx, id, false, eddy.CloseNormal, nil); found || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "worker-1") {
		t.Errorf("closing on a stuck loop: %v, %v", found, err)
	}
	close(release)
	if err := srv.Close(); err != nil || !srv.Draining() {
		t.Fatal(err)
	}
	if err := srv.EachConn(context.Background(), func(eddy.ConnInfo) bool { return true }); !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := srv.CloseConn(context.Background(), id, false, eddy.CloseNormal, nil); !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestCloseConnAndRecentCloses: a connection is ended by its id, once, with the reason that was given, and the last closes are
// kept, the latest first.
func TestCloseConnAndRecentCloses(t *testing.T) {
	if err := (&eddy.Server{KeepCloses: 1<<16 + 1, Init: func(*eddy.Pipeline) error { return nil }}).Listen("tcp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "65537, limit 65536") {
		t.Errorf("too many kept closes: %v", err)
	}
	srv := &eddy.Server{Loops: 2, KeepCloses: 2, Init: initWith(echo)}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	ctx := testkit.Context(t)
	var last eddy.ConnID
	var wg sync.WaitGroup
	for i := range 3 {
		c := dial(t, srv.Addr().String())
		waitFor(t, "the connection", func() bool { return len(toldOf(t, srv)) == 1 })
		for last = range toldOf(t, srv) {
		}
		var found int
		var mu sync.Mutex
		for range 4 {
			wg.Go(func() {
				ok, err := srv.CloseConn(ctx, last, i == 0, eddy.CloseNormal, fmt.Errorf("cause %d%s", i, strings.Repeat("é", 200)))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if ok {
					found++
				}
			})
		}
		wg.Wait()
		if found == 0 {
			t.Error("the connection was not found")
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		c.Close()
		waitFor(t, "the end", func() bool { return srv.Stats().Closed[eddy.CloseNormal] == uint64(i+1) && srv.Stats().Active == 0 })
	}
	if found, err := srv.CloseConn(ctx, last, false, eddy.CloseNormal, nil); found || err != nil {
		t.Errorf("a connection that has ended: %v, %v", found, err)
	}
	recent := srv.RecentCloses()
	if len(recent) != 2 {
		t.Fatalf("%d closes are kept, want 2", len(recent))
	}
	for i, c := range recent {
		if want := fmt.Sprintf("cause %d", 2-i); c.Reason != eddy.CloseNormal || c.Phase != eddy.PhaseClosed || !strings.HasPrefix(c.Cause, want) || len(c.Cause) > 200 || c.Ago < 0 || !c.Remote.IsValid() {
			t.Errorf("close %d is %+v, want %s", i, c, want)
		}
	}
	if recent[0].ID != last || recent[0].Ago > recent[1].Ago {
		t.Errorf("%+v", recent)
	}
}

// TestParseConnID: what is no id is refused.
func TestParseConnID(t *testing.T) {
	for _, bad := range []string{"", "1", "1.2", "1.2.3.4", "1.2.3 ", "-1.2.3", "01.2.3", "1.2.4294967296", "a.b.c", strings.Repeat("1", 1000)} {
		if id, err := eddy.ParseConnID(bad); err == nil || id != (eddy.ConnID{}) || len(err.Error()) > 200 {
			t.Errorf("%q reads as %v, %v", bad, id, err)
		}
	}
}
