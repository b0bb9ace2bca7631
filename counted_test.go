package eddy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/testkit"
)

// countedServer is a server whose handlers do nothing but what the test adds.
func countedServer(init func(p *Pipeline) error) *Server {
	return &Server{Loops: 1, Logger: slog.New(slog.DiscardHandler), Overflow: OverflowReject, Init: func(p *Pipeline) error {
		if init != nil {
			return init(p)
		}
		return p.Add("nothing", Handle(func(*Context, struct{}) error { return nil }))
	}}
}

// handOver is a message of the user's own that carries counted memory.
type handOver struct{ what Releaser }

func (h handOver) Release() { h.what.Release() }

// countedForms are the messages that carry a reference to s.
var countedForms = map[string]func(s *buf.Shared) any{
	"shared": func(s *buf.Shared) any { return s },
	"composite": func(s *buf.Shared) any {
		c := new(buf.Composite)
		c.Append([]byte("header"))
		c.AppendShared(s)
		return c
	},
	"class": func(s *buf.Shared) any { return (&MessageClass{Name: "any", Policy: OverflowReject}).Wrap(s) },
}

// countedFates are the ways a message with counted memory can end. Each gets a connection and a message that was not
// written yet, ends it, and may hold on to it up to there by calling held.
var countedFates = map[string]func(t *testing.T, st *stage, l *loop, a *actor, msg any, held func()){
	"sent": func(t *testing.T, st *stage, l *loop, a *actor, msg any, held func()) {
		write(t, a.conn, msg)
		held()
		l.Iterate()
		if len(a.out) == 0 || a.conn.QueuedBytes() != 0 {
			t.Errorf("%d bytes out, %d queued", len(a.out), a.conn.QueuedBytes())
		}
	},
	"sent by a handler": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		if err := a.conn.head.Write(msg); err != nil {
			t.Fatal(err)
		}
		l.Iterate()
	},
	"partly sent, then the rest": func(t *testing.T, st *stage, l *loop, a *actor, msg any, held func()) {
		a.room = 1
		write(t, a.conn, msg)
		l.Iterate()
		if len(a.out) != 1 || a.conn.QueuedBytes() == 0 {
			t.Fatalf("%d bytes out, %d queued", len(a.out), a.conn.QueuedBytes())
		}
		if a.conn.QueuedBytes() > adoptSize {
			held()
		}
		a.room = 1 << 30
		l.Iterate()
	},
	"partly sent, then closed": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		a.room = 1
		write(t, a.conn, msg)
		l.Iterate()
		a.conn.Close(CloseNormal)
		l.Iterate()
	},
	"closed before the loop saw it": func(t *testing.T, st *stage, l *loop, a *actor, msg any, held func()) {
		write(t, a.conn, msg)
		held()
		a.conn.beginClose(CloseNormal, nil)
		l.Iterate()
		if l.Counters[meter.DeadWrites] != 1 {
			t.Errorf("%d dead writes", l.Counters[meter.DeadWrites])
		}
	},
	"refused, closed": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		a.conn.Close(CloseNormal)
		l.Iterate()
		wantErr(t, a.conn.Write(msg), ErrClosed)
	},
	"refused, closed, by a handler": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		a.conn.beginClose(CloseNormal, nil)
		wantErr(t, a.conn.head.Write(msg), ErrClosed)
		l.Iterate()
	},
	"refused, too much queued": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		fill(t, l, a)
		wantErr(t, a.conn.Write(msg), ErrBackpressure)
	},
	"refused, too much queued, on the loop": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		fill(t, l, a)
		wantErr(t, a.conn.head.Write(msg), ErrBackpressure)
	},
	"refused, task queue full": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		l.Tasks.Limit = 0
		wantErr(t, a.conn.Write(msg), ErrSaturated)
	},
	"a wait that ended": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		fill(t, l, a)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		wantErr(t, a.conn.WriteContext(ctx, msg), context.Canceled)
	},
	"after a wait": func(t *testing.T, st *stage, l *loop, a *actor, msg any, held func()) {
		if err := a.conn.WriteContext(context.Background(), msg); err != nil {
			t.Fatal(err)
		}
		held()
		l.Iterate()
	},
	"by id": func(t *testing.T, st *stage, l *loop, a *actor, msg any, held func()) {
		held()
		l.writeTo(&st.srv.endpoint, a.conn.ID(), msg)
		l.Iterate()
		if len(a.out) == 0 {
			t.Error("nothing was sent")
		}
	},
	"by a dead id": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		a.conn.Close(CloseNormal)
		l.Iterate()
		l.writeTo(&st.srv.endpoint, a.conn.ID(), msg)
	},
	"by an id of nobody": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		if st.srv.WriteTo(ConnID{loop: 9}, msg) == nil {
			t.Error("no error")
		}
	},
	"inbound, to the tail": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		a.conn.fireReadFromHead(msg)
		if l.Counters[meter.Unhandled] != 1 {
			t.Errorf("%d unhandled", l.Counters[meter.Unhandled])
		}
	},
	"inbound, after the end": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		a.conn.beginClose(CloseNormal, nil)
		a.conn.head.FireRead(msg)
		l.Iterate()
	},
	"a message that no head takes": func(t *testing.T, st *stage, l *loop, a *actor, msg any, _ func()) {
		if err := a.conn.head.Write(handOver{msg.(Releaser)}); err == nil || !strings.Contains(err.Error(), "eddy.handOver reached the head") {
			t.Errorf("Write = %v", err)
		}
	},
}

