//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// randomFile is a file of size bytes, and its content.
func randomFile(tb testing.TB, size int) (*os.File, []byte) {
	tb.Helper()
	content := make([]byte, size)
	r := rand.NewChaCha8([32]byte{})
	r.Read(content)
	path := filepath.Join(tb.TempDir(), "file")
	must(tb, os.WriteFile(path, content, 0o600))
	f, err := os.Open(path)
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	return f, content
}

// refuseSendFile makes the kernel refuse to copy a file to a socket.
func refuseSendFile(tb testing.TB, fd int) {
	tb.Helper()
	if runtime.GOOS != "linux" {
		tb.Skip("no way to make sendfile fail")
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_NONBLOCK|unix.O_APPEND)
	must(tb, err)
	f, _ := randomFile(tb, 1)
	if _, err := unix.Sendfile(fd, int(f.Fd()), new(int64), 1); err != unix.EINVAL {
		tb.Skipf("sendfile does not fail: %v", err)
	}
}

// eachSendFile runs a test with the kernel's way and with reading and writing.
func eachSendFile(t *testing.T, test func(t *testing.T, s Sockets, fd int, client *net.TCPConn)) {
	t.Run("kernel", func(t *testing.T) {
		s := NewSockets()
		fd, _, client := connected(t, s)
		test(t, s, fd, client)
	})
	t.Run("copy", func(t *testing.T) {
		s := NewSockets()
		fd, _, client := connected(t, s)
		refuseSendFile(t, fd)
		test(t, s, fd, client)
	})
}

// TestSendFile: a file larger than the socket's buffer goes out in parts, from
// the middle on, and its own position stays.
func TestSendFile(t *testing.T) {
	eachSendFile(t, func(t *testing.T, s Sockets, fd int, client *net.TCPConn) {
		f, content := randomFile(t, 12<<20)
		const from = 1234567
		sent := 0
		for { // nobody reads yet
			n, err := s.SendFile(fd, f, from+int64(sent), len(content))
			if err == ErrAgain && n == 0 {
				break
			}
			must(t, err)
			if n > maxSendFile {
				t.Fatalf("one call sent %d bytes", n)
			}
			sent += n
		}
		if sent == 0 || sent == len(content)-from {
			t.Fatalf("%d bytes fitted into the socket", sent)
		}
		got := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(client)
			got <- b
		}()
		for {
			n, err := again(t, func() (int, error) { return s.SendFile(fd, f, from+int64(sent), len(content)) })
			must(t, err)
			if n == 0 {
				break
			}
			sent += n
		}
		must(t, s.ShutdownWrite(fd))
		if b := <-got; !bytes.Equal(b, content[from:]) {
			t.Fatalf("%d bytes arrived, which are not the %d of the file", len(b), len(content)-from)
		}
		if at, err := f.Seek(0, io.SeekCurrent); at != 0 || err != nil {
			t.Errorf("the file stands at %d, %v", at, err)
		}
	})
}

// TestSendFileEnds: SendFile sends no more than was asked for and no more than there is. The end of a file that has
// become shorter is reported, not waited for.
func TestSendFileEnds(t *testing.T) {
	eachSendFile(t, func(t *testing.T, s Sockets, fd int, client *net.TCPConn) {
		f, content := randomFile(t, 1000)
		for _, c := range []struct{ offset, n, want int }{
			{0, 10, 10}, {990, 10, 10}, {990, 1 << 30, 10}, {1000, 10, 0}, {5000, 10, 0}, {0, 0, 0},
		} {
			n, err := s.SendFile(fd, f, int64(c.offset), c.n)
			if n != c.want || err != nil {
				t.Fatalf("%d bytes from %d: %d, %v; want %d", c.n, c.offset, n, err, c.want)
			}
			got := make([]byte, n)
			if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, content[min(c.offset, 1000):][:n]) {
				t.Fatalf("%d bytes from %d arrived as something else (%v)", c.n, c.offset, err)
			}
		}
		must(t, os.Truncate(f.Name(), 600))
		if n, err := s.SendFile(fd, f, 500, 500); n != 100 || err != nil {
			t.Fatalf("up to the new end: %d, %v", n, err)
		}
		if n, err := s.SendFile(fd, f, 600, 400); n != 0 || err != nil {
			t.Fatalf("beyond the new end: %d, %v", n, err)
		}
	})
}

func TestSendFileErrors(t *testing.T) {
	eachSendFile(t, func(t *testing.T, s Sockets, fd int, client *net.TCPConn) {
		f, _ := randomFile(t, 1000)
		dir, err := os.Open(t.TempDir())
		must(t, err)
		defer dir.Close()
		closed, _ := randomFile(t, 1)
		must(t, closed.Close())
		for _, c := range []struct {
			name   string
			fd     int
			f      *os.File
			offset int64
			n      int
			want   error
		}{
			{"negative offset", fd, f, -1, 1, syscall.EINVAL},
			{"negative count", fd, f, 0, -1, syscall.EINVAL},
			{"directory", fd, dir, 0, 1, syscall.EISDIR},
			{"closed file", fd, closed, 0, 1, os.ErrClosed},
			{"no file", fd, nil, 0, 1, os.ErrInvalid},
			{"no socket", -1, f, 0, 1, syscall.EBADF},
		} {
			if n, err := s.SendFile(c.fd, c.f, c.offset, c.n); n != 0 || !errors.Is(err, c.want) {
				t.Errorf("%s: %d, %v; want %v", c.name, n, err, c.want)
			}
		}
		must(t, client.SetLinger(0))
		must(t, client.Close())
		_, err = again(t, func() (int, error) { return s.Read(fd, make([]byte, 1)) })
		if !IsReset(err) {
			t.Fatal(err)
		}
		if n, err := s.SendFile(fd, f, 0, 1); n != 0 || !IsReset(err) { // and no SIGPIPE has ended the test
			t.Errorf("after a reset: %d, %v", n, err)
		}
	})
}

// TestDup: a duplicate outlives the original file and is closed separately. A closed file has no duplicate.
func TestDup(t *testing.T) {
	f, content := randomFile(t, 1000)
	one, err := Dup(f, f.Name())
	must(t, err)
	two, err := Dup(f, f.Name())
	must(t, err)
	flags, err := unix.FcntlInt(one.Fd(), unix.F_GETFD, 0)
	must(t, err)
	if flags&unix.FD_CLOEXEC == 0 {
		t.Error("child processes inherit a duplicate")
	}
	must(t, one.Close())
	must(t, f.Close())
	got := make([]byte, len(content))
	if _, err := two.ReadAt(got, 0); err != nil || !bytes.Equal(got, content) || two.Name() != f.Name() {
		t.Errorf("%s: %v", two.Name(), err)
	}
	must(t, two.Close())
	if _, err := Dup(f, f.Name()); err == nil {
		t.Error("a duplicate of a closed file")
	}
}
