package memnet

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// end is one end of a connection: a net.Conn.
type end struct {
	m             *Machine
	other         *end
	in            *half // what comes from the other end
	local, remote netip.AddrPort
}

// half is one direction of a connection, at the end that reads.
type half struct {
	to    *end
	delay time.Duration

	mu       sync.Mutex
	cond     sync.Cond
	segments []segment
	bytes    int         // of segments
	ended    bool        // the writer writes no more
	closed   bool        // the reader reads no more
	err      error       // of both sides
	late     bool        // the writer's deadline has passed
	deadline *time.Timer // of the writer
	alarm    *time.Timer // wakes the reader when the first segment arrives
}

// segment is what one write brought, and the time at which it arrives.
type segment struct {
	data []byte
	at   time.Time
}

// newHalf returns what e reads. Network.mu is held.
func newHalf(e *end) *half {
	h := &half{to: e, delay: e.m.n.delay(e.other.m.Addr, e.m.Addr)}
	h.cond.L = &h.mu
	return h
}

// change does f and wakes who waits.
func (h *half) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	h.cond.Broadcast()
}

func (h *half) wake() { h.change(func() {}) }

// fail ends the direction at once.
func (h *half) fail(err error) {
	h.change(func() {
		if h.err == nil {
			h.err = err
		}
	})
}

// read waits for bytes that have arrived.
func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if n, err, done := h.take(p); done {
			return n, err
		}
		h.cond.Wait()
	}
}

// take reads what has arrived. done is false if the reader has to wait. Under mu.
func (h *half) take(p []byte) (n int, err error, done bool) {
	switch {
	case h.closed:
		return 0, net.ErrClosed, true
	case h.err != nil:
		return 0, h.err, true
	case h.to.m.cut.Load(), h.to.other.m.cut.Load():
		return 0, nil, false
	case len(h.segments) == 0:
		return 0, io.EOF, h.ended
	}
	if wait := time.Until(h.segments[0].at); wait > 0 {
		h.rest()
		h.alarm = time.AfterFunc(wait, h.wake)
		return 0, nil, false
	}
	s := &h.segments[0]
	n = copy(p, s.data)
	if s.data = s.data[n:]; len(s.data) == 0 {
		h.segments = h.segments[1:]
	}
	h.bytes -= n
	h.cond.Broadcast()
	return n, nil, true
}

// rest stops the alarm. Under mu.
func (h *half) rest() {
	if h.alarm != nil {
		h.alarm.Stop()
	}
}

// write sends p, and waits while too much is under way.
func (h *half) write(p []byte) (total int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(p) > 0 {
		switch {
		case h.err != nil:
			return total, h.err
		case h.closed:
			return total, syscall.ECONNRESET
		case h.ended:
			return total, syscall.EPIPE
		case h.late:
			return total, os.ErrDeadlineExceeded
		case h.bytes >= windowSize:
			h.cond.Wait()
			continue
		}
		n := min(len(p), windowSize-h.bytes)
		h.segments = append(h.segments, segment{append([]byte(nil), p[:n]...), time.Now().Add(h.delay)})
		h.bytes += n
		total, p = total+n, p[n:]
		h.cond.Broadcast()
	}
	return total, nil
}

// end says that the writer writes no more.
func (h *half) end() { h.change(func() { h.ended = true }) }

func (h *half) expire() { h.change(func() { h.late = true }) }

func (e *end) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *end) Write(p []byte) (int, error) { return e.other.in.write(p) }
func (e *end) LocalAddr() net.Addr         { return net.TCPAddrFromAddrPort(e.local) }
func (e *end) RemoteAddr() net.Addr        { return net.TCPAddrFromAddrPort(e.remote) }

// CloseWrite ends this side behind what was written.
func (e *end) CloseWrite() error {
	e.other.in.end()
	return nil
}

// Close ends both directions: what was written still arrives, what was not read is lost.
func (e *end) Close() error {
	e.forget()
	e.other.in.end()
	e.in.change(func() {
		e.in.closed = true
		e.in.rest()
	})
	return nil
}

// forget takes the end off its machine.
func (e *end) forget() {
	e.m.n.mu.Lock()
	defer e.m.n.mu.Unlock()
	delete(e.m.ends, e)
}

// SetWriteDeadline bounds writes that wait.
func (e *end) SetWriteDeadline(t time.Time) error {
	h := e.other.in
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.deadline != nil {
		h.deadline.Stop()
	}
	if h.deadline = nil; !t.IsZero() {
		h.deadline = time.AfterFunc(time.Until(t), h.expire)
	}
	return nil
}

// SetDeadline and SetReadDeadline are not used by the backend.
func (e *end) SetDeadline(time.Time) error     { return os.ErrNoDeadline }
func (e *end) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }
