package sys

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// minPipe is the smallest pipe that is worth its calls. Users who hold much memory in pipes get less from the system.
const minPipe = 64 << 10

func (s *sockets) OpenPipe(size int) (Pipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return Pipe{}, err
	}
	p := Pipe{In: ends[1], Out: ends[0]}
	n, err := unix.FcntlInt(uintptr(p.In), unix.F_SETPIPE_SZ, size)
	if err != nil { // beyond what this user may have
		n, err = unix.FcntlInt(uintptr(p.In), unix.F_GETPIPE_SZ, 0)
	}
	if p.Size = n; err != nil || n < minPipe {
		return Pipe{}, errors.Join(fmt.Errorf("sys: a pipe of %d bytes: %w", n, errors.ErrUnsupported), s.ClosePipe(p))
	}
	return p, nil
}

func (s *sockets) SpliceIn(fd int, p Pipe, n int) (int, error) {
	moved, err := splice(fd, p.In, n)
	switch err {
	case unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP, unix.EPERM: // not this system, not this socket, not in this sandbox
		err = errors.ErrUnsupported
	}
	return moved, err
}

func (s *sockets) SpliceOut(fd int, p Pipe, n int) (int, error) { return splice(p.Out, fd, n) }

func (s *sockets) ClosePipe(p Pipe) error { return errors.Join(s.Close(p.In), s.Close(p.Out)) }

// splice is a raw call, as those for sockets are. Socket and pipe are non-blocking, and no other goroutine uses them.
func splice(from, to, n int) (int, error) {
	for {
		moved, _, errno := syscall.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		switch errno {
		case 0:
			return int(moved), nil
		case syscall.EAGAIN:
			return 0, ErrAgain
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
