//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxSendFile bounds one SendFile, and so the time that a loop waits for
	// the disk.
	maxSendFile = 256 << 10
	// sendFileChunk bounds one SendFile where the process has to copy.
	sendFileChunk = 64 << 10
)

// SendFile is an ordinary system call that the scheduler sees, unless the bytes are in the page cache. While it waits for
// the disk, other goroutines use the processor.
func (s *sockets) SendFile(fd int, f *os.File, offset int64, n int) (int, error) {
	if offset < 0 || n < 0 {
		return 0, fmt.Errorf("sys: sendfile of %d bytes from offset %d: %w", n, offset, unix.EINVAL)
	}
	if n == 0 { // some systems take 0 as the whole file
		return 0, nil
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("sys: sendfile: %w", err)
	}
	var sent int
	var failed error
	err = conn.Control(func(file uintptr) { // keeps the file open meanwhile
		sent, failed = sendFile(fd, int(file), offset, min(n, maxSendFile))
	})
	if err != nil {
		return 0, fmt.Errorf("sys: sendfile %s: %w", f.Name(), os.ErrClosed)
	}
	switch failed {
	case unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP, unix.EPERM: // not this system, not this file, not in this sandbox
		return s.copyFile(fd, f, offset, n)
	}
	return sent, failed
}

// Dup returns another open file for what f has open. The caller closes both. name stands in the errors of the new file.
// The two share one offset, so only ReadAt and SendFile may be used on the new file.
func Dup(f syscall.Conn, name string) (*os.File, error) {
	fd, err := dup(f)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func dup(f syscall.Conn) (fd int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("sys: dup: %w", err)
	}
	var failed error
	if err := conn.Control(func(file uintptr) { fd, failed = unix.FcntlInt(file, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return -1, fmt.Errorf("sys: dup: %w", err)
	}
	if failed != nil {
		return -1, fmt.Errorf("sys: dup: %w", failed)
	}
	return fd, nil
}

func sendFile(fd, file int, offset int64, n int) (int, error) {
	there := cached(file, offset, n)
	for {
		from := offset
		var sent int
		var err error
		if there {
			sent, err = sendCached(fd, file, &from, n)
		} else {
			sent, err = unix.Sendfile(fd, file, &from, n)
		}
		switch {
		case sent > 0: // some systems report what stopped them as well
			return sent, nil
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, ErrAgain
		default:
			return 0, err
		}
	}
}

// copyFile reads from the file and writes to the socket. What the socket does not take is read again.
func (s *sockets) copyFile(fd int, f *os.File, offset int64, n int) (int, error) {
	if s.chunk == nil {
		s.chunk = make([]byte, sendFileChunk)
	}
	m, err := f.ReadAt(s.chunk[:min(n, sendFileChunk)], offset)
	if m == 0 {
		if err == io.EOF {
			err = nil
		}
		return 0, err
	}
	return s.Write(fd, s.chunk[:m])
}
