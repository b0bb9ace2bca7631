package eddy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// phased is a line decoder that calls what follows a colon the body.
type phased struct{ lines }

func (d *phased) Decode(ctx *eddy.Context, view []byte) (int, error) {
	if bytes.IndexByte(view, ':') >= 0 && bytes.IndexByte(view, '\n') < 0 {
		ctx.Conn().SetPhase(eddy.PhaseReadingBody)
		return 0, nil
	}
	return d.lines.Decode(ctx, view)
}

// apology turns a handler's error into a response.
type apology struct{}

func (apology) HandleError(ctx *eddy.Context, err error) error {
	return ctx.Write(strings.Repeat(err.Error(), 4<<20))
}

// TestPhasesOfARequest follows one request: header, body, dispatch, the wait for a handler on a pool, whose error becomes
// a response that passes the encoder, the write to a peer that does not read, and back; then the end.
func TestPhasesOfARequest(t *testing.T) {
	pool := newPool(t, 1, 4)
	gate := make(chan struct{})
	conns := make(chan *eddy.Conn, 1)
	var dispatching, closing, encoded atomic.Int32
	srv := &eddy.Server{Loops: 1, LingerTimeout: 5 * time.Minute, Init: func(p *eddy.Pipeline) error {
		p.Add("phased", &phased{})
		p.Add("encode", encodeFunc(func(ctx *eddy.Context, msg any) error {
			encoded.Add(1)
			return ctx.Write(msg.(string) + "\n")
		}))
		p.Add("watch", watch{conns, &dispatching, &closing})
		p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			<-gate
			return errors.New("sorry")
		}), eddy.On(pool))
		return p.Add("errors", apology{})
	}}
	c := dial(t, start(t, srv)).(*net.TCPConn)
	conn := <-conns
	expect := func(want eddy.Phase) {
		t.Helper()
		var got eddy.Phase
		waitFor(t, "phase "+want.String(), func() bool {
			done := make(chan struct{})
			if err := conn.Post(func() { got = conn.Phase(); close(done) }); err != nil {
				t.Fatal(err)
			}
			<-done
			return got == want
		})
	}
	expect(eddy.PhaseReadingHeader)
	io.WriteString(c, "request:bo")
	expect(eddy.PhaseReadingBody)
	io.WriteString(c, "dy\n")
	expect(eddy.PhaseWaitingForResponse)
	if got := eddy.Phase(dispatching.Load()); got != eddy.PhaseDispatching {
		t.Errorf("the handlers on the loop ran in phase %v", got)
	}
	close(gate)
	expect(eddy.PhaseWriting)
	response := make([]byte, 4<<20*len("sorry")+1)
	if _, err := io.ReadFull(c, response); err != nil || !bytes.HasPrefix(response, []byte("sorrysorry")) || response[len(response)-1] != '\n' {
		t.Fatalf("response %.20q, %v", response, err)
	}
	if n := encoded.Load(); n != 1 {
		t.Errorf("encoded %d times", n)
	}
	expect(eddy.PhaseReadingHeader)
	conn.CloseAfterFlush(eddy.CloseNormal)
	expect(eddy.PhaseClosing)
	c.Close()
	<-conn.CloseFuture().Done()
	if got := eddy.Phase(closing.Load()); got != eddy.PhaseClosed {
		t.Errorf("HandleClose ran in phase %v", got)
	}
}

type encodeFunc func(ctx *eddy.Context, msg any) error

func (f encodeFunc) HandleWrite(ctx *eddy.Context, msg any) error { return f(ctx, msg) }

// watch notes the phases in which it is called.
type watch struct {
	conns                chan<- *eddy.Conn
	dispatching, closing *atomic.Int32
}

func (w watch) HandleOpen(ctx *eddy.Context) error {
	w.conns <- ctx.Conn()
	return nil
}

func (w watch) HandleRead(ctx *eddy.Context, msg any) error {
	w.dispatching.Store(int32(ctx.Conn().Phase()))
	ctx.FireRead(msg)
	return nil
}

func (w watch) HandleClose(ctx *eddy.Context, _ eddy.CloseReason, _ error) {
	w.closing.Store(int32(ctx.Conn().Phase()))
}

