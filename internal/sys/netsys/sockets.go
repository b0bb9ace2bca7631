package netsys

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// sockets is the sys.Sockets of a System. It has no state of its own.
type sockets struct{ *System }

var _ sys.Sockets = sockets{}

// conn returns the connection that fd names.
func (s sockets) conn(fd int) (*conn, error) {
	n, err := s.table.lookup(fd)
	if err != nil {
		return nil, err
	}
	if c, ok := n.what.(*conn); ok {
		return c, nil
	}
	return nil, syscall.ENOTCONN
}

func (s sockets) Accept(fd int) (int, netip.AddrPort, error) {
	return s.accept(fd, (*listener).take)
}

func (s sockets) AcceptLast(fd int) (int, netip.AddrPort, error) {
	return s.accept(fd, (*listener).takeLast)
}

func (s sockets) accept(fd int, take func(*listener) (*conn, error)) (int, netip.AddrPort, error) {
	n, err := s.table.lookup(fd)
	if err != nil {
		return -1, netip.AddrPort{}, err
	}
	l, ok := n.what.(*listener)
	if !ok {
		return -1, netip.AddrPort{}, syscall.EINVAL
	}
	c, err := take(l)
	if err != nil {
		return -1, netip.AddrPort{}, err
	}
	c.look()
	return c.fd, c.remote, nil
}

func (s sockets) Take(nc net.Conn) (int, netip.AddrPort, error) {
	c, err := s.newConn(streamOf(nc))
	if err != nil {
		return -1, netip.AddrPort{}, err
	}
	return c.fd, c.remote, nil
}

func (s sockets) LocalAddr(fd int) (netip.AddrPort, error) {
	n, err := s.table.lookup(fd)
	if err != nil {
		return netip.AddrPort{}, err
	}
	switch d := n.what.(type) {
	case *conn:
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.local, nil
	case *listener:
		return addrPort(d.ln.Addr()), nil
	}
	return netip.AddrPort{}, syscall.ENOTSOCK
}

func (s sockets) SetKeepAlive(fd int, d time.Duration) error {
	c, err := s.conn(fd)
	if err != nil {
		return s.optional(fd, err)
	}
	if d > longestKeepAlive {
		return fmt.Errorf("keep-alive time %v: the limit is %v", d, longestKeepAlive)
	}
	c.mu.Lock()
	t := c.tcp()
	c.mu.Unlock()
	switch {
	case t == nil:
		return nil
	case d <= 0:
		return errno(t.SetKeepAlive(false))
	}
	return errno(t.SetKeepAliveConfig(keepAlive(d)))
}

// optional ignores an option on a listener, because the options of its connections were given to Listen.
func (s sockets) optional(fd int, err error) error {
	if n, lerr := s.table.lookup(fd); lerr == nil {
		if _, ok := n.what.(*listener); ok {
			return nil
		}
	}
	return err
}

// tcp returns the underlying connection, nil when it is not TCP or not made yet. Under mu.
func (c *conn) tcp() *net.TCPConn {
	t, _ := c.nc.(*net.TCPConn)
	return t
}

func (s sockets) ConnectError(fd int) error {
	c, err := s.conn(fd)
	if err != nil {
		return err
	}
	return c.connectError()
}

func (s sockets) Read(fd int, p []byte) (int, error) {
	c, err := s.conn(fd)
	if err != nil {
		return 0, err
	}
	return c.receive(p)
}

func (s sockets) Peek(fd int, p []byte) (int, error) {
	c, err := s.conn(fd)
	if err != nil {
		return 0, err
	}
	return c.peek(p)
}

func (s sockets) Write(fd int, p []byte) (int, error) {
	c, err := s.conn(fd)
	if err != nil {
		return 0, err
	}
	return c.send(p)
}

func (s sockets) Writev(fd int, bufs [][]byte) (int, error) {
	c, err := s.conn(fd)
	if err != nil {
		return 0, err
	}
	return c.sendAll(bufs)
}

func (s sockets) SendFile(fd int, f *os.File, offset int64, n int) (int, error) {
	if offset < 0 || n < 0 {
		return 0, fmt.Errorf("sys: sendfile of %d bytes from offset %d: %w", n, offset, syscall.EINVAL)
	}
	c, err := s.conn(fd)
	if err != nil || n == 0 {
		return 0, err
	}
	return c.sendFile(f, offset, n)
}

// sendFile reads one block of the file and takes it as send does. No other goroutine writes, so the room stays
// meanwhile.
func (c *conn) sendFile(f *os.File, offset int64, n int) (int, error) {
	c.mu.Lock()
	err, room := c.mayWrite(), c.room()
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	b := c.sys.blocks.get(largeBlock)
	defer c.sys.blocks.put(b)
	n, err = f.ReadAt(b.data[:min(n, room)], offset)
	if n > 0 {
		return c.send(b.data[:n])
	}
	switch {
	case errors.Is(err, io.EOF):
		return 0, nil
	case errors.Is(err, os.ErrClosed): // the file, not the connection
		return 0, fmt.Errorf("sys: sendfile %s: %w", f.Name(), os.ErrClosed)
	}
	return 0, errno(err)
}

// Unacked is not known, because taken bytes may be with the writer, with the system or with both.
func (s sockets) Unacked(int) (int, error) { return 0, errors.ErrUnsupported }

func (s sockets) ShutdownWrite(fd int) error {
	c, err := s.conn(fd)
	if err != nil {
		return err
	}
	return c.shutdownWrite()
}

func (s sockets) Abort(fd int) error {
	c, err := s.conn(fd)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.lossy = true
	c.mu.Unlock()
	return nil
}

func (s sockets) Close(fd int) error {
	n, err := s.table.remove(fd)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.closed = true
	n.drop(func(*registration) bool { return true })
	n.mu.Unlock()
	return n.what.close()
}

func (s sockets) Left(int) int { return math.MaxInt }

func (s sockets) OpenReserve() (int, error) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return -1, errno(err)
	}
	r := &reserve{file: f}
	r.what = r
	if err := s.table.insert(&r.node); err != nil {
		_ = f.Close() // the table's error is the one to report
		return -1, err
	}
	return r.fd, nil
}
