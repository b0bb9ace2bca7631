package eddy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestMessageInPartsIsOneMessage: a message of several slices is taken or refused whole.
func TestMessageInPartsIsOneMessage(t *testing.T) {
	var result atomic.Pointer[error]
	for _, policy := range []eddy.OverflowPolicy{eddy.OverflowClose, eddy.OverflowReject} {
		srv := &eddy.Server{Loops: 1, Overflow: policy, Watermarks: eddy.Watermarks{Low: 1 << 10, High: 4 << 10, Max: 16 << 10},
			Init: initWith(eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
				err := ctx.Write([][]byte{[]byte("head"), make([]byte, 64<<10), []byte("tail")})
				result.Store(&err)
				return nil
			}))}
		c := dial(t, start(t, srv))
		io.WriteString(c, "x")
		got := make([]byte, 8+64<<10)
		if _, err := io.ReadFull(c, got); err != nil || !bytes.HasSuffix(got, []byte("tail")) {
			t.Errorf("policy %d: %v, write returned %v", policy, err, *result.Load())
		}
	}
}

// TestDroppedWriteReleasesReads: bytes that count as queued and never reach the queue end a pause all the same.
func TestDroppedWriteReleasesReads(t *testing.T) {
	srv := &eddy.Server{Loops: 1, Watermarks: eddy.Watermarks{Low: 1 << 10, High: 4 << 10, Max: 1 << 20},
		Init: func(p *eddy.Pipeline) error {
			p.Add("lines", &lines{})
			p.Add("dropper", dropper{})
			return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
				if string(m.Bytes()) == "first" {
					_ = ctx.WriteBytes(append(make([]byte, 8<<10), '\n')) // above High, and the kernel takes it at once
					_ = ctx.Conn().Write("drop" + strings.Repeat("x", 8<<10))
				}
				return reply(ctx, m)
			}))
		}}
	c := dial(t, start(t, srv))
	r := bufio.NewReader(c)
	io.WriteString(c, "first\n")
	expectLines(t, r, strings.Repeat("\x00", 8<<10), "first")
	io.WriteString(c, "second\n")
	expectLines(t, r, "second")
}

// dropper is a WriteHandler that writes nothing of what it is given.
type dropper struct{}

func (dropper) HandleWrite(ctx *eddy.Context, msg any) error {
	if s, ok := msg.(string); ok && strings.HasPrefix(s, "drop") {
		return nil
	}
	return ctx.Write(msg)
}

// TestDroppedWriteEndsDrain: the same for a draining connection that waits for its queue.
func TestDroppedWriteEndsDrain(t *testing.T) {
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("dropper", dropper{})
		return p.Add("drain", drainWriter{})
	}}
	c := dial(t, start(t, srv))
	waitFor(t, "the connection", func() bool { return srv.Stats().Loops[0].Active == 1 })
	go func() { io.Copy(io.Discard, c); c.Close() }()
	ctx := testkit.Context(t)
	if report, err := srv.Shutdown(ctx); err != nil || report.Drained != 1 {
		t.Errorf("Shutdown = %+v, %v", report, err)
	}
}

// drainWriter answers the drain with a write that is dropped on its way.
type drainWriter struct{}

func (drainWriter) HandleEvent(ctx *eddy.Context, _ any) error { return ctx.Conn().Write("drop this") }

// TestQuickStageBeforeASlowOne: the strand of a quick handler drains all the time; that must not resume the reads that
// a later, slow handler's strand holds back, or the slow one is flooded until it refuses.
func TestQuickStageBeforeASlowOne(t *testing.T) {
	quick, slow := newPool(t, 1, 64), newPool(t, 1, 64)
	gate := make(chan struct{})
	var ends closes
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("quick", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			ctx.FireRead(m)
			for range 20 { // some more work
				runtime.Gosched()
			}
			return nil
		}), eddy.On(quick))
		p.Add("slow", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { <-gate; return reply(ctx, m) }), eddy.On(slow))
		return p.Add("ends", &ends)
	}}
	c := dial(t, start(t, srv))
	var want []string
	for i := range 2000 {
		want = append(want, fmt.Sprint(i))
	}
	go io.WriteString(c, strings.Join(want, "\n")+"\n")
	var before uint64
	waitFor(t, "a pause", func() bool { // hops stand still
		now, st := enginetest.Stats(t, srv).Loops[0].Hops, quick.Stats()
		still := now == before && now > 64 && st.Running == 0 && st.Queued == 0
		before = now
		return still
	})
	if before > 600 {
		t.Errorf("%d hops while the slow handler stands still, want about 64 for it and as many for the quick one", before)
	}
	close(gate)
	expectLines(t, bufio.NewReader(c), want...)
}

