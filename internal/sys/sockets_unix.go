//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"io"
	"math"
	"net/netip"

	"golang.org/x/sys/unix"
)

// maxVectors is how many buffers one Writev hands to the kernel. More would
// rarely fit into a socket's buffer; systems refuse more than 1024.
const maxVectors = 256

// NewSockets returns the operating system's sockets, for one loop.
func NewSockets() Sockets { return new(sockets) }

// portable is the state that the sockets of every Unix keep.
type portable struct {
	owned map[int]io.Closer // what ends with a listening descriptor
	chunk []byte            // scratch of SendFile where the kernel cannot copy
	limit limit
}

// limit is how many descriptors the process may have, as the system last said.
type limit struct {
	most int
	asks int // how often it was used since
}

// limitAsks is how often a limit is used until the system is asked again, for
// somebody may change it at any time.
const limitAsks = 64

func (s *sockets) AcceptLast(fd int) (int, netip.AddrPort, error) { return s.Accept(fd) }

func (s *sockets) ShutdownWrite(fd int) error {
	return shutdown(fd, unix.SHUT_WR)
}

func (s *sockets) Abort(fd int) error {
	return setLinger(fd, &unix.Linger{Onoff: 1})
}

// Close never retries. On EINTR Linux has already released the descriptor, and
// a second close could hit another one.
func (s *sockets) Close(fd int) error {
	if len(s.owned) != 0 {
		s.disown(fd)
	}
	if err := closeNow(fd); err != nil && err != unix.EINTR {
		return err
	}
	return nil
}

func (s *sockets) OpenReserve() (int, error) {
	return unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// Left goes by the number of fd, because the system gives out the lowest free
// number. With an eighth left it asks for the limit each time.
func (s *sockets) Left(fd int) int {
	l := &s.limit
	if l.asks++; l.asks >= limitAsks || fd >= l.most-l.most/8 {
		var r unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
			return math.MaxInt
		}
		l.most, l.asks = int(min(uint64(r.Cur), math.MaxInt32)), 0
	}
	return l.most - fd - 1
}
