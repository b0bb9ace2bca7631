// Package filelock lets one process at a time have a file.
package filelock

import "os"

// Lock takes the file for this process, without waiting, until it is closed. The error is ErrLocked when another process
// has it.
func Lock(f *os.File) error { return lock(f) }
