package eddy

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// TestReserveIsExact: however many goroutines write at once, one of them goes over the mark and the others find the bound.
func TestReserveIsExact(t *testing.T) {
	const writers, rounds, size = 4, 200_000, 300_000
	conns := make(chan *Conn, 1)
	serveOne(t, &Server{Loops: 1, Watermarks: Watermarks{Low: 1 << 10, High: 64 << 10, Max: 256 << 10}, Init: func(p *Pipeline) error {
		conns <- p.Conn()
		return p.Add("echo", Handle(func(ctx *Context, b *buf.Bytes) error { return ctx.Write(b) }))
	}})
	c := <-conns
	var wg sync.WaitGroup
	var over, most atomic.Int64
	for range writers {
		wg.Go(func() {
			for range rounds {
				if c.reserve(size) != nil {
					continue
				}
				if n := over.Add(1); n > most.Load() {
					most.Store(n)
				}
				over.Add(-1)
				c.queued.Add(-size)
			}
		})
	}
	wg.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("%d writers at once have got room for %d bytes each, limit %d", n, size, 256<<10)
	}
	until(t, "the count", func() bool { return c.QueuedBytes() == 0 })
}
