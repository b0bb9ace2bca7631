package eddy

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// flood queues n tasks that take the given time each and count themselves.
func (st *stage) flood(l *loop, n int, each time.Duration, ran *int) {
	st.t.Helper()
	for range n {
		f := func() { *ran++; st.now.Add(int64(each)) }
		if err := l.tasks.push(task{kind: taskFunc, msg: f}, false); err != nil {
			st.t.Fatal(err)
		}
	}
}

// TestIORatio: while I/O is ready, tasks run for the time of the last I/O phase × (100 − r) / r, by a clock that is read
// after every 64th task, and never more than the task budget; at 100 all that were queued run.
func TestIORatio(t *testing.T) {
	const io, each = 12800 * time.Microsecond, 100 * time.Microsecond
	for _, c := range []struct{ ratio, budget, want int }{
		{ratio: 0, want: 128},  // the default of 50: as long as the I/O
		{ratio: 50, want: 128}, // 12.8 ms
		{ratio: 20, want: 512}, // 51.2 ms
		{ratio: 80, want: 64},  // 3.2 ms, but the clock is read every 6.4
		{ratio: 99, want: 64},
		{ratio: 1, want: DefaultTaskBudget},
		{ratio: 1, budget: 200, want: 200},
		{ratio: 100, want: 3000},
	} {
		t.Run(fmt.Sprintf("ratio=%d,budget=%d", c.ratio, c.budget), func(t *testing.T) {
			var st *stage
			srv := cutServer(func(*Context, string) error { st.now.Add(int64(io)); return nil })
			srv.Loops, srv.Group = 0, &Group{IORatio: c.ratio, TaskBudget: c.budget}
			st, l := newStage(t, srv)
			a := st.connect(l)
			a.send("x;")
			l.iterate() // I/O without tasks: its time is known
			l.iterate()
			ran := 0
			st.flood(l, 3000, each, &ran)
			a.send("x;")
			l.iterate()
			if ran != c.want {
				t.Errorf("%d tasks ran beside ready I/O, want %d", ran, c.want)
			}
		})
	}
}

// TestTasksBesideSlowTasks: the time of the tasks themselves does not count as I/O, which would let them grow into
// their own budget.
func TestTasksBesideSlowTasks(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	st, l := newStage(t, srv)
	a := st.connect(l)
	ran := 0
	st.flood(l, 20*taskClockEvery, time.Millisecond, &ran)
	for i := range 8 {
		a.send("x;")
		l.iterate() // I/O that takes no time
		if want := (i + 1) * taskClockEvery; ran != want {
			t.Fatalf("iteration %d: %d tasks in all, want %d", i, ran, want)
		}
	}
}

// TestFewSlowTasks: where the clock was not read between tasks and I/O, what they took together is taken for neither.
func TestFewSlowTasks(t *testing.T) {
	st, l := newStage(t, cutServer(func(*Context, string) error { return nil }))
	a := st.connect(l)
	ran := 0
	st.flood(l, taskClockEvery-1, time.Second, &ran)
	a.send("x;")
	l.iterate()
	l.iterate()
	st.flood(l, 1000, time.Millisecond, &ran)
	a.send("x;")
	ran = 0
	if l.iterate(); ran != taskClockEvery {
		t.Errorf("%d tasks ran beside I/O that takes no time, want %d", ran, taskClockEvery)
	}
}

// TestMinimumBatch: an iteration in which no I/O was ready runs 64 tasks and looks for I/O again.
func TestMinimumBatch(t *testing.T) {
	for _, c := range []struct{ min, want int }{{0, DefaultMinTasks}, {10, 10}} {
		srv := cutServer(func(*Context, string) error { return nil })
		srv.Loops, srv.Group = 0, &Group{MinTasks: c.min}
		st, l := newStage(t, srv)
		ran := 0
		st.flood(l, 1000, 0, &ran)
		for i := range 3 {
			l.iterate()
			if ran != (i+1)*c.want {
				t.Errorf("MinTasks %d: %d tasks after %d iterations, want %d each", c.min, ran, i+1, c.want)
			}
		}
		if d := st.nextPoller.timeouts; slices.ContainsFunc(d, func(d time.Duration) bool { return d != 0 }) {
			t.Errorf("the loop slept over tasks: %v", d)
		}
	}
}

