//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// longestKeepAlive is the most that Linux takes for TCP_KEEPIDLE and
// TCP_KEEPINTVL.
const longestKeepAlive = 32767 * time.Second

func (s *sockets) SetKeepAlive(fd int, d time.Duration) error {
	if d <= 0 {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0)
	}
	return setKeepAlive(fd, d)
}

func setKeepAlive(fd int, d time.Duration) error {
	if d > longestKeepAlive {
		return fmt.Errorf("keep-alive time %v: the limit is %v", d, longestKeepAlive)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1); err != nil {
		return err
	}
	seconds := int((d + time.Second - 1) / time.Second)
	for _, option := range keepAliveTimes() {
		if err := tcpOption(fd, option, seconds); err != nil {
			return err
		}
	}
	return nil
}

// tcpOption sets an option of TCP, and does nothing on a socket that is not
// TCP. It asks for the kind of socket only after an error.
func tcpOption(fd, option, value int) error {
	err := setInt(fd, unix.IPPROTO_TCP, option, value)
	if err == nil {
		return nil
	}
	if sa, serr := unix.Getsockname(fd); serr == nil {
		if _, ok := sa.(*unix.SockaddrUnix); ok {
			return nil
		}
	}
	return err
}

// inheritedOptions sets what connections have from their listener. It is set
// before they exist, because the buffers decide the window scale of the
// handshake, and because once is cheaper.
func inheritedOptions(fd int, keepAlive time.Duration, recvBuffer, sendBuffer, unsent int) error {
	for _, b := range []struct {
		name   string
		option int
		size   int
	}{{"RecvBuffer", unix.SO_RCVBUF, recvBuffer}, {"SendBuffer", unix.SO_SNDBUF, sendBuffer}} {
		if b.size < 0 {
			return fmt.Errorf("%s %d is negative", b.name, b.size)
		}
		if b.size == 0 {
			continue
		}
		if err := setOption(fd, unix.SOL_SOCKET, b.option, b.name, b.size); err != nil {
			return err
		}
	}
	if err := setOption(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, "TCP_NODELAY", 1); err != nil {
		return err
	}
	if unsent > 0 && notSentLowat != 0 {
		if err := setOption(fd, unix.IPPROTO_TCP, notSentLowat, "TCP_NOTSENT_LOWAT", unsent); err != nil {
			return err
		}
	}
	if keepAlive <= 0 {
		return nil
	}
	return os.NewSyscallError("setsockopt keep-alive", setKeepAlive(fd, keepAlive))
}

func setOption(fd, level, option int, name string, value int) error {
	return os.NewSyscallError("setsockopt "+name, unix.SetsockoptInt(fd, level, option, value))
}
