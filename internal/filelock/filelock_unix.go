//go:build unix

package filelock

import (
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked is the error of Lock when another process has the lock.
const ErrLocked = unix.EWOULDBLOCK

// lock locks the file for this process, without waiting.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
