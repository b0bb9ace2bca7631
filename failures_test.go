package eddy_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// prefixed is a decoder of frames with a length of four bytes before them, up to 1 MiB.
type prefixed struct{ msg buf.Bytes }

func (d *prefixed) Decode(ctx *eddy.Context, view []byte) (int, error) {
	if len(view) < 4 {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(view)
	if n > 1<<20 {
		return 0, eddy.WithReason(eddy.CloseFrameTooLarge, fmt.Errorf("frame of %d bytes, limit %d", n, 1<<20))
	}
	if len(view) < 4+int(n) {
		return 0, nil
	}
	d.msg.Reset(view[4 : 4+n])
	ctx.FireRead(&d.msg)
	return 4 + int(n), nil
}

// words is an application whose lines can go wrong in every way of the matrix.
func words(gate chan struct{}) eddy.ReadHandler {
	return eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
		switch word := string(m.Bytes()); word {
		case "fail":
			return errors.New("no such word")
		case "panic":
			panic("a bug")
		case "block":
			<-gate
		case "much":
			return ctx.Write(bytes.Repeat([]byte("x"), 8<<20))
		case "pool":
			ctx.FireRead(m)
			return nil
		}
		return reply(ctx, m)
	})
}

// regret answers a handler's error and keeps the connection.
type regret struct{}

func (regret) HandleError(ctx *eddy.Context, err error) error {
	if p := (*eddy.PanicError)(nil); errors.As(err, &p) {
		return err
	}
	return ctx.Write("error: " + err.Error() + "\n")
}

// matrix is a server in trouble.
type matrix struct {
	srv    *eddy.Server
	addr   string
	log    *logBuffer
	gate   chan struct{} // what blocks goes on
	busy   atomic.Int64
	clock  *enginetest.Clock // of the cases that ask for one
	stalls chan eddy.Stall   // likewise
}

func newMatrix(t *testing.T, change func(*testing.T, *matrix)) *matrix {
	m := &matrix{log: newLog(), gate: make(chan struct{}), stalls: make(chan eddy.Stall, 100)}
	pool := newPool(t, 1, 1)
	app := words(m.gate)
	m.srv = &eddy.Server{Loops: 1, Logger: m.log.logger(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("app", app)
		p.Add("pool", eddy.Handle(func(ctx *eddy.Context, line *buf.Bytes) error { <-m.gate; return reply(ctx, line) }), eddy.On(pool),
			eddy.RejectReply(func(any) any { m.busy.Add(1); return "busy\n" }))
		return p.Add("regret", regret{})
	}}
	if change != nil {
		change(t, m)
	}
	m.addr = start(t, m.srv)
	return m
}

func (m *matrix) closed(t *testing.T, reason eddy.CloseReason, n uint64) {
	t.Helper()
	waitFor(t, reason.String(), func() bool { return m.srv.Stats().Closed[reason] == n })
}

// TestFailureMatrix: what goes wrong in production and what a server has to make of it. Every case runs beside clients
// that must not notice.
func TestFailureMatrix(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*testing.T, *matrix)
		run    func(t *testing.T, m *matrix)
	}{
		"slow reader is paused, then closed":        {impatient, slowReader},
		"saturated pool answers busy":               {nil, saturatedPool},
		"blocked loop is reported by name":          {watched, blockedLoop},
		"failing handler is answered":               {nil, failingHandler},
		"panicking handler ends its connection":     {nil, panickingHandler},
		"resets leave few lines and no stack":       {clocked, manyResets},
		"write interest lasts while bytes wait":     {narrow, writeInterest},
		"split frames are put together":             {nil, splitFrames},
		"many frames at once leave room for others": {nil, manyFrames},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMatrix(t, tc.change)
			calm := standBy(t, m.addr, 2)
			tc.run(t, m)
			calm.undisturbed(2)
		})
	}
}

func clocked(t *testing.T, m *matrix) { m.clock = enginetest.NewClock(t, m.srv) }

func narrow(_ *testing.T, m *matrix) { m.srv.SendBuffer = 64 << 10 }

func impatient(t *testing.T, m *matrix) {
	clocked(t, m)
	narrow(t, m)
	m.srv.BackpressureTimeout = time.Minute
}

