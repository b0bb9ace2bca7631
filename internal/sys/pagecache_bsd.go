//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import "golang.org/x/sys/unix"

// cached is false, because nobody asks these systems.
func cached(int, int64, int) bool { return false }

func sendCached(fd, file int, offset *int64, n int) (int, error) {
	return unix.Sendfile(fd, file, offset, n)
}
