package netsys

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// portable translates numbers of Winsock into those of package syscall that mean the same.
func portable(e syscall.Errno) syscall.Errno {
	switch e {
	case windows.WSAECONNRESET, windows.ERROR_NETNAME_DELETED:
		return syscall.ECONNRESET
	case windows.WSAECONNABORTED, windows.ERROR_CONNECTION_ABORTED, windows.ERROR_OPERATION_ABORTED:
		return syscall.ECONNABORTED
	case windows.WSAESHUTDOWN:
		return syscall.EPIPE
	case windows.WSAENOTCONN:
		return syscall.ENOTCONN
	case windows.WSAETIMEDOUT, windows.ERROR_SEM_TIMEOUT:
		return syscall.ETIMEDOUT
	case windows.WSAECONNREFUSED, windows.ERROR_CONNECTION_REFUSED:
		return syscall.ECONNREFUSED
	case windows.WSAEHOSTUNREACH, windows.ERROR_HOST_UNREACHABLE:
		return syscall.EHOSTUNREACH
	case windows.WSAENETUNREACH, windows.ERROR_NETWORK_UNREACHABLE:
		return syscall.ENETUNREACH
	case windows.WSAENETDOWN:
		return syscall.ENETDOWN
	case windows.WSAENETRESET:
		return syscall.ENETRESET
	case windows.WSAEHOSTDOWN:
		return syscall.EHOSTDOWN
	case windows.WSAEMFILE, windows.ERROR_TOO_MANY_OPEN_FILES:
		return syscall.EMFILE
	case windows.WSAENOBUFS, windows.ERROR_NO_SYSTEM_RESOURCES:
		return syscall.ENOBUFS
	case windows.WSAEADDRINUSE:
		return syscall.EADDRINUSE
	case windows.WSAEADDRNOTAVAIL:
		return syscall.EADDRNOTAVAIL
	case windows.WSAEACCES:
		return syscall.EACCES
	case windows.WSAEINVAL:
		return syscall.EINVAL
	}
	return e
}

// fetch waits for bytes and reads one block of them. RawConn.Read calls the function, waits with an empty read, which
// holds no block, and calls it again.
func (c *conn) fetch() {
	if c.raw == nil {
		c.fetchBlocking()
		return
	}
	asked := false
	err := c.raw.Read(func(uintptr) bool {
		again := asked
		asked = true
		return again
	})
	if err != nil && !c.sys.blocking {
		c.gotErr = errno(err)
		return
	}
	c.fetchBlocking()
}

// tryFetch is for systems that can read without waiting.
func (c *conn) tryFetch(uintptr) bool { return true }

// prepare sets options before a socket is bound or connected.
func prepare(fd uintptr, reusePort bool, recvBuffer, sendBuffer int) error {
	if reusePort {
		return fmt.Errorf("SO_REUSEPORT: Windows does not share an address between sockets: %w", errors.ErrUnsupported)
	}
	for _, o := range []struct {
		name          string
		option, value int
	}{{"RecvBuffer", windows.SO_RCVBUF, recvBuffer}, {"SendBuffer", windows.SO_SNDBUF, sendBuffer}} {
		if o.value == 0 {
			continue
		}
		if err := windows.SetsockoptInt(windows.Handle(fd), windows.SOL_SOCKET, o.option, o.value); err != nil {
			return os.NewSyscallError("setsockopt "+o.name, err)
		}
	}
	return nil
}

// tryNow finds nothing, because a read cannot be tried here.
func (c *conn) tryNow() bool { return false }

// pending is brings, because the system cannot be asked.
func (l *listener) pending() bool { return l.brings() }

// setBacklog does nothing: Windows keeps the length that package net has given the accept queue.
func setBacklog(syscall.Conn, int) error { return nil }
