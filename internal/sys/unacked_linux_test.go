package sys

import (
	"io"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// TestUnacked: what the peer's system has taken is acknowledged, what it has no room for is not; all of it is when the peer has
// read it.
func TestUnacked(t *testing.T) {
	s := NewSockets()
	fd, _, client := connected(t, s)
	unacked := func() int {
		n, err := s.Unacked(fd)
		must(t, err)
		return n
	}
	if n := unacked(); n != 0 {
		t.Errorf("%d bytes of a new connection", n)
	}
	total := 0
	for {
		n, err := s.Write(fd, make([]byte, 1<<16))
		total += n
		if err == ErrAgain {
			break
		}
		must(t, err)
	}
	if n := unacked(); n <= 0 || n > total {
		t.Errorf("%d bytes of %d, which do not fit into the peer's window", n, total)
	}
	_, err := io.CopyN(io.Discard, client, int64(total))
	must(t, err)
	testkit.Eventually(t, "the last acknowledgement", func() bool { return unacked() == 0 })
}
