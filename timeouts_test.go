package eddy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

// pass lets d go by in steps of step and runs the loop after each.
func (st *stage) pass(l *loop, d, step time.Duration) {
	for left := d; left > 0; left -= step {
		st.now.Add(int64(min(left, step)))
		l.Iterate()
	}
}

// ended returns why a connection ended, CloseUnset while it is open.
func (a *actor) ended() CloseReason {
	if a.closed == 0 {
		return CloseUnset
	}
	return a.conn.CloseError().Reason
}

func (a *actor) wantEnd(t *testing.T, when string, want CloseReason) {
	t.Helper()
	if got := a.ended(); got != want {
		t.Fatalf("%s: the connection ended with %v, want %v", when, got, want)
	}
}

// TestReadDeadline: a frame has to be complete within ReadTimeout of its first byte. More bytes do not extend it, a
// complete frame does away with it, and the next one has its own.
func TestReadDeadline(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.ReadTimeout = time.Second
	st, l := newStage(t, srv)
	drip, quick := st.connect(l), st.connect(l)
	st.pass(l, 5*time.Second, 100*time.Millisecond)
	drip.wantEnd(t, "without a byte", CloseUnset)
	for i := range 10 {
		drip.send("x")
		quick.send([]string{"half", "done;next"}[i%2])
		l.Iterate()
		drip.wantEnd(t, fmt.Sprintf("after %d ms", i*100), CloseUnset)
		st.pass(l, 100*time.Millisecond, 10*time.Millisecond)
	}
	drip.wantEnd(t, "after one second", CloseReadTimeout)
	var late *DeadlineError
	if err := drip.conn.CloseError(); !errors.As(err, &late) || late.Limit != time.Second || !errors.Is(err, os.ErrDeadlineExceeded) ||
		!errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrClosed) {
		t.Errorf("CloseError = %v", err)
	}
	quick.wantEnd(t, "with complete frames", CloseUnset)
	st.pass(l, 800*time.Millisecond, 10*time.Millisecond)
	quick.wantEnd(t, "900 ms after the last complete one", CloseUnset)
	st.pass(l, 100*time.Millisecond, 10*time.Millisecond)
	quick.wantEnd(t, "one second after the last complete one", CloseReadTimeout)
}

// TestReadDeadlineStopsWithReading: while the application or the engine keeps the peer from being read, its time stands
// still, and it begins anew afterwards.
func TestReadDeadlineStopsWithReading(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.ReadTimeout = time.Second
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send("half")
	l.Iterate()
	a.conn.PauseRead()
	a.send("more")
	st.pass(l, 3500*time.Millisecond, 50*time.Millisecond)
	a.wantEnd(t, "while paused", CloseUnset)
	a.conn.ResumeRead()
	st.pass(l, 900*time.Millisecond, 50*time.Millisecond)
	a.wantEnd(t, "900 ms after the pause", CloseUnset)
	st.pass(l, 200*time.Millisecond, 50*time.Millisecond)
	a.wantEnd(t, "after the pause", CloseReadTimeout)
}

// sized decodes one digit, the size, and then as many bytes, which it consumes as they come.
type sized struct{ left int }

func (d *sized) Decode(ctx *Context, view []byte) (int, error) {
	if d.left == 0 {
		d.left = int(view[0] - '0')
		ctx.Conn().SetPhase(PhaseReadingBody)
		return 1, nil
	}
	n := min(d.left, len(view))
	if d.left -= n; d.left == 0 {
		ctx.Conn().SetPhase(PhaseReadingHeader)
		ctx.FireRead("body")
	}
	return n, nil
}

