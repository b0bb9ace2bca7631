//go:build !unix

package files

import (
	"errors"
	"syscall"
)

// noSpace reports whether a write failed because the disk is full: ERROR_HANDLE_DISK_FULL or ERROR_DISK_FULL of Windows.
func noSpace(err error) bool {
	var code syscall.Errno
	return errors.As(err, &code) && (code == 39 || code == 112)
}
