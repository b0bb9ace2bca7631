package eddy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// lineServer answers lines with themselves and records closes.
func lineServer(ends *closes) *eddy.Server {
	return &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("reply", eddy.Handle(reply))
		return p.Add("ends", ends)
	}}
}

func TestByteByByteSender(t *testing.T) {
	var ends closes
	srv := lineServer(&ends)
	c := dial(t, start(t, srv))
	for i, b := range []byte("drip\ndrop\n") {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the byte", func() bool { return srv.Stats().Loops[0].BytesIn == uint64(i+1) })
	}
	expectLines(t, bufio.NewReader(c), "drip", "drop")
}

// TestManyFramesInOneWrite: more frames than one iteration's budget arrive at once; the rest is handled without new
// bytes, in order.
func TestManyFramesInOneWrite(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 50, 64, 65, 1000} {
		var ends closes
		c := dial(t, start(t, lineServer(&ends)))
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint("frame ", i))
		}
		io.WriteString(c, strings.Join(all, "\n")+"\n")
		expectLines(t, bufio.NewReader(c), all...)
	}
}

func TestLargeFramesOverManyReads(t *testing.T) {
	var ends closes
	c := dial(t, start(t, lineServer(&ends)))
	r := bufio.NewReaderSize(c, 1<<20)
	for _, n := range []int{100, 2047, 2049, 65535, 65536, 65537, 300_000, 1_000_000} {
		line := strings.Repeat("x", n-1) + "y"
		go io.WriteString(c, line+"\n")
		expectLines(t, r, line)
	}
}

func TestPeerClosesInsideAFrame(t *testing.T) {
	var ends closes
	c := dial(t, start(t, lineServer(&ends)))
	io.WriteString(c, "whole\nhal")
	expectLines(t, bufio.NewReader(c), "whole")
	c.Close()
	ends.wait(t, eddy.CloseIncompleteRequest)
}

func TestPeerClosesBetweenFrames(t *testing.T) {
	var ends closes
	c := dial(t, start(t, lineServer(&ends)))
	io.WriteString(c, "whole\n")
	expectLines(t, bufio.NewReader(c), "whole")
	c.Close()
	ends.wait(t, eddy.ClosePeerClosed)
}

func TestResetInsideAFrame(t *testing.T) {
	var ends closes
	srv := lineServer(&ends)
	addr := start(t, srv)
	other := dial(t, addr)
	c := dial(t, addr).(*net.TCPConn)
	io.WriteString(c, "whole\nhal")
	expectLines(t, bufio.NewReader(c), "whole")
	c.SetLinger(0) // close with a reset
	c.Close()
	ends.wait(t, eddy.CloseIOError)
	waitFor(t, "the count", func() bool { return srv.Stats().Loops[0].Resets == 1 }) // published behind the close
	io.WriteString(other, "alive\n")
	expectLines(t, bufio.NewReader(other), "alive")
}

