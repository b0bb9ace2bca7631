package tlsx_test

import (
	"crypto/tls"
	"io"
	"os"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestSlowReaderOfTLS: a client that reads steadily behind TLS keeps its connection, although its socket becomes
// writable only after a multiple of the write timeout. A client that has stopped loses its connection.
func TestSlowReaderOfTLS(t *testing.T) {
	if os.Getenv("EDDY_POLLER") == "net" {
		t.Skip("net does not tell what a peer has acknowledged")
	}
	const limit, size, step = time.Hour, 4 << 20, 40 * time.Minute
	r := newRig(t, setup{clock: true,
		server: func(s *eddy.Server) {
			s.Loops, s.WriteTimeout, s.MinWriteRate, s.SendBuffer = 1, limit, 16, 1<<20
		},
		add: func(p *eddy.Pipeline) error {
			return p.Add("flood", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error { return ctx.Write(make([]byte, size)) }))
		},
	})
	c := tls.Client(enginetest.DialNarrow(t, r.addr), clientConfig())
	for range 2 {
		if _, err := io.WriteString(c, "go"); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "a full socket", func() bool { return enginetest.Stats(t, r.srv).Loops[0].WriteInterest == 1 })
		for got := 0; got < size; got += 64 << 10 {
			if _, err := io.ReadFull(c, make([]byte, 64<<10)); err != nil {
				t.Fatalf("after %d bytes: %v", got, err)
			}
			r.clock.Advance(step)
		}
	}
	if _, err := io.WriteString(c, "go"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a full socket", func() bool { return enginetest.Stats(t, r.srv).Loops[0].WriteInterest == 1 })
	r.clock.Pass(3*limit, step)
	r.wantEnd(eddy.CloseWriteTimeout)
}
