package eddy

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestPhaseTable(t *testing.T) {
	allowed := map[Phase][]Phase{
		PhaseReadingHeader:      {PhaseReadingBody, PhaseDispatching, PhaseWriting, PhaseClosing},
		PhaseReadingBody:        {PhaseReadingHeader, PhaseDispatching, PhaseWriting, PhaseClosing},
		PhaseDispatching:        {PhaseReadingHeader, PhaseWaitingForResponse, PhaseWriting, PhaseClosing},
		PhaseWaitingForResponse: {PhaseReadingHeader, PhaseWriting, PhaseClosing},
		PhaseWriting:            {PhaseReadingHeader, PhaseReadingBody, PhaseWaitingForResponse, PhaseClosing},
		PhaseClosing:            {PhaseClosed},
	}
	for from := range phases {
		for to := range phases {
			want := from == to
			for _, p := range allowed[from] {
				want = want || p == to
			}
			if got := canMove(from, to); got != want {
				t.Errorf("canMove(%v, %v) = %v, want %v", from, to, got, want)
			}
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{"unset": true, "unknown": true}
	for _, r := range CloseReasons() {
		if s := r.String(); s == "" || seen[s] {
			t.Errorf("close reason %d is called %q", r, s)
		} else {
			seen[s] = true
		}
	}
	if n := len(CloseReasons()); closeReasons != 18 || n < 17 {
		t.Errorf("%d close reasons, %d of the engine with the unset one, want 18", n, closeReasons)
	}
	for p := range phases {
		if s := p.String(); s == "" || seen[s] {
			t.Errorf("phase %d is called %q", p, s)
		} else {
			seen[s] = true
		}
	}
}

// TestImpossibleTransitionClosesTheConnection: the invariant violation is counted and ends only its connection.
func TestImpossibleTransitionClosesTheConnection(t *testing.T) {
	srv := &Server{Loops: 1, Logger: slog.New(slog.DiscardHandler), Init: func(p *Pipeline) error {
		return p.Add("bug", Handle(func(ctx *Context, m *buf.Bytes) error {
			if string(m.Bytes()) == "bug" {
				ctx.conn.setPhase(PhaseClosed)
			}
			return ctx.WriteBytes(m.Bytes())
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	for _, word := range []string{"fine", "bug", "fine"} {
		c, err := net.Dial("tcp", srv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, word)
		c.SetDeadline(time.Now().Add(testkit.Patience))
		n, _ := io.ReadFull(c, make([]byte, len(word)))
		if served := n == len(word); served != (word == "fine") {
			t.Errorf("%q served: %v", word, served)
		}
		c.Close()
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	st := srv.Stats()
	if st.Loops[0].PhaseViolations != 1 || st.Closed[CloseInternalError] != 1 {
		t.Errorf("%d violations, %d internal errors, want 1 and 1", st.Loops[0].PhaseViolations, st.Closed[CloseInternalError])
	}
}

// TestTaskBudget: one iteration runs at most defaultTaskBudget tasks and the rest keeps the loop from waiting.
func TestTaskBudget(t *testing.T) {
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error { return p.Add("none", Handle(func(*Context, any) error { return nil })) }}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	l := srv.running().workers[0]
	gate, ran := make(chan struct{}), 0
	push := func(f func()) {
		if err := l.Tasks.Push(task{kind: taskFunc, msg: f}); err != nil {
			t.Error(err)
		}
	}
	push(func() { <-gate })
	const n = 5000
	done := make(chan struct{})
	perIteration := map[uint64]int{}
	for range n {
		push(func() {
			perIteration[l.Counters[meter.Iterations]]++
			if ran++; ran == n {
				close(done)
			}
		})
	}
	close(gate)
	<-done
	for it, k := range perIteration {
		if k > defaultTaskBudget {
			t.Errorf("iteration %d ran %d tasks, budget %d", it, k, defaultTaskBudget)
		}
	}
}

// TestEchoAllocatesNothing: the path read, handler, WriteBytes, flush allocates nothing per message.
func TestEchoAllocatesNothing(t *testing.T) {
	if raceDetector && os.Getenv("EDDY_POLLER") == "net" {
		t.Skip("the race detector makes sync.Pool, from which net takes its buffers, forget some")
	}
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		return p.Add("echo", Handle(func(ctx *Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	msg := make([]byte, 64)
	echo := func(n int) {
		for range n {
			c.Write(msg)
			if _, err := io.ReadFull(c, msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	echo(1000)
	var per float64
	for range 5 { // others allocate now and then, the watchdog for one where a busy machine stalls the loop
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const n = 20_000
		echo(n)
		runtime.ReadMemStats(&after)
		if per = float64(after.Mallocs-before.Mallocs) / n; per <= 0.01 {
			return
		}
	}
	t.Errorf("%.3f allocations per echo", per)
}

func TestBlockingCallOnTheLoopIsRefused(t *testing.T) {
	result := make(chan error, 1)
	srv := &Server{Loops: 1, Watermarks: Watermarks{Low: 1, High: 2, Max: 1 << 20}, Init: func(p *Pipeline) error {
		return p.Add("blocker", Handle(func(ctx *Context, m *buf.Bytes) error {
			if err := ctx.WriteBytes(make([]byte, 1<<10)); err != nil {
				return err
			}
			result <- ctx.conn.WriteContext(t.Context(), []byte("x"))
			return nil
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "go")
	if err := <-result; !errors.Is(err, ErrOnLoop) {
		t.Errorf("WriteContext on the loop = %v", err)
	}
}

// TestTimers: the timers of a connection run when they are due, in order; one that was stopped does not, and none does
// after the connection's end.
func TestTimers(t *testing.T) {
	var ran []string
	var st *stage
	srv := &Server{Loops: 1, Logger: slog.New(slog.DiscardHandler), Init: func(p *Pipeline) error {
		return p.Add("timers", openFunc(func(ctx *Context) error {
			begin := st.now.Load()
			at := func(name string, d time.Duration) *Timer {
				tm, err := ctx.After(d, func() { ran = append(ran, fmt.Sprint(name, " at ", time.Duration(st.now.Load()-begin))) })
				if err != nil {
					t.Error(err)
				}
				return tm
			}
			at("second", 60*time.Millisecond)
			at("first", 20*time.Millisecond)
			stopped := at("stopped", 40*time.Millisecond)
			if !stopped.Stop() || stopped.Stop() {
				t.Error("Stop must report true once")
			}
			at("after the close", 200*time.Millisecond)
			if _, err := ctx.After(-1, func() {}); err == nil {
				t.Error("a negative delay was accepted")
			}
			return nil
		}))
	}}
	var l *loop
	st, l = newStage(t, srv)
	a := st.connect(l)
	st.pass(l, 190*time.Millisecond, time.Millisecond)
	a.conn.Close(CloseNormal)
	st.pass(l, time.Second, time.Millisecond)
	if want := []string{"first at 20ms", "second at 60ms"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
}

// openFunc is an OpenHandler made of a function.
type openFunc func(ctx *Context) error

func (f openFunc) HandleOpen(ctx *Context) error { return f(ctx) }

func TestPinnedMode(t *testing.T) {
	srv := &Server{Loops: 2, WaitMode: WaitPinned, Init: func(p *Pipeline) error {
		return p.Add("echo", Handle(func(ctx *Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	for i := range 4 {
		c, err := net.Dial("tcp", srv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint("pinned ", i)
		io.WriteString(c, want)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Errorf("read %q, %v", got, err)
		}
		c.Close()
	}
}