func TestOversizedFrame(t *testing.T) {
	var ends closes
	addr := start(t, lineServer(&ends))
	other := dial(t, addr)
	c := dial(t, addr)
	go func() {
		chunk := []byte(strings.Repeat("x", 64<<10))
		for {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}()
	expectEnd(t, c)
	c.Close() // or the server would wait for the peer's end
	ends.wait(t, eddy.CloseFrameTooLarge)
	io.WriteString(other, "alive\n")
	expectLines(t, bufio.NewReader(other), "alive")
}

func TestIdleTimeout(t *testing.T) {
	var ends closes
	srv := lineServer(&ends)
	srv.IdleTimeout = time.Minute
	clock := enginetest.NewClock(t, srv)
	c := dial(t, start(t, srv))
	r := bufio.NewReader(c)
	for range 4 { // active for well over the timeout
		io.WriteString(c, "tick\n")
		expectLines(t, r, "tick")
		clock.Advance(50 * time.Second)
	}
	clock.Advance(9 * time.Second)
	if n := srv.Stats().Active; n != 1 {
		t.Fatalf("%d connections, 59 s after the last activity", n)
	}
	clock.Advance(2 * time.Second)
	ends.wait(t, eddy.CloseIdleTimeout)
	expectEnd(t, c)
}

func TestTotalLimit(t *testing.T) {
	var ends closes
	srv := lineServer(&ends)
	srv.MaxConns = 2
	addr := start(t, srv)
	a, b := dial(t, addr), dial(t, addr)
	for _, c := range []net.Conn{a, b} {
		io.WriteString(c, "in\n")
		expectLines(t, bufio.NewReader(c), "in")
	}
	refused := dial(t, addr)
	io.WriteString(refused, "in\n") // to be answered at once if it is taken all the same
	if n, err := refused.Read(make([]byte, 1)); err == nil {
		t.Fatalf("the third connection read %d bytes", n)
	}
	waitFor(t, "the count", func() bool { return srv.Stats().AdmissionRejected == 1 })
	a.Close()
	ends.wait(t, eddy.ClosePeerClosed)
	waitFor(t, "room for another", func() bool { return srv.Stats().Active == 1 })
	c := dial(t, addr)
	io.WriteString(c, "in\n")
	expectLines(t, bufio.NewReader(c), "in")
	if got := srv.Stats().Active; got != 2 {
		t.Errorf("%d active, want 2", got)
	}
}

// TestShutdownUnderLoad: every request that was answered or taken when the server drains gets its response; clients
// see their responses and then an orderly end of stream, never a reset.
func TestShutdownUnderLoad(t *testing.T) {
	pool := newPool(t, 8, 4096)
	var taken, answered atomic.Int64
	var stuck atomic.Bool
	gate := make(chan struct{})
	srv := &eddy.Server{Loops: 2, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("work", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			taken.Add(1)
			if stuck.Load() {
				<-gate
			}
			return reply(ctx, m)
		}), eddy.On(pool))
	}}
	addr := start(t, srv)
	const clients = 40
	var wg sync.WaitGroup
	for range clients {
		c := dial(t, addr)
		wg.Go(func() {
			r := bufio.NewReader(c)
			for i := 0; ; i++ {
				want := fmt.Sprintf("request %d\n", i)
				if _, err := io.WriteString(c, want); err != nil {
					return
				}
				got, err := r.ReadString('\n')
				if err == io.EOF && got == "" {
					c.Close()
					return
				}
				if err != nil || got != want {
					t.Errorf("request %d: read %q, %v", i, got, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	waitFor(t, "load", func() bool { return answered.Load() > 1000 })
	stuck.Store(true) // no more answers before the drain
	waitFor(t, "requests in flight", func() bool { return pool.Stats().Running == 8 })
	go func() {
		defer close(gate)
		testkit.Eventually(t, "the drain", srv.Draining)
	}()
	report, err := srv.Shutdown(testkit.Context(t))
	if err != nil || report.Forced != 0 || report.Dropped != 0 || report.Drained != clients {
		t.Errorf("Shutdown = %+v, %v, want %d drained", report, err, clients)
	}
	wg.Wait()
	if taken.Load() != answered.Load() {
		t.Errorf("%d requests taken, %d answered", taken.Load(), answered.Load())
	}
	if got := srv.Stats().Closed[eddy.CloseServerShutdown]; got != clients {
		t.Errorf("%d closed by shutdown, want %d", got, clients)
	}
}

// deadline is a context whose deadline passes when the test says so.
type deadline struct {
	context.Context
	passed chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.passed }

func (d deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestShutdownForcesAtTheDeadline(t *testing.T) {
	pool := newPool(t, 1, 4)
	gate := make(chan struct{})
	var ends closes
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("stuck", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { <-gate; return reply(ctx, m) }), eddy.On(pool))
		return p.Add("ends", &ends)
	}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "never answered\n")
	waitFor(t, "the request", func() bool { st := pool.Stats(); return st.Running == 1 && st.Queued == 0 })
	limit := deadline{t.Context(), make(chan struct{})}
	over := make(chan struct{})
	go func() {
		defer close(over)
		report, err := srv.Shutdown(limit)
		if err != context.DeadlineExceeded || report.Forced != 1 || report.Dropped != 1 {
			t.Errorf("Shutdown = %+v, %v, want one forced, one dropped", report, err)
		}
	}()
	waitFor(t, "the drain", srv.Draining)
	close(limit.passed)
	testkit.Receive(t, "the end of Shutdown", over)
	ends.wait(t, eddy.CloseServerShutdown)
	close(gate)
	if err := srv.Close(); err != nil {
		t.Errorf("Close after Shutdown = %v", err)
	}
}

func TestHalfClose(t *testing.T) {
	pool := newPool(t, 1, 4)
	for _, half := range []bool{true, false} {
		gate := make(chan struct{})
		var ends closes
		srv := &eddy.Server{Loops: 1, CloseOnEOF: !half, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
			p.Add("lines", &lines{})
			p.Add("slow", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { <-gate; return reply(ctx, m) }), eddy.On(pool))
			return p.Add("ends", &ends)
		}}
		c := dial(t, start(t, srv)).(*net.TCPConn)
		io.WriteString(c, "last words\n")
		waitFor(t, "the request", func() bool { st := pool.Stats(); return st.Running == 1 && st.Queued == 0 })
		c.CloseWrite()
		if half {
			close(gate)
			expectLines(t, bufio.NewReader(c), "last words")
			expectEnd(t, c)
		} else {
			expectEnd(t, c)
			close(gate)
		}
		ends.wait(t, eddy.ClosePeerClosed)
	}
}

func TestListenErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ok := initWith(echo)
	for name, tc := range map[string]struct {
		srv  *eddy.Server
		addr string
		want string
	}{
		"busy port":      {&eddy.Server{Init: ok}, ln.Addr().String(), ln.Addr().String()},
		"no Init":        {&eddy.Server{}, "127.0.0.1:0", "Server.Init"},
		"negative Loops": {&eddy.Server{Init: ok, Loops: -1}, "127.0.0.1:0", "Server.Loops is -1"},
		"watermarks":     {&eddy.Server{Init: ok, Watermarks: eddy.Watermarks{Low: 9, High: 5, Max: 6}}, "127.0.0.1:0", "Low 9, High 5, Max 6"},
		"poller":         {&eddy.Server{Init: ok, Poller: "iocp"}, "127.0.0.1:0", "iocp"},
		"network":        {&eddy.Server{Init: ok}, "127.0.0.1:99999", "99999"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.srv.Listen("tcp", tc.addr)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Listen = %v, want an error with %q", err, tc.want)
			}
		})
	}
}
