package sys

import "syscall"

// IsUnregistered reports whether an error of Poller.Modify or Poller.Remove means that the descriptor is not registered
// (any more). The kernel forgets a closed descriptor, so this is no failure for a caller that wanted it gone.
func IsUnregistered(err error) bool {
	return isOneOf(err, syscall.ENOENT, syscall.EBADF)
}
