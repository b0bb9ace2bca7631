package eddy

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
)

// wrap is a layer: everything goes in envelopes, what is written in one batch in one, and an empty one is the end.
type wrap struct {
	envelopes
	over bool
}

type wrapState struct{ pending []byte }

func (d *wrap) HandleOpen(ctx *Context) error { ctx.SetState(new(wrapState)); return nil }

func (d *wrap) Decode(ctx *Context, view []byte) (int, error) {
	if d.over {
		return len(view), nil
	}
	if len(view) >= 2 && view[0] == 0 && view[1] == 0 {
		d.over = true
		ctx.EndInput()
		return len(view), nil
	}
	return d.envelopes.Decode(ctx, view)
}

var errNoEnd = errors.New("the end did not come")

func (d *wrap) DecodeEnd(_ *Context, inside bool) error {
	if d.over || inside {
		return nil
	}
	return WithReason(CloseIOError, errNoEnd)
}

func (d *wrap) HandleWrite(ctx *Context, msg any) error {
	b := msg.([]byte)
	if err := ctx.Admit(len(b)); err != nil {
		return err
	}
	s := ctx.State().(*wrapState)
	s.pending = append(s.pending, b...)
	ctx.FlushLater()
	return nil
}

func (d *wrap) HandleFlush(ctx *Context) error {
	s := ctx.State().(*wrapState)
	if len(s.pending) == 0 {
		return nil
	}
	if string(s.pending) == "bad" {
		return WithReason(CloseProtocolError, nil)
	}
	b := envelope(string(s.pending))
	s.pending = nil
	return ctx.WriteAdmitted([]byte(b))
}

func (d *wrap) HandleFinish(ctx *Context, _ CloseReason) {
	_ = d.HandleFlush(ctx)
	_ = ctx.WriteAdmitted([]byte{0, 0})
}

const end = "\x00\x00"

func wrapServer(f func(ctx *Context, msg string) error) *Server {
	return &Server{Loops: 1, Logger: slog.New(slog.DiscardHandler), Init: func(p *Pipeline) error {
		p.Add("wrap", &wrap{})
		p.Add("cut", &cut{})
		return p.Add("app", Handle(func(ctx *Context, m *buf.Bytes) error { return f(ctx, string(m.Bytes())) }))
	}}
}