// TestBodyDeadline: the time of a body runs from its beginning until the decoder calls it complete, whatever is consumed
// meanwhile, also while an earlier response is still being written.
func TestBodyDeadline(t *testing.T) {
	srv := &Server{Logger: slog.New(slog.DiscardHandler), BodyTimeout: time.Second, ReadTimeout: time.Minute, Init: func(p *Pipeline) error {
		p.Add("sized", &sized{})
		return p.Add("app", Handle(func(ctx *Context, s string) error { return ctx.Write([]byte(s)) }))
	}}
	st, l := newStage(t, srv)
	a, b := st.connect(l), st.connect(l)
	b.room = 0
	a.send("2xx1x")
	b.send("1x9")
	l.Iterate()
	st.pass(l, 500*time.Millisecond, 100*time.Millisecond)
	if string(a.out) != "bodybody" || b.conn.Phase() != PhaseWriting {
		t.Fatalf("wrote %q; the other one is in phase %v", a.out, b.conn.Phase())
	}
	a.send("9x")
	l.Iterate()
	for range 4 {
		b.send("x")
		st.pass(l, 100*time.Millisecond, 100*time.Millisecond)
	}
	b.wantEnd(t, "after 900 ms", CloseUnset)
	st.pass(l, 100*time.Millisecond, 100*time.Millisecond)
	if e := b.conn.CloseError(); e == nil || e.Reason != CloseBodyTimeout {
		t.Errorf("with a response queued: %v", e)
	}
	a.wantEnd(t, "500 ms after the size", CloseUnset)
	st.pass(l, 500*time.Millisecond, 100*time.Millisecond)
	a.wantEnd(t, "one second after the size", CloseBodyTimeout)

	c := st.connect(l) // whose decoder learns of the body's end elsewhere
	c.send("9x")
	l.Iterate()
	if c.conn.Phase() != PhaseReadingBody {
		t.Errorf("phase %v", c.conn.Phase())
	}
	c.conn.SetPhase(PhaseReadingHeader)
	st.pass(l, 2*time.Minute, 10*time.Second)
	c.wantEnd(t, "after the body", CloseUnset)
}

// TestHandlerDeadline: a request has to end within HandlerTimeout. Requests on the loop, counted by Begin, and those with
// an identity of their own, of which the oldest counts.
func TestHandlerDeadline(t *testing.T) {
	requests := map[string]*Request{}
	srv := cutServer(func(ctx *Context, msg string) error {
		switch {
		case msg == "begin":
			ctx.Conn().Begin()
		case strings.HasPrefix(msg, "r"):
			requests[msg] = new(Request)
			ctx.Conn().BeginRequest(requests[msg])
		}
		return nil
	})
	srv.HandlerTimeout, srv.IdleTimeout = time.Second, 300*time.Millisecond
	st, l := newStage(t, srv)
	const tick = 10 * time.Millisecond

	a := st.connect(l)
	a.send("begin;")
	st.pass(l, 900*time.Millisecond, tick)
	a.wantEnd(t, "a connection with a request in flight", CloseUnset) // and not idle
	a.conn.End()
	a.send("begin;")
	st.pass(l, 900*time.Millisecond, tick)
	a.wantEnd(t, "with the second request in flight", CloseUnset)
	st.pass(l, 110*time.Millisecond, tick)
	a.wantEnd(t, "one second into the second request", CloseHandlerTimeout)

	m := st.connect(l)
	m.send("r1;")
	st.pass(l, 300*time.Millisecond, tick)
	m.send("r2;")
	st.pass(l, 300*time.Millisecond, tick)
	m.send("r3;")
	l.Iterate()
	requests["r2"].End()
	st.pass(l, 300*time.Millisecond, tick)
	requests["r1"].End()
	st.pass(l, 650*time.Millisecond, tick) // r3 is the oldest now
	m.wantEnd(t, "950 ms into the oldest request", CloseUnset)
	st.pass(l, 100*time.Millisecond, tick)
	m.wantEnd(t, "one second into the oldest request", CloseHandlerTimeout)

	o := st.connect(l)
	o.send("r4;")
	st.pass(l, 300*time.Millisecond, tick)
	o.send("r5;")
	st.pass(l, 690*time.Millisecond, tick)
	o.wantEnd(t, "990 ms into the older request", CloseUnset)
	st.pass(l, 30*time.Millisecond, tick)
	o.wantEnd(t, "one second into the older request", CloseHandlerTimeout)

	two := st.connect(l) // of which nobody knows which one ends: the other's time begins anew
	two.send("begin;begin;")
	st.pass(l, 900*time.Millisecond, tick)
	two.conn.End()
	st.pass(l, 900*time.Millisecond, tick)
	two.wantEnd(t, "900 ms after one of two ended", CloseUnset)
	st.pass(l, 110*time.Millisecond, tick)
	two.wantEnd(t, "one second after one of two ended", CloseHandlerTimeout)

	i := st.connect(l)
	i.send("nothing;")
	st.pass(l, 320*time.Millisecond, tick)
	i.wantEnd(t, "with nothing in flight", CloseIdleTimeout)
}

