package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps by the kernel's fine clock. A signal ends it early.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil)
}
