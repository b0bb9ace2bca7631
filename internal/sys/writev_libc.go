//go:build darwin || openbsd

package sys

import "golang.org/x/sys/unix"

// gather is empty where system calls go through libc: x/sys builds the array.
type gather struct{}

func (s *sockets) Writev(fd int, bufs [][]byte) (int, error) {
	bufs = bufs[:min(len(bufs), maxVectors)]
	return retry(func() (int, error) { return unix.Writev(fd, bufs) })
}