// TestLayerFlush: what one batch writes leaves as one piece, in one system call, whether it was written by a handler, by
// another goroutine or by a timer.
func TestLayerFlush(t *testing.T) {
	st, l := newStage(t, wrapServer(echoCut))
	a := st.connect(l)
	a.send(envelope("a;b;") + envelope("c;"))
	l.Iterate()
	if want := envelope("a;b;c;"); string(a.out) != want || len(a.writes) != 1 {
		t.Fatalf("a batch of reads wrote %q in %d calls, want %q", a.out, len(a.writes), want)
	}
	a.out = nil
	for _, s := range []string{"x", "y"} {
		if err := a.conn.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.conn.after(time.Millisecond, func() { _ = a.conn.writeFromTail([]byte("z")) }); err != nil {
		t.Fatal(err)
	}
	st.now.Add(int64(time.Second))
	l.Iterate()
	if want := envelope("xyz"); string(a.out) != want {
		t.Errorf("other writes became %q, want %q", a.out, want)
	}
	a.conn.beginClose(CloseNormal, nil)
	l.Iterate()
	if string(a.out) != envelope("xyz") {
		t.Error("a close at once said farewell")
	}
}

// TestLayerFarewell: every orderly end sends what the layer has gathered and its own end, once, before FIN.
func TestLayerFarewell(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(st *stage, l *loop, a *actor)
		half bool
		want CloseReason
		out  string
	}{
		"close after flush": {func(_ *stage, l *loop, a *actor) { a.send(envelope("bye;")) }, false, CloseNormal, envelope("bye!") + end},
		"handler's error":   {func(_ *stage, l *loop, a *actor) { a.send(envelope("fail;")) }, false, CloseProtocolError, envelope("oops") + end},
		"error in a flush":  {func(_ *stage, l *loop, a *actor) { a.send(envelope("bad;")) }, false, CloseProtocolError, end},
		"peer's end":        {func(_ *stage, l *loop, a *actor) { a.send(envelope("a;") + end) }, false, ClosePeerClosed, envelope("a") + end},
		"half-close":        {func(_ *stage, l *loop, a *actor) { a.send(envelope("a;") + end) }, true, ClosePeerClosed, envelope("a") + end},
		"end inside":        {func(_ *stage, l *loop, a *actor) { a.send(envelope("a;b") + end) }, false, CloseIncompleteRequest, envelope("a") + end},
		"half-close inside": {func(_ *stage, l *loop, a *actor) { a.send(envelope("a;b") + end + "more") }, true, CloseIncompleteRequest, envelope("a") + end},
		"cut off":           {func(_ *stage, l *loop, a *actor) { a.send(envelope("a;")); a.eof = true }, false, CloseIOError, envelope("a") + end},
		"cut off, half":     {func(_ *stage, l *loop, a *actor) { a.send(envelope("a;")); a.eof = true }, true, CloseIOError, envelope("a") + end},
		"cut off inside":    {func(_ *stage, l *loop, a *actor) { a.send(envelope("a;b")); a.eof = true }, false, CloseIncompleteRequest, envelope("a") + end},
		"drain":             {func(_ *stage, l *loop, a *actor) { l.startDrain(a.conn.set.owner) }, false, CloseServerShutdown, end},
		"deadline":          {func(st *stage, l *loop, a *actor) { a.send("\x00"); l.Iterate(); st.now.Add(int64(2 * time.Second)) }, false, CloseReadTimeout, envelope("late") + end},
		"panic":             {func(_ *stage, l *loop, a *actor) { a.send(envelope("a;panic;")) }, false, CloseInternalError, envelope("a") + end},
	} {
		srv := wrapServer(func(ctx *Context, msg string) error {
			switch msg {
			case "bye":
				_ = ctx.Write([]byte("bye!"))
				ctx.CloseAfterFlush(CloseNormal)
				return nil
			case "fail":
				_ = ctx.Write([]byte("oops"))
				return WithReason(CloseProtocolError, nil)
			case "panic":
				panic("as ordered")
			}
			return ctx.Write([]byte(msg))
		})
		init := srv.Init
		srv.Init = func(p *Pipeline) error { return errors.Join(init(p), p.Add("late", lateWord{})) }
		srv.CloseOnEOF, srv.ReadTimeout = !c.half, time.Second
		st, l := newStage(t, srv)
		a := st.connect(l)
		c.do(st, l, a)
		for range 3 {
			l.Iterate()
		}
		a.eof = true // the peer's answer to FIN
		for range 3 {
			l.Iterate()
		}
		a.wantEnd(t, name, c.want)
		if string(a.out) != c.out {
			t.Errorf("%s: sent %q, want %q", name, a.out, c.out)
		}
	}
}

// lateWord has a last word at a deadline.
type lateWord struct{}

func (lateWord) HandleError(ctx *Context, err error) error {
	if e := (*DeadlineError)(nil); errors.As(err, &e) {
		_ = ctx.Write([]byte("late"))
	}
	return err
}

// TestLayerFarewellPanics: a FinishHandler that panics does not take the loop, or the end, with it.
func TestLayerFarewellPanics(t *testing.T) {
	srv := wrapServer(nil)
	srv.Init = func(p *Pipeline) error { return p.Add("rude", rude{}) }
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.conn.closeFlushed(CloseNormal, nil)
	a.eof = true
	l.Iterate()
	a.wantEnd(t, "a panic at the end", CloseNormal)
	if l.Counters[meter.Panics] != 1 || l.Counters[meter.Faults] != 0 || l.inHand.ctx != nil {
		t.Errorf("%d panics, %d faults", l.Counters[meter.Panics], l.Counters[meter.Faults])
	}
}

type rude struct{}

func (rude) HandleFinish(*Context, CloseReason) { panic("as ordered") }

