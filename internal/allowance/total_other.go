//go:build !linux && !darwin && !freebsd && !windows

package allowance

import "errors"

// Total says that this system does not tell.
func Total() (uint64, error) { return 0, errors.ErrUnsupported }
