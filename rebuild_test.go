package eddy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// TestPrematureWakeups: waits that return early with nothing, nobody having woken the loop, are counted; more than 3 in a
// row are worth a debug line, and at the threshold the poller is replaced. Everything else begins the count anew.
func TestPrematureWakeups(t *testing.T) {
	st, l, log := loggedStage(t, &Group{RebuildAfter: 10}, func(*Context, string) error { return nil })
	first := st.nextPoller
	early := func(n int) {
		for range n {
			l.iterate()
		}
	}
	early(3)
	st.flood(l, 1, 0, new(int))
	l.iterate() // not a wait
	early(3)
	if n := l.counters[countPremature]; n != 6 {
		t.Errorf("%d premature wakeups, want 6", n)
	}
	l.premature = 0
	for what, ending := range map[string]func(){
		"an event":   func() { a := st.connect(l); a.send(";"); l.iterate() },
		"a wakeup":   func() { first.onWait = func() { st.flood(l, 1, 0, new(int)) }; l.iterate(); first.onWait = nil },
		"a deadline": func() { l.after(nil, time.Second, func() {}); st.perWait = time.Second; l.iterate(); st.perWait = 0 },
	} {
		early(4)
		log.Reset()
		ending()
		if l.premature > 0 {
			t.Errorf("%s leaves a count of %d", what, l.premature)
		}
		if got := log.String(); !strings.Contains(got, "level=DEBUG") || !strings.Contains(got, "returned early") {
			t.Errorf("%s after 4 early returns logged %q", what, got)
		}
		l.iterate()
		l.premature = 0
		log.Reset()
		early(3)
		ending()
		if strings.Contains(log.String(), "returned early") {
			t.Errorf("3 early returns logged %q", log.String())
		}
		l.premature = 0
	}
	if st.nextPoller != first {
		t.Fatal("the poller was replaced too early")
	}
	log.Reset()
	early(10)
	if st.nextPoller == first || first.closed != 1 || l.counters[countRebuilds] != 1 || l.premature != 0 {
		t.Errorf("after 10 early returns: %d rebuilds, old poller closed %d times", l.counters[countRebuilds], first.closed)
	}
	if got := log.String(); strings.Count(got, "migrated") != 1 {
		t.Errorf("the rebuild logged %q", got)
	}
}

// TestRebuildCanBeOff: values below 3 switch the rebuild for early returns off.
func TestRebuildCanBeOff(t *testing.T) {
	for _, after := range []int{-1, 1, 2} {
		_, l, _ := loggedStage(t, &Group{RebuildAfter: after}, func(*Context, string) error { return nil })
		for range 2 * DefaultRebuildAfter {
			l.iterate()
		}
		if n := l.counters[countRebuilds]; n != 0 {
			t.Errorf("RebuildAfter %d: %d rebuilds", after, n)
		}
	}
	_, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	for range DefaultRebuildAfter {
		l.iterate()
	}
	if n := l.counters[countRebuilds]; n != 1 {
		t.Errorf("the default threshold led to %d rebuilds", n)
	}
}

