package eddy

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sample"
)

// still is a decoder that passes a byte on and says that it has consumed n.
type still struct{ n int }

func (d *still) Decode(ctx *Context, view []byte) (int, error) {
	ctx.FireRead(string(view[:1]))
	return d.n, nil
}

// numbers is an encoder of numbers.
type numbers struct{}

func (numbers) HandleWrite(ctx *Context, msg any) error {
	if n, ok := msg.(int); ok {
		return ctx.Write(strings.Repeat("x", n))
	}
	return ctx.Write(msg)
}

// TestMisuseIsTold: each mistake of a program that would be silent is one line at the default level, with the handler's name and what
// to do, however often it happens within a second; LoopStats count all of them.
func TestMisuseIsTold(t *testing.T) {
	app := func(f func(ctx *Context) error) ReadHandler {
		return Handle(func(ctx *Context, _ *buf.Bytes) error { return f(ctx) })
	}
	ignore := Handle(func(*Context, string) error { return nil })
	for name, c := range map[string]struct {
		init func(p *Pipeline) error
		want []string // in the line
	}{
		"an error that nobody handles": {func(p *Pipeline) error {
			return p.Add("app", app(func(*Context) error { return errors.New("no such customer") }))
		}, []string{"an error of a handler closes its connection", "handler=app", `err="no such customer"`, "WithReason"}},
		"a decoder that consumes too much": {func(p *Pipeline) error {
			return errors.Join(p.Add("cutter", &still{n: 1000}), p.Add("app", ignore))
		}, []string{"an error of a handler closes its connection", "handler=cutter", "consumed 1000 of 3 bytes"}},
		"a decoder that consumes nothing": {func(p *Pipeline) error {
			return errors.Join(p.Add("cutter", &still{}), p.Add("app", ignore))
		}, []string{"fired a message and consumed nothing", "handler=cutter", "return the message's length"}},
		"nothing is written": {func(p *Pipeline) error {
			return p.Add("app", app(func(ctx *Context) error { return ctx.Write(nil) }))
		}, []string{"a message cannot be written", "type=<nil>", "handler=app", "[]byte"}},
		"a number is written, and the error ignored": {func(p *Pipeline) error {
			return p.Add("app", app(func(ctx *Context) error { _ = ctx.Write(42); return nil }))
		}, []string{"a message cannot be written", "type=int", "handler=app", "encoder"}},
		"an encoder behind its handler": {func(p *Pipeline) error {
			return errors.Join(p.Add("app", app(func(ctx *Context) error { return ctx.Write(42) })), p.Add("numbers", numbers{}))
		}, []string{"a message cannot be written", "type=int", "handler=app", `handlers="app numbers"`, "in front of the handler that writes"}},
		"a type that no handler takes": {func(p *Pipeline) error {
			return p.Add("app", Handle(func(*Context, int) error { return nil }))
		}, []string{"no handler took a message", "type=*buf.Bytes", "handlers=app"}},
		"a decoder behind its handler": {func(p *Pipeline) error {
			return errors.Join(p.Add("app", ignore), p.Add("cutter", &still{n: 1}))
		}, []string{"no handler took a message", "type=string", `handlers="app cutter"`, "behind the decoder"}},
	} {
		t.Run(name, func(t *testing.T) {
			log := new(bytes.Buffer)
			st, l := newStage(t, &Server{Loops: 1, Logger: slog.New(slog.NewTextHandler(log, nil)), Init: c.init})
			for range 2 * sample.PerInterval {
				st.connect(l).send("abc")
				l.Iterate()
			}
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if len(lines) != sample.PerInterval {
				t.Fatalf("%d lines:\n%s", len(lines), log)
			}
			for _, want := range append(c.want, "level=WARN") {
				if !strings.Contains(lines[0], want) {
					t.Errorf("no %s in %s", want, lines[0])
				}
			}
		})
	}
}

// TestClassifiedErrorsAreQuiet: what a peer or the load can cause at will is no line.
func TestClassifiedErrorsAreQuiet(t *testing.T) {
	for _, err := range []error{WithReason(CloseProtocolError, nil), ErrBackpressure, &CloseError{Reason: ClosePeerClosed}} {
		log := new(bytes.Buffer)
		st, l := newStage(t, &Server{Loops: 1, Logger: slog.New(slog.NewTextHandler(log, nil)), Init: func(p *Pipeline) error {
			return p.Add("app", Handle(func(*Context, *buf.Bytes) error { return err }))
		}})
		a := st.connect(l)
		a.send("abc")
		if l.Iterate(); log.Len() > 0 || a.conn.CloseError() == nil {
			t.Errorf("%v: %v, said %s", err, a.conn.CloseError(), log)
		}
	}
}

