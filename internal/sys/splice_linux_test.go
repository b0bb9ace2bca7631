package sys

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSplice: bytes come through a pipe as they were sent, in pieces as large as a pipe. What a socket does not take stays
// in the pipe.
func TestSplice(t *testing.T) {
	s := NewSockets()
	from, _, source := connected(t, s)
	to, _, sink := connected(t, s)
	p, err := s.OpenPipe(128 << 10)
	must(t, err)
	if p.Size < minPipe {
		t.Errorf("a pipe of %d bytes", p.Size)
	}
	if n, err := s.SpliceIn(from, p, p.Size); n != 0 || err != ErrAgain {
		t.Errorf("a splice of nothing: %d, %v", n, err)
	}
	if n, err := s.SpliceOut(to, p, 1); n != 0 || err != ErrAgain {
		t.Errorf("a splice of an empty pipe: %d, %v", n, err)
	}
	data := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	go func() { _, _ = source.Write(data); source.Close() }()
	got := make(chan []byte, 1)
	go func() { b, _ := io.ReadAll(sink); got <- b }()
	for moved := 0; ; {
		n, err := s.SpliceIn(from, p, p.Size)
		if err == ErrAgain {
			await(t, from, unix.POLLIN)
			continue
		}
		must(t, err)
		if n == 0 {
			if moved != len(data) {
				t.Errorf("the end after %d bytes", moved)
			}
			break
		}
		for moved += n; n > 0; {
			k, err := s.SpliceOut(to, p, n)
			if err == ErrAgain {
				await(t, to, unix.POLLOUT)
				continue
			}
			must(t, err)
			n -= k
		}
	}
	must(t, s.ShutdownWrite(to))
	if b := <-got; !bytes.Equal(b, data) {
		t.Errorf("%d bytes have come of %d, or others", len(b), len(data))
	}
	must(t, s.ClosePipe(p))
	if err := s.ClosePipe(p); !errors.Is(err, unix.EBADF) {
		t.Errorf("the second close: %v", err)
	}
}

// await waits until the system reports one of the events for fd.
func await(t *testing.T, fd int, events int16) {
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, -1); err != syscall.EINTR {
			must(t, err)
			return
		}
	}
}

// TestNoSplice: what cannot be spliced and a reset are told apart.
func TestNoSplice(t *testing.T) {
	s := NewSockets()
	fd, _, peer := connected(t, s)
	p, err := s.OpenPipe(minPipe)
	must(t, err)
	defer s.ClosePipe(p)
	none, err := unix.Eventfd(1, unix.EFD_NONBLOCK) // which is never spliced
	must(t, err)
	defer unix.Close(none)
	if _, err := s.SpliceIn(none, p, 10); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a splice that the system refuses: %v", err)
	}
	must(t, peer.SetLinger(0))
	must(t, peer.Close())
	await(t, fd, unix.POLLIN)
	if _, err := s.SpliceIn(fd, p, 10); !IsReset(err) {
		t.Errorf("a splice from a socket that was reset: %v", err)
	}
}
