// Package filelock lets one process at a time have a file.
package filelock

import "os"

// Lock locks the file for this process until it is closed. It does not wait: the error is ErrLocked when another
// process has the lock.
func Lock(f *os.File) error { return lock(f) }
