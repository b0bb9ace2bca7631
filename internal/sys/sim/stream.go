package sim

import (
	"net/netip"
	"syscall"

	"github.com/go-eddy/eddy/internal/sys"
)

// end is one end of a stream. What is written at one end is at once in the receive queue of the other. No reader runs
// at once, so it is still read with a delay.
type end struct {
	w          *World
	peer       *end
	fd         int // 0 for the end of a scripted peer
	local      netip.AddrPort
	remote     netip.AddrPort
	in         []byte
	window     int   // size of the receive queue
	fin        bool  // the peer's end of stream follows in
	sent       bool  // our end of stream was sent
	rst        error // the next call returns it
	dead       bool  // reset
	connecting bool  // no outcome yet, no peer
	closed     bool
	aborted    bool // close resets
	harmed     bool // broken by a fault, not by the peer
	owner      *routine
	moved      int64 // when bytes were last read or written here
	written    int   // bytes written here
}

// pair makes a stream.
func (w *World) pair(a, b netip.AddrPort) (*end, *end) {
	x := &end{w: w, local: a, remote: b, window: w.windowSize()}
	y := &end{w: w, local: b, remote: a, window: w.windowSize()}
	x.peer, y.peer = y, x
	w.ends += 2
	return x, y
}

// windowSize is mostly small, so that queues fill up.
func (w *World) windowSize() int {
	if w.rng.IntN(3) == 0 {
		return 64 << 10
	}
	return 1 << (4 + w.rng.IntN(10))
}

// room returns how many bytes the end would take from its peer.
func (e *end) room() int { return max(0, e.window-len(e.in)) }

func (e *end) read(p []byte) (int, error) {
	n, err := e.peek(p)
	if n > 0 {
		e.in = e.in[n:]
		e.moved = e.w.now
		e.w.changed()
	}
	return n, err
}

// peek is read without taking the bytes. An error is taken, as by a kernel.
func (e *end) peek(p []byte) (int, error) {
	switch {
	case e.connecting:
		return 0, sys.ErrAgain
	case len(e.in) > 0:
		return copy(p, e.in), nil
	case e.rst != nil:
		err := e.rst
		e.rst = nil
		e.w.changed()
		return 0, err
	case e.fin || e.dead:
		return 0, nil
	}
	return 0, sys.ErrAgain
}

func (e *end) write(p []byte) (int, error) {
	switch {
	case e.connecting:
		return 0, sys.ErrAgain
	case e.rst != nil:
		err := e.rst
		e.rst = nil
		e.w.changed()
		return 0, err
	case e.dead || e.sent:
		return 0, syscall.EPIPE
	case len(p) == 0:
		return 0, nil
	case e.peer.closed: // taken, and answered with a reset
		e.written += len(p)
		e.reset(syscall.ECONNRESET)
		return len(p), nil
	}
	n := min(len(p), e.peer.room())
	if n == 0 {
		e.w.Note(ZeroWindow)
		return 0, sys.ErrAgain
	}
	e.peer.in = append(e.peer.in, p[:n]...)
	e.written += n
	e.moved = e.w.now
	e.w.changed()
	return n, nil
}

// reset does what the arrival of a reset does. In some worlds it discards what had arrived before, as some systems do.
func (e *end) reset(err error) {
	if e.dead || e.closed {
		return
	}
	e.dead, e.rst = true, err
	if e.w.purge {
		e.in = nil
	}
	e.w.changed()
}

// cut resets both ends, as a fault of the network.
func (e *end) cut(err error) {
	if e.connecting {
		return
	}
	e.harmed, e.peer.harmed = true, true
	e.reset(err)
	e.peer.reset(syscall.ECONNRESET)
}

func (e *end) shutdown() error {
	if e.dead || e.closed || e.connecting {
		return syscall.ENOTCONN
	}
	if !e.sent {
		e.sent = true
		e.peer.fin = true
		e.w.changed()
	}
	return nil
}

