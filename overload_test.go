package eddy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
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

// bystanders are clients that are served all the time, whatever happens around them.
type bystanders struct {
	t      *testing.T
	stop   chan struct{}
	wg     sync.WaitGroup
	rounds atomic.Int64
}

// standBy connects n clients that ask a line after the other.
func standBy(t *testing.T, addr string, n int) *bystanders {
	b := &bystanders{t: t, stop: make(chan struct{})}
	for i := range n {
		c := dial(t, addr)
		b.wg.Go(func() { b.talk(c, i) })
	}
	waitFor(t, "the first answers", func() bool { return b.rounds.Load() >= int64(n) })
	return b
}

func (b *bystanders) talk(c net.Conn, i int) {
	r := bufio.NewReader(c)
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for k := 0; ; k++ {
		want := fmt.Sprintf("bystander %d, line %d\n", i, k)
		c.SetDeadline(time.Now().Add(testkit.Patience))
		io.WriteString(c, want)
		got, err := r.ReadString('\n')
		if got != want || err != nil {
			b.t.Errorf("bystander %d read %q, %v, want %q", i, got, err, want)
			return
		}
		b.rounds.Add(1)
		select {
		case <-b.stop:
			return
		case <-pace.C:
		}
	}
}

// undisturbed ends them when they have been served that often; each answer has its deadline.
func (b *bystanders) undisturbed(rounds int64) {
	b.t.Helper()
	waitFor(b.t, "the bystanders' answers", func() bool { return b.rounds.Load() >= rounds || b.t.Failed() })
	close(b.stop)
	b.wg.Wait()
}

// TestAcceptStorm: 2000 connections, as fast as they can be made, meet a limit of 100. Each gets the configured answer
// and an orderly end, memory stays flat, those within the limit are served undisturbed, and after the storm there is
// room again for exactly as many as before.
func TestAcceptStorm(t *testing.T) {
	const limit, storm, callers = 100, 2000, 16
	srv := lineServer(new(closes))
	srv.MaxConns = limit
	srv.Admission = eddy.Admission{OnLimit: eddy.DecisionBusy, RetryAfter: 2 * time.Second, Busy: func(r eddy.Refusal) []byte {
		return fmt.Appendf(nil, "busy, %v: come back in %v\n", r.Cause, r.RetryAfter)
	}}
	addr := start(t, srv)
	calm := standBy(t, addr, 10)
	for range limit - 10 {
		dial(t, addr)
	}
	waitFor(t, "a full house", func() bool { return srv.Stats().Active == limit })
	before := heldMiB()
	var wg sync.WaitGroup
	var answered atomic.Int64
	for range callers {
		wg.Go(func() {
			for range storm / callers {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(testkit.Patience))
				got, err := io.ReadAll(c)
				if err != nil || string(got) != "busy, max_conns: come back in 2s\n" {
					t.Errorf("a refused connection read %q, %v", got, err)
				}
				answered.Add(1)
				c.Close()
			}
		})
	}
	wg.Wait()
	if grown := heldMiB() - before; grown > 8 {
		t.Errorf("memory grew by %.1f MiB", grown)
	}
	st := srv.Stats()
	if answered.Load() != storm || st.Refused[eddy.RefuseMaxConns] != storm || st.Active != limit || st.Loops[0].Opened != limit {
		t.Errorf("%d answered, refused %v, %d active, %d opened", answered.Load(), st.Refused, st.Active, st.Loops[0].Opened)
	}
	calm.undisturbed(50)
}

