package eddy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
)

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
