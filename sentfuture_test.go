package eddy

import (
	"errors"
	"testing"
)

// TestSentFuture: the Future of what is queued completes when the kernel has taken it, at once if nothing is queued, and fails
// with the connection.
func TestSentFuture(t *testing.T) {
	st, l := newStage(t, countedServer(func(p *Pipeline) error {
		return p.Add("none", Handle(func(*Context, string) error { return nil }))
	}))
	p := st.connect(l)
	c := p.conn
	if f := c.SentFuture(); !f.Completed() || f.Err() != nil {
		t.Errorf("with an empty queue: %v", f.Err())
	}
	if err := c.writeFromTail([]byte("x")); err != nil {
		t.Fatal(err)
	}
	sent := c.SentFuture()
	if sent.Completed() || sent.Cancel() {
		t.Error("it completes before the flush, or can be cancelled")
	}
	l.Iterate()
	if !sent.Completed() || sent.Err() != nil {
		t.Errorf("after the flush: %v", sent.Err())
	}
	if err := c.writeFromTail([]byte("x")); err != nil {
		t.Fatal(err)
	}
	lost := c.SentFuture()
	c.beginClose(CloseNormal, nil)
	l.Iterate()
	if end, ok := errors.AsType[*CloseError](lost.Err()); !ok || end.Reason != CloseNormal {
		t.Errorf("after the close: %v", lost.Err())
	}
}
