// Package codectest runs decoders in a server, for their tests.
package codectest

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// bodyTimeout is the server's BodyTimeout, on a clock of the test.
const bodyTimeout = time.Minute

// Server answers every frame with the frame in brackets, and records how its connections end.
type Server struct {
	t       testing.TB
	srv     *eddy.Server
	clock   *enginetest.Clock
	addr    string
	ends    chan eddy.CloseReason
	handled func(error) bool
}

// Serve starts a server whose connections have the decoder that codec makes. handled reports whether an error is answered
// "too long" and does not end the connection; nil means no error is.
func Serve(t testing.TB, codec func() (eddy.Decoder, error), handled func(error) bool) *Server {
	t.Helper()
	s := &Server{t: t, ends: make(chan eddy.CloseReason, 10), handled: handled}
	s.srv = &eddy.Server{Loops: 1, BodyTimeout: bodyTimeout, Init: func(p *eddy.Pipeline) error {
		d, err := codec()
		if err != nil {
			return err
		}
		if err := p.Add("frames", d); err != nil {
			return err
		}
		return p.Add("brackets", brackets{s})
	}}
	s.clock = enginetest.NewClock(t, s.srv)
	s.addr = enginetest.Serve(t, s.srv)
	return s
}

// Dial connects to the server.
func (s *Server) Dial() *enginetest.Peer {
	s.t.Helper()
	return enginetest.Dial(s.t, s.addr)
}

// WantEnd closes the connection, if the server has not, and compares the close reason.
func (s *Server) WantEnd(c *enginetest.Peer, want eddy.CloseReason) {
	s.t.Helper()
	_ = c.Close()
	if end := testkit.Receive(s.t, "the connection to end", s.ends); end != want {
		s.t.Errorf("ended with %v, want %v", end, want)
	}
}

// WantTimeout sends piece repeatedly, and requires the server to end the connection at the body deadline and not earlier.
func (s *Server) WantTimeout(c *enginetest.Peer, piece string) {
	s.t.Helper()
	for range 4 {
		if len(s.ends) > 0 {
			s.t.Error("the connection ended before its time was over")
		}
		got := s.bytesIn() + uint64(len(piece))
		c.Send(piece)
		testkit.Eventually(s.t, "the server to read", func() bool { return s.bytesIn() >= got })
		s.clock.Advance(bodyTimeout/4 + 10*time.Millisecond)
	}
	s.WantEnd(c, eddy.CloseBodyTimeout)
}

func (s *Server) bytesIn() uint64 { return s.srv.Stats().Loops[0].BytesIn }

type brackets struct{ s *Server }

func (b brackets) HandleRead(ctx *eddy.Context, msg any) error {
	return ctx.Write(fmt.Sprintf("[%s]", msg.(*buf.Bytes).Bytes()))
}

func (b brackets) HandleError(ctx *eddy.Context, err error) error {
	if b.s.handled != nil && b.s.handled(err) {
		return ctx.Write("too long")
	}
	return err
}

func (b brackets) HandleClose(_ *eddy.Context, reason eddy.CloseReason, _ error) { b.s.ends <- reason }
