package eddy

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestFailClosesAtOnce: Fail ends the connection for the reason of its error. On the loop nothing that is written later
// leaves, on a pool the loop is told. A connection that is ending keeps its own end.
func TestFailClosesAtOnce(t *testing.T) {
	cause := errors.New("no answer")
	a, l := newReserving(t, countedServer(nil))
	c := a.conn
	if err := c.writeFromTail("queued before"); err != nil {
		t.Fatal(err)
	}
	c.head.Fail(WithReason(CloseProtocolError, cause))
	if end := c.CloseError(); end == nil || end.Reason != CloseProtocolError || !errors.Is(end, cause) {
		t.Fatalf("ended with %v", end)
	}
	if err := c.writeFromTail("written later"); !errors.Is(err, ErrClosed) {
		t.Errorf("a later write: %v", err)
	}
	if l.Iterate(); a.closed != 1 || len(a.out) != 0 {
		t.Errorf("closed %d times, written %q", a.closed, a.out)
	}
	a, l = newReserving(t, countedServer(nil))
	if err := a.conn.writeFromTail("the last word"); err != nil {
		t.Fatal(err)
	}
	a.conn.closeFlushed(CloseNormal, nil)
	a.conn.head.Fail(cause)
	a.room = 100
	if l.Iterate(); a.conn.CloseError().Reason != CloseNormal || string(a.out) != "the last word" {
		t.Errorf("an orderly end: %v, written %q", a.conn.CloseError(), a.out)
	}
}

// TestFailOnAPool: a handler on a pool ends its connection for the reason of an error, and reports a panic of its own as
// the engine would.
func TestFailOnAPool(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	log := &testkit.Output{}
	got := make(chan error, 1)
	srv := &Server{Loops: 1, Logger: slog.New(slog.NewTextHandler(log, nil))}
	ctx, _ := opened(t, srv, func(p *Pipeline) error {
		return p.Add("worker", openFunc(func(ctx *Context) error {
			defer func() {
				got <- ctx.Panicked(recover())
				ctx.Fail(WithReason(CloseProtocolError, errors.New("of the handler")))
			}()
			panic("on purpose")
		}), On(pool))
	})
	perr, ok := testkit.Receive(t, "the panic", got).(*PanicError)
	if !ok || perr.Value != "on purpose" || !strings.Contains(string(perr.Stack), "TestFailOnAPool") {
		t.Errorf("reported as %v", perr)
	}
	<-ctx.conn.CloseFuture().Done()
	if end := ctx.conn.CloseError(); end.Reason != CloseProtocolError {
		t.Errorf("ended with %v", end)
	}
	if n := srv.Stats().ExecutorPanics; n != 1 || !strings.Contains(log.String(), "handler=worker panic=\"on purpose\"") {
		t.Errorf("%d panics counted; log %q", n, log.String())
	}
}
