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

// handshake is a connection's handshake while it is under way. It runs on a goroutine of its own that moves only while a
// worker of the pool waits for it: it is the worker's turn that it has. When it needs bytes of the peer it gives the turn
// back, so that peers that are slow, or silent, hold no worker.
//
// in, out, over and err belong to the loop while the connection's reads are not held for it, else to that goroutine.
type handshake struct {
	s    *session
	tls  *tls.Conn
	turn chan struct{} // to the goroutine
	back chan struct{} // from it
	quit chan struct{} // closed when the connection ends first
	step eddy.Signal   // that the turn is over, to the loop

	started bool
	records int    // of the peer, so far
	in      []byte // the record that is being read, and how far
	read    int
	out     []byte // for the peer
	over    bool
	err     error

	timer *eddy.Timer
	early []early // was written before the end
	size  int     // of that
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

// run is the goroutine. It ends with the handshake, or with the connection.
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

// yield gives the turn back. Nobody may be waiting for it any more.
func (h *handshake) yield() {
	select {
	case h.back <- struct{}{}:
	case <-h.quit:
	}
}

// wire is the net.Conn of a session's *tls.Conn: during the handshake one that waits, on the loop one that does not.
type wire struct {
	s  *session
	hs *handshake // nil when it is over
}

// wouldBlock is temporary to crypto/tls, which keeps what it has of a record and goes on with the next Read.
type wouldBlock struct{}

func (wouldBlock) Error() string   { return "tlsx: reading would block" }
func (wouldBlock) Timeout() bool   { return false }
func (wouldBlock) Temporary() bool { return true }

var errWouldBlock net.Error = wouldBlock{}

// Read implements net.Conn. It gives no more than one record at a time, so that crypto/tls never holds bytes of the next.
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

// Write implements net.Conn. The bytes of a handshake wait for the end of the turn.
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
