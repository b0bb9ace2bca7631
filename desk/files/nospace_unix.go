//go:build unix

package files

import (
	"errors"
	"syscall"
)

// noSpace reports whether a write failed because the disk, or this user's part of it, is full.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
