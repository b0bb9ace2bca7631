package sys

import "golang.org/x/sys/unix"

// notSentLowat bounds what is not sent yet; 0 = not known here.
const notSentLowat = unix.TCP_NOTSENT_LOWAT

func (s *sockets) Unacked(fd int) (int, error) {
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NWRITE)
}