// TestRefusalIsNotOvertakenByAReset: a refused peer that sends its request at once, which nobody reads, still gets the
// whole answer.
func TestRefusalIsNotOvertakenByAReset(t *testing.T) {
	srv := lineServer(new(closes))
	srv.MaxConns = 1
	srv.LingerTimeout = 5 * time.Minute // a client that is slow to write and to read has its time
	answer := strings.Repeat("busy ", 200)
	srv.Admission = eddy.Admission{OnLimit: eddy.DecisionBusy, Busy: func(eddy.Refusal) []byte { return []byte(answer) }}
	addr := start(t, srv)
	dial(t, addr)
	waitFor(t, "the one", func() bool { return srv.Stats().Active == 1 })
	for i := range 100 {
		c := dial(t, addr)
		for range 3 {
			if _, err := io.WriteString(c, strings.Repeat("request ", 100)); err != nil {
				t.Fatalf("refusal %d: %v", i, err)
			}
		}
		got, err := io.ReadAll(c)
		if err != nil || string(got) != answer {
			t.Fatalf("refusal %d: read %d bytes, %v, want %d", i, len(got), err, len(answer))
		}
		c.Close()
	}
}

// TestPausedListener: with DecisionPause those beyond the limit are neither refused nor served until there is room.
func TestPausedListener(t *testing.T) {
	srv := lineServer(new(closes))
	srv.MaxConns = 3
	srv.Admission.OnLimit = eddy.DecisionPause
	addr := start(t, srv)
	var all []net.Conn
	for range 12 {
		c := dial(t, addr)
		io.WriteString(c, "in\n")
		all = append(all, c)
	}
	for i, c := range all { // the kernel's queue is served in order
		expectLines(t, bufio.NewReader(c), "in")
		if st := srv.Stats(); st.Active > 3 {
			t.Errorf("%d active when the one was served that came as number %d", st.Active, i)
		}
		c.Close()
	}
	waitFor(t, "the end of all", func() bool { return srv.Stats().Active == 0 })
	st := srv.Stats()
	if st.AdmissionRejected != 0 || st.AcceptPauses == 0 || st.Boss.Iterations > 2000 {
		t.Errorf("%d refused, %d pauses, %d iterations of the boss", st.AdmissionRejected, st.AcceptPauses, st.Boss.Iterations)
	}
}

// TestSlowloris: a thousand connections that drip the bytes of a header lose them to the read deadline; the others are
// served all the time.
func TestSlowloris(t *testing.T) {
	const drips = 1000
	fitsSelect(t, 2*drips)
	srv := lineServer(new(closes))
	srv.Loops = 2
	srv.ReadTimeout = time.Second
	clock := enginetest.NewClock(t, srv)
	addr := start(t, srv)
	calm := standBy(t, addr, 5)
	var slow []net.Conn
	for range drips {
		slow = append(slow, dial(t, addr))
	}
	before := heldMiB()
	steps := 0
	waitFor(t, "the read deadlines", func() bool {
		for _, c := range slow {
			_, _ = c.Write([]byte{'x'}) // fails once the connection is gone
		}
		clock.Advance(200 * time.Millisecond)
		steps++
		closed := srv.Stats().Closed[eddy.CloseReadTimeout]
		if steps < 5 && closed > 0 {
			t.Errorf("%d were closed after %v already", closed, time.Duration(steps)*200*time.Millisecond)
		}
		return closed == drips
	})
	waitFor(t, "the last one to be gone, and the 5 to be left", func() bool { return srv.Stats().Active == 5 }) // it is counted as closed first
	if grown := heldMiB() - before; grown > 8 {
		t.Errorf("memory grew by %.1f MiB", grown)
	}
	calm.undisturbed(100)
}