// TestWriteOffTheLoop: a Context of a loop that is used on another goroutine while the loop sleeps says so and writes nothing.
func TestWriteOffTheLoop(t *testing.T) {
	log := new(bytes.Buffer)
	ctxs := make(chan *Context, 1)
	srv := &Server{Loops: 1, Logger: slog.New(slog.NewTextHandler(log, nil)), Init: func(p *Pipeline) error {
		return p.Add("app", Handle(func(ctx *Context, _ *buf.Bytes) error { ctxs <- ctx; return ctx.Write("ok") }))
	}}
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send("abc")
	l.Iterate()
	ctx := <-ctxs
	s := l.crew.shared.Get(10)
	st.nextPoller.onWait = func() { // the loop sleeps
		st.nextPoller.onWait = nil
		if err := ctx.Write(s); err != ErrOffLoop {
			t.Errorf("Write = %v", err)
		}
		if err := ctx.WriteBytes([]byte("x")); err != ErrOffLoop {
			t.Errorf("WriteBytes = %v", err)
		}
	}
	l.Iterate()
	if s.Refs() > 0 {
		t.Error("the message was not released")
	}
	if string(a.out) != "ok" || ctx.conn.QueuedBytes() != 0 {
		t.Errorf("wrote %q, %d bytes queued", a.out, ctx.conn.QueuedBytes())
	}
	if n := strings.Count(log.String(), "on another goroutine"); n != 2 || !strings.Contains(log.String(), "handler=app") || !strings.Contains(log.String(), "Conn.Write") {
		t.Errorf("%d lines: %s", n, log)
	}
}

// TestWriteContextOnALoop: a call that may block is refused on a loop also while it would not.
func TestWriteContextOnALoop(t *testing.T) {
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error { return p.Add("app", Handle(func(*Context, string) error { return nil })) }}
	g := &Group{Loops: 1}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	st, l := newStage(t, srv)
	c := st.connect(l).conn
	onLoopOf(t, g.crew.Load().loops[0], func() {
		if err := c.WriteContext(context.Background(), "x"); err != ErrOnLoop {
			t.Errorf("WriteContext = %v", err)
		}
	})
	if c.QueuedBytes() != 0 {
		t.Errorf("%d bytes queued", c.QueuedBytes())
	}
}

// TestFailingSystemIsTold: a connection that ends because the system has no memory for it is a line with the peer and the
// error, of which a few are written.
func TestFailingSystemIsTold(t *testing.T) {
	peer := netip.MustParseAddrPort("192.0.2.7:1234")
	for op, c := range map[string]struct {
		err   error
		begin func(st *stage, l *loop) *actor
	}{
		"register": {syscall.ENOMEM, func(st *stage, l *loop) *actor {
			st.addErrs = map[int]error{st.lastFD + 1: syscall.ENOMEM}
			st.peers, st.pending = append(st.peers, peer), 1
			l.Iterate()
			return st.socks[st.lastFD]
		}},
		"write": {syscall.ENOBUFS, func(st *stage, l *loop) *actor {
			st.peers, st.pending = append(st.peers, peer), 1
			l.Iterate()
			a := st.socks[st.lastFD]
			a.writeErr = syscall.ENOBUFS
			a.send("abc")
			return a
		}},
	} {
		t.Run(op, func(t *testing.T) {
			log := new(bytes.Buffer)
			st, l := newStage(t, &Server{Loops: 1, Logger: slog.New(slog.NewTextHandler(log, nil)), Init: func(p *Pipeline) error {
				return p.Add("echo", Handle(func(ctx *Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
			}})
			st.listen(l, l)
			for range 2 * sample.PerInterval {
				a := c.begin(st, l)
				if l.Iterate(); a.closed != 1 {
					t.Fatal("the connection has not ended")
				}
			}
			for _, want := range []string{"level=WARN", "a connection ends because a system call failed", "peer=192.0.2.7:1234 op=" + op, `err="` + c.err.Error() + `"`} {
				if n := strings.Count(log.String(), want); n != sample.PerInterval {
					t.Errorf("%d times %s in\n%s", n, want, log)
				}
			}
		})
	}
}

// TestSlowPeersAreTold: a connection that is closed for what waits for its peer is a line with the peer, the bound and
// how much waited, of which a few are written.
func TestSlowPeersAreTold(t *testing.T) {
	log := new(bytes.Buffer)
	st, l := newStage(t, &Server{Loops: 1, Logger: slog.New(slog.NewTextHandler(log, nil)), Watermarks: Watermarks{Low: 10, High: 20, Max: 100},
		Init: func(p *Pipeline) error {
			return p.Add("push", Handle(func(ctx *Context, m *buf.Bytes) error {
				_ = ctx.WriteBytes(make([]byte, 90))
				return ctx.WriteBytes(make([]byte, 50))
			}))
		}})
	for range 2 * sample.PerInterval {
		a := st.connect(l)
		a.room = 0
		a.send("go")
		l.Iterate()
		a.wantEnd(t, "beyond the bound", CloseBackpressureLimit)
	}
	for _, want := range []string{"level=WARN", "closed a connection that met a bound of what may wait", "peer=", "reason=backpressure_limit queued=90", "90 bytes queued, 50 more, limit 100"} {
		if n := strings.Count(log.String(), want); n != sample.PerInterval {
			t.Errorf("%d times %s in\n%s", n, want, log)
		}
	}
}
