package sys

import "golang.org/x/sys/unix"

// ReusePortBalances says whether sockets that listen on one address with
// ListenOptions.ReusePort share its connections on this system.
const ReusePortBalances = true

const reusePort = unix.SO_REUSEPORT

// keepAliveTimes are TCP's options that take a time in seconds.
func keepAliveTimes() []int { return []int{unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL} }

// choosePortLate makes a bind without a port reserve none. connect then chooses
// a port that is free towards its peer, so one source address can have more
// connections than there are ports. Kernels without the option reserve a port.
func choosePortLate(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
}

// isAbstract reports whether a unix address is a name without a file.
func isAbstract(path string) bool { return path[0] == '@' }