// TestWriteDeadline: what is queued must move within WriteTimeout; what the peer takes gives it new time, a trickle does not,
// unless MinWriteRate says so.
func TestWriteDeadline(t *testing.T) {
	for _, c := range []struct {
		rate, takes int // at once, every 900 ms
		want        CloseReason
	}{{0, 300, CloseUnset}, {0, 10, CloseWriteTimeout}, {-1, 1, CloseUnset}, {1000, 300, CloseWriteTimeout}, {300, 300, CloseUnset}} {
		srv := cutServer(func(ctx *Context, msg string) error { return ctx.Write([]byte(msg)) })
		srv.WriteTimeout, srv.MinWriteRate = time.Second, c.rate
		st, l := newStage(t, srv)
		a := st.connect(l)
		a.room = 0
		msg := strings.Repeat("x", 5*c.takes)
		a.send(msg + ";")
		for range 5 {
			st.pass(l, 900*time.Millisecond, 50*time.Millisecond)
			a.room = c.takes
			l.Iterate()
		}
		a.wantEnd(t, fmt.Sprintf("taking %d bytes every 900 ms, of %d a second", c.takes, c.rate), c.want)
		if c.want != CloseUnset {
			continue
		}
		if string(a.out) != msg {
			t.Fatalf("wrote %q", a.out)
		}
		st.pass(l, 5*time.Second, 100*time.Millisecond)
		a.wantEnd(t, "with nothing queued", CloseUnset)
		a.send("late;")
		st.pass(l, 1100*time.Millisecond, 50*time.Millisecond)
		a.wantEnd(t, "one second without a byte taken", CloseWriteTimeout)
	}
}

// TestSustainedBreach: a queue that stays above its high watermark for BackpressureTimeout ends the connection, also when
// the peer takes a little all the time; one whose peer takes MinWriteRate and more does not.
func TestSustainedBreach(t *testing.T) {
	srv := cutServer(func(ctx *Context, msg string) error { return ctx.Write(make([]byte, 12_000)) })
	srv.BackpressureTimeout = time.Second
	srv.Watermarks = Watermarks{Low: 1000, High: 2000, Max: 40_000}
	st, l := newStage(t, srv)
	for _, perStep := range []int{10, 300} {
		a := st.connect(l)
		a.room = 0
		a.send("go;")
		for range 20 {
			a.room = perStep
			st.pass(l, 100*time.Millisecond, 50*time.Millisecond)
		}
		want := CloseBackpressureLimit
		if perStep == 300 {
			want = CloseUnset
		}
		a.wantEnd(t, fmt.Sprintf("with %d bytes every 100 ms", perStep), want)
	}
}

// TestHandshakeDeadline: a protocol that has not called HandshakeDone within HandshakeTimeout loses its connection.
func TestHandshakeDeadline(t *testing.T) {
	srv := cutServer(func(ctx *Context, _ string) error { ctx.Conn().HandshakeDone(); return nil })
	srv.HandshakeTimeout = time.Second
	st, l := newStage(t, srv)
	done, silent, busy := st.connect(l), st.connect(l), st.connect(l)
	done.send("hello;")
	for range 10 {
		busy.send("x")
		st.pass(l, 99*time.Millisecond, 33*time.Millisecond)
	}
	silent.wantEnd(t, "in time", CloseUnset)
	st.pass(l, 30*time.Millisecond, 10*time.Millisecond)
	silent.wantEnd(t, "late", CloseHandshakeFailed)
	busy.wantEnd(t, "late, though not silent", CloseHandshakeFailed)
	st.pass(l, time.Minute, time.Second)
	done.wantEnd(t, "after the handshake", CloseUnset)
}

