package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// ErrLocked is the error of Lock when another process has the lock.
const ErrLocked = windows.ERROR_LOCK_VIOLATION

// lock locks the file for this process, without waiting. It locks one byte far behind the end. Windows lets no one else
// read locked bytes, and others read in the file which process holds it.
func lock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}
