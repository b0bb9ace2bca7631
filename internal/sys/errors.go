package sys

import (
	"errors"
	"syscall"
)

// ErrAgain says that a call would have to wait. It is returned as this very
// value, so it may be compared with ==.
var ErrAgain error = syscall.EAGAIN

// IsDescriptorLimit reports whether err means that the process or the system
// has run out of descriptors or of the memory for one more.
func IsDescriptorLimit(err error) bool {
	return isOneOf(err, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM)
}

// IsReset reports whether err means that the peer or the network ended the
// connection, as opposed to a mistake of the caller.
func IsReset(err error) bool {
	return isOneOf(err, syscall.ECONNRESET, syscall.EPIPE, syscall.ENOTCONN, syscall.ECONNABORTED,
		syscall.ESHUTDOWN, syscall.ETIMEDOUT, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
		syscall.ENETDOWN, syscall.ENETRESET, syscall.EHOSTDOWN)
}

// IsTransientAccept reports whether an error of Accept concerns only the one
// connection that could not be taken, so that the caller goes on with the next
// one. Linux hands pending network errors of the new socket to accept.
func IsTransientAccept(err error) bool {
	return isOneOf(err, syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EINTR, syscall.EPROTO,
		syscall.ENOPROTOOPT, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN,
		syscall.EHOSTUNREACH, syscall.ETIMEDOUT, syscall.EPERM)
}

func isOneOf(err error, set ...syscall.Errno) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return false
	}
	for _, e := range set {
		if errno == e {
			return true
		}
	}
	return false
}
