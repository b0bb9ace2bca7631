//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

func (s *sockets) Connect(network string, remote net.Addr, o ConnectOptions) (fd int, done bool, err error) {
	switch a := remote.(type) {
	case *net.TCPAddr:
		fd, done, err = connectTCP(network, a, o)
	case *net.UnixAddr:
		fd, done, err = connectUnix(network, a, o)
	default:
		err = fmt.Errorf("an address of type %T is neither *net.TCPAddr nor *net.UnixAddr", remote)
	}
	if err != nil {
		return -1, false, err
	}
	return fd, done, nil
}

func connectTCP(network string, remote *net.TCPAddr, o ConnectOptions) (int, bool, error) {
	remote, family, err := reachable(network, remote)
	if err != nil {
		return -1, false, err
	}
	sa, err := sockaddr(family, remote)
	if err != nil {
		return -1, false, err
	}
	return connect(family, sa, func(fd int) error {
		if err := inheritedOptions(fd, o.KeepAlive, o.RecvBuffer, o.SendBuffer, o.Unsent); err != nil {
			return err
		}
		return bindLocal(fd, family, o.Local)
	})
}

// reachable checks the address against the network and returns it with its
// family. An address without a host becomes the loopback address.
func reachable(network string, a *net.TCPAddr) (*net.TCPAddr, int, error) {
	if len(a.IP) == 0 {
		a = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: a.Port}
		if network == "tcp6" {
			a.IP = net.IPv6loopback
		}
	}
	is4 := a.IP.To4() != nil
	switch {
	case network != "tcp" && network != "tcp4" && network != "tcp6":
		return nil, 0, fmt.Errorf("network %q is not tcp, tcp4 or tcp6", network)
	case network == "tcp4" && !is4 || network == "tcp6" && is4:
		return nil, 0, fmt.Errorf("%v is not an address of %s", a.IP, network)
	case is4:
		return a, unix.AF_INET, nil
	}
	return a, unix.AF_INET6, nil
}

func bindLocal(fd, family int, local netip.AddrPort) error {
	if local == (netip.AddrPort{}) {
		return nil
	}
	ip := local.Addr().Unmap()
	if ip.IsValid() && ip.Is4() != (family == unix.AF_INET) {
		return fmt.Errorf("the local address %v is of the other IP version", ip)
	}
	if local.Port() == 0 {
		choosePortLate(fd)
	}
	addr := &net.TCPAddr{Port: int(local.Port())}
	if ip.IsValid() {
		addr.IP, addr.Zone = ip.AsSlice(), ip.Zone()
	}
	sa, err := sockaddr(family, addr)
	if err != nil {
		return err
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fmt.Errorf("the local address %v: %w", local, os.NewSyscallError("bind", err))
	}
	return nil
}

func connectUnix(network string, remote *net.UnixAddr, o ConnectOptions) (int, bool, error) {
	if network != "unix" {
		return -1, false, fmt.Errorf("network %q is not unix", network)
	}
	if o.Local != (netip.AddrPort{}) {
		return -1, false, fmt.Errorf("a unix socket cannot connect from %v", o.Local)
	}
	if err := checkPath(remote.Name); err != nil {
		return -1, false, err
	}
	fd, done, err := connect(unix.AF_UNIX, &unix.SockaddrUnix{Name: remote.Name}, func(int) error { return nil })
	if errors.Is(err, unix.EAGAIN) {
		err = fmt.Errorf("the listener's queue is full: %w", err)
	}
	return fd, done, err
}

// connect makes a socket, lets prepare set it up, and begins the connection.
func connect(family int, remote unix.Sockaddr, prepare func(fd int) error) (fd int, done bool, err error) {
	fd, err = streamSocket(family)
	if err != nil {
		return -1, false, os.NewSyscallError("socket", err)
	}
	if err = prepare(fd); err == nil {
		err = unix.Connect(fd, remote)
	}
	switch err {
	case nil:
		return fd, true, nil
	case unix.EINPROGRESS, unix.EINTR: // an interrupted connect goes on by itself
		return fd, false, nil
	}
	unix.Close(fd)
	if errno, ok := err.(unix.Errno); ok {
		err = os.NewSyscallError("connect", errno)
	}
	return -1, false, err
}

func (s *sockets) ConnectError(fd int) error {
	v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if v != 0 {
		return unix.Errno(v)
	}
	// A socket that is still connecting has no error either.
	switch _, err := unix.Getpeername(fd); err {
	case nil:
		return nil
	case unix.ENOTCONN:
		return ErrAgain
	default:
		return err
	}
}
