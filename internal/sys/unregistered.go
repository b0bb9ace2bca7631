package sys

import "syscall"

// IsUnregistered reports whether an error of Poller.Modify or Poller.Remove means that the descriptor is not registered
// (any more). The kernel forgets a descriptor that was closed, so to whoever wanted it gone this is no failure.
func IsUnregistered(err error) bool {
	return isOneOf(err, syscall.ENOENT, syscall.EBADF)
}