// TestCloseExactlyOnce: a connection that many goroutines and the peer end at once ends once, with one reason, the same
// for the handlers, for later callers and for the count.
func TestCloseExactlyOnce(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	var ends closes
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("capture", captureConn(conns))
		return p.Add("ends", &ends)
	}}
	addr := start(t, srv)
	reasons := []eddy.CloseReason{eddy.CloseNormal, eddy.CloseProtocolError, eddy.CloseIdleTimeout, eddy.CloseInternalError}
	const rounds = 50
	for i := range rounds {
		c := dial(t, addr).(*net.TCPConn)
		io.WriteString(c, "x")
		conn := <-conns
		var wg sync.WaitGroup
		for _, r := range reasons {
			wg.Go(func() { conn.CloseAfterFlush(r) })
			wg.Go(func() { conn.Close(r) })
		}
		wg.Go(func() {
			if i%2 == 0 {
				c.SetLinger(0)
			}
			c.Close()
		})
		wg.Wait()
		<-conn.CloseFuture().Done()
		waitFor(t, "the end", func() bool { return srv.Stats().Active == 0 })
		ends.mu.Lock()
		if len(ends.reasons) != i+1 || conn.CloseError() == nil || conn.CloseError().Reason != ends.reasons[i] {
			t.Fatalf("round %d: told %v, CloseError %v", i, ends.reasons, conn.CloseError())
		}
		ends.mu.Unlock()
	}
	want := map[eddy.CloseReason]uint64{}
	for _, r := range ends.reasons {
		want[r]++
	}
	waitFor(t, "the counts", func() bool { return fmt.Sprint(srv.Stats().Closed) == fmt.Sprint(want) })
}

// TestDrainEndsIdleConnectionsFirst: on Shutdown new peers are refused, idle connections end at once, one with a request
// in flight ends after its response.
func TestDrainEndsIdleConnectionsFirst(t *testing.T) {
	pool := newPool(t, 2, 4)
	gate := make(chan struct{})
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", stuckUntil(gate), eddy.On(pool))
	}}
	addr := start(t, srv)
	idle, active := dial(t, addr), dial(t, addr)
	io.WriteString(idle, "hello\n")
	expectLines(t, bufio.NewReader(idle), "hello")
	io.WriteString(active, "stick\n")
	// Not the pool's count: that may still be the worker that has answered "hello".
	waitFor(t, "the request", func() bool { return srv.Stats().Loops[0].Messages == 2 })
	ended := make(chan eddy.DrainReport, 1)
	go func() {
		report, err := srv.Shutdown(t.Context())
		if err != nil {
			t.Error(err)
		}
		ended <- report
	}()
	expectEnd(t, idle)
	idle.Close()
	if c, err := net.DialTimeout("tcp", addr, 5*time.Second); err == nil {
		c.Close()
		t.Error("a draining server accepted a connection")
	}
	waitFor(t, "the end of the idle one", func() bool { return srv.Stats().Active == 1 })
	select {
	case r := <-ended:
		t.Fatalf("Shutdown did not wait for the request: %+v", r)
	default:
	}
	close(gate)
	expectLines(t, bufio.NewReader(active), "stick")
	expectEnd(t, active)
	active.Close()
	if r := <-ended; r != (eddy.DrainReport{Drained: 2}) {
		t.Errorf("report %+v", r)
	}
}

