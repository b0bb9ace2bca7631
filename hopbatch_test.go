package eddy

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestHopsShareAWakeup: what the connections of one iteration give to a pool waits for one wakeup, which comes with the
// 32nd, at the end of the iteration, or when a handler ends the loop's goroutine in its middle.
func TestHopsShareAWakeup(t *testing.T) {
	for _, c := range []struct {
		name  string
		conns int
		woken bool // by the phase that handles events
		end   func(*loop)
	}{
		{"few, end of the iteration", hopBatch - 1, false, func(l *loop) { l.Iterate() }},
		{"few, end of the goroutine", hopBatch - 1, false, (*loop).Orphaned},
		{"many", hopBatch, true, func(*loop) {}},
	} {
		pool, err := executor.NewFixed(executor.Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		var handled atomic.Int64
		st, l := newStage(t, &Server{Loops: 1, Logger: slog.New(slog.DiscardHandler), Init: func(p *Pipeline) error {
			f := func(_ *Context, _ *buf.Bytes) error { handled.Add(1); return nil }
			return p.Add("app", Handle(f), On(pool))
		}})
		actors := make([]*actor, c.conns)
		for i := range actors {
			actors[i] = st.connect(l)
		}
		for _, a := range actors {
			a.send("x")
		}
		l.Serve(l.Wait())
		if s := pool.Stats(); int(s.Submitted) != c.conns || s.Workers > 0 != c.woken {
			t.Errorf("%s: after the events %+v", c.name, s)
		}
		c.end(l)
		testkit.Eventually(t, c.name+": all messages handled", func() bool { return handled.Load() >= int64(c.conns) })
		if _, err := pool.Shutdown(testkit.Context(t)); err != nil {
			t.Error(err)
		}
		if n := handled.Load(); n != int64(c.conns) {
			t.Errorf("%s: %d of %d messages were handled", c.name, n, c.conns)
		}
	}
}

// TestWakeLater: work that was queued without a wakeup runs when the iteration ends, whoever queued it.
func TestWakeLater(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	var ran atomic.Bool
	a, l := newReserving(t, countedServer(nil))
	s := executor.NewStrand(pool, 0, func(int) { ran.Store(true) })
	if wake, err := s.Enqueue(1); !wake || err != nil {
		t.Fatal(wake, err)
	}
	a.conn.Loop().WakeLater(pool)
	if st := pool.Stats(); st.Workers > 0 {
		t.Errorf("woken at once: %+v", st)
	}
	l.Iterate()
	testkit.Eventually(t, "the work", ran.Load)
	if _, err := pool.Shutdown(testkit.Context(t)); err != nil {
		t.Error(err)
	}
}
