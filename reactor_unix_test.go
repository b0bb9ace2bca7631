//go:build unix

package eddy_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/poll"
)

// customPollers are the backends that watch descriptors.
func customPollers() []string { return poll.Available() }

// pipe returns both ends of a non-blocking pipe, which are closed with the test.
func pipe(t *testing.T) (read, write int) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
	}
	return fds[0], fds[1]
}

func send(t *testing.T, fd int, s string) {
	t.Helper()
	if _, err := unix.Write(fd, []byte(s)); err != nil {
		t.Fatal(err)
	}
}

func readFD(fd int, b []byte) int {
	n, _ := unix.Read(fd, b)
	return n
}