// TestZeroWindowPeers: peers that keep sending and read nothing end up with a closed window. The server holds what the
// watermarks allow, sleeps, and serves the others.
func TestZeroWindowPeers(t *testing.T) {
	peers := 1000
	if testing.Short() {
		peers = 200
	}
	fitsSelect(t, 2*peers)
	marks := eddy.Watermarks{Low: 1 << 10, High: 4 << 10, Max: 64 << 10}
	srv := &eddy.Server{Loops: 2, Watermarks: marks, RecvBuffer: 4 << 10, SendBuffer: 4 << 10, Init: initWith(echo)}
	addr := start(t, srv)
	var wg sync.WaitGroup
	var over atomic.Bool
	chunk := make([]byte, 2<<10)
	for range peers {
		c := dial(t, addr).(*net.TCPConn)
		c.SetReadBuffer(4 << 10)
		c.SetWriteBuffer(4 << 10)
		wg.Go(func() {
			for !over.Load() { // who is stuck for its time goes on trying: the server may only be slow
				c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
				if _, err := c.Write(chunk); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
					return
				}
			}
		})
	}
	var before float64
	waitFor(t, "every peer to be stuck, and half a second in which nothing happens", func() bool {
		first := srv.Stats()
		if first.Memory.Outbound < int64(peers)*int64(marks.Low) {
			return false
		}
		before = heldMiB()
		<-time.After(500 * time.Millisecond)
		for i, l := range srv.Stats().Loops {
			if l.Iterations-first.Loops[i].Iterations > 20 || l.BytesIn != first.Loops[i].BytesIn {
				return false
			}
		}
		return true
	})
	if grown := heldMiB() - before; grown > 2 {
		t.Errorf("memory grew by %.1f MiB", grown)
	}
	over.Store(true)
	wg.Wait()
	if st := srv.Stats(); st.Active != int64(peers) || st.Memory.Outbound < int64(peers)*int64(marks.Low) || st.Memory.Outbound > int64(peers)*int64(marks.Max) {
		t.Errorf("%d connections hold %d bytes", st.Active, st.Memory.Outbound)
	}
	other := dial(t, addr)
	io.WriteString(other, "alive")
	if _, err := io.ReadFull(other, make([]byte, 5)); err != nil {
		t.Error(err)
	}
}

// TestResetDuringAWrite: a peer that resets the connection in the middle of a long answer ends it with io_error; what was
// queued is given back and nobody else notices.
func TestResetDuringAWrite(t *testing.T) {
	log, ends := newLog(), new(closes)
	srv := &eddy.Server{Loops: 1, Logger: log.logger(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if string(m.Bytes()) == "much" {
				return ctx.Write(bytes.Repeat([]byte("x"), 8<<20))
			}
			return reply(ctx, m)
		}))
		return p.Add("ends", ends)
	}}
	enginetest.NewClock(t, srv) // stands still: all resets are in one interval of the log
	addr := start(t, srv)
	calm := standBy(t, addr, 3)
	const resets = 20
	for i := range resets {
		c := dial(t, addr).(*net.TCPConn)
		io.WriteString(c, "much\n")
		if _, err := io.ReadFull(c, make([]byte, 100<<10)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			waitFor(t, "the rest to be queued", func() bool { return srv.Stats().Memory.Outbound > 1<<20 })
		}
		c.SetLinger(0)
		c.Close()
	}
	waitFor(t, "the ends", func() bool { return srv.Stats().Closed[eddy.CloseIOError] == resets })
	waitFor(t, "what was queued to be given back", func() bool { st := srv.Stats(); return st.Memory.Outbound < 1<<10 && st.Loops[0].WriteInterest == 0 })
	if n := strings.Count(log.String(), "eddy: connection reset"); n != 5 {
		t.Errorf("%d lines for %d resets in an interval, want 5", n, resets)
	}
	calm.undisturbed(10)
}

// TestMemoryBudgetHolds: far more slow readers than the budget allows for, fed by their own requests and by a goroutine
// that pays no attention, never hold more than a quarter above it; a client that reads is served in between.
// The budget is the server's, or the default: a quarter of what Go may use.
func TestMemoryBudgetHolds(t *testing.T) {
	const budget = 4 << 20
	t.Run("set", func(t *testing.T) {
		holdsBudget(t, budget, func(srv *eddy.Server) string {
			srv.MemoryBudget = budget
			return start(t, srv)
		})
	})
	t.Run("default", func(t *testing.T) {
		holdsBudget(t, budget, func(srv *eddy.Server) string { return startBounded(t, srv, 4*budget) })
	})
}

// startBounded is start for a server with the default MemoryBudget, in a process that may use so many bytes.
func startBounded(t *testing.T, srv *eddy.Server, bytes int64) string {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(bytes))
	enginetest.Relax(srv)
	srv.MemoryBudget = 0
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv.Addr().String()
}

