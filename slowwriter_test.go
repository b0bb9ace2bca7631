package eddy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
)

// TestStuckPeersAreReset: a connection that ends because its peer takes nothing ends with a reset, so that the system keeps
// nothing of it.
func TestStuckPeersAreReset(t *testing.T) {
	const limit = time.Hour
	for reason, set := range map[eddy.CloseReason]func(*eddy.Server){
		eddy.CloseWriteTimeout:      func(s *eddy.Server) { s.WriteTimeout = limit },
		eddy.CloseBackpressureLimit: func(s *eddy.Server) { s.BackpressureTimeout = limit },
	} {
		t.Run(reason.String(), func(t *testing.T) {
			srv := &eddy.Server{Loops: 1, Init: initWith(eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
				return ctx.Write(make([]byte, 7<<20))
			}))}
			enginetest.Narrow(srv)
			set(srv)
			clock := enginetest.NewClock(t, srv)
			p := enginetest.DialNarrow(t, enginetest.Serve(t, srv))
			p.Send("go")
			waitFor(t, "the queue", func() bool { return enginetest.Stats(t, srv).Loops[0].BytesOut > 0 })
			clock.Pass(3*limit, limit/2)
			if n := enginetest.Stats(t, srv).Closed[reason]; n != 1 {
				t.Fatalf("%d connections closed for the reason", n)
			}
			p.ExpectReset()
		})
	}
}

// TestSlowWriterClients: clients that send a request byte by byte. Who is done in time is served; who is not loses the
// connection to the read deadline; and nobody else notices.
func TestSlowWriterClients(t *testing.T) {
	const limit = 2 * time.Second
	srv := &eddy.Server{Loops: 1, ReadTimeout: limit, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("reply", eddy.Handle(reply))
	}}
	clock := enginetest.NewClock(t, srv)
	addr := start(t, srv)
	const drips = 50
	var slow []net.Conn
	for range drips {
		slow = append(slow, dial(t, addr))
	}
	patient, other := dial(t, addr), dial(t, addr)
	in := bufio.NewReader(other)
	i := 0
	waitFor(t, "the read deadlines", func() bool {
		for _, c := range slow {
			_, _ = c.Write([]byte{'x'}) // fails once the connection is gone
		}
		if i < 5 {
			io.WriteString(patient, "hell"[min(i, 3):min(i, 3)+1])
		} else if i == 5 {
			io.WriteString(patient, "o\n")
			expectLines(t, bufio.NewReader(patient), "helllo")
		}
		word := fmt.Sprint("ping", i)
		io.WriteString(other, word+"\n")
		expectLines(t, in, word)
		clock.Advance(200 * time.Millisecond)
		i++
		return srv.Stats().Closed[eddy.CloseReadTimeout] == drips
	})
	waitFor(t, "the last one to be gone, and the 2 to be left", func() bool { return srv.Stats().Active == 2 }) // it is counted as closed first
}
