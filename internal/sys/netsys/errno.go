package netsys

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// errno reduces an error of package net to the number that a system call would have returned. Its numbers are those of
// package syscall that mean the same on every system.
func errno(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return portable(e)
	}
	switch {
	case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrClosed):
		return syscall.EBADF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return syscall.ETIMEDOUT
	}
	return err
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
