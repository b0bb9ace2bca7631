package enginetest

import (
	"errors"
	"syscall"
)

// narrow sets the buffers before the connection is made, because the offered window then depends on them.
func narrow(_, _ string, raw syscall.RawConn) error {
	var set error
	err := raw.Control(func(fd uintptr) {
		set = errors.Join(
			syscall.SetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, Buffer),
			syscall.SetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, Buffer))
	})
	return errors.Join(err, set)
}
