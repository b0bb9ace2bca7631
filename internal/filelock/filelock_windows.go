package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// ErrLocked is the error of Lock when another process has the lock.
const ErrLocked = windows.ERROR_LOCK_VIOLATION

// lock takes the file for this process, without waiting. What is locked is one byte far behind the end, because
// here others could not read what is locked, and the file says who holds it.
func lock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}