// TestCountersEqualReality compares the numbers of a server with what its clients did.
func TestCountersEqualReality(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	srv := &eddy.Server{Loops: 2, Init: initWith(captureConn(conns))}
	addr := start(t, srv)
	if n := len(srv.Stats().Loops); n != 2 {
		t.Fatalf("%d loops, want 2", n)
	}
	var clients []net.Conn
	for range 4 {
		clients = append(clients, dial(t, addr))
	}
	waitFor(t, "two connections on each loop", func() bool {
		st := srv.Stats()
		return st.Loops[0].Active == 2 && st.Loops[1].Active == 2 && st.Active == 4 && st.Accepted == 4
	})
	const rounds, size = 25, 40
	for range rounds {
		for _, c := range clients {
			io.WriteString(c, strings.Repeat("x", size))
			if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitFor(t, "the bytes", func() bool {
		l := srv.Stats().Loops
		return l[0].BytesIn == 2*rounds*size && l[0].BytesOut == 2*rounds*size && l[1].BytesIn == 2*rounds*size && l[1].BytesOut == 2*rounds*size
	})
	for i, l := range srv.Stats().Loops {
		if l.Name != fmt.Sprint("worker-", i) || l.Events < 2*rounds || l.Messages < 2*rounds || l.Events > l.Messages+10 {
			t.Errorf("loop %d: %+v", i, l)
		}
	}
	if n := srv.Stats().Boss.Name; n != "boss" {
		t.Errorf("the boss is called %q", n)
	}
	conn, gate := <-conns, make(chan struct{})
	loop := func() eddy.LoopStats { return srv.Stats().Loops[int(conn.ID().String()[0]-'0')] }
	if err := conn.Post(func() { <-gate }); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the loop", func() bool { return loop().TaskQueueDepth == 0 })
	for range 5 {
		if err := conn.Post(func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if n := loop().TaskQueueDepth; n != 5 {
		t.Errorf("%d tasks wait, want 5", n)
	}
	close(gate)
	waitFor(t, "an empty queue", func() bool { return loop().TaskQueueDepth == 0 })
	clients[0].Close()
	waitFor(t, "the close", func() bool { st := srv.Stats(); return st.Active == 3 && st.Closed[eddy.ClosePeerClosed] == 1 })
}

// TestDefaultLoops: as many workers as processors, or as many as asked for.
func TestDefaultLoops(t *testing.T) {
	for ask, want := range map[int]int{0: runtime.GOMAXPROCS(0), 1: 1, 5: 5} {
		srv := &eddy.Server{Loops: ask, Init: initWith(echo)}
		start(t, srv)
		if n := len(srv.Stats().Loops); n != want {
			t.Errorf("Loops %d made %d workers, want %d", ask, n, want)
		}
	}
}

// TestCloseReasonNames: the metric labels are a promise.
func TestCloseReasonNames(t *testing.T) {
	want := []string{"normal", "peer_closed", "incomplete_request", "protocol_error", "frame_too_large", "handshake_failed",
		"idle_timeout", "read_timeout", "body_timeout", "handler_timeout", "write_timeout", "admission_rejected",
		"backpressure_limit", "server_shutdown", "overload", "io_error", "internal_error"}
	var got []string
	for _, r := range eddy.CloseReasons()[:len(want)] { // the tests' own come behind
		got = append(got, r.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("close reasons %q, want %q", got, want)
	}
	if eddy.CloseIdleTimeout.String() != "idle_timeout" || eddy.CloseIOError.String() != "io_error" {
		t.Error("the constants and their names are out of step")
	}
}

// TestResetsAreSampled: many resets leave a few classified lines without stacks, and all are counted.
func TestResetsAreSampled(t *testing.T) {
	log, ends := newLog(), new(closes)
	srv := lineServer(ends)
	srv.Logger = log.logger()
	clock := enginetest.NewClock(t, srv)
	addr := start(t, srv)
	const resets = 60
	reset := func() {
		c := dial(t, addr).(*net.TCPConn)
		io.WriteString(c, "in\n")
		expectLines(t, bufio.NewReader(c), "in")
		c.SetLinger(0)
		c.Close()
	}
	for range resets {
		reset()
	}
	waitFor(t, "all resets", func() bool {
		st := srv.Stats()
		return st.Loops[0].Resets == resets && st.Closed[eddy.CloseIOError] == resets
	})
	if lines := strings.Count(log.String(), "eddy: connection reset"); lines != 5 {
		t.Errorf("%d lines for %d resets in an interval, want 5", lines, resets)
	}
	clock.Advance(time.Second)
	reset()
	waitFor(t, "the line of the next interval", func() bool {
		return strings.Contains(log.String(), fmt.Sprint("held_back=", resets-5))
	})
	if s := log.String(); strings.Contains(s, "goroutine") || !strings.Contains(s, "level=INFO") || !strings.Contains(s, syscall.ECONNRESET.Error()) {
		t.Errorf("the log says %.500s", s)
	}
}

// TestOneLoopHoldsTenThousand: one loop holds 10,000 connections and serves others among them.
func TestOneLoopHoldsTenThousand(t *testing.T) {
	const n = 10_000
	if limit := descriptorLimit(); limit < n+200 {
		t.Skipf("needs %d descriptors, the limit is %d", n+200, limit)
	}
	fitsSelect(t, n)
	srv := &eddy.Server{Loops: 1, Init: initWith(echo)}
	addr := start(t, srv)
	out, stop := child(t, fmt.Sprintf("idle-clients %s %d", addr, n))
	if line, err := out.ReadString('\n'); err != nil || line != fmt.Sprintf("open %d\n", n) {
		t.Fatalf("clients: %q, %v", line, err)
	}
	waitFor(t, "all connections", func() bool { return srv.Stats().Loops[0].Active == n })
	var wg sync.WaitGroup
	for range 20 {
		c := dial(t, addr)
		wg.Go(func() {
			for i := range 50 {
				want := fmt.Sprint("message ", i)
				io.WriteString(c, want)
				got := make([]byte, len(want))
				if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
					t.Errorf("read %q, %v, want %q", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
	stop()
	waitFor(t, "the end of the ten thousand", func() bool { return srv.Stats().Loops[0].Active <= 20 })
}

// TestRefusedConnectionsAreClosed: a peer beyond the limit is not left to wait: its connection ends at once.
func TestRefusedConnectionsAreClosed(t *testing.T) {
	srv := &eddy.Server{Loops: 1, MaxConns: 1, Init: func(p *eddy.Pipeline) error {
		return errors.Join(p.Add("echo", echo), p.Conn().Write("taken")) // one that is taken all the same shows at once
	}}
	addr := start(t, srv)
	dial(t, addr)
	waitFor(t, "the first one", func() bool { return srv.Stats().Active == 1 })
	for range 5 {
		c := dial(t, addr)
		c.SetDeadline(time.Now().Add(testkit.Patience))
		_, err := c.Read(make([]byte, 1))
		if ne, ok := err.(net.Error); err == nil || ok && ne.Timeout() {
			t.Fatalf("the refused connection read %v, want its end", err)
		}
	}
	waitFor(t, "5 admission_rejected", func() bool { return srv.Stats().Closed[eddy.CloseAdmissionRejected] == 5 })
}
