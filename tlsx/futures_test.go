package tlsx_test

import (
	"crypto/tls"
	"errors"
	"io"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// futureGreeter writes with a Future before the handshake.
type futureGreeter struct{ futures chan *eddy.Future }

func (g futureGreeter) HandleOpen(ctx *eddy.Context) error {
	g.futures <- ctx.WriteFuture("early")
	return nil
}

// TestFutures: a Future of a write before the handshake completes after the handshake. Every Future waits until its
// record has gone out, gathered with others or not, and fails with the connection.
func TestFutures(t *testing.T) {
	ctx := testkit.Context(t)
	g := futureGreeter{make(chan *eddy.Future, 1)}
	r := newRig(t, setup{
		add:    func(p *eddy.Pipeline) error { return p.Add("greeter", g) },
		server: func(srv *eddy.Server) { srv.Watermarks.Max = 64 << 20 },
	})
	raw := r.raw()
	early := <-g.futures
	if early.Completed() {
		t.Fatalf("before the handshake the future is completed: %v", early.Err())
	}
	c := tls.Client(raw, clientConfig())
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := early.Wait(ctx); err != nil {
		t.Errorf("after the handshake: %v", err)
	}
	conn := early.Conn()
	var all []*eddy.Future
	size := len("early")
	for _, n := range []int{1, 100, 16 << 10, 1 << 20, 3} {
		all = append(all, conn.WriteFuture(make([]byte, n)))
		size += n
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(c, make([]byte, size))
		read <- err
	}()
	if err := eddy.AllOf(all...).Wait(ctx); err != nil {
		t.Errorf("five writes: %v", err)
	}
	if err := <-read; err != nil {
		t.Errorf("the peer read: %v", err)
	}
	stuck := []*eddy.Future{conn.WriteFuture(make([]byte, 32<<20)), conn.WriteFuture("behind it")}
	enginetest.Barrier(t, r.srv)
	select {
	case <-stuck[1].Done():
		t.Errorf("behind what the peer does not read a future is completed: %v", stuck[1].Err())
	default:
	}
	conn.Close(eddy.CloseProtocolError)
	for _, f := range stuck {
		if err := f.Wait(ctx); !errors.Is(err, eddy.ErrClosed) {
			t.Errorf("after the close: %v", err)
		}
	}
	r.wantEnd(eddy.CloseProtocolError)

	r.raw().Close()
	if err := (<-g.futures).Wait(ctx); !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("without a handshake: %v", err)
	}
}
