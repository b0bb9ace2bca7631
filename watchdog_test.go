package eddy_test

import (
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// sulk blocks its loop, which is what the watchdog is to find.
func sulk(gate <-chan struct{}) { <-gate }

// TestWatchdogNamesTheBlockingHandler: while a handler blocks its loop, one line tells which function it is, on which
// connection, with the stack of that loop alone; the stall is counted once, and a panicking listener does no harm.
func TestWatchdogNamesTheBlockingHandler(t *testing.T) {
	gate, stalls := make(chan struct{}), make(chan eddy.Stall, 10)
	log := newLog()
	const threshold = time.Second // what is shorter happens to any iteration of a busy machine
	g := &eddy.Group{Loops: 2, StallThreshold: threshold, Logger: log.logger(), OnStall: func(s eddy.Stall) {
		stalls <- s
		panic("of the listener")
	}}
	defer g.Close()
	conns := make(chan eddy.ConnID, 2)
	srv := &eddy.Server{Group: g, Init: initWith(eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
		conns <- ctx.Conn().ID()
		if string(m.Bytes()) == "sulk" {
			sulk(gate)
		}
		return ctx.WriteBytes(m.Bytes())
	}))}
	addr := start(t, srv)
	well, ill := dial(t, addr), dial(t, addr)
	io.WriteString(well, "fine")
	if _, err := io.ReadFull(well, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	<-conns
	io.WriteString(ill, "sulk")
	id := <-conns
	s := <-stalls
	if s.Conn != id || s.Peer.String() != ill.LocalAddr().String() || s.For < threshold {
		t.Errorf("told of %v (%v) for %v, want %v (%v)", s.Conn, s.Peer, s.For, id, ill.LocalAddr())
	}
	if !strings.Contains(s.Handler, "TestWatchdogNamesTheBlockingHandler") {
		t.Errorf("the handler is called %q", s.Handler)
	}
	for _, want := range []string{"eddy_test.sulk", "HandleRead"} {
		if !strings.Contains(s.Stack, want) {
			t.Errorf("the stack does not show %s:\n%s", want, s.Stack)
		}
	}
	if n := strings.Count(s.Stack, "goroutine ") - strings.Count(s.Stack, "in goroutine "); n != 1 {
		t.Errorf("%d goroutines in the stack", n)
	}
	waitFor(t, "the line in the log", func() bool { return strings.Contains(log.String(), "panic in OnStall") })
	got := log.String()
	if n := strings.Count(got, "a handler blocks its loop"); n != 1 || !strings.Contains(got, "eddy_test.sulk") || !strings.Contains(got, s.Loop) {
		t.Errorf("%d lines in %q", n, got)
	}
	total := func() (n uint64) {
		for _, l := range g.Stats() {
			n += l.Stalls
		}
		return n
	}
	if n := total(); n != 1 {
		t.Errorf("%d stalls counted while it lasts, want 1", n)
	}
	io.WriteString(well, "fine") // on the other loop
	if _, err := io.ReadFull(well, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	close(gate)
	if _, err := io.ReadFull(ill, make([]byte, 4)); err != nil {
		t.Error(err)
	}
	if n := total(); n != 1 || len(stalls) > 0 {
		t.Errorf("%d stalls counted, %d more told, want 1 and none", n, len(stalls))
	}
}

// TestWatchdogIsRateLimited: of many stalls a few are logged with a stack; all are counted and told.
func TestWatchdogIsRateLimited(t *testing.T) {
	log := newLog()
	var told, withStack atomic.Int64
	g := &eddy.Group{Loops: 1, StallThreshold: 10 * time.Millisecond, Logger: log.logger(), OnStall: func(s eddy.Stall) {
		told.Add(1)
		if s.Stack != "" {
			withStack.Add(1)
		}
	}}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	const n = 15
	began := time.Now()
	for i := range n {
		before, turns := told.Load(), g.Stats()[0].Iterations
		gate := make(chan struct{})
		if err := g.Loop(0).Post(func() { <-gate }); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(60 * time.Second); told.Load() == before && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		close(gate)
		if told.Load() != before+1 {
			t.Fatalf("stall %d was told %d times", i, told.Load()-before)
		}
		waitFor(t, "the end of the iteration", func() bool { return g.Stats()[0].Iterations > turns })
	}
	waitFor(t, "the last stall to be over", func() bool { return g.Loop(0).Post(func() {}) == nil && g.Stats()[0].Stalls >= n })
	most := 5 * (2 + int64(time.Since(began)/time.Second)) // five lines a second
	if s, lines := withStack.Load(), strings.Count(log.String(), "a handler blocks its loop"); s != int64(lines) || s < 1 || s > most {
		t.Errorf("%d of %d stalls came with a stack, %d were logged", s, n, lines)
	}
}

// TestShortStallsAreCounted: a stall that was over before the watchdog looked counts all the same, once.
func TestShortStallsAreCounted(t *testing.T) {
	g := &eddy.Group{Loops: 1, StallThreshold: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	const n = 10
	for range n {
		turns := g.Stats()[0].Iterations
		if err := g.Loop(0).Post(func() {
			for begin := time.Now(); time.Since(begin) < 6*time.Millisecond; {
			}
		}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the end of the iteration", func() bool { return g.Stats()[0].Iterations > turns })
	}
	waitFor(t, "every stall to be counted", func() bool { return g.Stats()[0].Stalls >= n })
}

// TestNoStallWithoutOne: neither sleep nor many short iterations are stalls, and with a negative threshold nothing is.
func TestNoStallWithoutOne(t *testing.T) {
	var told atomic.Int64
	for _, c := range []struct {
		threshold, block time.Duration
	}{{time.Second, 0}, {-1, 50 * time.Millisecond}} {
		g := &eddy.Group{Loops: 1, StallThreshold: c.threshold, OnStall: func(eddy.Stall) { told.Add(1) }}
		if err := g.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		if err := g.Loop(0).Post(func() { time.Sleep(c.block) }); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Loop(0).After(1200*time.Millisecond, func() { close(done) }); err != nil {
			t.Fatal(err)
		}
		<-done
		if n := g.Stats()[0].Stalls; n != 0 || told.Load() != 0 {
			t.Errorf("threshold %v: %d stalls, told of %d", c.threshold, n, told.Load())
		}
		g.Close()
	}
}
