package eddy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	testkit.Receive(t, what+" to return", done)
}

// TestGroupCloseFromOnStall: who is told of a stall may end the group.
func TestGroupCloseFromOnStall(t *testing.T) {
	closed := make(chan error, 1)
	var g *Group
	var once sync.Once
	g = &Group{Loops: 1, StallThreshold: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	release := make(chan struct{})
	g.OnStall = func(Stall) {
		once.Do(func() {
			close(release)
			closed <- g.Close()
		})
	}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	g.Loop(0).Post(func() { <-release })
	if err := testkit.Receive(t, "Close, which must not wait for the watchdog", closed); err != nil {
		t.Error(err)
	}
	within(t, "a second Close", func() { g.Close() })
}

// TestGroupCloseRefusedOnALoop: a Close that is refused has not happened.
func TestGroupCloseRefusedOnALoop(t *testing.T) {
	g := &Group{Loops: 1, Logger: slog.New(slog.DiscardHandler)}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	refused := make(chan error)
	g.Loop(0).Post(func() { refused <- g.Close() })
	if err := <-refused; !errors.Is(err, ErrOnLoop) {
		t.Errorf("Close on a loop = %v", err)
	}
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Loops, srv.Group = 0, g
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Error(err)
	}
	srv.Close()
}

// TestStatsWhileListening: what handlers may call of a server answers at once while that server binds its address, which
// waits for the very loops they run on.
func TestStatsWhileListening(t *testing.T) {
	g := &Group{Loops: 1, Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { g.Close() })
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Loops, srv.Group, srv.Topology = 0, g, SingleReactor
	t.Cleanup(func() { srv.Close() })
	hold, held, answered := make(chan struct{}), make(chan struct{}), make(chan struct{})
	g.Loop(0).Post(func() {
		close(held)
		<-hold
		_, _ = srv.Stats(), srv.Addr()
		_ = srv.WriteTo(ConnID{}, []byte("x"))
		close(answered)
	})
	<-held
	listening := make(chan error, 1)
	go func() { listening <- srv.Listen("tcp", "127.0.0.1:0") }()
	until(t, "Listen at its lock", func() bool {
		if srv.mu.TryLock() {
			srv.mu.Unlock()
			return false
		}
		return true
	})
	close(hold)
	within(t, "Stats on the loop", func() { <-answered })
	if err := <-listening; err != nil {
		t.Error(err)
	}
}

// TestListenAgain: a second Listen says what is wrong: the server serves already, or it has ended.
func TestListenAgain(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "called before") {
		t.Errorf("while it serves: %v", err)
	}
	srv.Close()
	if err := srv.Listen("tcp", "127.0.0.1:0"); !errors.Is(err, ErrServerClosed) {
		t.Errorf("after its end: %v", err)
	}
}

// TestCloseBeforeListen: a server that was closed does not begin to serve.
func TestCloseBeforeListen(t *testing.T) {
	for name, end := range map[string]func(*Server) error{
		"Close":    (*Server).Close,
		"Shutdown": func(s *Server) error { _, err := s.Shutdown(context.Background()); return err },
	} {
		srv := cutServer(func(*Context, string) error { return nil })
		if err := end(srv); err != nil && !errors.Is(err, ErrServerClosed) {
			t.Errorf("%s = %v", name, err)
		}
		if err := srv.Listen("tcp", "127.0.0.1:0"); !errors.Is(err, ErrServerClosed) {
			t.Errorf("Listen after %s = %v", name, err)
			srv.Close()
		}
	}
}

// TestEndsAtTheSameTime: every call that ends a server, a dialer or their group, from many goroutines at once, with
// connections that open meanwhile: all return, nothing is left counted.
func TestEndsAtTheSameTime(t *testing.T) {
	for range 20 {
		g := &Group{Loops: 2, Logger: slog.New(slog.DiscardHandler)}
		echo := cutServer(func(ctx *Context, msg string) error { return ctx.Write([]byte(msg)) })
		echo.Loops, echo.Group = 0, g
		echo.Admission = Admission{MaxPerIP: 100, OnLimit: DecisionPause, Rate: 1000}
		d := &Dialer{Group: g, Init: echo.Init, Logger: slog.New(slog.DiscardHandler)}
		if err := echo.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		addr := echo.Addr().(*net.TCPAddr)
		var begun, told atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					_, err := d.DialAddr(addr, DialOptions{}, func(*Conn, error) { told.Add(1) })
					if errors.Is(err, ErrDialerClosed) {
						return
					}
					if err == nil && begun.Add(1) > 100 {
						return
					}
				}
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, end := range []func(){
			func() { echo.Close() }, func() { echo.Shutdown(ctx) }, func() { echo.Close() },
			func() { d.Close() }, func() { d.Shutdown(ctx) }, func() { d.Close() },
			cancel, func() { g.Close() },
		} {
			wg.Go(end)
		}
		within(t, "all ends", wg.Wait)
		if a, b := echo.Stats().Active, d.Stats().Active; a != 0 || b != 0 || begun.Load() != told.Load() {
			t.Fatalf("%d and %d connections are counted, %d attempts, %d outcomes", a, b, begun.Load(), told.Load())
		}
		if n := echo.listed(); n != 0 {
			t.Fatalf("%d networks are counted", n)
		}
	}
}

// listed returns the client networks that are counted.
func (s *Server) listed() int { return s.running().acceptors[0].Set.Gate.Networks.Len() }
