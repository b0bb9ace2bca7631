package eddy

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/sys"
)

// fixedFrames is a decoder of 64-byte frames whose message is always the same pointer, so that nothing but the hop costs.
type fixedFrames struct{}

var oneFrame = new([64]byte)

func (fixedFrames) Decode(ctx *Context, view []byte) (int, error) {
	if len(view) < 64 {
		return 0, nil
	}
	ctx.FireRead(oneFrame)
	return 64, nil
}

// hopStage is a loop whose connections each send one frame per round to a handler on the loop or on a pool.
type hopStage struct {
	l       *loop
	conns   int
	answers bool
	handled atomic.Int64
	total   int64
}

func newHopStage(tb testing.TB, conns int, opts ...AddOption) *hopStage {
	h := &hopStage{conns: conns}
	srv := &Server{Init: func(p *Pipeline) error {
		if err := p.Add("frames", fixedFrames{}); err != nil {
			return err
		}
		return p.Add("app", Handle(func(ctx *Context, m *[64]byte) error {
			defer h.handled.Add(1)
			if !h.answers {
				return nil
			}
			return ctx.WriteBytes(m[:])
		}), opts...)
	}}
	st, l := newStage(tb, srv)
	sock := &hotSockets{stageSockets: stageSockets{st}, pending: make([]bool, conns)}
	p := &hotPoller{sock: sock}
	for range conns {
		c := st.connect(l).conn
		c.fd = int(c.slot)
		p.tokens = append(p.tokens, sys.Event{Token: c.token(), Ready: sys.Readable})
	}
	l.sock, l.Poller = sock, p
	h.l = l
	return h
}

// round sends one frame on each connection and waits until all are handled.
func (h *hopStage) round() {
	h.l.Iterate()
	h.total += int64(h.conns)
	for h.handled.Load() < h.total {
		runtime.Gosched()
	}
}

func hopPool(tb testing.TB) *executor.Pool {
	pool, err := executor.NewFixed(executor.Options{Workers: 2, Queue: 4096})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if _, err := pool.Shutdown(tb.Context()); err != nil && tb.Context().Err() == nil {
			tb.Error(err)
		}
	})
	return pool
}

func hopModes(tb testing.TB) map[string][]AddOption {
	pool := hopPool(tb)
	return map[string][]AddOption{"direct": nil, "ordered": {On(pool)}, "unordered": {OnUnordered(pool)}}
}

// BenchmarkHop is what a handler on a pool costs over one on the loop, the engine's read included, the kernel's not. One op
// is one message of one of 64 connections.
func BenchmarkHop(b *testing.B) {
	modes := hopModes(b)
	for _, mode := range []string{"direct", "ordered", "unordered"} {
		b.Run(mode, func(b *testing.B) {
			h := newHopStage(b, 64, modes[mode]...)
			b.ReportAllocs()
			for n := 0; n < b.N; n += h.conns {
				h.round()
			}
		})
	}
}

// TestHopAllocatesNothing: a message that crosses to a pool costs no allocation, in order or not, nor does its answer.
func TestHopAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for mode, opts := range hopModes(t) {
		h := newHopStage(t, 64, opts...)
		for range 100 {
			h.round()
		}
		for _, h.answers = range []bool{false, true} {
			for range 10 {
				h.round()
			}
			if n := testing.AllocsPerRun(200, h.round); n > 2 { // of 64 messages; the runtime has some of its own
				t.Errorf("%s, answers %v: %v allocations for 64 messages", mode, h.answers, n)
			}
		}
	}
}
