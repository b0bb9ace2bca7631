package sys

import (
	"io"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/testkit"
)

// TestUnacked: bytes that the peer's system has taken are acknowledged, and bytes that it has no room for are not. All
// are when the peer has read them.
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

// TestUnsentIsBounded: for a connection whose peer does not read, the system takes what is on its way and a bounded
// number of bytes more.
func TestUnsentIsBounded(t *testing.T) {
	const unsent, window = 64 << 10, 64 << 10
	s := NewSockets()
	for name, c := range map[string]struct {
		unsent int
		bound  bool
	}{"bounded": {unsent, true}, "as it likes": {0, false}} {
		t.Run(name, func(t *testing.T) {
			l, err := s.Listen("tcp", "127.0.0.1:0", ListenOptions{Unsent: c.unsent})
			must(t, err)
			defer s.Close(l.FD)
			dialed := dial(t, s, "tcp", l.Addr, ConnectOptions{RecvBuffer: window, Unsent: c.unsent})
			defer s.Close(dialed)
			accepted, _ := accept(t, s, l)
			defer s.Close(accepted)
			for side, fd := range map[string]int{"accepted": accepted, "dialed": dialed} {
				if got, want := option(t, fd, unix.IPPROTO_TCP, notSentLowat), c.unsent; c.bound && got != want {
					t.Errorf("the bound of the one that was %s is %d, want %d", side, got, want)
				}
			}
			total, full := 0, 0
			for full < 100 { // the peer's system may still take some
				n, err := s.Write(accepted, make([]byte, 1<<16))
				if total += n; err == ErrAgain {
					full++
					runtime.Gosched()
					continue
				}
				must(t, err)
			}
			const most = 1 << 20
			if bounded := total < most; bounded != c.bound {
				t.Errorf("%d bytes were taken, want fewer than %d: %v", total, most, c.bound)
			}
		})
	}
}
