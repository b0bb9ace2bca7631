package tlsx

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	"github.com/go-eddy/eddy"
)

// handshake is a connection's handshake while it is under way. It has a goroutine of its own, which runs only while a
// worker of the pool waits for it. The worker gives the goroutine its turn. When the goroutine needs bytes of the peer
// it gives the turn back, so that slow or silent peers hold no worker.
//
// in, out, over and err belong to that goroutine while the connection's reads are held for it, else to the loop.
type handshake struct {
	s    *session
	tls  *tls.Conn
	turn chan struct{} // gives the turn to the goroutine
	back chan struct{} // gives it back
	quit chan struct{} // closed when the connection ends first
	step eddy.Signal   // tells the loop that the turn is over

	started bool
	records int    // records of the peer so far
	in      []byte // the record being read; read of its bytes are consumed
	read    int
	out     []byte // for the peer
	over    bool
	err     error

	timer *eddy.Timer
	early []early // messages written before the end
	size  int     // their bytes
}

// early is a message that was written before the end of the handshake.
type early struct {
	b    []byte
	hold *eddy.FutureHold // its Future waits until it is sent
}

// Run gives the handshake the worker's turn.
func (h *handshake) Run() {
	if !h.started {
		h.started = true
		go h.run()
	} else {
		select {
		case h.turn <- struct{}{}:
		case <-h.quit:
			return
		}
	}
	select {
	case <-h.back:
	case <-h.quit:
		return
	}
	_ = h.step.Raise() // a loop that has ended has closed the connection
}

// run is the goroutine of the handshake. It ends with the handshake or the connection.
func (h *handshake) run() {
	done := false
	defer func() {
		if v := recover(); v != nil {
			h.err = &eddy.PanicError{Value: v, Stack: debug.Stack()}
		} else if !done {
			h.err = errGoexit
		}
		h.over = true
		h.yield()
	}()
	h.err = h.tls.HandshakeContext(context.Background())
	done = true
}

var errGoexit = fmt.Errorf("tlsx: a callback of the config ended its goroutine")

// yield gives the turn back, unless the connection has ended.
func (h *handshake) yield() {
	select {
	case h.back <- struct{}{}:
	case <-h.quit:
	}
}

// wire is the net.Conn of a session's *tls.Conn. Its Read waits during the handshake, and never waits on the loop.
type wire struct {
	s  *session
	hs *handshake // nil when the handshake is over
}

// wouldBlock is a temporary error to crypto/tls, which keeps the part of a record it has and goes on with the next
// Read.
type wouldBlock struct{}

func (wouldBlock) Error() string   { return "tlsx: reading would block" }
func (wouldBlock) Timeout() bool   { return false }
func (wouldBlock) Temporary() bool { return true }

var errWouldBlock net.Error = wouldBlock{}

// Read implements net.Conn. It returns bytes of one record only, so that crypto/tls never holds bytes of the next.
func (w *wire) Read(p []byte) (int, error) {
	h := w.hs
	if h == nil {
		n := copy(p, w.s.record)
		if w.s.record = w.s.record[n:]; n == 0 {
			return 0, errWouldBlock
		}
		return n, nil
	}
	for h.read == len(h.in) {
		h.yield()
		select {
		case <-h.turn:
		case <-h.quit:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, h.in[h.read:])
	h.read += n
	return n, nil
}

// Write implements net.Conn. Bytes of the handshake wait for the end of the turn.
func (w *wire) Write(p []byte) (int, error) {
	if h := w.hs; h != nil {
		h.out = append(h.out, p...)
		return len(p), nil
	}
	if err := w.s.ctx.WriteAdmitted(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close implements net.Conn; the connection's end is not for crypto/tls to decide.
func (w *wire) Close() error { return nil }

// LocalAddr implements net.Conn.
func (w *wire) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(w.s.conn.LocalAddr()) }

// RemoteAddr implements net.Conn.
func (w *wire) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(w.s.conn.RemoteAddr()) }

// SetDeadline implements net.Conn; deadlines are the engine's.
func (w *wire) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (w *wire) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