// close ends both directions, with a reset if bytes are unread.
func (e *end) close() {
	if e.closed {
		return
	}
	e.closed = true
	e.w.changed()
	switch {
	case e.dead || e.connecting:
	case len(e.in) > 0 || e.aborted:
		e.peer.reset(syscall.ECONNRESET)
	case !e.sent:
		e.sent = true
		e.peer.fin = true
	}
	e.in = nil
}

// ready returns what a poller would find.
func (e *end) ready() (r sys.Ready) {
	if e.connecting {
		return 0
	}
	if len(e.in) > 0 || e.fin || e.dead {
		r |= sys.Readable
	}
	if e.dead || e.sent || e.peer.closed || e.peer.room() > 0 {
		r |= sys.Writable
	}
	if e.dead || e.fin && e.sent {
		r |= sys.Hangup
	}
	if e.rst != nil {
		r |= sys.Failed
	}
	return r
}

// listener is a listening socket with its queue of connections.
type listener struct {
	w       *World
	fd      int
	addr    netip.AddrPort
	backlog int
	queue   []*end
	shared  bool // others listen on the address as well
	closed  bool
}

// serves reports whether connections to addr are the listener's.
func (l *listener) serves(addr netip.AddrPort) bool {
	return l.addr == addr || l.addr.Addr().IsUnspecified() && l.addr.Port() == addr.Port()
}

func (l *listener) close() {
	l.closed = true
	for _, e := range l.queue {
		e.in = nil
		e.closed = true
		e.peer.reset(syscall.ECONNRESET)
	}
	l.queue = nil
	l.w.changed()
}

func (l *listener) ready() sys.Ready {
	if len(l.queue) > 0 {
		return sys.Readable
	}
	return 0
}

// file is what a descriptor stands for: an end, a listener, a pipe, or the reserve.
type file struct {
	end      *end
	listener *listener
	tube     *tube
}

func (f *file) ready() sys.Ready {
	switch {
	case f.end != nil:
		return f.end.ready()
	case f.listener != nil:
		return f.listener.ready()
	}
	return 0
}

func (f *file) what() string {
	switch {
	case f.end != nil:
		return "connection " + f.end.remote.String()
	case f.listener != nil:
		return "listener " + f.listener.addr.String()
	case f.tube != nil:
		return "pipe"
	}
	return "reserve"
}

// firstDescriptor leaves out the standard descriptors of a process.
const firstDescriptor = 3

// maxDescriptors is the process's limit.
const maxDescriptors = 256

// open takes the lowest free descriptor, as Unix does, so descriptors of ended connections come back at once.
func (w *World) open(f *file) (int, error) {
	for fd := firstDescriptor; fd < len(w.files); fd++ {
		if w.files[fd] == nil {
			w.files[fd] = f
			return fd, nil
		}
	}
	if len(w.files) >= maxDescriptors {
		w.Note(OutOfDescriptors)
		return -1, syscall.EMFILE
	}
	w.files = append(w.files, f)
	return len(w.files) - 1, nil
}

// file returns what is behind a descriptor. It fails the run for a descriptor that is not open, because no correct
// program asks for one.
func (w *World) file(op string, fd int) *file {
	if fd < firstDescriptor || fd >= len(w.files) || w.files[fd] == nil {
		w.Failf("%s of descriptor %d, which is not open", op, fd)
		return nil
	}
	return w.files[fd]
}

// stream returns the end behind a descriptor. It fails the run if several loops use the end.
func (w *World) stream(op string, fd int) *end {
	f := w.file(op, fd)
	if f == nil {
		return nil
	}
	if f.end == nil {
		w.Failf("%s of descriptor %d, which is a %s", op, fd, f.what())
		return nil
	}
	w.own(op, fd, f.end)
	return f.end
}

func (w *World) own(op string, fd int, e *end) {
	switch {
	case e.owner == nil:
		e.owner = w.cur
	case e.owner != w.cur:
		who := "nobody"
		if w.cur != nil {
			who = w.cur.name
		}
		w.Failf("%s of descriptor %d by %s, but it is %s's", op, fd, who, e.owner.name)
	}
}
