//go:build linux || freebsd || netbsd || dragonfly

package sys

import (
	"golang.org/x/sys/unix"
)

// sockets is the Sockets of the operating system.
type sockets struct {
	portable
	vectors [maxVectors]unix.Iovec // what writev(2) takes; empty between calls
}

func (s *sockets) Writev(fd int, bufs [][]byte) (int, error) {
	n := s.fill(bufs)
	if n == 0 {
		return 0, nil
	}
	written, err := s.writev(fd, s.vectors[:n])
	clear(s.vectors[:n]) // do not keep the caller's buffers alive
	return written, err
}

// fill puts the non-empty buffers into the scratch array.
func (s *sockets) fill(bufs [][]byte) int {
	n := 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if n == maxVectors {
			break
		}
		s.vectors[n].Base = &b[0]
		s.vectors[n].SetLen(len(b))
		n++
	}
	return n
}
