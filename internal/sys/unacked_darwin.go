package sys

import "golang.org/x/sys/unix"

func (s *sockets) Unacked(fd int) (int, error) {
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NWRITE)
}