// farewell writes a last word when a deadline has passed.
type farewell struct {
	heard  error
	leaves bool // closes the connection itself
}

func (f *farewell) HandleError(ctx *Context, err error) error {
	f.heard = err
	if late := (*DeadlineError)(nil); errors.As(err, &late) {
		_ = ctx.Write([]byte("late: " + late.Reason.String()))
	}
	if f.leaves {
		ctx.CloseAfterFlush(CloseNormal)
	}
	return nil // handled, but the connection ends all the same
}

// TestFarewellBeforeDeadlineClose: handlers may answer before a deadline closes; what they write is sent, then FIN. One
// that closes the connection itself chooses the reason.
func TestFarewellBeforeDeadlineClose(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		f := farewell{leaves: leaves}
		srv := cutServer(func(*Context, string) error { return nil })
		srv.ReadTimeout = time.Second
		add := srv.Init
		srv.Init = func(p *Pipeline) error {
			_ = add(p)
			return p.Add("farewell", &f)
		}
		st, l := newStage(t, srv)
		a := st.connect(l)
		a.send("half")
		st.pass(l, 1100*time.Millisecond, 50*time.Millisecond)
		if string(a.out) != "late: read_timeout" || !a.shutdown || a.closed != 0 {
			t.Fatalf("wrote %q, FIN sent: %v, closed %d times; the handler heard %v", a.out, a.shutdown, a.closed, f.heard)
		}
		a.eof = true
		l.Iterate()
		want := CloseReadTimeout
		if leaves {
			want = CloseNormal
		}
		a.wantEnd(t, "after the peer's end", want)
	}
}

// armedFor returns when the connection's wheel entry fires, 0 when it has none.
func armedFor(c *Conn) int64 {
	if c.timer == 0 {
		return 0
	}
	return c.loop.deadlines.wheel.When(c.timer)
}

// TestOneWheelEntryPerConnection: all deadlines of a connection share one entry, traffic does not move it, and nothing is
// armed when none is set.
func TestOneWheelEntryPerConnection(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, 0} {
		srv := cutServer(func(ctx *Context, msg string) error { return ctx.Write([]byte(msg)) })
		srv.IdleTimeout, srv.ReadTimeout, srv.BodyTimeout, srv.HandlerTimeout = limit, limit, limit, limit
		srv.WriteTimeout, srv.BackpressureTimeout, srv.HandshakeTimeout = limit, limit, limit
		st, l := newStage(t, srv)
		var all []*actor
		for range 3 {
			all = append(all, st.connect(l))
		}
		want := 0
		if limit > 0 {
			want = len(all)
		}
		for i := range 40 {
			for _, a := range all {
				timer, at := a.conn.timer, armedFor(a.conn)
				a.conn.HandshakeDone()
				a.send("one;tw")
				a.send("o;")
				l.Iterate()
				if i%10 > 1 && (a.conn.timer != timer || armedFor(a.conn) != at) {
					t.Fatalf("limit %v: a message moved the wheel entry from %d to %d", limit, at, armedFor(a.conn))
				}
			}
			if n := l.deadlines.wheel.Len(); n != want {
				t.Fatalf("limit %v: %d wheel entries for %d connections, want %d", limit, n, len(all), want)
			}
			st.now.Add(int64(100 * time.Millisecond))
		}
		for _, a := range all {
			a.wantEnd(t, "with traffic", CloseUnset)
		}
	}
}

