package sys

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below are raw: they do not tell the Go scheduler that the thread
// enters the kernel. That is sound because the descriptors are non-blocking, so
// the kernel returns after a bounded amount of work. A stop of the world may
// have to wait for that long. Raw calls save the scheduler transitions, 35 to
// 120 ns a call, and the loop cannot lose its P in the middle of a batch.
// BenchmarkRead and BenchmarkWrite keep the comparison.
//
// The calls are recv and send, not read and write, because they go to the socket
// without the file layer's locks, permission hooks and file notifications.

func (s *sockets) Read(fd int, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return transfer(unix.SYS_RECVFROM, fd, unsafe.Pointer(&p[0]), len(p), 0)
}

func (s *sockets) Peek(fd int, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return transfer(unix.SYS_RECVFROM, fd, unsafe.Pointer(&p[0]), len(p), unix.MSG_PEEK)
}

func (s *sockets) Write(fd int, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return transfer(unix.SYS_SENDTO, fd, unsafe.Pointer(&p[0]), len(p), unix.MSG_NOSIGNAL)
}

func (s *sockets) writev(fd int, v []unix.Iovec) (int, error) {
	return transfer(unix.SYS_WRITEV, fd, unsafe.Pointer(&v[0]), len(v), 0)
}

// transfer makes one of the calls of the form f(fd, pointer, count, flags, no address).
func transfer(call uintptr, fd int, p unsafe.Pointer, count int, flags uintptr) (int, error) {
	for {
		// RawSyscall would be one more call on the way to the kernel, on every read and write.
		n, _, errno := syscall.RawSyscall6(call, uintptr(fd), uintptr(p), uintptr(count), flags, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EAGAIN:
			return 0, ErrAgain
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

func (s *sockets) Accept(fd int) (int, netip.AddrPort, error) {
	const flags = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	for {
		var sa unix.RawSockaddrAny
		size := uint32(unix.SizeofSockaddrAny)
		nfd, _, errno := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd),
			uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)), flags, 0, 0)
		switch errno {
		case 0:
			return int(nfd), rawAddrPort(&sa), nil
		case syscall.EAGAIN:
			return -1, netip.AddrPort{}, ErrAgain
		case syscall.EINTR:
		default:
			return -1, netip.AddrPort{}, errno
		}
	}
}

// closeNow, shutdown, setLinger and setInt are raw for another reason, too: the first call that the scheduler is told of after
// all of the process was idle wakes the runtime's monitor. That costs more than a short connection's own calls.
func closeNow(fd int) error {
	_, _, errno := syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	return failed(errno)
}

func shutdown(fd, how int) error {
	_, _, errno := syscall.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), uintptr(how), 0)
	return failed(errno)
}

func setLinger(fd int, l *unix.Linger) error {
	_, _, errno := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER, uintptr(unsafe.Pointer(l)), unsafe.Sizeof(*l), 0)
	return failed(errno)
}

func setInt(fd, level, option, value int) error {
	v := int32(value)
	_, _, errno := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
	return failed(errno)
}

func failed(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

func (s *sockets) LocalAddr(fd int) (netip.AddrPort, error) {
	var sa unix.RawSockaddrAny
	size := uint32(unix.SizeofSockaddrAny)
	_, _, errno := syscall.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd),
		uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return netip.AddrPort{}, errno
	}
	return rawAddrPort(&sa), nil
}

// rawAddrPort reads the kernel's form of an IP address and port, without the
// allocation that unix.Sockaddr needs.
func rawAddrPort(sa *unix.RawSockaddrAny) netip.AddrPort {
	switch sa.Addr.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), networkOrder(in.Port))
	case unix.AF_INET6:
		in := (*unix.RawSockaddrInet6)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(addr6(in.Addr, in.Scope_id), networkOrder(in.Port))
	}
	return netip.AddrPort{}
}

// networkOrder reads a number that lies in memory with its highest byte first.
func networkOrder(v uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&v))
	return uint16(b[0])<<8 | uint16(b[1])
}

func streamSocket(family int) (int, error) {
	return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}
