package eddy

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
)

// TestFailedHandOver: sockets that the worker's full queue refuses are closed, counted and forgotten.
func TestFailedHandOver(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.TaskQueue = 1
	st, worker := newStage(t, srv)
	boss := st.loop("boss")
	st.listen(boss, worker)
	st.pending = 4
	boss.Iterate()
	closed := 0
	for _, s := range st.socks {
		closed += s.closed
	}
	if n := srv.endpoint.tally.Active.Load(); closed != 3 || n != 1 || boss.Counters[meter.Refused] != 3 {
		t.Errorf("%d closed, %d counted as open, %d as refused; want 3, 1, 3", closed, n, boss.Counters[meter.Refused])
	}
	worker.Iterate()
	if worker.table.Active() != 1 {
		t.Errorf("%d connections handed over, want 1", worker.table.Active())
	}
}

// TestPollerFailureIsVisible: a poller that fails is reported and counted, and the loop goes on as soon as it works
// again.
func TestPollerFailureIsVisible(t *testing.T) {
	var log bytes.Buffer
	handled := 0
	srv := cutServer(func(*Context, string) error { handled++; return nil })
	srv.Logger = slog.New(slog.NewTextHandler(&log, nil))
	st, l := newStage(t, srv)
	a := st.connect(l)
	st.waitErr = errors.New("the kernel is unwell")
	for range 2 {
		l.Iterate()
	}
	for _, want := range []string{"poller failed", "worker-0", "the kernel is unwell"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log %q does not say %q", log.String(), want)
		}
	}
	if n := l.Counters[meter.PollErrors]; n != 2 {
		t.Errorf("%d errors counted, want 2", n)
	}
	st.waitErr = nil
	a.send(";")
	for range 2 { // one is the pause
		if !l.Iterate() {
			t.Fatal("the loop ended")
		}
	}
	if handled != 1 {
		t.Errorf("the loop did not go on: %d messages handled", handled)
	}
}

// TestSameThreadRunsDirectly: on the loop, the next handler and the head of the pipeline are called, not sent a task.
func TestSameThreadRunsDirectly(t *testing.T) {
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		p.Add("pass", Handle(func(ctx *Context, m *buf.Bytes) error { ctx.FireRead(string(m.Bytes())); return nil }))
		return p.Add("app", Handle(func(ctx *Context, m string) error { return ctx.Write(m) }))
	}}
	st, l := newStage(t, srv)
	a := st.connect(l)
	tasks := l.Counters[meter.Tasks]
	a.send("hello;")
	l.Iterate()
	if string(a.out) != "hello" || l.Counters[meter.Tasks] != tasks {
		t.Errorf("wrote %q with %d tasks in the iteration, want none", a.out, l.Counters[meter.Tasks]-tasks)
	}
	if err := a.conn.Write([]byte(" from outside")); err != nil {
		t.Fatal(err)
	}
	if string(a.out) != "hello" {
		t.Error("a write from outside did not wait for the loop")
	}
	l.Iterate()
	if string(a.out) != "hello from outside" || l.Counters[meter.Tasks] != tasks+1 {
		t.Errorf("wrote %q with %d tasks, want 1", a.out, l.Counters[meter.Tasks]-tasks)
	}
}
