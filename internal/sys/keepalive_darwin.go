package sys

import "golang.org/x/sys/unix"

// keepAliveTimes are TCP's options that take a time in seconds.
func keepAliveTimes() []int { return []int{unix.TCP_KEEPALIVE, unix.TCP_KEEPINTVL} }
