package eddy_test

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestHangUpWhilePaused: when both sides have ended their streams, what the peer sent before is still read, though reads were
// paused meanwhile: a poller's report of a hang-up is no reset then.
func TestHangUpWhilePaused(t *testing.T) {
	const size = 20_000 // which the kernel has room for
	opened, ended := make(chan *eddy.Conn, 1), make(chan eddy.CloseReason, 1)
	sum := sha256.New()
	srv := &eddy.Server{Loops: 1, Init: initWith(&sink{sum, opened, ended})}
	c := enginetest.Dial(t, start(t, srv))
	conn := testkit.Receive(t, "the connection", opened)
	conn.PauseRead()
	enginetest.Barrier(t, srv)
	c.Send(strings.Repeat("x", size))
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Write("answer"), conn.CloseWrite()); err != nil {
		t.Fatal(err)
	}
	c.Expect("answer")
	c.ExpectEnd()
	enginetest.Barrier(t, srv) // the hang-up has been reported
	enginetest.Barrier(t, srv)
	if end := conn.CloseError(); end != nil {
		t.Fatalf("while its reads are paused it ends: %v", end)
	}
	conn.ResumeRead()
	if got := testkit.Receive(t, "the end", ended); got != eddy.ClosePeerClosed {
		t.Errorf("it ended with %v", got)
	}
	want := sha256.Sum256([]byte(strings.Repeat("x", size)))
	if string(sum.Sum(nil)) != string(want[:]) {
		t.Error("not all was read that was sent")
	}
}

// sink sums up what it reads.
type sink struct {
	sum    hash.Hash
	opened chan *eddy.Conn
	ended  chan eddy.CloseReason
}

func (s *sink) HandleOpen(ctx *eddy.Context) error { s.opened <- ctx.Conn(); return nil }
func (s *sink) HandleRead(_ *eddy.Context, m any) error {
	_, err := s.sum.Write(m.(*buf.Bytes).Bytes())
	return err
}
func (s *sink) HandleClose(_ *eddy.Context, reason eddy.CloseReason, _ error) { s.ended <- reason }

// TestCloseWriteAfterPool: writes that are on their way through a pool when our side is to end come before the end.
func TestCloseWriteAfterPool(t *testing.T) {
	pool := newPool(t, 1, 64)
	gate := make(chan struct{})
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("encoder", eddy.WriteHandler(heldEncoder(gate)), eddy.On(pool))
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
			c := ctx.Conn()
			return errors.Join(c.Write("one "), c.Write("two "), c.CloseWrite())
		}))
	}}
	c := enginetest.Dial(t, start(t, srv))
	c.Send("?")
	gate <- struct{}{}
	c.Expect("one ")
	enginetest.Barrier(t, srv)
	gate <- struct{}{}
	c.Expect("two ")
	c.ExpectEnd()
}

// heldEncoder passes each message on when the gate lets it.
type heldEncoder chan struct{}

func (h heldEncoder) HandleWrite(ctx *eddy.Context, msg any) error {
	<-h
	return ctx.Write(msg)
}

// TestReset: the peer of a connection that was reset cannot take what it has got for the whole, also when the connection was
// ending in order.
func TestReset(t *testing.T) {
	cause := errors.New("as the test wants it")
	for name, before := range map[string]func(*eddy.Conn){
		"open":           func(*eddy.Conn) {},
		"closing":        func(c *eddy.Conn) { c.CloseAfterFlush(eddy.CloseNormal) },
		"our side ended": func(c *eddy.Conn) { _ = c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			opened, ended := make(chan *eddy.Conn, 1), make(chan eddy.CloseReason, 1)
			srv := &eddy.Server{Loops: 1, Init: initWith(&sink{sha256.New(), opened, ended})}
			c := enginetest.Dial(t, start(t, srv))
			conn := testkit.Receive(t, "the connection", opened)
			if err := conn.Write("some of it"); err != nil {
				t.Fatal(err)
			}
			c.Expect("some of it")
			before(conn)
			enginetest.Barrier(t, srv)
			conn.Reset(eddy.CloseIOError, cause)
			testkit.Receive(t, "the end", ended)
			if name == "open" {
				c.ExpectReset()
				if end := conn.CloseError(); end.Reason != eddy.CloseIOError || !errors.Is(end, cause) {
					t.Errorf("it ended with %v", end)
				}
				return
			}
			_, err := io.WriteString(c, "more") // the peer's own end was not waited for
			testkit.Eventually(t, "an error", func() bool {
				if err == nil {
					_, err = io.WriteString(c, "more")
				}
				return err != nil
			})
		})
	}
}
