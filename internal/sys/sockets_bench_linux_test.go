package sys

import (
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BenchmarkRead and BenchmarkWrite compare the raw calls of this package with
// the ordinary ones, which tell the scheduler, and with raw ones of the file
// layer, on a loopback TCP connection.
// again is a Read that finds nothing: the price of the call itself.

func BenchmarkRead(b *testing.B) {
	ordinary := func(s Sockets, fd int, p []byte) (int, error) { return unix.Read(fd, p) }
	file := func(s Sockets, fd int, p []byte) (int, error) {
		return transfer(unix.SYS_READ, fd, unsafe.Pointer(&p[0]), len(p), 0)
	}
	for _, how := range []struct {
		name string
		read func(s Sockets, fd int, p []byte) (int, error)
	}{{"raw", Sockets.Read}, {"file", file}, {"ordinary", ordinary}} {
		s := NewSockets()
		b.Run("again/"+how.name, func(b *testing.B) {
			fd, _, _ := connected(b, s)
			buf := make([]byte, 64)
			for b.Loop() {
				if _, err := how.read(s, fd, buf); err != unix.EAGAIN {
					b.Fatal(err)
				}
			}
		})
		b.Run("64/"+how.name, func(b *testing.B) {
			fd, peer := loopback(b, s)
			data := make([]byte, 1<<20)
			buf := make([]byte, 64)
			left := 0
			for b.Loop() {
				if left < len(buf) {
					b.StopTimer()
					n, err := again(b, func() (int, error) { return s.Write(peer, data) })
					must(b, err)
					left += n
					b.StartTimer()
				}
				n, err := how.read(s, fd, buf)
				must(b, err)
				left -= n
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	ordinary := func(s Sockets, fd int, p []byte) (int, error) { return unix.Write(fd, p) }
	file := func(s Sockets, fd int, p []byte) (int, error) {
		return transfer(unix.SYS_WRITE, fd, unsafe.Pointer(&p[0]), len(p), 0)
	}
	for _, how := range []struct {
		name  string
		write func(s Sockets, fd int, p []byte) (int, error)
	}{{"raw", Sockets.Write}, {"file", file}, {"ordinary", ordinary}} {
		b.Run("echo64/"+how.name, func(b *testing.B) {
			s := NewSockets()
			fd, peer := loopback(b, s)
			buf := make([]byte, 64)
			for b.Loop() {
				n, err := how.write(s, fd, buf)
				must(b, err)
				for n > 0 {
					m, err := s.Read(peer, buf)
					if err != nil && err != ErrAgain {
						b.Fatal(err)
					}
					n -= m
				}
			}
		})
	}
}

func BenchmarkWritev(b *testing.B) {
	s := NewSockets()
	for _, count := range []int{1, 4, 64} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			fd, peer := loopback(b, s)
			bufs := make([][]byte, count)
			for i := range bufs {
				bufs[i] = make([]byte, 64)
			}
			in := make([]byte, 64<<10)
			b.ReportAllocs()
			for b.Loop() {
				n, err := s.Writev(fd, bufs)
				must(b, err)
				for n > 0 {
					m, err := s.Read(peer, in)
					if err != nil && err != ErrAgain {
						b.Fatal(err)
					}
					n -= m
				}
			}
		})
	}
}

// loopback is both ends of a TCP connection as descriptors.
func loopback(tb testing.TB, s Sockets) (a, b int) {
	tb.Helper()
	l := listen(tb, s, "tcp", "127.0.0.1:0")
	b, err := streamSocket(unix.AF_INET)
	must(tb, err)
	tb.Cleanup(func() { s.Close(b) })
	sa, err := unix.Getsockname(l.FD)
	must(tb, err)
	if err := unix.Connect(b, sa); err != unix.EINPROGRESS {
		must(tb, err)
	}
	a, err = again(tb, func() (n int, err error) {
		n, _, err = s.Accept(l.FD)
		return n, err
	})
	must(tb, err)
	tb.Cleanup(func() { s.Close(a) })
	must(tb, setInt(b, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	return a, b
}
