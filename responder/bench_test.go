package responder_test

import (
	"context"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/responder"
)

// note is a request of 16 bytes whose memory is used again: what a codec that allocates nothing would make of a frame.
type note struct {
	data [16]byte
	out  buf.Bytes
	home *sync.Pool
}

func (n *note) Release() { n.home.Put(n) }

// noteServer answers every note with itself.
func noteServer(t testing.TB, o responder.Ordering, workers int) string {
	notes := new(sync.Pool)
	notes.New = func() any { return &note{home: notes} }
	r, err := responder.New(responder.Options[*note]{
		Pool:     newPool(t, workers, 4096),
		Ordering: o,
		Run:      func(_ context.Context, n *note) (any, error) { return n, nil },
		Answer: func(n *note, _ any, _ error) any {
			n.out.Reset(n.data[:])
			return &n.out
		},
		ID: func(n *note) uint64 { return uint64(n.data[0]) + 1 },
	})
	if err != nil {
		t.Fatal(err)
	}
	cut := eddy.Handle(func(*eddy.Context, *buf.Bytes) error { return nil })
	return enginetest.Serve(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("notes", noteDecoder{notes})
		p.Add("responder", r)
		return p.Add("rest", cut)
	}})
}

type noteDecoder struct{ home *sync.Pool }

func (d noteDecoder) Decode(ctx *eddy.Context, view []byte) (int, error) {
	n := d.home.Get().(*note)
	if len(view) < len(n.data) {
		d.home.Put(n)
		return 0, nil
	}
	copy(n.data[:], view)
	ctx.FireRead(n)
	return len(n.data), nil
}

// exchange sends n times a batch of notes and reads the answers.
func exchange(t testing.TB, c io.ReadWriter, n, batch int) {
	out, in := make([]byte, 16*batch), make([]byte, 16*batch)
	for i := range batch {
		out[16*i] = byte(i)
	}
	for range n {
		if _, err := c.Write(out); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, in); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAllocatesNothing: what a Responder adds to a request is no allocation, but for a batch of contexts now and
// then.
func TestAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes sync.Pool forget some")
	}
	for o := range responder.NoPipelining + 1 {
		t.Run(o.String(), func(t *testing.T) {
			batch := 8
			if o == responder.NoPipelining {
				batch = 1
			}
			c := enginetest.Dial(t, noteServer(t, o, 2))
			exchange(t, c, 500, batch)
			const n = 2000
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			exchange(t, c, n, batch)
			runtime.ReadMemStats(&after)
			per := float64(after.Mallocs-before.Mallocs) / float64(n*batch)
			t.Logf("%.3f allocations, %.0f B per request", per, float64(after.TotalAlloc-before.TotalAlloc)/float64(n*batch))
			if per > 0.2 {
				t.Errorf("%.3f allocations per request", per)
			}
		})
	}
}

// BenchmarkResponder compares the orderings with a handler on the loop and with one on a pool.
func BenchmarkResponder(b *testing.B) {
	const batch = 16
	echo := eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) })
	initWith := func(opts ...eddy.AddOption) func(*eddy.Pipeline) error {
		return func(p *eddy.Pipeline) error { return p.Add("handler", echo, opts...) }
	}
	run := func(name string, serve func(*testing.B) string) {
		b.Run(name, func(b *testing.B) {
			c := enginetest.Dial(b, serve(b))
			b.ReportAllocs()
			b.ResetTimer()
			exchange(b, c, (b.N+batch-1)/batch, batch)
		})
	}
	run("loop", func(b *testing.B) string { return enginetest.Serve(b, &eddy.Server{Loops: 1, Init: initWith()}) })
	run("hop", func(b *testing.B) string {
		pool := newPool(b, 2, 4096)
		return enginetest.Serve(b, &eddy.Server{Loops: 1, Init: initWith(eddy.On(pool))})
	})
	for o := range responder.NoPipelining {
		run(o.String(), func(b *testing.B) string { return noteServer(b, o, 2) })
	}
}
