package eddy_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
)

// TestSlowReaders: a client that reads steadily gets all of it, though its socket becomes writable again only after a multiple
// of the limit, because the kernel holds that much. One that reads next to nothing, or nothing more, though its kernel has
// taken what it had room for, is reset in time.
func TestSlowReaders(t *testing.T) {
	if os.Getenv("EDDY_POLLER") == "net" {
		t.Skip("net does not tell what a peer has acknowledged")
	}
	const limit, size, step = time.Hour, 4 << 20, 40 * time.Minute
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	messages := map[string]func() any{
		"bytes": func() any { return make([]byte, size) },
		"file": func() any {
			f, err := os.Open(path)
			if err != nil {
				t.Error(err)
				return nil
			}
			return &eddy.File{File: f, Length: size}
		},
	}
	for reason, set := range map[eddy.CloseReason]func(*eddy.Server){
		eddy.CloseWriteTimeout:      func(s *eddy.Server) { s.WriteTimeout = limit },
		eddy.CloseBackpressureLimit: func(s *eddy.Server) { s.BackpressureTimeout = limit },
	} {
		for name, message := range messages {
			t.Run(reason.String()+" "+name, func(t *testing.T) {
				srv := &eddy.Server{Loops: 1, MinWriteRate: 16, SendBuffer: 1 << 20, Init: initWith(eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
					return ctx.Write(message())
				}))}
				srv.Watermarks = eddy.Watermarks{Low: 1 << 10, High: 64 << 10}
				set(srv)
				clock := enginetest.NewClock(t, srv)
				addr := enginetest.Serve(t, srv)
				ask := func(p *enginetest.Peer) *enginetest.Peer {
					p.Send("go")
					waitFor(t, "a full socket", func() bool { return enginetest.Stats(t, srv).Loops[0].WriteInterest == 1 })
					return p
				}
				p := ask(enginetest.DialNarrow(t, addr))
				for got := 0; got < size; {
					part := make([]byte, min(64<<10, size-got))
					if _, err := io.ReadFull(p, part); err != nil || !bytes.Equal(part, make([]byte, len(part))) {
						t.Fatalf("after %d bytes: %v", got, err)
					}
					got += len(part)
					clock.Advance(step)
				}
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				waitFor(t, "its end", func() bool { return srv.Stats().Active == 0 })

				trickles := ask(enginetest.DialNarrow(t, addr))
				for range 4 {
					if _, err := io.ReadFull(trickles, make([]byte, 1<<10)); err != nil {
						t.Fatal(err)
					}
					clock.Advance(step)
				}
				clock.Pass(limit, step)
				trickles.ExpectReset()

				stops := ask(enginetest.Dial(t, addr))
				clock.Pass(3*limit, step)
				if n := enginetest.Stats(t, srv).Closed[reason]; n != 2 {
					t.Errorf("%d connections closed for the reason, want those of the two others", n)
				}
				stops.ExpectReset()
			})
		}
	}
}
