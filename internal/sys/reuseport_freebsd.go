package sys

import "golang.org/x/sys/unix"

// reusePort is the option that shares the connections. FreeBSD's SO_REUSEPORT
// gives all of them to one socket.
const reusePort = unix.SO_REUSEPORT_LB
