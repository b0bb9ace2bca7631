package netsys

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// again repeats a call as long as it returns ErrAgain.
func again(tb testing.TB, call func() (int, error)) (n int, err error) {
	tb.Helper()
	testkit.Eventually(tb, "a call that need not wait", func() bool {
		n, err = call()
		return err != sys.ErrAgain
	})
	return n, err
}

func listen(tb testing.TB, s sys.Sockets, network, address string, o sys.ListenOptions) sys.Listener {
	tb.Helper()
	l, err := s.Listen(network, address, o)
	must(tb, err)
	tb.Cleanup(func() { s.Close(l.FD) })
	return l
}

func accept(tb testing.TB, s sys.Sockets, l sys.Listener) int {
	tb.Helper()
	fd, err := again(tb, func() (n int, err error) {
		n, _, err = s.Accept(l.FD)
		return n, err
	})
	must(tb, err)
	tb.Cleanup(func() { s.Close(fd) })
	return fd
}

// connected is an accepted descriptor and its client.
func connected(tb testing.TB, s sys.Sockets) (fd int, client *net.TCPConn) {
	tb.Helper()
	l := listen(tb, s, "tcp", "127.0.0.1:0", sys.ListenOptions{})
	c, err := net.Dial("tcp", l.Addr.String())
	must(tb, err)
	tb.Cleanup(func() { c.Close() })
	must(tb, c.SetDeadline(time.Now().Add(2*testkit.Patience)))
	return accept(tb, s, l), c.(*net.TCPConn)
}

// fill writes until nothing has been taken for a while, and returns what was.
func fill(tb testing.TB, s sys.Sockets, fd int) (total int) {
	tb.Helper()
	for full := 0; full < 20; {
		n, err := s.Write(fd, pattern(total, 10_000))
		total += n
		switch err {
		case nil:
			full = 0
		case sys.ErrAgain:
			full++
			time.Sleep(time.Millisecond)
		default:
			tb.Fatal(err)
		}
	}
	return total
}

// pattern is n bytes of a stream, from an offset, in which each differs from its neighbours.
func pattern(offset, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte((offset + i) * 31 >> 3)
	}
	return b
}

// expectPattern reads to the end of the stream.
func expectPattern(tb testing.TB, r io.Reader, n int) {
	tb.Helper()
	got, err := io.ReadAll(r)
	if err != nil || string(got) != string(pattern(0, n)) {
		tb.Fatalf("the peer read %d of %d bytes, %v", len(got), n, err)
	}
}

// conn is what a descriptor names.
func (s *System) connOf(tb testing.TB, fd int) *conn {
	tb.Helper()
	c, err := sockets{s}.conn(fd)
	must(tb, err)
	return c
}