// failing fails on every message; named records who was told of errors.
type named struct {
	name string
	mu   *sync.Mutex
	told *[]string
	fail bool
}

// TestErrorOfALaterHandlerOnTheSamePool: an error starts at the handler that returned it, on a pool as on the loop.
func TestErrorOfALaterHandlerOnTheSamePool(t *testing.T) {
	for _, onPool := range []bool{false, true} {
		var mu sync.Mutex
		var told []string
		var opts []eddy.AddOption
		if onPool {
			opts = append(opts, eddy.On(newPool(t, 1, 16)))
		}
		c := dial(t, start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
			p.Add("first", &named{"first", &mu, &told, false}, opts...)
			return p.Add("second", &named{"second", &mu, &told, true}, opts...)
		}}))
		io.WriteString(c, "x")
		waitFor(t, "the error", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) > 0 })
		mu.Lock()
		if told[0] != "second" || len(told) != 1 {
			t.Errorf("on a pool %v: told %v, want the handler that failed", onPool, told)
		}
		mu.Unlock()
	}
}

// seen records events and messages in the order they come.
type seen struct {
	mu  sync.Mutex
	got []string
}

// passEvents handles events only.
type passEvents struct{}

// TestEventsKeepTheirPlaceAmongMessages: what a handler fires in one order, the next ones see in that order, wherever
// they run and whatever stands between them.
func TestEventsKeepTheirPlaceAmongMessages(t *testing.T) {
	pool, other := newPool(t, 2, 64), newPool(t, 2, 64)
	for name, between := range map[string]func(p *eddy.Pipeline){
		"nothing":             func(*eddy.Pipeline) {},
		"events on the loop":  func(p *eddy.Pipeline) { p.Add("between", passEvents{}) },
		"events on its pool":  func(p *eddy.Pipeline) { p.Add("between", passEvents{}, eddy.On(pool)) },
		"events on the other": func(p *eddy.Pipeline) { p.Add("between", passEvents{}, eddy.On(other)) },
	} {
		t.Run(name, func(t *testing.T) {
			var last seen
			c := dial(t, start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
				p.Add("source", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
					for i := range 10 {
						ctx.FireEvent(2 * i)
						ctx.FireRead(2*i + 1)
					}
					return nil
				}), eddy.On(pool))
				between(p)
				return p.Add("last", &last, eddy.On(pool))
			}}))
			io.WriteString(c, "x")
			waitFor(t, "all", func() bool { last.mu.Lock(); defer last.mu.Unlock(); return len(last.got) == 20 })
			for i, v := range last.got {
				if v != fmt.Sprint(i) {
					t.Fatalf("the last handler saw %v", last.got)
				}
			}
		})
	}
}

func (h *named) HandleRead(ctx *eddy.Context, msg any) error {
	if h.fail {
		return errors.New("bad")
	}
	ctx.FireRead(msg)
	return nil
}

func (h *named) HandleError(_ *eddy.Context, err error) error {
	h.mu.Lock()
	*h.told = append(*h.told, h.name)
	h.mu.Unlock()
	return nil
}

func (s *seen) add(v any) {
	s.mu.Lock()
	s.got = append(s.got, fmt.Sprint(v))
	s.mu.Unlock()
}

func (s *seen) HandleRead(_ *eddy.Context, msg any) error { s.add(msg); return nil }

func (s *seen) HandleEvent(_ *eddy.Context, ev any) error {
	if _, end := ev.(eddy.InputClosedEvent); !end { // the test's own end
		s.add(ev)
	}
	return nil
}

func (passEvents) HandleEvent(ctx *eddy.Context, ev any) error { ctx.FireEvent(ev); return nil }

// TestCloseAfterFlushWaitsForWritesOnPools: what was written before is sent, also when a handler on a pool encodes it.
func TestCloseAfterFlushWaitsForWritesOnPools(t *testing.T) {
	pool := newPool(t, 1, 64)
	conns := make(chan *eddy.Conn, 1)
	var ends closes
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("encode", newline{}, eddy.On(pool))
		p.Add("capture", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error { conns <- ctx.Conn(); return nil }))
		return p.Add("ends", &ends)
	}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "x")
	conn := <-conns
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprint("farewell ", i))
		if err := conn.Write(want[i]); err != nil {
			t.Fatal(err)
		}
	}
	conn.CloseAfterFlush(eddy.CloseNormal)
	if err := conn.Write("late"); !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("Write after CloseAfterFlush = %v", err)
	}
	expectLines(t, bufio.NewReader(c), want...)
	expectEnd(t, c)
	c.Close()
	ends.wait(t, eddy.CloseNormal)
}
