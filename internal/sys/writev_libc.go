//go:build darwin || openbsd

package sys

import "golang.org/x/sys/unix"

// sockets is the Sockets of the operating system. These systems are called
// through libc, and x/sys builds the array that writev(2) takes.
type sockets struct {
	portable
}

func (s *sockets) Writev(fd int, bufs [][]byte) (int, error) {
	bufs = bufs[:min(len(bufs), maxVectors)]
	return retry(func() (int, error) { return unix.Writev(fd, bufs) })
}
