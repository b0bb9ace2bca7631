//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// Outside Linux system calls must go through libc or the ordinary entry of the
// Go runtime, so these use the portable wrappers.

func (s *sockets) Read(fd int, p []byte) (int, error) {
	return retry(func() (int, error) { return unix.Read(fd, p) })
}

func (s *sockets) Peek(fd int, p []byte) (int, error) {
	return retry(func() (int, error) {
		n, _, err := unix.Recvfrom(fd, p, unix.MSG_PEEK)
		return n, err
	})
}

func (s *sockets) Write(fd int, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return retry(func() (int, error) { return unix.Write(fd, p) })
}

func (s *sockets) Accept(fd int) (int, netip.AddrPort, error) {
	// Not every system has accept4. The lock keeps a fork from happening
	// between the two calls, so no child inherits the descriptor.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var peer unix.Sockaddr
	nfd, err := retry(func() (n int, err error) {
		n, peer, err = unix.Accept(fd)
		return n, err
	})
	if err != nil {
		return -1, netip.AddrPort{}, err
	}
	unix.CloseOnExec(nfd)
	if err := unix.SetNonblock(nfd, true); err != nil {
		unix.Close(nfd)
		return -1, netip.AddrPort{}, err
	}
	return nfd, addrPort(peer), nil
}

func (s *sockets) LocalAddr(fd int) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return addrPort(sa), nil
}

// retry repeats a call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		switch err {
		case nil:
			return n, nil
		case unix.EAGAIN:
			return 0, ErrAgain
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(addr6(sa.Addr, sa.ZoneId), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

func streamSocket(family int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func closeNow(fd int) error { return unix.Close(fd) }

func shutdown(fd, how int) error { return unix.Shutdown(fd, how) }

func setLinger(fd int, l *unix.Linger) error {
	return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, l)
}

func setInt(fd, level, option, value int) error { return unix.SetsockoptInt(fd, level, option, value) }