// TestRebuildMigrates: an error of the poller leads to a new one, with every valid registration under its token and with
// its interest. A connection that it does not take ends with internal_error, a descriptor of the user is told, and a
// listener is offered again.
func TestRebuildMigrates(t *testing.T) {
	handled := 0
	st, l, log := loggedStage(t, &Group{}, func(ctx *Context, msg string) error { handled++; return ctx.Write(msg) })
	old := st.nextPoller
	a := st.listen(l, l)
	reading, writing, lost := st.connect(l), st.connect(l), st.connect(l)
	writing.room = 0
	writing.send("does not fit;")
	l.iterate()
	var kept, gone descriptorLog
	keptReg, goneReg := st.register(l, 901, InterestRead, &kept), st.register(l, 902, InterestRead|InterestWrite, &gone)
	if err := keptReg.Modify(InterestWrite); err != nil {
		t.Fatal(err)
	}
	l.iterate()
	before := map[int]stageReg{}
	for fd, r := range old.regs {
		before[fd] = *r
	}
	st.addErrs = map[int]error{lost.fd: errors.New("refused"), 902: errors.New("refused"), stageListener: errors.New("refused")}
	old.err = errors.New("the kernel is unwell")
	log.Reset()
	l.iterate()
	fresh := st.nextPoller
	if fresh == old || old.closed != 1 || l.poller != sys.Poller(fresh) {
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
	var re *RegisterError
	if len(gone.ended) != 1 || !errors.As(gone.ended[0], &re) || re.FD != 902 || goneReg.Close() != ErrClosed {
		t.Errorf("the descriptor that was lost was told %v", gone.ended)
	}
	if len(kept.ended) != 0 || !strings.Contains(log.String(), "migrated 3") || strings.Count(log.String(), "migrated") != 1 {
		t.Errorf("kept: %v; logged %q", kept.ended, log.String())
	}
	reading.send("x;")
	writing.room = 100
	l.iterate()
	if handled != 2 || string(reading.out) != "x" || string(writing.out) != "does not fit" {
		t.Errorf("after the rebuild: %d handled, wrote %q and %q", handled, reading.out, writing.out)
	}
	st.addErrs = nil
	st.now.Add(int64(readopt))
	l.iterate()
	st.pending = 1
	l.iterate()
	if st.accepts == 0 || a.closed {
		t.Error("the listener was not taken up again")
	}
}

// TestLoopOutlivesItsPoller: while the poller fails and no new one helps, the loop pauses, longer each time up to a
// second, serves tasks and timers, and gets no new connections; when it works again everything is as before.
func TestLoopOutlivesItsPoller(t *testing.T) {
	for _, c := range []struct {
		name   string
		break_ func(*stage)
		repair func(*stage)
	}{
		{"every poller fails", func(st *stage) { st.waitErr = errors.New("unwell") }, func(st *stage) { st.waitErr = nil }},
		{"no poller can be opened", func(st *stage) {
			st.openErr = errors.New("no descriptors")
			st.nextPoller.err = errors.New("unwell")
		}, func(st *stage) { st.openErr, st.nextPoller.err = nil, nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			handled := 0
			st, l, log := loggedStage(t, &Group{}, func(*Context, string) error { handled++; return nil })
			a := st.connect(l)
			first := st.nextPoller
			c.break_(st)
			ran := 0
			tick, err := l.newTimer("Every", 100*time.Millisecond, func() { ran++ })
			if err != nil {
				t.Fatal(err)
			}
			tick.period = 100 * time.Millisecond
			l.addTimer(tick)
			begin := st.now.Load()
			for st.now.Load()-begin < int64(10*time.Second) {
				l.iterate()
			}
			if ran < 95 || ran > 100 {
				t.Errorf("a timer of 100 ms ran %d times in 10 s", ran)
			}
			if n := l.counters[countPollErrors]; n < 15 || n > 25 {
				t.Errorf("the poller was tried %d times in 10 s", n)
			}
			if m := slices.Max(st.pauses); m > 100*time.Millisecond || st.pauses[0] > 2*time.Millisecond {
				t.Errorf("paused %v", st.pauses)
			}
			st.flood(l, 5, 0, &handled)
			l.iterate()
			if handled != 5 {
				t.Errorf("%d of 5 tasks ran beside the broken poller", handled)
			}
			if l.healthy() || l.snapshot().Healthy || l.take(&Conn{set: st.set}, nil) {
				t.Error("a loop without a poller takes connections")
			}
			if a.closed != 0 || !strings.Contains(log.String(), "poller failed") {
				t.Errorf("closed %d times, logged %q", a.closed, log.String())
			}
			c.repair(st)
			st.now.Add(int64(time.Second))
			l.iterate()
			a.send("x;")
			l.iterate()
			if handled != 6 || !l.healthy() || l.failures != 0 {
				t.Errorf("after the repair: %d handled, healthy %v", handled, l.healthy())
			}
			if first.closed > 1 {
				t.Errorf("the first poller was closed %d times", first.closed)
			}
		})
	}
}

// TestPauseIsLong: the pauses of a loop with nothing else to do double from 1 ms to 1 s.
func TestPauseIsLong(t *testing.T) {
	st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
	st.waitErr = errors.New("unwell")
	for range 40 {
		l.iterate()
	}
	want := []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if got := st.pauses[:min(len(st.pauses), len(want))]; !slices.Equal(got, want) {
		t.Errorf("paused %v, want %v", got, want)
	}
}

// TestRestIsEndedByTasks: a loop that rests is woken by a task, at once.
func TestRestIsEndedByTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, l, _ := loggedStage(t, &Group{}, func(*Context, string) error { return nil })
		l.kernel.pause = nil // the time of Go
		st.waitErr = errors.New("unwell")
		st.nextPoller.onWait = nil
		l.failures = 20 // so the next pause is a second
		l.iterate()
		ran, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			l.iterate()
		}()
		synctest.Wait()
		if !l.resting.Load() {
			t.Fatal("the loop does not rest")
		}
		begin := time.Now()
		if err := l.tasks.push(task{kind: taskFunc, msg: func() { close(ran) }}, false); err != nil {
			t.Fatal(err)
		}
		<-ran
		if d := time.Since(begin); d > 0 {
			t.Errorf("a task waits %v for the end of the rest", d)
		}
		<-ended
	})
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
	st.register(l, 901, InterestRead, &first)
	gone := st.register(l, 902, InterestRead, &last)
	if err := gone.Close(); err != nil { // its place is free, behind the first
		t.Fatal(err)
	}
	l.iterate()
	first.onEnd = func() { st.register(l, 903, InterestRead, &next) }
	st.addErrs = map[int]error{901: errors.New("refused")}
	old.err = errors.New("the kernel is unwell")
	st.noted()
	l.iterate()
	if adds := st.noted("add 903"); len(adds) != 1 || len(first.ended) != 1 || len(next.ended) != 0 {
		t.Errorf("added %v; the first was told %v, the next %v", adds, first.ended, next.ended)
	}
}