// TestLayerAdmit: the bound of the outbound queue holds for a layer's messages as for others: one may always be queued
// below High, whatever its size, and its pieces are not refused later.
func TestLayerAdmit(t *testing.T) {
	var errs []error
	srv := wrapServer(func(ctx *Context, msg string) error {
		for range 3 {
			err := ctx.Write(make([]byte, 30<<10))
			errs = append(errs, err)
			if err == nil {
				_ = ctx.prev.Load().prev.Load().node.handler.(*wrap).HandleFlush(ctx.conn.head)
			}
		}
		return nil
	})
	srv.Overflow = OverflowReject
	srv.Watermarks = Watermarks{Low: 1 << 10, High: 20 << 10, Max: 40 << 10}
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.room = 0
	a.send(envelope("go;"))
	l.Iterate()
	if len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], ErrBackpressure) || !errors.Is(errs[2], ErrBackpressure) {
		t.Fatalf("writes returned %v", errs)
	}
	if q := a.conn.QueuedBytes(); q != 30<<10+2 {
		t.Errorf("%d bytes queued", q)
	}
	if err := a.conn.head.WriteAdmitted(make([]byte, 100<<10)); err != nil {
		t.Errorf("admitted bytes were refused: %v", err)
	}
	if l.inHand.granted != 0 {
		t.Error("what is admitted stays so")
	}
	a.conn.beginClose(CloseNormal, nil)
	if err := errors.Join(a.conn.head.Admit(1), a.conn.head.WriteAdmitted([]byte("x"))); !errors.Is(err, ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}

// TestLayerClasses: a message that has passed a layer is never dropped; the classes' policies hold when it comes.
func TestLayerClasses(t *testing.T) {
	srv := wrapServer(nil)
	srv.Watermarks = Watermarks{Low: 1, High: 2, Max: 10}
	for policy, want := range map[OverflowPolicy]string{
		OverflowDropNewest: "1234567", OverflowDropOldest: "1234567", OverflowKeepLatest: "1234567",
		OverflowReject: "rejected", OverflowClose: "closed", 99: "wrong",
	} {
		st, l := newStage(t, srv)
		a := st.connect(l)
		a.room = 0
		k := &MessageClass{Name: "ticks", Policy: policy, MaxMessages: 1}
		var err error
		for _, s := range []string{"1234567", "7654321"} {
			if err = a.conn.writeFromTail(k.Wrap([]byte(s))); err != nil {
				break
			}
			l.Iterate()
		}
		a.room = 1 << 20
		l.Iterate()
		got := strings.TrimPrefix(string(a.out), "\x00\x07")
		switch rejected := (*ClassError)(nil); {
		case errors.As(err, &rejected) && !rejected.Dropped:
			got = "rejected"
		case err != nil && a.ended() == CloseBackpressureLimit:
			got = "closed"
		case err != nil:
			got = "wrong"
		}
		if got != want {
			t.Errorf("policy %d: %q, %v, want %q", policy, got, err, want)
		}
		if st := k.Stats(); (st.Dropped == 1) != (len(want) == 7) || (st.Rejected == 1) != (want == "rejected") {
			t.Errorf("policy %d: %+v", policy, st)
		}
	}
}

// TestHoldReads: a handler's own pause neither ends nor is ended by the application's.
func TestHoldReads(t *testing.T) {
	var got []string
	srv := innerServer(1, func(ctx *Context, msg string) error {
		got = append(got, msg)
		if msg == "hold" {
			ctx.HoldReads()
			ctx.HoldReads()
		}
		return nil
	})
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send(envelope("hold;next;"))
	l.Iterate()
	a.conn.PauseRead()
	a.conn.ResumeRead()
	l.Iterate()
	ctx := a.conn.head
	ctx.ReleaseReads()
	l.Iterate()
	if fmt.Sprint(got) != "[hold]" {
		t.Fatalf("held, and handled %v", got)
	}
	a.conn.PauseRead()
	ctx.ReleaseReads()
	l.Iterate()
	if fmt.Sprint(got) != "[hold]" {
		t.Fatalf("paused, and handled %v", got)
	}
	a.conn.ResumeRead()
	l.Iterate()
	if fmt.Sprint(got) != "[hold next]" {
		t.Fatalf("handled %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a release without a hold went unnoticed")
		}
	}()
	ctx.ReleaseReads()
}

// TestLayerIdle: a connection whose layer has gathered something is not idle.
func TestLayerIdle(t *testing.T) {
	st, l := newStage(t, wrapServer(nil))
	a := st.connect(l)
	if err := a.conn.writeFromTail([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if a.conn.idle() {
		t.Error("idle with bytes to flush")
	}
	l.Iterate()
	if !a.conn.idle() || string(a.out) != envelope("x") {
		t.Errorf("sent %q", a.out)
	}
}