// TestOwnDeadlines: a protocol may give a connection limits of its own, also while time runs; bad ones are refused by
// name.
func TestOwnDeadlines(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.ReadTimeout = time.Minute
	st, l := newStage(t, srv)
	own, server := st.connect(l), st.connect(l)
	own.send("half")
	server.send("half")
	l.Iterate()
	if err := own.conn.SetDeadlines(&Deadlines{Read: -1}); err == nil || !strings.Contains(err.Error(), "Read") {
		t.Errorf("a negative limit: %v", err)
	}
	if err := own.conn.SetDeadlines(&Deadlines{Read: time.Second}); err != nil {
		t.Fatal(err)
	}
	if d := own.conn.Deadlines(); d.Read != time.Second {
		t.Errorf("Deadlines = %+v", d)
	}
	st.pass(l, 1100*time.Millisecond, 50*time.Millisecond)
	own.wantEnd(t, "with a second of its own", CloseReadTimeout)
	server.wantEnd(t, "with the server's minute", CloseUnset)
	if err := own.conn.SetDeadlines(&Deadlines{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestDeadlineOptions: negative limits are refused with the field's name.
func TestDeadlineOptions(t *testing.T) {
	init := func(*Pipeline) error { return nil }
	for name, srv := range map[string]*Server{
		"ReadTimeout": {Init: init, ReadTimeout: -1}, "BodyTimeout": {Init: init, BodyTimeout: -1},
		"HandlerTimeout": {Init: init, HandlerTimeout: -1}, "WriteTimeout": {Init: init, WriteTimeout: -1},
		"BackpressureTimeout": {Init: init, BackpressureTimeout: -1}, "HandshakeTimeout": {Init: init, HandshakeTimeout: -1},
	} {
		if err := srv.Listen("tcp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "Server."+name) {
			t.Errorf("%s: Listen = %v", name, err)
		}
	}
}

// holding is a decoder that pauses reads itself while it has no use for what comes, and then wants two bytes at a time.
type holding struct{ busy bool }

func (d *holding) Decode(ctx *Context, view []byte) (int, error) {
	if d.busy {
		ctx.Conn().PauseRead()
		return 0, nil
	}
	if len(view) < 2 {
		return 0, nil
	}
	ctx.FireRead("pair")
	return 2, nil
}

// TestDecoderHoldsThePeer: the time of a frame does not begin while its decoder keeps it waiting, and begins when it goes
// on.
func TestDecoderHoldsThePeer(t *testing.T) {
	d := &holding{busy: true}
	srv := &Server{ReadTimeout: time.Second, Init: func(p *Pipeline) error {
		p.Add("holding", d)
		return p.Add("app", Handle(func(*Context, string) error { return nil }))
	}}
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send("x")
	l.Iterate()
	st.pass(l, 900*time.Millisecond, 50*time.Millisecond)
	d.busy = false
	a.conn.ResumeRead()
	st.pass(l, 900*time.Millisecond, 50*time.Millisecond)
	a.wantEnd(t, "900 ms after the decoder went on", CloseUnset)
	st.pass(l, 150*time.Millisecond, 50*time.Millisecond)
	a.wantEnd(t, "one second after the decoder went on", CloseReadTimeout)
}

// TestRequestFromOutsideIsWatchedAgain: a request that another goroutine begins after the wheel has fired for one that was
// over in time has its deadline, too.
func TestRequestFromOutsideIsWatchedAgain(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	srv.HandlerTimeout = time.Second
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.conn.Begin() // as another goroutine does: no message of the peer's arms anything
	st.pass(l, 100*time.Millisecond, 50*time.Millisecond)
	a.conn.End()
	st.pass(l, 2*time.Second, 50*time.Millisecond)
	a.wantEnd(t, "with the first request over in time", CloseUnset)
	if armedFor(a.conn) != 0 {
		t.Fatal("the wheel is to fire for a request that is over")
	}
	a.conn.Begin()
	st.pass(l, 900*time.Millisecond, 50*time.Millisecond)
	a.wantEnd(t, "900 ms into the second request", CloseUnset)
	st.pass(l, 150*time.Millisecond, 50*time.Millisecond)
	a.wantEnd(t, "one second into the second request", CloseHandlerTimeout)
}

// TestBodyInsideAHandshake: the time of a body that begins before the handshake is done does not take the place of the
// handshake's.
func TestBodyInsideAHandshake(t *testing.T) {
	srv := cutServer(func(ctx *Context, _ string) error { ctx.Conn().SetPhase(PhaseReadingBody); return nil })
	srv.HandshakeTimeout, srv.BodyTimeout = time.Minute, time.Second
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send("body;")
	st.pass(l, 59*time.Second, time.Second)
	a.wantEnd(t, "in time", CloseUnset)
	st.pass(l, 2*time.Second, time.Second)
	a.wantEnd(t, "late", CloseHandshakeFailed)
}
