package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notSentLowat is the option that bounds unsent bytes; 0 = not known here.
const notSentLowat = unix.TCP_NOTSENT_LOWAT

func (s *sockets) Unacked(fd int) (int, error) {
	var n int32
	if _, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCOUTQ, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