func write(t *testing.T, c *Conn, msg any) {
	t.Helper()
	if err := c.Write(msg); err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

// fill brings the outbound queue to its Max.
func fill(t *testing.T, l *loop, a *actor) {
	t.Helper()
	a.room = 0
	write(t, a.conn, make([]byte, defaultMaxOutbound))
	l.Iterate()
}

// TestCountedMessagesAreReleasedOnce: whatever becomes of a message with counted memory, its reference is held until then
// and released once.
func TestCountedMessagesAreReleasedOnce(t *testing.T) {
	for fate, end := range countedFates {
		for form, wrap := range countedForms {
			for _, size := range []int{10, 100_000} {
				t.Run(fmt.Sprint(fate, "/", form, "/", size), func(t *testing.T) {
					st, l := newStage(t, countedServer(nil))
					a := st.connect(l)
					s := a.conn.Buffers().Get(size)
					end(t, st, l, a, wrap(s.Retain()), func() {
						t.Helper()
						if n := s.Refs(); n != 2 {
							t.Errorf("%d references before the end of the message, want 2", n)
						}
					})
					if n := s.Refs(); n != 1 {
						t.Errorf("%d references after the end of the message, want the test's own", n)
					}
					s.Release()
					a.conn.Close(CloseNormal)
					l.Tasks.Limit = 10
					l.Iterate()
					if n := a.conn.Buffers().Live(); n != 0 {
						t.Errorf("%d buffers are left", n)
					}
				})
			}
		}
	}
}

// TestCountedMessagesAndPools: a message that a pool refuses is released, one that crosses a pool goes on.
func TestCountedMessagesAndPools(t *testing.T) {
	for name, c := range map[string]struct {
		handler any
		send    func(a *actor, msg any)
	}{
		"outbound": {passOn{}, func(a *actor, msg any) { a.conn.Write(msg) }},
		"inbound":  {Handle(func(ctx *Context, m *buf.Shared) error { return ctx.Write(m) }), func(a *actor, msg any) { a.conn.fireReadFromHead(msg) }},
	} {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", pool closed ", closed), func(t *testing.T) {
				pool, err := executor.NewFixed(executor.Options{Name: "codec", Workers: 1})
				if err != nil {
					t.Fatal(err)
				}
				defer pool.Close()
				st, l := newStage(t, countedServer(func(p *Pipeline) error { return p.Add("on a pool", c.handler, On(pool)) }))
				a := st.connect(l)
				if closed {
					pool.Close()
				}
				s := a.conn.Buffers().Copy(make([]byte, 5000))
				c.send(a, s.Retain())
				stepUntil(t, "the end of the message", func() bool { l.Iterate(); return s.Refs() == 1 })
				switch {
				case closed && len(a.out) > 0:
					t.Errorf("%d bytes out", len(a.out))
				case !closed && (len(a.out) != 5000 || a.first[0] != &s.Bytes()[0]):
					t.Errorf("%d bytes out, or a copy: a worker gives its result away", len(a.out))
				}
				s.Release()
				if n := a.conn.Buffers().Live(); n != 0 {
					t.Errorf("%d buffers are left", n)
				}
			})
		}
	}
}

