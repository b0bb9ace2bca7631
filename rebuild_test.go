package eddy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/poll"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// loggedStage is a stage whose loop writes its log to a buffer.
func loggedStage(t *testing.T, g *Group, f func(*Context, string) error) (*stage, *loop, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	g.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	srv := cutServer(f)
	srv.Loops, srv.Group = 0, g
	st, l := newStage(t, srv)
	return st, l, log
}

// TestRebuildMigrates: an error of the poller leads to a new one, with every valid registration under its token and with
// its interest. A connection that it does not take ends with internal_error, a descriptor of the user is told, and a
// listener is offered again.
func TestRebuildMigrates(t *testing.T) {
	handled := 0
	st, l, log := loggedStage(t, &Group{}, func(ctx *Context, msg string) error { handled++; return ctx.Write(msg) })
	old := st.nextPoller
	st.listen(l, l)
	reading, writing, lost := st.connect(l), st.connect(l), st.connect(l)
	writing.room = 0
	writing.send("does not fit;")
	l.Iterate()
	var kept, gone descriptorLog
	keptReg, goneReg := st.register(l, 901, ReadyRead, &kept), st.register(l, 902, ReadyRead|ReadyWrite, &gone)
	if err := keptReg.Modify(ReadyWrite); err != nil {
		t.Fatal(err)
	}
	l.Iterate()
	before := map[int]stageReg{}
	for fd, r := range old.regs {
		before[fd] = *r
	}
	st.addErrs = map[int]error{lost.fd: errors.New("refused"), 902: errors.New("refused"), stageListener: errors.New("refused")}
	old.err = errors.New("the kernel is unwell")
	log.Reset()
	l.Iterate()
	fresh := st.nextPoller
	if fresh == old || old.closed != 1 || l.Poller != sys.Poller(fresh) {
		t.Fatalf("the poller was not replaced: old closed %d times", old.closed)
	}
	for fd, was := range before {
		now, ok := fresh.regs[fd]
		switch refused := st.addErrs[fd] != nil; {
		case refused == ok:
			t.Errorf("descriptor %d in the new poller: %v", fd, ok)
		case ok && *now != was:
			t.Errorf("descriptor %d was registered as %+v, now %+v", fd, was, *now)
		}
	}
	if e := lost.conn.CloseError(); e == nil || e.Reason != CloseInternalError || lost.closed != 1 {
		t.Errorf("the connection that was lost: %v, closed %d times", e, lost.closed)
	}
	var le *LoopError
	if len(gone.ended) != 1 || !errors.As(gone.ended[0], &le) || le.Op != "watch descriptor 902" || goneReg.Close() != ErrClosed {
		t.Errorf("the descriptor that was lost was told %v", gone.ended)
	}
	if len(kept.ended) != 0 || !strings.Contains(log.String(), "migrated 3") || strings.Count(log.String(), "migrated") != 1 {
		t.Errorf("kept: %v; logged %q", kept.ended, log.String())
	}
	reading.send("x;")
	writing.room = 100
	l.Iterate()
	if handled != 2 || string(reading.out) != "x" || string(writing.out) != "does not fit" {
		t.Errorf("after the rebuild: %d handled, wrote %q and %q", handled, reading.out, writing.out)
	}
	st.addErrs = nil
	st.now.Add(int64(time.Second))
	l.Iterate()
	st.pending = 1
	l.Iterate()
	if st.accepts == 0 {
		t.Error("the listener was not taken up again")
	}
}

// flaky is a real poller that fails when told to.
type flaky struct {
	sys.Poller
	fail *atomic.Bool
}

func (p flaky) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	n, err := p.Poller.Wait(events, timeout)
	if err == nil && p.fail.CompareAndSwap(true, false) {
		return 0, errors.New("flaky: told to fail")
	}
	return n, err
}

// TestRebuildWithLiveConnections: connections of a real server go on talking while the pollers of its loops are replaced
// under them, again and again.
func TestRebuildWithLiveConnections(t *testing.T) {
	for _, name := range append(poll.Available(), "net") {
		for _, mode := range []WaitMode{WaitParked, WaitPinned} {
			t.Run(fmt.Sprint(name, "/", mode), func(t *testing.T) {
				var fail atomic.Bool
				real := realKernel(name)
				k := &kernel{sockets: real.sockets, clock: real.clock, poller: func(n string, w WaitMode) (sys.Poller, error) {
					p, err := real.poller(n, w)
					return flaky{p, &fail}, err
				}}
				g := &Group{Loops: 1, Poller: name, WaitMode: mode, Logger: slog.New(slog.DiscardHandler), platform: k}
				defer g.Close()
				srv := &Server{Group: g, Topology: SingleReactor, Init: func(p *Pipeline) error {
					return p.Add("echo", Handle(func(ctx *Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
				}}
				if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
					t.Fatal(err)
				}
				defer srv.Close()
				var conns []net.Conn
				open := func() {
					c, err := net.Dial("tcp", srv.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { c.Close() })
					c.SetDeadline(time.Now().Add(testkit.Patience))
					conns = append(conns, c)
				}
				talk := func() {
					for i, c := range conns {
						fmt.Fprintf(c, "hello %d\n", i)
						if got, err := bufio.NewReader(c).ReadString('\n'); err != nil || got != fmt.Sprintf("hello %d\n", i) {
							t.Fatalf("connection %d: %q, %v", i, got, err)
						}
					}
				}
				for round := range 5 {
					open()
					open()
					talk()
					fail.Store(true)
					talk()
					if n := g.Stats()[0].Rebuilds; n < uint64(round+1) {
						t.Fatalf("%d rebuilds after %d failures", n, round+1)
					}
				}
				big := bytes.Repeat([]byte("x"), 1<<20)
				go conns[0].Write(big)
				fail.Store(true)
				if _, err := io.ReadFull(conns[0], make([]byte, len(big))); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestLossDuringARebuild: whoever is told that a descriptor is lost may register another one at once; it is in the new
// poller once, wherever its place is.
func TestLossDuringARebuild(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	old := st.nextPoller
	var first, last, next descriptorLog
	st.register(l, 901, ReadyRead, &first)
	gone := st.register(l, 902, ReadyRead, &last)
	if err := gone.Close(); err != nil { // its place is free, behind the first
		t.Fatal(err)
	}
	l.Iterate()
	first.onEnd = func() { st.register(l, 903, ReadyRead, &next) }
	st.addErrs = map[int]error{901: errors.New("refused")}
	old.err = errors.New("the kernel is unwell")
	st.noted()
	l.Iterate()
	if adds := st.noted("add 903"); len(adds) != 1 || len(first.ended) != 1 || len(next.ended) != 0 {
		t.Errorf("added %v; the first was told %v, the next %v", adds, first.ended, next.ended)
	}
}
