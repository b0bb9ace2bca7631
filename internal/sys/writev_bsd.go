//go:build freebsd || netbsd || dragonfly

package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (s *sockets) writev(fd int, v []unix.Iovec) (int, error) {
	return retry(func() (int, error) {
		n, _, errno := syscall.Syscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&v[0])), uintptr(len(v)))
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	})
}
