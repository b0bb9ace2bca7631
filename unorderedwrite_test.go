package eddy_test

import (
	"bufio"
	"io"
	"net"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
)

// TestUnorderedWritesPassTheEncoder: what an unordered message writes goes through the handlers before its own.
func TestUnorderedWritesPassTheEncoder(t *testing.T) {
	pool := newPool(t, 4, 64)
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("newline", newline{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.Write("got " + string(m.Bytes())) }), eddy.OnUnordered(pool))
	}})
	c := dial(t, addr)
	io.WriteString(c, "hello\n")
	expectLines(t, bufio.NewReader(c), "got hello")
}

// TestPlaceOfAGoneConnection: a connection that has gone while its message waited leaves its place: the only room there is
// goes to the next one.
func TestPlaceOfAGoneConnection(t *testing.T) {
	pool := newPool(t, 1, executor.HandOff)
	gate := make(chan struct{})
	if err := pool.SubmitFunc(func() { <-gate }); err != nil {
		t.Fatal(err)
	}
	var ends closes
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("ends", &ends)
		return p.Add("app", eddy.Handle(reply), eddy.On(pool), eddy.RejectPause())
	}}
	addr := start(t, srv)
	first, second := dial(t, addr), dial(t, addr)
	for i, c := range []net.Conn{first, second} {
		io.WriteString(c, "hello\n")
		waitFor(t, "the refusal", func() bool { return srv.Stats().Loops[0].HopWaits == uint64(i+1) })
	}
	first.(*net.TCPConn).SetLinger(0)
	first.Close()
	ends.wait(t, eddy.CloseIOError)
	close(gate)
	expectLines(t, bufio.NewReader(second), "hello")
}
