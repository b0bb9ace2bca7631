package sim

import (
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// sockets is the sys.Sockets of the world.
type sockets struct{ w *World }

func (s sockets) Listen(_, address string, o sys.ListenOptions) (sys.Listener, error) {
	w := s.w
	w.enter("listen", 0)
	if o.On != nil {
		return sys.Listener{FD: -1}, errors.ErrUnsupported
	}
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return sys.Listener{}, err
	}
	if addr.Port() == 0 {
		addr = netip.AddrPortFrom(addr.Addr(), uint16(1024+len(w.listeners)))
	}
	for _, other := range w.listeners {
		if !other.closed && other.addr == addr && !(other.shared && o.ReusePort) {
			return sys.Listener{}, syscall.EADDRINUSE
		}
	}
	l := &listener{w: w, addr: addr, backlog: o.Backlog, shared: o.ReusePort}
	if l.backlog <= 0 {
		l.backlog = 128
	}
	if l.fd, err = w.open(&file{listener: l}); err != nil {
		return sys.Listener{}, err
	}
	w.listeners = append(w.listeners, l)
	return sys.Listener{FD: l.fd, Addr: net.TCPAddrFromAddrPort(addr)}, nil
}

func (s sockets) Take(net.Conn) (int, netip.AddrPort, error) {
	return -1, netip.AddrPort{}, errors.ErrUnsupported
}

func (s sockets) Accept(fd int) (int, netip.AddrPort, error) {
	nfd, peer, err := s.accept(fd)
	s.w.trace("accepted", nfd, 0, err)
	return nfd, peer, err
}

func (s sockets) accept(fd int) (int, netip.AddrPort, error) {
	w := s.w
	w.enter("accept", fd)
	f := w.file("accept", fd)
	if f == nil || f.listener == nil {
		return -1, netip.AddrPort{}, syscall.EBADF
	}
	l := f.listener
	if len(l.queue) == 0 {
		return -1, netip.AddrPort{}, sys.ErrAgain
	}
	if err := w.acceptError(l); err != nil {
		return -1, netip.AddrPort{}, err
	}
	e := l.queue[0]
	nfd, err := w.open(&file{end: e})
	if err != nil {
		return -1, netip.AddrPort{}, err
	}
	l.queue = l.queue[1:]
	e.fd = nfd
	w.changed()
	return nfd, e.remote, nil
}

func (s sockets) AcceptLast(fd int) (int, netip.AddrPort, error) { return s.Accept(fd) }

func (w *World) acceptError(l *listener) error {
	switch {
	case w.Hit(AcceptInterrupted):
		return syscall.EINTR
	case w.Hit(OutOfDescriptors):
		return syscall.EMFILE
	case w.Hit(OutOfFiles):
		return syscall.ENFILE
	case w.Hit(AcceptAborted):
		e := l.queue[0]
		l.queue = l.queue[1:]
		e.cut(syscall.ECONNABORTED)
		e.closed = true
		return syscall.ECONNABORTED
	}
	return nil
}

func (s sockets) LocalAddr(fd int) (netip.AddrPort, error) {
	w := s.w
	w.enter("localaddr", fd)
	f := w.file("localaddr", fd)
	if f == nil || f.end == nil || w.Hit(AddressUnknown) {
		return netip.AddrPort{}, syscall.EINVAL
	}
	return f.end.local, nil
}

func (s sockets) SetKeepAlive(int, time.Duration) error { return nil }

