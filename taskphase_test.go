package eddy

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
)

// flood queues n tasks that take the given time each and count themselves.
func (st *stage) flood(l *loop, n int, each time.Duration, ran *int) {
	st.t.Helper()
	for range n {
		f := func() { *ran++; st.now.Add(int64(each)) }
		if err := l.Tasks.Push(task{kind: taskFunc, msg: f}); err != nil {
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
		{ratio: 1, want: defaultTaskBudget},
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
			l.Iterate() // I/O without tasks: its time is known
			l.Iterate()
			ran := 0
			st.flood(l, 3000, each, &ran)
			a.send("x;")
			l.Iterate()
			if ran != c.want {
				t.Errorf("%d tasks ran beside ready I/O, want %d", ran, c.want)
			}
		})
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
	l.Iterate()
	want := []string{"handle", fmt.Sprint("write ", a.fd), fmt.Sprint("close ", b.fd), "tail 1", "tail 2"}
	if got := st.noted("handle", "write", "close", "tail"); !slices.Equal(got, want) {
		t.Errorf("one iteration did %q, want %q", got, want)
	}
	l.Iterate()
	if got := st.noted("tail"); !slices.Equal(got, []string{"tail 3"}) || l.Counters[meter.Tail] != 3 || l.Counters[meter.Panics] != 1 {
		t.Errorf("then %q; %d run, %d panics", got, l.Counters[meter.Tail], l.Counters[meter.Panics])
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
	l.Iterate()
	if l.Tasks.Waiting() {
		t.Fatal("tail callbacks left over")
	}
	wakes := st.nextPoller.wakes.Load()
	st.nextPoller.onWait = func() { st.nextPoller.onWait = nil; tail("wakes", func() {}) }
	l.Iterate()
	if st.nextPoller.wakes.Load() != wakes+1 {
		t.Error("Tail does not wake a loop that sleeps")
	}
	if err := h.Tail(nil); err == nil {
		t.Error("Tail(nil) was accepted")
	}
}