func holdsBudget(t *testing.T, budget int, listen func(*eddy.Server) string) {
	const peers, answer = 100, 512 << 10
	conns := make(chan *eddy.Conn, peers+1)
	srv := &eddy.Server{Loops: 2, Logger: quiet(), SendBuffer: 16 << 10, Init: func(p *eddy.Pipeline) error {
		select {
		case conns <- p.Conn():
		default: // one of those that try again
		}
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if string(m.Bytes()) == "much" {
				return ctx.Write(make([]byte, answer))
			}
			return reply(ctx, m)
		}))
	}}
	addr := listen(srv)
	for range peers {
		c := dial(t, addr).(*net.TCPConn)
		c.SetReadBuffer(16 << 10)
		io.WriteString(c, "much\nmuch\n")
	}
	waitFor(t, "all connections", func() bool { return srv.Stats().Accepted >= peers })
	var most int64
	refused := errors.New("nothing yet")
	waitFor(t, "the slowest to be closed until there is room", func() bool {
		for range len(conns) {
			c := <-conns
			if err := c.Write(make([]byte, 64<<10)); errors.Is(err, eddy.ErrBackpressure) {
				refused = err
			}
			conns <- c
		}
		m := srv.Stats().Memory
		if m.Budget != int64(budget) {
			t.Fatalf("budget %d, want %d", m.Budget, budget)
		}
		if again := srv.Stats().Memory; m == again { // else the sum is of loops at different moments
			most = max(most, m.Outbound+m.Inbound)
		}
		return most > 0 && m.Closed > 3 && m.Pressures > 0
	})
	if bound := int64(budget + budget/4 + 2*(answer+budget/64)); most > bound { // docs/overload.md
		t.Errorf("%d bytes held, budget %d", most, budget)
	}
	if errors.Is(refused, eddy.ErrBackpressure) != (srv.Stats().Memory.Refused > 0) {
		t.Errorf("%d writes refused, the writer was told %v", srv.Stats().Memory.Refused, refused)
	}
	waitFor(t, "a new client to be served", func() bool { // refused while the pressure lasts
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(testkit.Patience))
		io.WriteString(c, "hello\n")
		got, _ := bufio.NewReader(c).ReadString('\n')
		return got == "hello\n"
	})
	t.Logf("at most %d KiB held of %d, %+v", most>>10, budget>>10, srv.Stats().Memory)
}

// TestDegradedAnswers: when the pool that makes full answers has no room, a handler answers with less instead of refusing,
// and with everything again afterwards.
func TestDegradedAnswers(t *testing.T) {
	pool := newPool(t, 1, 1)
	gate := make(chan struct{})
	full := strings.Repeat("full ", 100) + "\n"
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if string(m.Bytes()) == "wait" {
				<-gate
			}
			return ctx.Write(full)
		}), eddy.On(pool), eddy.RejectReply(func(any) any { return "short\n" }))
	}}
	addr := start(t, srv)
	ask := func(c net.Conn, what string) { io.WriteString(c, what+"\n") }
	expect := func(c net.Conn, want string) {
		t.Helper()
		if got, err := bufio.NewReader(c).ReadString('\n'); got != want || err != nil {
			t.Errorf("read %.20q, %v, want %.20q", got, err, want)
		}
	}
	first, second, third := dial(t, addr), dial(t, addr), dial(t, addr)
	ask(first, "wait")
	waitFor(t, "a busy worker", func() bool { st := pool.Stats(); return st.Running == 1 && st.Queued == 0 })
	ask(second, "wait")
	waitFor(t, "a full queue", func() bool { return pool.Stats().Queued == 1 })
	for range 5 {
		ask(third, "now")
		expect(third, "short\n")
	}
	close(gate)
	expect(first, full)
	expect(second, full)
	waitFor(t, "an idle pool", func() bool { return pool.Stats().Running == 0 && pool.Stats().Queued == 0 })
	ask(third, "now")
	expect(third, full)
	if n := srv.Stats().Active; n != 3 {
		t.Errorf("%d connections are open, want all three", n)
	}
}
