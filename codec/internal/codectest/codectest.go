// Package codectest serves decoders to their tests.
package codectest

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// patience is how long a test waits for something that must happen.
const patience = time.Minute

// Server answers every frame of its connections with itself in brackets, and tells how they end.
type Server struct {
	t       testing.TB
	addr    string
	ends    chan eddy.CloseReason
	handled func(error) bool
}

// Serve starts a server whose connections have the decoder that codec makes. handled reports the errors that are answered
// "too long" and then forgotten; nil is none.
func Serve(t testing.TB, bodyTimeout time.Duration, codec func() (eddy.Decoder, error), handled func(error) bool) *Server {
	t.Helper()
	s := &Server{t: t, ends: make(chan eddy.CloseReason, 10), handled: handled}
	srv := &eddy.Server{Loops: 1, BodyTimeout: bodyTimeout, Init: func(p *eddy.Pipeline) error {
		d, err := codec()
		if err != nil {
			return err
		}
		if err := p.Add("frames", d); err != nil {
			return err
		}
		return p.Add("brackets", brackets{s})
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	s.addr = srv.Addr().String()
	return s
}

// Dial connects to the server.
func (s *Server) Dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(5 * patience)); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// Want reads what the server has to answer.
func (s *Server) Want(c net.Conn, want string) {
	s.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		s.t.Errorf("%.80q, %v, want %.80q", got, err, want)
	}
}

// WantEnd ends the connection, if the server has not, and compares the reason.
func (s *Server) WantEnd(c net.Conn, want eddy.CloseReason) {
	s.t.Helper()
	_ = c.Close()
	select {
	case end := <-s.ends:
		if end != want {
			s.t.Errorf("ended with %v, want %v", end, want)
		}
	case <-time.After(patience):
		s.t.Error("the connection did not end")
	}
}

// Drip sends piece again and again, slowly, until the server takes no more.
func Drip(c net.Conn, piece string) {
	for {
		if _, err := io.WriteString(c, piece); err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

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
