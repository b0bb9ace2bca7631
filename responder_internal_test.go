package eddy

import (
	"context"
	"testing"

	"github.com/go-eddy/eddy/executor"
)

// newAnswering makes a stage whose connection answers each request, an int, with that many bytes, made on a pool once the
// gate is open. With a MemoryBudget it has the default watermarks.
func newAnswering(t *testing.T, inFlight, budget int) (a *actor, l *loop, pool *executor.Pool, gate chan struct{}) {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Name: "answers", Workers: 4, Queue: 64})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		if _, err := pool.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	gate = make(chan struct{})
	r, err := NewResponder(ResponderOptions[int]{
		Pool:     pool,
		InFlight: inFlight,
		Run: func(context.Context, int) (any, error) {
			select {
			case <-gate:
			case <-stop: // the test has failed
			}
			return nil, nil
		},
		Answer: func(n int, _ any, _ error) any { return make([]byte, n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := countedServer(func(p *Pipeline) error { return p.Add("responder", r) })
	if srv.MemoryBudget = budget; budget == 0 {
		srv.Watermarks = Watermarks{Low: 1 << 10, High: 20 << 10, Max: 40 << 10}
	}
	st, l := newStage(t, srv)
	return st.connect(l), l, pool, gate
}

// TestAnswerKeepsItsRoom: a response that was counted when it was made is written though other messages have filled the
// queue since, and what it was granted is of no use to the next message.
func TestAnswerKeepsItsRoom(t *testing.T) {
	a, l, _, gate := newAnswering(t, 0, 0)
	c := a.conn
	c.fireReadFromHead(15 << 10)
	l.Iterate()
	close(gate)
	stepUntil(t, "the response", func() bool { return l.Tasks.Depth() == 1 })
	if q := c.QueuedBytes(); q != 15<<10 {
		t.Errorf("%d bytes count as queued while the response waits for the loop", q)
	}
	a.room = 0
	if err := c.writeFromTail(make([]byte, 30<<10)); err != nil {
		t.Fatalf("a message below the high mark: %v", err)
	}
	l.Iterate()
	if err := c.closedError(); err != nil {
		t.Fatalf("the response found no room: %v", err)
	}
	if q := c.QueuedBytes(); q != 45<<10 {
		t.Errorf("%d bytes queued, want both messages", q)
	}
	if err := c.writeFromTail(make([]byte, 1<<10)); err == nil {
		t.Error("a message beyond the maximum was taken")
	}
	a.room = 1 << 40
	stepUntil(t, "the bytes", func() bool { l.Iterate(); return len(a.out) == 45<<10 })
	c.fireReadFromHead(5 << 10)
	l.Iterate()
	stepUntil(t, "another response", func() bool { l.Iterate(); return len(a.out) == 50<<10 })
	if l.inHand.granted != 0 {
		t.Errorf("%d bytes are granted to whoever writes next", l.inHand.granted)
	}
	c.beginClose(CloseNormal, nil)
	l.Iterate()
}

// TestAnswersShareATask: the responses that a connection's requests bring while the loop is busy are one task for it, and
// there is one again for the next ones.
func TestAnswersShareATask(t *testing.T) {
	const each = 20
	a, l, pool, gate := newAnswering(t, 0, 0)
	close(gate)
	for round := 1; round <= 2; round++ {
		for range each {
			a.conn.fireReadFromHead(1)
		}
		l.wakePools()
		stepUntil(t, "the responses", func() bool {
			st := pool.Stats()
			return st.Running == 0 && st.Queued == 0 && a.conn.QueuedBytes() == each
		})
		if n := l.Tasks.Depth(); n != 1 {
			t.Errorf("%d tasks for %d responses, want one", n, each)
		}
		l.Iterate()
		if len(a.out) != round*each {
			t.Errorf("%d bytes written, want %d", len(a.out), round*each)
		}
	}
	a.conn.beginClose(CloseNormal, nil)
	l.Iterate()
}

// TestRequestsResumeAtThreeQuarters: reads that pause at the bound of requests in flight go on when a quarter of it is
// free, neither at the first response nor after the last.
func TestRequestsResumeAtThreeQuarters(t *testing.T) {
	const bound = 8
	a, l, _, gate := newAnswering(t, bound, 0)
	c := a.conn
	for i := range bound {
		if c.paused&pauseHold != 0 {
			t.Fatalf("reads are paused with %d requests in flight", i)
		}
		c.fireReadFromHead(1)
	}
	if c.paused&pauseHold == 0 {
		t.Fatal("reads go on at the bound")
	}
	l.Iterate()
	for left := bound - 1; left >= 0; left-- {
		gate <- struct{}{}
		stepUntil(t, "a response", func() bool { l.Iterate(); return len(a.out) == bound-left })
		if paused := c.paused&pauseHold != 0; paused != (left > bound*3/4) {
			t.Errorf("reads paused: %v with %d of %d requests in flight", paused, left, bound)
		}
	}
	c.beginClose(CloseNormal, nil)
	l.Iterate()
}

// TestAnswersCountForTheBudget: responses on their way to the loop count for the server's MemoryBudget until the loop has
// them; those beyond its hard limit, too, are taken and counted.
func TestAnswersCountForTheBudget(t *testing.T) {
	a, l, pool, gate := newAnswering(t, 0, 100_000)
	close(gate)
	c, b := a.conn, &a.conn.set.owner.budget
	ask := func(n int) {
		for range n {
			c.fireReadFromHead(50_000)
		}
		l.wakePools()
		stepUntil(t, "the responses", func() bool { st := pool.Stats(); return st.Running == 0 && st.Queued == 0 && l.Tasks.Depth() == 1 })
		if got, want := c.cell().pending.Load(), int64(n*50_000); got != want {
			t.Errorf("%d bytes count for the budget on their way to the loop, want %d", got, want)
		}
		l.Iterate()
		if n := c.cell().pending.Load(); n != 0 {
			t.Fatalf("%d bytes count as on their way when the loop has them", n)
		}
	}
	for range 5 { // what has left is room again
		ask(2)
	}
	if err := c.closedError(); err != nil || len(a.out) != 500_000 {
		t.Fatalf("%d bytes written, closed with %v", len(a.out), err)
	}
	ask(3)
	if err := c.closedError(); err != nil || b.refused.Load() != 0 || len(a.out) != 650_000 {
		t.Errorf("%d bytes written, closed with %v, %d refused, want none", len(a.out), err, b.refused.Load())
	}
	if q := c.QueuedBytes(); q != 0 {
		t.Errorf("%d bytes count as queued after the end", q)
	}
}

// TestAnswersTellHowManyBegin: requests that began before it was known how long the answers are keep others from beginning, as
// soon as it is known.
func TestAnswersTellHowManyBegin(t *testing.T) {
	a, l, _, gate := newAnswering(t, 64, 0)
	for range 12 {
		a.conn.fireReadFromHead(4 << 10)
	}
	l.Iterate() // wakes the pool
	for range 4 {
		gate <- struct{}{}
	}
	stepUntil(t, "four responses", func() bool { l.Iterate(); return len(a.out) == 4*4<<10 })
	if a.conn.paused&pauseHold == 0 {
		t.Errorf("%d bytes of answers are to come to a queue that takes 20 KiB beyond its high watermark, and others may begin", 8*4<<10)
	}
	close(gate)
	stepUntil(t, "all responses", func() bool { l.Iterate(); return len(a.out) == 12*4<<10 })
	if a.conn.paused&pauseHold != 0 {
		t.Error("with nothing in flight no request may begin")
	}
}
