package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/httpserve"
)

// Hijack implements http.Hijacker. HTTP ends on the connection, and the handler talks to the client through a net.Conn.
// Reads and writes of that net.Conn block their goroutine and never a loop. A header that was written is sent first. Bytes
// that the client has sent behind its request are read from the net.Conn too. The only deadlines are the handler's own.
//
// The handler gives up its place in the pool, as a handler that streams does.
//
// A draining server waits for the handler's Close until the drain's own deadline. Errors: http.ErrHijacked after the first
// call; a body that was not read to its end; a connection that has ended.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	ex := w.ex
	switch {
	case w.hijacked:
		return nil, nil, http.ErrHijacked
	case ex.body != nil && !ex.body.Complete():
		return nil, nil, errors.New("http1: Hijack of a request whose body was not read to its end")
	case w.status != 0:
		if err := w.flush(); err != nil {
			return nil, nil, err
		}
	case !ex.take(handler):
		return nil, nil, errAnswered
	}
	h := newHijacked(ex)
	if err := ex.handOver(nil, h.install); err != nil {
		return nil, nil, err
	}
	ex.ctx.Place.Quit()
	return h, bufio.NewReadWriter(bufio.NewReader(h), bufio.NewWriter(h)), nil
}

const hijackedName = "http1.hijacked"

// hijacked is a connection in the hands of a handler. The handler's goroutines see a net.Conn, the loop sees the only
// handler of the pipeline.
type hijacked struct {
	in            httpserve.Pipe
	conn          *eddy.Conn
	local, remote net.Addr
	over          atomic.Bool // finish has run

	mu      sync.Mutex
	writeBy time.Time
}

func newHijacked(ex *exchange) *hijacked {
	h := &hijacked{conn: ex.conn, local: net.TCPAddrFromAddrPort(ex.conn.LocalAddr()), remote: net.TCPAddrFromAddrPort(ex.conn.RemoteAddr())}
	sent := ex.unread()
	h.in.Init(ex.conn, nil, max(ex.f.opts.BodyBuffer, len(sent)))
	h.in.Put(sent)
	return h
}

// install makes h the connection's handler. Loop only.
func (h *hijacked) install(p *eddy.Pipeline) error {
	c := h.conn
	if err := c.SetDeadlines(new(eddy.Deadlines)); err != nil {
		return err
	}
	c.Begin() // finish ends it
	return p.Add(hijackedName, h)
}

// Decode implements eddy.Decoder.
func (h *hijacked) Decode(_ *eddy.Context, view []byte) (int, error) {
	n := min(h.in.Room(), len(view))
	if n == 0 && h.in.Hold() {
		return 0, nil
	}
	if n == 0 {
		n = min(h.in.Room(), len(view))
	}
	h.in.Put(view[:n])
	return n, nil
}

// HandleEvent implements eddy.EventHandler.
func (h *hijacked) HandleEvent(ctx *eddy.Context, ev any) error {
	if _, ok := ev.(eddy.InputClosedEvent); ok {
		h.in.End(io.EOF, nil)
	}
	ctx.FireEvent(ev)
	return nil
}

// HandleClose implements eddy.CloseHandler.
func (h *hijacked) HandleClose(ctx *eddy.Context, reason eddy.CloseReason, _ error) {
	err := error(ctx.Conn().CloseError())
	if reason == eddy.ClosePeerClosed {
		err = io.EOF
	}
	h.in.End(err, nil)
	h.finish()
}

// finish ends, once, the request that install began. Until then a draining server keeps the connection.
func (h *hijacked) finish() {
	if h.over.CompareAndSwap(false, true) {
		h.conn.End()
	}
}

// Read implements net.Conn.
func (h *hijacked) Read(p []byte) (int, error) {
	n, err := h.in.Read(p)
	if err == http.ErrBodyReadAfterClose { //nolint:errorlint // returned bare by the pipe
		err = net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn. p is copied, and Write blocks while the client does not read.
func (h *hijacked) Write(p []byte) (int, error) {
	h.mu.Lock()
	by := h.writeBy
	h.mu.Unlock()
	ctx := context.Background()
	if !by.IsZero() {
		if !time.Now().Before(by) {
			return 0, os.ErrDeadlineExceeded
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, by)
		defer cancel()
	}
	for done := 0; done < len(p); {
		n := min(len(p)-done, maxPiece)
		err := h.conn.WriteContext(ctx, append([]byte(nil), p[done:done+n]...))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return done, os.ErrDeadlineExceeded
		case errors.Is(err, eddy.ErrClosed):
			return done, errors.Join(net.ErrClosed, err)
		case err != nil:
			return done, err
		}
		done += n
	}
	return len(p), nil
}

// Close implements net.Conn. The connection ends after everything written was sent; Close does not wait for that.
func (h *hijacked) Close() error {
	_ = h.in.Close() // never fails
	h.conn.CloseAfterFlush(eddy.CloseNormal)
	h.finish()
	return nil
}

// LocalAddr implements net.Conn.
func (h *hijacked) LocalAddr() net.Addr { return h.local }

// RemoteAddr implements net.Conn.
func (h *hijacked) RemoteAddr() net.Addr { return h.remote }

// SetDeadline implements net.Conn.
func (h *hijacked) SetDeadline(t time.Time) error {
	_ = h.SetReadDeadline(t) // never fails
	return h.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (h *hijacked) SetReadDeadline(t time.Time) error {
	h.in.SetDeadline(t)
	return nil
}

// SetWriteDeadline implements net.Conn and applies to writes that begin afterwards.
func (h *hijacked) SetWriteDeadline(t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writeBy = t
	return nil
}