func slowReader(t *testing.T, m *matrix) {
	c := enginetest.DialNarrow(t, m.addr)
	c.Send("much\n")
	waitFor(t, "the pause", func() bool { return m.srv.Stats().Loops[0].OutboundPauses == 1 })
	c.Send("not read any more\n")
	m.clock.Advance(59 * time.Second)
	if n := m.srv.Stats().Closed[eddy.CloseBackpressureLimit]; n != 0 {
		t.Errorf("%d closed before the time is up", n)
	}
	waitFor(t, "the close", func() bool { // what the kernel has taken meanwhile put it off
		m.clock.Advance(time.Minute)
		return m.srv.Stats().Closed[eddy.CloseBackpressureLimit] == 1
	})
	waitFor(t, "what was queued to be given back", func() bool { return m.srv.Stats().Memory.Outbound < 1<<10 })
}

func saturatedPool(t *testing.T, m *matrix) {
	defer close(m.gate)
	var busy, answered atomic.Int64
	for range 10 {
		c := dial(t, m.addr)
		io.WriteString(c, "pool\n")
		go func() {
			switch got, _ := bufio.NewReader(c).ReadString('\n'); got {
			case "busy\n":
				busy.Add(1)
			case "pool\n":
				answered.Add(1)
			}
		}()
	}
	waitFor(t, "eight to be told busy at once", func() bool { return busy.Load() == 8 && m.busy.Load() == 8 })
	if n := answered.Load(); n != 0 {
		t.Errorf("%d were answered by a pool that is stuck", n)
	}
}

// watched is told of stalls.
func watched(t *testing.T, m *matrix) {
	g := &eddy.Group{Loops: 2, Logger: m.log.logger(), StallThreshold: 100 * time.Millisecond, OnStall: func(s eddy.Stall) {
		select {
		case m.stalls <- s:
		default:
		}
	}}
	t.Cleanup(func() { _ = g.Close() })
	m.srv.Loops, m.srv.Group = 0, g
}

func blockedLoop(t *testing.T, m *matrix) {
	c := dial(t, m.addr)
	r := bufio.NewReader(c)
	io.WriteString(c, "block\n")
	for !strings.Contains(testkit.Receive(t, "a report", m.stalls).Stack, "words.func") {
		// An iteration is reported once, which on a busy machine may be before it comes to the handler: another one.
		m.gate <- struct{}{}
		expectLines(t, r, "block")
		io.WriteString(c, "block\n")
	}
	if st := m.srv.Stats(); st.Loops[0].Stalls+st.Loops[1].Stalls == 0 || !strings.Contains(m.log.String(), "words.func") {
		t.Errorf("stalls of %d and %d iterations; the log says %.300s", st.Loops[0].Stalls, st.Loops[1].Stalls, m.log.String())
	}
	close(m.gate)
	expectLines(t, r, "block")
}

func failingHandler(t *testing.T, m *matrix) {
	c := dial(t, m.addr)
	io.WriteString(c, "before\nfail\nafter\n")
	expectLines(t, bufio.NewReader(c), "before", "error: no such word", "after")
}

func panickingHandler(t *testing.T, m *matrix) {
	c := dial(t, m.addr)
	io.WriteString(c, "before\npanic\nafter\n")
	r := bufio.NewReader(c)
	expectLines(t, r, "before")
	if got, _ := io.ReadAll(r); len(got) > 0 {
		t.Errorf("read %q behind the panic", got)
	}
	c.Close()
	m.closed(t, eddy.CloseInternalError, 1)
	if s := m.log.String(); strings.Count(s, "panic in a handler") != 1 || !strings.Contains(s, "a bug") {
		t.Errorf("the log says %.300s", s)
	}
}

