//go:build linux || freebsd || netbsd || dragonfly

package sys

import (
	"golang.org/x/sys/unix"
)

// gather is the array of buffer addresses that writev(2) takes. It is empty
// between calls.
type gather struct {
	vectors [maxVectors]unix.Iovec
}

func (s *sockets) Writev(fd int, bufs [][]byte) (int, error) {
	n := s.gather.fill(bufs)
	if n == 0 {
		return 0, nil
	}
	written, err := s.writev(fd, s.vectors[:n])
	clear(s.vectors[:n]) // do not keep the caller's buffers alive
	return written, err
}

// fill puts the non-empty buffers into the scratch array.
func (g *gather) fill(bufs [][]byte) int {
	n := 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if n == maxVectors {
			break
		}
		g.vectors[n].Base = &b[0]
		g.vectors[n].SetLen(len(b))
		n++
	}
	return n
}