// TestPoolsWriteToTheDead: a handler on a pool whose connection has ended passes a message on, in either direction: it is
// released.
func TestPoolsWriteToTheDead(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	st, l := newStage(t, countedServer(func(p *Pipeline) error {
		p.Add("first", passOn{}, On(pool))
		return p.Add("second", Handle(func(*Context, struct{}) error { return nil }))
	}))
	for name, pass := range map[string]func(ctx *Context, msg any){
		"write":         func(ctx *Context, msg any) { wantErr(t, ctx.Write(msg), ErrClosed) },
		"read":          func(ctx *Context, msg any) { ctx.FireRead(msg) },
		"read, refused": func(ctx *Context, msg any) { l.Tasks.Limit = 0; ctx.FireRead(msg) },
	} {
		a := st.connect(l)
		s := a.conn.Buffers().Get(5000)
		a.conn.Close(CloseNormal)
		l.Iterate()
		pass(a.conn.head, s.Retain())
		l.Iterate()
		l.Tasks.Limit = 1000
		if n := s.Refs(); n != 1 {
			t.Errorf("%s: %d references, want the test's own", name, n)
		}
	}
}

// stepUntil waits for what other goroutines and the steps of a loop bring about.
func stepUntil(t *testing.T, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, what, cond)
}

// passOn is a WriteHandler that changes nothing.
type passOn struct{}

func (passOn) HandleWrite(ctx *Context, msg any) error { return ctx.Write(msg) }

// TestCompositeGoesOutInOneWrite: a header and a long body leave with one gathered write, the body from where it lies.
func TestCompositeGoesOutInOneWrite(t *testing.T) {
	st, l := newStage(t, countedServer(nil))
	a := st.connect(l)
	body := make([]byte, 50_000)
	counted := a.conn.Buffers().Copy(slices.Repeat([]byte("c"), 4000))
	var c buf.Composite
	c.Append([]byte("header"))
	c.Append(body)
	c.AppendShared(counted.Retain())
	write(t, a.conn, &c)
	if n := a.conn.QueuedBytes(); n != 54_006 {
		t.Errorf("%d bytes count as submitted, want 54006", n)
	}
	l.Iterate()
	if !slices.Equal(a.writes, []int{3}) || a.first[1] != &body[0] || a.first[2] != &counted.Bytes()[0] {
		t.Errorf("writes of %v buffers, or copies of them", a.writes)
	}
	if len(a.out) != 54_006 || string(a.out[:6]) != "header" || a.out[54_005] != 'c' {
		t.Errorf("%d bytes out, from %q", len(a.out), a.out[:6])
	}
	defer func() {
		if v := recover(); v != "buf: Len of a composite that was written or released" {
			t.Errorf("the second write of a composite: panic %v", v)
		}
	}()
	_ = a.conn.Write(&c)
}

// TestSharedGoesToManyWithoutCopies: one buffer, many connections, on several loops.
func TestSharedGoesToManyWithoutCopies(t *testing.T) {
	st, first := newStage(t, countedServer(nil))
	loops := []*loop{first, st.loop("worker-1"), st.loop("worker-2")}
	s := first.crew.shared.Copy(slices.Repeat([]byte("b"), 2000))
	var actors []*actor
	for i := range 30 {
		actors = append(actors, st.connect(loops[i%3]))
	}
	for _, a := range actors {
		write(t, a.conn, s.Retain())
	}
	memory := &s.Bytes()[0]
	s.Release()
	for i, l := range loops {
		if n := s.Refs(); n != 30-10*i {
			t.Errorf("%d references, want %d", n, 30-10*i)
		}
		l.Iterate()
	}
	for i, a := range actors {
		if len(a.out) != 2000 || a.first[0] != memory {
			t.Errorf("connection %d got %d bytes, or a copy", i, len(a.out))
		}
	}
	if n := first.crew.shared.Live(); n != 0 {
		t.Errorf("%d buffers are left", n)
	}
}