func manyResets(t *testing.T, m *matrix) {
	const resets = 100
	var all []*net.TCPConn
	for range resets {
		c := dial(t, m.addr).(*net.TCPConn)
		io.WriteString(c, "in\n")
		expectLines(t, bufio.NewReader(c), "in")
		all = append(all, c)
	}
	for _, c := range all {
		c.SetLinger(0)
		c.Close()
	}
	m.closed(t, eddy.CloseIOError, resets)
	const most = 5 // in a second, which does not pass
	n, s := 0, m.log.String()
	for line := range strings.Lines(s) {
		if !strings.Contains(line, "connection reset") {
			continue
		}
		if n++; strings.Contains(line, "goroutine") {
			t.Errorf("a stack: %.300s", line)
		}
	}
	if n == 0 || n > most {
		t.Errorf("%d lines for %d resets, want at most %d: %.300s", n, resets, most, s)
	}
}

func writeInterest(t *testing.T, m *matrix) {
	c := dial(t, m.addr)
	io.WriteString(c, "much\n")
	waitFor(t, "write interest", func() bool { return m.srv.Stats().Loops[0].WriteInterest == 1 })
	if _, err := io.ReadFull(c, make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "its end", func() bool { return m.srv.Stats().Loops[0].WriteInterest == 0 })
}

func splitFrames(t *testing.T, m *matrix) {
	c := dial(t, m.addr)
	r := bufio.NewReader(c)
	for size := 1; size < 9; size++ {
		text := "one line and\nanother one\n"
		for len(text) > 0 {
			n := min(size, len(text))
			in := m.srv.Stats().Loops[0].BytesIn
			io.WriteString(c, text[:n])
			waitFor(t, "the piece", func() bool { return m.srv.Stats().Loops[0].BytesIn >= in+uint64(n) })
			text = text[n:]
		}
		expectLines(t, r, "one line and", "another one")
	}
}

func manyFrames(t *testing.T, m *matrix) {
	c := dial(t, m.addr)
	var all []string
	for i := range 20_000 {
		all = append(all, fmt.Sprint("frame ", i))
	}
	go io.WriteString(c, strings.Join(all, "\n")+"\n")
	expectLines(t, bufio.NewReader(c), all...)
}

// TestHugeLengthIsRefused: a length beyond the limit closes the connection as soon as it is read; nothing is allocated for it.
func TestHugeLengthIsRefused(t *testing.T) {
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("frames", new(prefixed))
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
	}}
	addr := start(t, srv)
	other := dial(t, addr)
	before := heldMiB()
	for i := range 50 {
		c := dial(t, addr)
		c.Write([]byte{0x7f, 0xff, 0xff, 0xff, 'x'})
		expectEnd(t, c)
		c.Close()
		waitFor(t, "frame_too_large", func() bool { return srv.Stats().Closed[eddy.CloseFrameTooLarge] == uint64(i+1) })
	}
	if grown := heldMiB() - before; grown > 4 {
		t.Errorf("memory grew by %.1f MiB", grown)
	}
	other.Write([]byte{0, 0, 0, 5, 'a', 'l', 'i', 'v', 'e'})
	got := make([]byte, 5)
	if _, err := io.ReadFull(other, got); err != nil || string(got) != "alive" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestShutdownStages: a server that ends takes nobody new, lets those finish that can, and cuts the others at the deadline.
func TestShutdownStages(t *testing.T) {
	m := newMatrix(t, nil)
	defer close(m.gate)
	idle, stuck := dial(t, m.addr), dial(t, m.addr)
	io.WriteString(idle, "hello\n")
	expectLines(t, bufio.NewReader(idle), "hello")
	io.WriteString(stuck, "pool\n")
	waitFor(t, "the stuck request", func() bool { return m.srv.Stats().Loops[0].Hops == 1 })
	done := make(chan eddy.DrainReport, 1)
	ctx, deadline := context.WithCancel(t.Context()) // passes when the test says so
	defer deadline()
	go func() {
		report, err := m.srv.Shutdown(ctx)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown: %v", err)
		}
		done <- report
	}()
	expectEnd(t, idle)
	idle.Close()
	if c, err := net.Dial("tcp", m.addr); err == nil {
		c.Close()
		t.Error("a new connection was taken")
	}
	waitFor(t, "the end of the idle one", func() bool { return m.srv.Stats().Active == 1 })
	deadline()
	if r := <-done; r != (eddy.DrainReport{Drained: 1, Forced: 1, Dropped: 1}) {
		t.Errorf("report %+v", r)
	}
	expectEnd(t, stuck)
}