// TestAllTasksAfterFailedIO: at ratio 100 the tasks that follow I/O run although the engine panicked in the middle of
// it, and the loop goes on.
func TestAllTasksAfterFailedIO(t *testing.T) {
	var log strings.Builder
	srv := cutServer(func(*Context, string) error { return nil })
	srv.Loops, srv.Group = 0, &Group{IORatio: 100, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	st, l := newStage(t, srv)
	ran := 0
	if _, err := l.addSpecial(stageListener, sys.Read, func(sys.Ready) {
		st.flood(l, 3000, time.Millisecond, &ran)
		st.pending = 0
		panic("the engine is at fault")
	}); err != nil {
		t.Fatal(err)
	}
	st.pending = 1
	if !l.iterate() || ran != 0 {
		t.Fatalf("%d tasks ran before the I/O they follow", ran)
	}
	if !l.iterate() || ran != 3000 {
		t.Errorf("%d tasks ran after the failed I/O, want 3000", ran)
	}
	if !strings.Contains(log.String(), "the engine is at fault") || l.counters[countFaults] != 1 {
		t.Errorf("%d faults counted, logged %q", l.counters[countFaults], log.String())
	}
}

// TestTail: tail callbacks run once, after everything else of the iteration; what they add waits for the next one.
func TestTail(t *testing.T) {
	var st *stage
	srv := cutServer(func(ctx *Context, msg string) error { st.note("handle"); return ctx.WriteBytes([]byte(msg)) })
	srv.Loops, srv.Group = 0, &Group{TaskQueue: 3, Logger: slog.New(slog.DiscardHandler)}
	st, l := newStage(t, srv)
	h, a, b := &l.handle, st.connect(l), st.connect(l)
	tail := func(name string, then func()) {
		t.Helper()
		if err := h.Tail(func() { st.note("tail %s", name); then() }); err != nil {
			t.Fatal(err)
		}
	}
	tail("1", func() { tail("3", func() {}) })
	tail("2", func() { panic("contained") })
	a.send("x;")
	b.eof = true
	st.trace = nil
	l.iterate()
	want := []string{"handle", fmt.Sprint("write ", a.fd), fmt.Sprint("close ", b.fd), "tail 1", "tail 2"}
	if got := st.noted("handle", "write", "close", "tail"); !slices.Equal(got, want) {
		t.Errorf("one iteration did %q, want %q", got, want)
	}
	l.iterate()
	if got := st.noted("tail"); !slices.Equal(got, []string{"tail 3"}) || l.counters[countTail] != 3 || l.counters[countPanics] != 1 {
		t.Errorf("then %q; %d run, %d panics", got, l.counters[countTail], l.counters[countPanics])
	}
	if last := len(st.nextPoller.timeouts) - 1; st.nextPoller.timeouts[last] != 0 {
		t.Error("the loop slept over a tail callback")
	}
	for range 3 {
		tail("fills the queue", func() {})
	}
	if err := h.Tail(func() {}); err != ErrSaturated {
		t.Errorf("Tail beyond the bound = %v", err)
	}
	if !l.tasks.sleep(sleepForever) {
		l.iterate()
	}
	if !l.tasks.sleep(sleepForever) {
		t.Fatal("tail callbacks left over")
	}
	wakes := st.nextPoller.wakes.Load()
	tail("wakes", func() {})
	if st.nextPoller.wakes.Load() != wakes+1 {
		t.Error("Tail does not wake a loop that sleeps")
	}
	if err := h.Tail(nil); err == nil {
		t.Error("Tail(nil) was accepted")
	}
}
