//go:build unix

package desk

import (
	"os"

	"golang.org/x/sys/unix"
)

// errLocked is lockFile's error when another process has the lock.
const errLocked = unix.EWOULDBLOCK

// lockFile takes the file for this process, without waiting.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