// Connect begins a connection. Its outcome comes now, soon or very late.
func (s sockets) Connect(_ string, remote net.Addr, o sys.ConnectOptions) (int, bool, error) {
	w := s.w
	w.enter("connect", 0)
	t, ok := remote.(*net.TCPAddr)
	switch {
	case !ok:
		return -1, false, syscall.EAFNOSUPPORT
	case w.Hit(ConnectRefused):
		return -1, false, syscall.ECONNREFUSED
	case w.Hit(OutOfDescriptors):
		return -1, false, syscall.EMFILE
	}
	e := &end{w: w, remote: t.AddrPort(), local: w.ownAddr(o.Local), window: w.windowSize(), connecting: true}
	fd, err := w.open(&file{end: e})
	if err != nil {
		return -1, false, err
	}
	e.fd = fd
	if w.rng.IntN(4) == 0 && w.connected(e) == nil {
		return fd, true, nil
	}
	d := time.Duration(w.rng.IntN(int(5 * time.Millisecond)))
	if w.Hit(ConnectSlow) {
		d <<= w.rng.IntN(16)
	}
	w.After(d, func() { _ = w.connected(e) })
	return fd, false, nil
}

func (w *World) ownAddr(local netip.AddrPort) netip.AddrPort {
	if !local.IsValid() {
		local = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	}
	if w.outbound++; local.Port() == 0 {
		local = netip.AddrPortFrom(local.Addr(), 32768+w.outbound)
	}
	return local
}

// connected decides the outcome of a connect. ConnectError returns a failure later.
func (w *World) connected(e *end) error {
	if e.closed || !e.connecting {
		return nil
	}
	e.connecting = false
	theirs := &end{w: w, local: e.remote, remote: e.local, window: w.windowSize(), peer: e}
	e.peer = theirs
	refused := w.Hit(ConnectRefused)
	if !refused && w.enqueue(theirs) != nil {
		refused = true
		w.Note(ConnectRefused)
	}
	if refused {
		theirs.closed = true
		e.dead, e.rst = true, syscall.ECONNREFUSED
		return e.rst
	}
	return nil
}

func (s sockets) ConnectError(fd int) error {
	w := s.w
	w.enter("connect-error", fd)
	e := w.stream("connect-error", fd)
	switch {
	case e == nil:
		return syscall.EBADF
	case e.connecting:
		return sys.ErrAgain
	}
	err := e.rst
	e.rst = nil
	return err
}

func (s sockets) SendFile(fd int, f *os.File, offset int64, n int) (int, error) {
	const most = 64 << 10
	p := make([]byte, min(n, most))
	n, err := f.ReadAt(p, offset)
	if n == 0 && (err == nil || errors.Is(err, io.EOF)) {
		return 0, nil
	}
	if n == 0 {
		return 0, err
	}
	return s.Write(fd, p[:n])
}

func (s sockets) Read(fd int, p []byte) (int, error) {
	n, err := s.read(fd, p)
	s.w.trace("read", fd, n, err)
	return n, err
}

func (s sockets) read(fd int, p []byte) (int, error) {
	w := s.w
	w.enter("reading", fd)
	e := w.stream("read", fd)
	switch {
	case e == nil:
		return 0, syscall.EBADF
	case w.Hit(ReadReset):
		e.cut(syscall.ECONNRESET)
	case w.Hit(ReadTimedOut):
		e.cut(syscall.ETIMEDOUT)
	case w.Hit(ReadAgain):
		return 0, sys.ErrAgain
	case len(p) > 1 && w.Hit(ShortRead):
		p = p[:1+w.rng.IntN(min(len(p)-1, 64))]
	}
	n, err := e.read(p)
	if w.cur != nil {
		w.cur.in += uint64(n)
		if e.sent {
			w.cur.late += uint64(n)
		}
	}
	return n, err
}

// Peek leaves the stream to whatever loop reads it later.
func (s sockets) Peek(fd int, p []byte) (int, error) {
	n, err := s.peek(fd, p)
	s.w.trace("peek", fd, n, err)
	return n, err
}

func (s sockets) peek(fd int, p []byte) (int, error) {
	w := s.w
	w.enter("peeking", fd)
	f := w.file("peek", fd)
	switch {
	case f == nil || f.end == nil:
		return 0, syscall.EBADF
	case f.end.owner != nil:
		w.own("peek", fd, f.end)
	}
	switch e := f.end; {
	case w.Hit(ReadReset):
		e.cut(syscall.ECONNRESET)
	case w.Hit(ReadTimedOut):
		e.cut(syscall.ETIMEDOUT)
	case w.Hit(ReadAgain):
		return 0, sys.ErrAgain
	}
	return f.end.peek(p)
}

