//go:build unix

package enginetest

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// narrow sets the buffers before the connection is made, because the offered window then depends on them.
func narrow(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) {
		set = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, Buffer),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, Buffer))
	})
	return errors.Join(err, set)
}
