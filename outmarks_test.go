package eddy

import (
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/transport"
)

// TestMarkBehindAnothersMessage: the future of a message during whose handling another one was queued, which then leaves the
// queue, does not wait for it.
func TestMarkBehindAnothersMessage(t *testing.T) {
	k := &MessageClass{Name: "full", Policy: OverflowKeepLatest, MaxMessages: 1}
	long := strings.Repeat("x", 1500)
	for name, c := range map[string]struct {
		leave func(l *loop, a *actor)
		want  string
	}{
		"superseded": {func(l *loop, a *actor) { submit(t, l, a, k.Wrap("[new]")) }, "first" + long + "[new]"},
		"dropped, last of all": {func(l *loop, a *actor) {
			a.room = len("irst" + long)
			l.Iterate()
			if !a.conn.dropOldest(k, ErrBackpressure) || a.conn.out.Head != nil {
				t.Error("a message that the kernel took nothing of cannot be dropped")
			}
			a.conn.flush()
		}, "first" + long},
	} {
		srv := countedServer(func(p *Pipeline) error {
			return p.Add("marks", writabilityFunc(func(ctx *Context, w bool) error {
				if !w {
					return ctx.Write(k.Wrap("[full]"))
				}
				return nil
			}))
		})
		srv.Watermarks = Watermarks{Low: 100, High: 1000, Max: 10_000}
		_, l, a := blocked(t, srv)
		f := a.conn.WriteFuture(long)
		l.Iterate()
		c.leave(l, a)
		if got := a.drain(t, l); got != c.want || f.standing() != futureSucceeded {
			t.Errorf("%s: the future is %v, sent %d bytes, want %d", name, f.standing(), len(got), len(c.want))
		}
	}
}

// TestCancelBehindWhatIsOffered: a write beyond what one call takes can be cancelled, also when it comes after a file.
func TestCancelBehindWhatIsOffered(t *testing.T) {
	file, data := tempFile(t, 3000)
	spare, _ := tempFile(t, 10)
	_, l, a := blocked(t, echoServer())
	before := a.conn.WriteFuture("before")
	submit(t, l, a, &File{File: file, Length: 3000})
	behind := a.conn.WriteFuture("behind")
	l.Iterate()
	a.room = 1
	l.Iterate() // offers everything before the file
	if before.Cancel() || !behind.Cancel() {
		t.Errorf("the one before is %v, the one behind %v", before.standing(), behind.standing())
	}
	last := a.conn.WriteFuture(&File{File: spare, Length: 10})
	l.Iterate()
	if !last.Cancel() {
		t.Error("a file that was not offered cannot be cancelled")
	}
	if l.Iterate(); !isClosed(spare) {
		t.Error("the file of a cancelled write is open")
	}
	if got := a.drain(t, l); got != "firstbefore"+string(data) {
		t.Errorf("sent %d bytes", len(got))
	}
}

// TestSupersededInsideAFuture: a message that takes the place of the only marked one, in the handling of a future, can be
// cancelled.
func TestSupersededInsideAFuture(t *testing.T) {
	_, l, a := blocked(t, echoServer())
	k := &MessageClass{Policy: OverflowKeepLatest, MaxMessages: 1}
	submit(t, l, a, k.Wrap("[old]"))
	f := a.conn.WriteFuture(k.Wrap("[new]"))
	l.Iterate()
	if q := a.conn.QueuedBytes(); q != int64(len("irst[new]")) || !f.Cancel() {
		t.Errorf("%d bytes queued; the future is %v", q, f.standing())
	}
	if got := a.drain(t, l); got != "first" {
		t.Errorf("sent %q", got)
	}
}

// TestCancelSparesOthers: the future of a message in whose handling a handler has also ended another's hold cannot be
// cancelled, because the other's bytes would go with it.
func TestCancelSparesOthers(t *testing.T) {
	var hold *FutureHold
	k := &MessageClass{Policy: OverflowKeepLatest}
	st, l := newStage(t, encodedBy(func(ctx *Context, msg any) error {
		if msg == "held" {
			hold = ctx.HoldFuture()
			return nil
		}
		if hold != nil {
			if err := hold.Write(func() error { return ctx.Write("held,") }); err != nil {
				return err
			}
		}
		return ctx.Write(msg)
	}))
	a := st.connect(l)
	a.room = 1
	submit(t, l, a, "first")
	held := a.conn.WriteFuture("held")
	l.Iterate()
	f := a.conn.WriteFuture(k.Wrap("second"))
	l.Iterate()
	if f.Cancel() {
		t.Errorf("cancelled; the held one is %v, %v", held.standing(), held.Err())
	}
	if got := a.drain(t, l); got != "firstheld,second" || held.standing() != futureSucceeded || f.standing() != futureSucceeded {
		t.Errorf("sent %q; the held one is %v, the other one %v", got, held.standing(), f.standing())
	}
}

// TestNoCancelOfWhatWasOffered: what was offered to the kernel cannot be cancelled, also when that was in the middle of the
// handling, or by the call that takes a cancelled message before it out of the way. What was sent there has succeeded.
func TestNoCancelOfWhatWasOffered(t *testing.T) {
	st, l := newStage(t, encodedBy(func(ctx *Context, msg any) error {
		if err := ctx.Write(msg); err != nil {
			return err
		}
		ctx.FireError(errEncoder) // closes the connection in order
		return nil
	}))
	a := st.connect(l)
	f := a.conn.WriteFuture("whole")
	if l.Iterate(); string(a.out) != "whole" || f.standing() != futureSucceeded {
		t.Errorf("%q was sent; the future is %v, %v", a.out, f.standing(), f.Err())
	}
	a = st.connect(l)
	a.room = 2
	f = a.conn.WriteFuture("message")
	if l.Iterate(); string(a.out) != "me" || f.Cancel() {
		t.Errorf("%q was sent; the future is %v", a.out, f.standing())
	}
	if got := a.drain(t, l); got != "message" || f.standing() != futureSucceeded {
		t.Errorf("sent %q, the future is %v", got, f.standing())
	}

	_, l, a = blocked(t, echoServer())
	a.room = len("irst")
	l.Iterate()
	parts := make([][]byte, transport.MaxGather)
	for i := range parts {
		parts[i] = make([]byte, adoptSize)
	}
	many, behind := a.conn.head.WriteFuture(parts), a.conn.head.WriteFuture("behind")
	if !many.Cancel() {
		t.Fatal("what was not offered cannot be cancelled")
	}
	a.conn.flush()
	if behind.Cancel() {
		t.Error("what was offered was cancelled")
	}
	if got := a.drain(t, l); got != "firstbehind" {
		t.Errorf("sent %d bytes", len(got))
	}
}

// TestNoCancelAroundAUnit: a message that a handler has made other bytes and a file of cannot be cancelled.
func TestNoCancelAroundAUnit(t *testing.T) {
	file, data := tempFile(t, 100)
	st, l := newStage(t, encodedBy(severalWrites))
	a := st.connect(l)
	a.room = 1
	submit(t, l, a, "first")
	f := a.conn.WriteFuture(&File{File: file, Length: 100})
	if l.Iterate(); f.Cancel() {
		t.Errorf("the future is %v", f.standing())
	}
	if got := a.drain(t, l); got != "<first><"+string(data)+">" || f.standing() != futureSucceeded {
		t.Errorf("sent %d bytes, the future is %v", len(got), f.standing())
	}
}