func (s sockets) Write(fd int, p []byte) (int, error) { return s.Writev(fd, [][]byte{p}) }

func (s sockets) Writev(fd int, bufs [][]byte) (int, error) {
	n, err := s.writev(fd, bufs)
	s.w.trace("write", fd, n, err)
	return n, err
}

func (s sockets) writev(fd int, bufs [][]byte) (int, error) {
	w := s.w
	w.enter("writing", fd)
	e := w.stream("write", fd)
	if e == nil {
		return 0, syscall.EBADF
	}
	if w.Hit(WriteAgain) {
		return 0, sys.ErrAgain
	}
	most := -1
	reset := w.Hit(WriteReset)
	if reset || w.Hit(ShortWrite) {
		most = w.rng.IntN(200)
	}
	total, err := e.gather(bufs, most)
	if w.cur != nil {
		w.cur.out += uint64(total)
	}
	if reset {
		e.cut(syscall.ECONNRESET)
	}
	return total, err
}

// gather writes bufs one after the other, at most that many bytes unless most is negative.
func (e *end) gather(bufs [][]byte, most int) (total int, err error) {
	for _, b := range bufs {
		short := most >= 0 && len(b) > most-total
		if short {
			b = b[:most-total]
		}
		if short && len(b) == 0 {
			if total == 0 {
				err = sys.ErrAgain
			}
			break
		}
		n, werr := e.write(b)
		total += n
		if werr != nil {
			if total == 0 {
				err = werr
			} else if werr != sys.ErrAgain { //nolint:errorlint // the very value
				e.rst = werr // the bytes went out; the next call returns the error
			}
			break
		}
		if n < len(b) || short {
			break
		}
	}
	return total, err
}

// Unacked is always 0, because what is written is in the peer's receive queue at once.
func (s sockets) Unacked(fd int) (int, error) {
	w := s.w
	w.enter("unacked", fd)
	if w.stream("unacked", fd) == nil {
		return 0, syscall.EBADF
	}
	return 0, nil
}

func (s sockets) ShutdownWrite(fd int) error {
	w := s.w
	w.enter("shutdown", fd)
	e := w.stream("shutdown", fd)
	switch {
	case e == nil:
		return syscall.EBADF
	case w.Hit(ShutdownFails):
		e.harmed, e.peer.harmed = true, true
		return syscall.ENOTCONN
	}
	return e.shutdown()
}

func (s sockets) Abort(fd int) error {
	w := s.w
	w.enter("abort", fd)
	e := w.stream("abort", fd)
	if e == nil {
		return syscall.EBADF
	}
	e.aborted = true
	return nil
}

func (s sockets) Close(fd int) error {
	w := s.w
	w.enter("close", fd)
	f := w.file("close", fd)
	if f == nil {
		return syscall.EBADF
	}
	for _, p := range w.pollers {
		if !p.closed && p.find(fd) != nil {
			w.Failf("close of descriptor %d (%s), which is still registered", fd, f.what())
		}
	}
	w.files[fd] = nil
	w.changed()
	switch {
	case f.end != nil:
		if f.end.owner != nil {
			w.own("close", fd, f.end)
		}
		f.end.close()
	case f.listener != nil:
		f.listener.close()
	}
	if w.Hit(CloseFails) {
		return syscall.EIO
	}
	return nil
}

func (s sockets) Left(int) int { return math.MaxInt }

func (s sockets) OpenReserve() (int, error) {
	w := s.w
	w.enter("reserve", 0)
	if w.Hit(NoReserve) {
		return -1, syscall.EMFILE
	}
	return w.open(&file{})
}
