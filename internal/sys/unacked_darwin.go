package sys

import "golang.org/x/sys/unix"

// notSentLowat is the option that bounds unsent bytes; 0 = not known here.
const notSentLowat = unix.TCP_NOTSENT_LOWAT

func (s *sockets) Unacked(fd int) (int, error) {
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NWRITE)
}
