package eddy_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
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

// TestWatchdogNamesTheApplication: behind a decoder, in a function of a protocol and in a posted task it is the application's
// function that is named.
func TestWatchdogNamesTheApplication(t *testing.T) {
	for name, serve := range map[string]func(gate <-chan struct{}) func(*eddy.Pipeline) error{
		"behind a decoder": func(gate <-chan struct{}) func(*eddy.Pipeline) error {
			return func(p *eddy.Pipeline) error {
				return errors.Join(p.Add("lines", line.Codec(0)), p.Add("app", eddy.Handle(func(*eddy.Context, *line.Line) error { sulk(gate); return nil })))
			}
		},
		"in a function of http1": func(gate <-chan struct{}) func(*eddy.Pipeline) error {
			return http1.NewHandler(nil, nil, http1.Options{OnLoop: func(*http1.LoopResponse, *http1.LoopRequest) bool { sulk(gate); return true }}).Init
		},
	} {
		t.Run(name, func(t *testing.T) {
			gate, stalls := make(chan struct{}), make(chan eddy.Stall, 10)
			g := &eddy.Group{Loops: 1, StallThreshold: time.Second, Logger: newLog().logger(), OnStall: func(s eddy.Stall) { stalls <- s }}
			defer g.Close()
			c := dial(t, start(t, &eddy.Server{Group: g, Init: serve(gate)}))
			defer close(gate)
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if s := testkit.Receive(t, "the stall", stalls); !strings.Contains(s.Handler, "eddy_test.TestWatchdogNamesTheApplication") || s.Starved {
				t.Errorf("the handler is called %q\n%s", s.Handler, s.Stack)
			}
		})
	}
}
