package netsys

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/go-eddy/eddy/internal/sys"
)

func (s sockets) Connect(network string, remote net.Addr, o sys.ConnectOptions) (int, bool, error) {
	d, err := s.dialer(network, remote, o)
	if err != nil {
		return -1, false, err
	}
	c, err := s.newConn(nil)
	if err != nil {
		return -1, false, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.abort = cancel
	dial := Dial(d.DialContext)
	if s.dial != nil {
		dial = s.dial
	}
	go c.connect(ctx, dial, network, remote.String())
	return c.fd, false, nil
}

// dialer checks the arguments and returns a net.Dialer with them.
func (s sockets) dialer(network string, remote net.Addr, o sys.ConnectOptions) (*net.Dialer, error) {
	if err := checkOptions(o.KeepAlive, o.RecvBuffer, o.SendBuffer); err != nil {
		return nil, err
	}
	d := &net.Dialer{KeepAlive: -1}
	if o.KeepAlive > 0 {
		d.KeepAliveConfig = keepAlive(o.KeepAlive)
	}
	switch a := remote.(type) {
	case *net.TCPAddr:
		d.Control = control(false, o.RecvBuffer, o.SendBuffer)
		return d, dialTCP(d, network, a, o.Local)
	case *net.UnixAddr:
		return d, dialUnix(network, a, o.Local)
	}
	return nil, fmt.Errorf("an address of type %T is neither *net.TCPAddr nor *net.UnixAddr", remote)
}

func dialTCP(d *net.Dialer, network string, remote *net.TCPAddr, local netip.AddrPort) error {
	is4 := remote.IP.To4() != nil || len(remote.IP) == 0 && network != "tcp6"
	switch {
	case network != "tcp" && network != "tcp4" && network != "tcp6":
		return fmt.Errorf("network %q is not tcp, tcp4 or tcp6", network)
	case network == "tcp4" && !is4 || network == "tcp6" && is4:
		return fmt.Errorf("%v is not an address of %s", remote.IP, network)
	}
	if local == (netip.AddrPort{}) {
		return nil
	}
	ip := local.Addr().Unmap()
	if ip.IsValid() && ip.Is4() != is4 {
		return fmt.Errorf("the local address %v is of the other IP version", ip)
	}
	d.LocalAddr = &net.TCPAddr{IP: ip.AsSlice(), Port: int(local.Port()), Zone: ip.Zone()}
	return nil
}

func dialUnix(network string, remote *net.UnixAddr, local netip.AddrPort) error {
	switch {
	case network != "unix":
		return fmt.Errorf("network %q is not unix", network)
	case local != (netip.AddrPort{}):
		return fmt.Errorf("a unix socket cannot connect from %v", local)
	case remote.Name == "":
		return errors.New("the path is empty")
	}
	return nil
}

// connect is the goroutine that makes a connection.
func (c *conn) connect(ctx context.Context, dial Dial, network, address string) {
	defer c.abort()
	nc, err := dial(ctx, network, address)
	if err == nil {
		err = c.connected(streamOf(nc))
	}
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = connFailed
	if c.fail(connectErrno(err)); !c.closed {
		c.update()
	}
}

// connected makes nc the connection, unless Close came first.
func (c *conn) connected(nc stream) error {
	err := c.begin(nc)
	if err != nil {
		_ = nc.Close() // the caller reports err
	}
	return err
}

func (c *conn) begin(nc stream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if err := c.attach(nc); err != nil {
		return err
	}
	c.state = connOpen
	for r := c.regs; r != nil; r = r.next {
		r.begin()
	}
	return nil
}

// connectErrno is errno, except that a failure never looks like an attempt that goes on.
func connectErrno(err error) error {
	if err = errno(err); err == sys.ErrAgain { //nolint:errorlint // compared like this by callers
		return os.NewSyscallError("connect", syscall.EAGAIN) // the queue of a unix listener is full
	}
	return err
}

// connectError is Sockets.ConnectError.
func (c *conn) connectError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return syscall.EBADF
	case c.state == connConnecting:
		return sys.ErrAgain
	case c.state == connFailed:
		return c.outErr
	}
	return nil
}
