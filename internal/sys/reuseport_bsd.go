//go:build darwin || netbsd || openbsd || dragonfly

package sys

import "golang.org/x/sys/unix"

const reusePort = unix.SO_REUSEPORT
