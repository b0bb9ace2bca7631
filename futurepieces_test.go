package eddy

import (
	"testing"

	"github.com/go-eddy/eddy/executor"
)

// TestCancelOfPiecesFromAPool: what a handler on a pool has made several pieces of is not cancelled in part.
func TestCancelOfPiecesFromAPool(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "encoders", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	st, l := newStage(t, encodedBy(severalWrites, On(pool)))
	a := st.connect(l)
	c := a.conn
	a.room = 1
	settled := func() bool { l.Iterate(); return c.counts.encoding.Load() == 0 && !l.Tasks.Waiting() }
	write(t, c, "first")
	stepUntil(t, "the first message", settled)
	f := c.WriteFuture("second")
	stepUntil(t, "the second message", settled)
	if f.standing() != futurePending || f.Cancel() {
		t.Errorf("a message in pieces is %v", f.standing())
	}
	if got := a.drain(t, l); got != "<first><second>" || f.standing() != futureSucceeded {
		t.Errorf("sent %q; it is %v", got, f.standing())
	}
}

// TestMarksOfFailedFuturesAreBounded: the marks of futures that fail elsewhere while some of their bytes wait do not pile up.
func TestMarksOfFailedFuturesAreBounded(t *testing.T) {
	_, l, a := blocked(t, echoServer())
	for range 2 * maxFutures {
		f := a.conn.WriteFuture("x")
		l.Iterate()
		f.settle(futureFailed, errEncoder, nil) // as a refused piece does
	}
	if n := a.conn.outMarks().Waiting(); n > maxFutures+1 {
		t.Errorf("%d marks in the queue, limit %d", n, maxFutures)
	}
	if got := a.drain(t, l); len(got) != len("first")+2*maxFutures {
		t.Errorf("%d bytes sent", len(got))
	}
}
